//! Sequence numbers behind the header.

use super::*;

/// The header's bytes are none of the client's, however many of them the server acknowledges.
#[test]
fn acknowledgements_within_the_header_are_not_shown() {
    for family in Family::BOTH {
        let mut line = Line::opened(family);
        let len = line.len();
        for into in [0, 1, len - 1, len] {
            let shown = only(line.server(PSH | ACK, ANSWER, line.first + into, b"x"));
            assert_eq!(numbers(&shown), (PSH | ACK, ANSWER, FIRST, 1), "{into}");
        }
        for (into, acknowledged) in [(1, 1), (1000, 1000), (1 << 30, 1 << 30)] {
            let shown = only(line.server(ACK, ANSWER, line.first + len + into, b""));
            assert_eq!(numbers(&shown), (ACK, ANSWER, FIRST + acknowledged, 0));
        }
    }
}

/// Blocks move back with acknowledgements. Those of the header itself go.
#[test]
fn blocks_are_shown_as_the_client_has_sent_them() {
    for family in Family::BOTH {
        let mut line = Line::opened(family);
        let (first, behind) = (line.first, line.first + line.len());
        line.client(PSH | ACK, FIRST, ANSWER, &[7; 900]);
        let shown = |line: &mut Line, acknowledged, blocks: &[(u32, u32)]| {
            let said = line
                .server_segment(ACK, ANSWER, acknowledged, b"")
                .with_options(&sack(blocks));
            let (_, shown) = line.server_and(&said);
            let shown = only(shown);
            (numbers(&shown).2, options(&shown).to_vec())
        };
        let at = |n: u32| FIRST + n;
        let nops = |count: usize| vec![1u8; count];
        assert_eq!(
            shown(
                &mut line,
                first,
                &[(behind + 100, behind + 200), (behind, behind + 50)]
            ),
            (FIRST, [sack(&[(at(100), at(200))]), nops(8)].concat())
        );
        assert_eq!(
            shown(
                &mut line,
                first,
                &[
                    (first + 3, first + 9),
                    (behind + 100, behind + 200),
                    (behind + 5, behind + 6)
                ]
            ),
            (
                FIRST,
                [sack(&[(at(100), at(200)), (at(5), at(6))]), nops(8)].concat()
            )
        );
        // The server has the header twice, and says so (RFC 2883).
        assert_eq!(shown(&mut line, behind, &[(first, behind)]), (FIRST, nops(12)));
        assert_eq!(
            shown(
                &mut line,
                behind + 10,
                &[(first, behind), (behind + 20, behind + 30)]
            ),
            (at(10), [sack(&[(at(20), at(30))]), nops(8)].concat())
        );
        line.pass(seconds(3));
        assert_eq!(
            shown(&mut line, behind + 10, &[(behind + 20, behind + 30)]),
            (at(10), sack(&[(at(20), at(30))]))
        );
    }
}

/// The numbers go round.
#[test]
fn the_header_may_lie_across_the_wrap() {
    for before in 0..60u32 {
        let isn = 0u32.wrapping_sub(before);
        let mut line = Line::new(Line::plan(Family::V6), Family::V6);
        let syn = only(line.client(SYN, isn, 0, b""));
        line.local = syn.from;
        line.first = isn.wrapping_add(1);
        let answer = line.server(SYN | ACK, u32::MAX, line.first, b"");
        assert_eq!(numbers(&only(answer)), (SYN | ACK, u32::MAX, line.first, 0));
        let seen = line.client(PSH | ACK, line.first, 0, b"data");
        line.is_header(&seen[0], 0);
        let behind = line.first.wrapping_add(52);
        assert_eq!(numbers(&seen[1]), (PSH | ACK, behind, 0, 4));
        for (acknowledged, shown) in [(0, 0), (51, 0), (52, 0), (56, 4)] {
            let seen = only(line.server(PSH | ACK, 0, line.first.wrapping_add(acknowledged), b"x"));
            assert_eq!(numbers(&seen), (PSH | ACK, 0, line.first.wrapping_add(shown), 1));
        }
    }
}

/// A SYN stands before the header, also when it comes late.
#[test]
fn a_syn_that_comes_again_is_not_moved() {
    for family in Family::BOTH {
        let mut line = Line::answered(family);
        let first = line.first;
        assert_eq!(numbers(&line.ask(b"")), (SYN, first - 1, 0, 0));
        line.open();
        assert_eq!(numbers(&line.ask(b"")), (SYN, first - 1, 0, 0));
        line.server(ACK, ANSWER, first + line.len(), b"");
        assert_eq!(numbers(&line.ask(b"")), (SYN, first - 1, 0, 0));
        assert_eq!(line.first, first);
        let data = only(line.client(PSH | ACK, FIRST, ANSWER, b"data"));
        assert_eq!(numbers(&data).1, first + line.len());
    }
}

/// A client that has forgotten its connection opens it anew, in what is the same one for the gateway: the server, which
/// takes it for a new one, gets a header once more.
#[test]
fn a_client_that_starts_again_gets_a_new_header() {
    for family in Family::BOTH {
        let mut line = Line::settled(family);
        let len = line.len();
        // The server has closed, and waits for the client to.
        line.server(FIN | ACK, ANSWER, line.first + len, b"");
        let syn = only(line.client(SYN, FIRST + 499_999, 0, b""));
        assert_eq!(numbers(&syn), (SYN, FIRST + 499_999, 0, 0));
        // What is left of the old one goes as before.
        let old = only(line.server(ACK, ANSWER + 1, line.first + len, b""));
        assert_eq!(numbers(&old), (ACK, ANSWER + 1, FIRST, 0));
        let reset = only(line.client(RST, FIRST, 0, b""));
        assert_eq!(numbers(&reset).1, line.first + len);

        line.first = FIRST + 500_000;
        let answer = only(line.server(SYN | ACK, 99_999, line.first, b""));
        assert_eq!(numbers(&answer), (SYN | ACK, 99_999, line.first, 0));
        let seen = line.client(ACK, line.first, 100_000, b"new");
        line.is_header(&seen[0], 100_000);
        assert_eq!(numbers(&seen[1]), (ACK, line.first + len, 100_000, 3));
        assert_eq!(line.counts(), [2, 0, 0]);
    }
}

/// An answer that has been under way since an older connection on the same local port begins nothing.
#[test]
fn an_answer_to_another_syn_changes_nothing() {
    for family in Family::BOTH {
        let mut line = Line::new(Line::plan(family), family);
        line.ask(b"");
        let stale = line.first + 77;
        only(line.server(SYN | ACK, 55, stale, b""));
        assert_eq!(line.client(ACK, FIRST, 56, b"").len(), 1, "no header");
        line.answer();
        only(line.server(SYN | ACK, 55, stale, b""));
        line.open();
        only(line.server(SYN | ACK, 55, stale, b""));
        let data = only(line.client(PSH | ACK, FIRST, ANSWER, b"data"));
        assert_eq!(numbers(&data).1, line.first + line.len());
        assert_eq!(line.counts(), [1, 0, 0]);
    }
}

/// What the server was shown counts with the header: the next connection on the same local port starts above it, and
/// has its header above that.
#[test]
fn a_recycled_port_has_both_shifts() {
    let mut plan = Line::plan(Family::V4);
    plan.use_locals(pool(1, 10_000, 10_000));
    let mut line = Line::new(plan, Family::V4);
    line.ask(b"");
    line.answer();
    line.open();
    let (first, behind) = (line.first, line.first + 28);
    line.client(PSH | FIN | ACK, FIRST, ANSWER, b"bye");
    line.server(FIN | ACK, ANSWER, behind + 4, b"");
    line.client(ACK, FIRST + 4, ANSWER + 1, b"");

    line.client = Family::V4.client(2, 1000);
    let local = line.local;
    line.options = vec![8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 1];
    let syn = line.ask(b"");
    assert_eq!(line.local, local, "recycled");
    assert_eq!(options(&syn), [1; 12]);
    line.options.clear();
    assert_eq!(line.first, first + 28 + 4 + (1 << 16) + 1);
    line.answer();
    line.ask(b"");
    line.open();
    let data = only(line.client(PSH | ACK, FIRST, ANSWER, b"data"));
    assert_eq!(numbers(&data), (PSH | ACK, line.first + 28, ANSWER, 4));
    let said = line
        .server_segment(ACK, ANSWER, line.first + 28, b"")
        .with_options(&sack(&[(line.first + 30, line.first + 32)]));
    let shown = only(line.at(LAN, &said, WAN));
    assert_eq!(numbers(&shown), (ACK, ANSWER, FIRST, 0));
    assert_eq!(options(&shown), sack(&[(FIRST + 2, FIRST + 4)]));
}

/// The header counts as shown although nothing of the client stands behind it.
#[test]
fn a_header_alone_counts_as_shown() {
    let mut plan = Line::plan(Family::V4);
    plan.use_locals(pool(1, 10_000, 10_000));
    let mut line = Line::new(plan, Family::V4);
    line.ask(b"");
    line.answer();
    let first = line.first;
    // A keep-alive asks for what was acknowledged (RFC 9293 3.8.4).
    assert_eq!(line.client(ACK, FIRST - 1, ANSWER, b"").len(), 2);
    line.server(RST | ACK, ANSWER, first + 28, b"");
    line.client = Family::V4.client(2, 1000);
    line.ask(b"");
    assert_eq!(line.first, first + 28 + (1 << 16) + 1);
}
