//! The header as it is sent first: where it stands, what it says, who gets one.

use super::*;

/// The bytes as the protocol's description has them, in a segment of its own.
#[test]
fn the_header_is_a_segment_behind_the_handshake() {
    for (family, header) in [
        (
            Family::V4,
            &b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a\x21\x11\x00\x0c\
               \xc6\x33\x64\x01\xcb\x00\x71\x64\xd4\x31\x00\x50"[..],
        ),
        (
            Family::V6,
            b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a\x21\x21\x00\x24\
              \x20\x01\x0d\xb8\x00\x0c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\
              \x20\x01\x0d\xb8\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\xd4\x31\x00\x50",
        ),
    ] {
        let mut line = Line::answered(family);
        let seen = line.client(ACK, FIRST, ANSWER, b"");
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert_eq!(seen[0].data(), header);
        assert_eq!(seen[0].hops, 64);
        line.is_header(&seen[0], ANSWER);
        assert_eq!(line.counts(), [1, 0, 0]);
        // What the gateway has made is no packet of the client.
        let server = family.real(1, Mode::Fullnat, 8080).slot as usize;
        assert_eq!(line.gateway.server(server).inbound_packets.get(), 2);
    }
}

/// PP-01: the server has the header while the client is silent, and its greeting arrives under right numbers.
#[test]
fn a_server_that_speaks_first_is_heard() {
    for family in Family::BOTH {
        let mut line = Line::opened(family);
        let len = line.len();
        let seen = only(line.server(PSH | ACK, ANSWER, line.first + len, b"220 hello"));
        assert_eq!(numbers(&seen), (PSH | ACK, ANSWER, FIRST, 9));
        assert_eq!(seen.data(), b"220 hello");
        let next = ANSWER + 9;
        let seen = only(line.client(PSH | ACK, FIRST, next, b"EHLO"));
        assert_eq!(numbers(&seen), (PSH | ACK, line.first + len, next, 4));
        let seen = only(line.server(ACK, next, line.first + len + 4, b""));
        assert_eq!(numbers(&seen), (ACK, next, FIRST + 4, 0));
        assert_eq!(line.pass(seconds(200)), []);
        assert_eq!(line.counts(), [1, 0, 0]);
    }
}

/// The client's ACK is lost, and its data end the handshake.
#[test]
fn data_that_overtake_the_ack_come_behind_the_header() {
    for family in Family::BOTH {
        for flags in [PSH | ACK, PSH | FIN | ACK] {
            let mut line = Line::answered(family);
            let seen = line.client(flags, FIRST, ANSWER, b"GET /");
            let [header, data] = &seen[..] else {
                panic!("{seen:?}")
            };
            line.is_header(header, ANSWER);
            assert_eq!(numbers(data), (flags, line.first + line.len(), ANSWER, 5));
            // The ACK comes late.
            let ack = only(line.client(ACK, FIRST, ANSWER, b""));
            assert_eq!(numbers(&ack), (ACK, line.first + line.len(), ANSWER, 0));
        }
    }
}

/// A segment before the server's answer, and one that acknowledges what the server has not said, get no header in front
/// of them and are not moved: the server refuses them.
#[test]
fn only_the_end_of_the_handshake_calls_for_the_header() {
    let mut line = Line::new(Line::plan(Family::V4), Family::V4);
    line.ask(b"");
    let early = only(line.client(ACK, FIRST, ANSWER, b"x"));
    assert_eq!(numbers(&early), (ACK, line.first, ANSWER, 1));
    line.answer();
    for wrong in [ANSWER - 1, ANSWER + 1, ANSWER + (1 << 31)] {
        let seen = only(line.client(ACK, FIRST, wrong, b"x"));
        assert_eq!(numbers(&seen), (ACK, line.first, wrong, 1));
    }
    let reset = only(line.client(RST, FIRST, 0, b""));
    assert_eq!(numbers(&reset), (RST, line.first, 0, 0));
    line.open();
}

/// SYN cookies: each SYN is answered under another number, and the client takes either answer.
#[test]
fn a_server_may_answer_under_several_numbers() {
    for taken in [ANSWER, ANSWER + 4000] {
        let mut line = Line::answered(Family::V4);
        let again = line.server(SYN | ACK, ANSWER + 3999, line.first, b"");
        assert_eq!(again.len(), 1);
        let seen = line.client(ACK, FIRST, taken, b"");
        line.is_header(&seen[0], taken);
        // An answer that has been under way for long does not begin anew.
        let late = line.server_segment(SYN | ACK, ANSWER + 7999, line.first, b"");
        let (again, shown) = line.server_and(&late);
        line.is_header(&only(again), taken);
        assert_eq!(numbers(&only(shown)), (SYN | ACK, ANSWER + 7999, FIRST, 0));
        let data = only(line.client(ACK, FIRST, taken, b"data"));
        assert_eq!(numbers(&data), (ACK, line.first + 28, taken, 4));
    }
}

/// RFC 7413, in both forms, and data that come with the SYN all the same: the server must not have them before the
/// header.
#[test]
fn a_syn_loses_fast_open_and_its_data() {
    for family in Family::BOTH {
        let mss = [2, 4, 5, 0xb4];
        for (options_sent, options_seen) in [
            (vec![34, 6, 1, 2, 3, 4, 1, 1], vec![1; 8]),
            (vec![254, 8, 0xf9, 0x89, 1, 2, 3, 4], vec![1; 8]),
            (vec![34, 2, 1, 1], vec![1; 4]),
            (vec![254, 4, 0xf9, 0x88], vec![254, 4, 0xf9, 0x88]),
        ] {
            for data in [&b""[..], b"GET / HTTP/1.1", &[7; 1400]] {
                let mut line = Line::new(Line::plan(family), family);
                line.options = [&mss[..], &options_sent].concat();
                let syn = line.ask(data);
                assert_eq!(numbers(&syn), (SYN, line.first - 1, 0, 0));
                assert_eq!(options(&syn), [&mss[..], &options_seen].concat());
                line.options.clear();
                line.answer();
                let seen = line.client(ACK, FIRST, ANSWER, data);
                line.is_header(&seen[0], ANSWER);
                assert_eq!(seen[1].data(), data);
            }
        }
    }
}

/// Services without the setting, servers that see the client anyway, and other protocols.
#[test]
fn nobody_else_gets_a_header() {
    for (mode, setting, headers) in [
        (Mode::Fullnat, ClientAddress::None, 0),
        (Mode::Fullnat, ClientAddress::Toa, 0),
        (Mode::Nat, ClientAddress::ProxyV2, 0),
        (Mode::Fullnat, ClientAddress::ProxyV2, 1),
    ] {
        let mut plan = Line::plan(Family::V4);
        plan.edit(0, |service| {
            service.servers[0].mode = mode;
            service.client_address = setting;
        });
        let mut line = Line::new(plan, Family::V4);
        line.ask(b"");
        line.answer();
        let seen = line.client(ACK, FIRST, ANSWER, b"data");
        assert_eq!(seen.len(), 1 + headers);
        assert_eq!(line.counts(), [headers as u64, 0, 0]);
    }
}

/// What a connection has begun with, it keeps.
#[test]
fn a_changed_setting_is_for_new_connections() {
    let mut line = Line::answered(Family::V4);
    line.gateway
        .change(|plan| plan.edit(0, |service| service.client_address = ClientAddress::None));
    line.open();
    line.client = Family::V4.client(2, 1);
    line.ask(b"");
    line.answer();
    assert_eq!(line.client(ACK, FIRST, ANSWER, b"").len(), 1);
}
