//! The header is lost.

use super::*;

impl Line {
    /// The next header by the timer, and after how many ticks it came.
    fn until_header(&mut self) -> (u32, Wire) {
        for ticks in 1..seconds(100) {
            let mut seen = self.pass(1);
            if let Some(header) = seen.pop() {
                assert_eq!(seen, []);
                return (ticks, header);
            }
        }
        panic!("none")
    }

    /// The server acknowledges the header; nothing more is to come.
    fn settle(&mut self) {
        let shown = only(self.server(ACK, ANSWER, self.first + self.len(), b""));
        assert_eq!(numbers(&shown), (ACK, ANSWER, FIRST, 0));
        assert_eq!(self.pass(seconds(200)), []);
    }
}

/// A slot of the wheel, in ticks: as late may a timer be.
const SLOT: u32 = 8;

/// The client is silent: the timer sends the header again, each time after twice the wait.
#[test]
fn the_timer_repairs_a_loss() {
    for family in Family::BOTH {
        for lost in [1u32, 3] {
            let mut line = Line::opened(family);
            for number in 0..lost {
                let (ticks, header) = line.until_header();
                let wait = seconds(1 << number);
                assert!((wait..=wait + SLOT).contains(&ticks), "{number}: {ticks}");
                line.is_header(&header, ANSWER);
            }
            line.settle();
            assert_eq!(line.counts(), [1, u64::from(lost), 0]);
        }
    }
}

/// It does not try for ever; what the server then says still brings the header.
#[test]
fn the_timer_gives_up() {
    let mut line = Line::opened(Family::V4);
    for _ in 0..6 {
        line.until_header();
    }
    assert_eq!(line.counts(), [1, 6, 0]);
    assert_eq!(line.pass(seconds(300)), []);
    assert_eq!(line.counts(), [1, 6, 1]);
    let said = line.server_segment(ACK, ANSWER, line.first, b"");
    let (again, _) = line.server_and(&said);
    line.is_header(&only(again), ANSWER);
    line.settle();
    assert_eq!(line.counts(), [1, 7, 1]);
}

/// The client's data arrive without the header: the server's acknowledgements say so, with blocks and without. One
/// loss is repaired once, however many tell of it.
#[test]
fn the_servers_acknowledgements_show_a_loss() {
    for family in Family::BOTH {
        for sack_permitted in [true, false] {
            let mut line = Line::opened(family);
            let behind = line.first + line.len();
            line.client(PSH | ACK, FIRST, ANSWER, b"data");
            let mut said = line.server_segment(ACK, ANSWER, line.first, b"");
            if sack_permitted {
                said = said.with_options(&sack(&[(behind, behind + 4)]));
            }
            let (again, shown) = line.server_and(&said);
            line.is_header(&only(again), ANSWER);
            // Not that the client's first bytes are there and unacknowledged: it would take that for a renege.
            let shown = only(shown);
            assert_eq!(numbers(&shown), (ACK, ANSWER, FIRST, 0));
            assert!(options(&shown).iter().all(|byte| *byte == 1));
            for _ in 0..3 {
                assert_eq!(line.server_and(&said).0, []);
            }
            line.pass(5);
            let (again, _) = line.server_and(&said);
            line.is_header(&only(again), ANSWER);
            let (ticks, _) = line.until_header();
            assert!(ticks >= seconds(1), "the timer has begun anew");
            // And its end makes room for what is said next.
            assert_eq!(line.server_and(&said).0.len(), 1);
            let all = only(line.server(ACK, ANSWER, behind + 4, b""));
            assert_eq!(numbers(&all), (ACK, ANSWER, FIRST + 4, 0));
            assert_eq!(line.pass(seconds(100)), []);
            assert_eq!(line.counts(), [1, 4, 0]);
        }
    }
}

/// A server's own data say nothing of the header while none of the client's are there.
#[test]
fn data_of_the_server_are_no_sign_of_a_loss() {
    let mut line = Line::opened(Family::V4);
    let banner = line.server(PSH | ACK, ANSWER, line.first, b"hello");
    assert_eq!(numbers(&only(banner)), (PSH | ACK, ANSWER, FIRST, 5));
    // With a block they do.
    let block = (line.first + 28, line.first + 30);
    let said = line
        .server_segment(PSH | ACK, ANSWER, line.first, b"hello")
        .with_options(&sack(&[block]));
    assert_eq!(line.server_and(&said).0.len(), 1);
}

/// Both the header and the client's data were lost: the client sends its own again, behind the header.
#[test]
fn a_client_that_sends_again_brings_the_header_with_it() {
    for family in Family::BOTH {
        let mut line = Line::opened(family);
        let behind = line.first + line.len();
        for (number, data) in [(FIRST, b"one"), (FIRST + 3, b"two")] {
            assert_eq!(line.client(PSH | ACK, number, ANSWER, data).len(), 1);
        }
        let seen = line.client(PSH | ACK, FIRST, ANSWER, b"one");
        line.is_header(&seen[0], ANSWER);
        assert_eq!(numbers(&seen[1]), (PSH | ACK, behind, ANSWER, 3));
        line.server(ACK, ANSWER, behind, b"");
        assert_eq!(line.client(PSH | ACK, FIRST, ANSWER, b"one").len(), 1);
    }
}

/// Neither the ACK nor the header has arrived: the server answers the SYN again.
#[test]
fn an_answer_that_comes_again_calls_for_the_header() {
    for family in Family::BOTH {
        let mut line = Line::opened(family);
        let said = line.server_segment(SYN | ACK, ANSWER - 1, line.first, b"");
        let (again, shown) = line.server_and(&said);
        line.is_header(&only(again), ANSWER);
        assert_eq!(numbers(&only(shown)), (SYN | ACK, ANSWER - 1, FIRST, 0));
        line.settle();
        let (again, shown) = line.server_and(&said);
        assert_eq!(again, []);
        assert_eq!(numbers(&only(shown)), (SYN | ACK, ANSWER - 1, FIRST, 0), "late");
    }
}

/// A header that is sent again says what the client has said last: acknowledgement, window, timestamps.
#[test]
fn a_header_is_never_older_than_its_client() {
    let stamp = |value: u32, echo: u32| {
        let mut bytes = vec![1, 1, 8, 10];
        bytes.extend([value.to_be_bytes(), echo.to_be_bytes()].concat());
        bytes
    };
    for family in Family::BOTH {
        let mut line = Line::new(Line::plan(family), family);
        line.options = stamp(u32::MAX - 5, 0);
        line.ask(b"");
        let answer = line
            .server_segment(SYN | ACK, ANSWER - 1, line.first, b"")
            .with_options(&stamp(900, u32::MAX - 5));
        line.at(LAN, &answer, WAN);
        line.options = stamp(u32::MAX - 1, 900);
        let seen = line.client(ACK, FIRST, ANSWER, b"");
        line.is_header(&seen[0], ANSWER);
        assert_eq!(options(&seen[0]), stamp(u32::MAX - 1, 900));
        line.server(PSH | ACK, ANSWER, line.first, b"hello");
        line.options = stamp(3, 905);
        line.client(ACK, FIRST, ANSWER + 5, b"");
        // What overtakes it is older.
        line.options = stamp(u32::MAX, 901);
        line.client(ACK, FIRST, ANSWER, b"");
        let (_, header) = line.until_header();
        line.is_header(&header, ANSWER + 5);
        assert_eq!(options(&header), stamp(3, 905));
    }
}

/// Without the server's consent there are none, whatever the client sends (RFC 7323 3.2).
#[test]
fn a_server_without_timestamps_gets_none() {
    let mut line = Line::answered(Family::V4);
    line.options = vec![1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0];
    let seen = line.client(ACK, FIRST, ANSWER, b"");
    assert!(options(&seen[0]).is_empty());
}

/// The header waits for the server's MAC as every packet does, and keeps its place.
#[test]
fn a_header_waits_for_its_neighbour() {
    let mut plan = Line::plan(Family::V4);
    plan.know_nobody();
    let mut line = Line::new(plan, Family::V4);
    let come = |line: &mut Line, port, wire: &Wire| {
        line.gateway.come(port, &wire.packet());
        let out = line.gateway.out();
        assert!(out.iter().all(|out| out.arp), "{out:?}");
    };
    let (client, vip) = (line.client, line.vip);
    come(&mut line, WAN, &said(client, vip, SYN, FIRST - 1, 0, b""));
    let ends = line.gateway.connections();
    (line.local, line.first) = (ends[0].local.unwrap(), FIRST);
    let answer = line.server_segment(SYN | ACK, ANSWER - 1, FIRST, b"");
    come(&mut line, LAN, &answer);
    come(&mut line, WAN, &said(client, vip, ACK, FIRST, ANSWER, b"data"));
    let out = line.gateway.change_raw(Plan::know_neighbours);
    let sent: Vec<_> = out
        .into_iter()
        .map(Out::read)
        .filter(|out| !out.arp && out.port == LAN)
        .map(|out| out.wire())
        .collect();
    let [_, header, data] = &sent[..] else {
        panic!("{sent:?}")
    };
    line.is_header(header, ANSWER);
    assert_eq!(numbers(data), (ACK, FIRST + 28, ANSWER, 4));
}
