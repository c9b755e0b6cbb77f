//! Ends of connections whose header is still under way.

use super::*;

/// The client resets: the server is to believe it, whether it has the header or not.
#[test]
fn a_reset_comes_behind_the_header() {
    for family in Family::BOTH {
        let mut line = Line::opened(family);
        let behind = line.first + line.len();
        let seen = line.client(RST | ACK, FIRST, ANSWER, b"");
        line.is_header(&seen[0], ANSWER);
        assert_eq!(numbers(&seen[1]), (RST | ACK, behind, ANSWER, 0));
        // What crosses it on the way calls for nothing.
        line.pass(6);
        let late = line.server_segment(ACK, ANSWER, line.first, b"");
        let (again, _) = line.server_and(&late);
        assert_eq!(again, []);
        assert_eq!(line.pass(seconds(30)), [], "nobody is there to hear");
        assert_eq!(line.gateway.states(), [""; 0]);
        assert_eq!(line.counts(), [1, 1, 0]);

        let mut line = Line::settled(family);
        let seen = only(line.client(RST, FIRST, 0, b""));
        assert_eq!(numbers(&seen), (RST, behind, 0, 0));
    }
}

/// A reset in place of the handshake's end fits a server that knows of the SYN only.
#[test]
fn a_reset_before_the_header_is_not_moved() {
    for family in Family::BOTH {
        let mut line = Line::answered(family);
        let seen = only(line.client(RST | ACK, FIRST, ANSWER, b""));
        assert_eq!(numbers(&seen), (RST | ACK, line.first, ANSWER, 0));
        assert_eq!(line.pass(seconds(30)), []);
        assert_eq!(line.counts(), [0, 0, 0]);
    }
}

/// The server resets; its acknowledgement lies in front of the header.
#[test]
fn a_reset_of_the_server_ends_the_timer() {
    for family in Family::BOTH {
        for into in [0, line_len(family)] {
            let mut line = Line::opened(family);
            let seen = only(line.server(RST | ACK, ANSWER, line.first + into, b""));
            assert_eq!(numbers(&seen), (RST | ACK, ANSWER, FIRST, 0));
            assert_eq!(line.pass(seconds(30)), []);
            assert_eq!(line.counts(), [1, 0, 0]);
        }
    }
}

fn line_len(family: Family) -> u32 {
    if family == Family::V4 { 28 } else { 52 }
}

/// Both sides have closed, and the server has neither header nor FIN of the client: it gets both.
#[test]
fn a_closed_connection_still_brings_its_header() {
    for family in Family::BOTH {
        let mut line = Line::opened(family);
        let behind = line.first + line.len();
        let fin = only(line.client(FIN | ACK, FIRST, ANSWER, b""));
        assert_eq!(numbers(&fin), (FIN | ACK, behind, ANSWER, 0));
        let fin = only(line.server(FIN | ACK, ANSWER, line.first, b""));
        assert_eq!(numbers(&fin), (FIN | ACK, ANSWER, FIRST, 0));
        only(line.client(ACK, FIRST + 1, ANSWER + 1, b""));
        assert_eq!(line.gateway.states(), ["TIME_WAIT"]);
        let seen = line.pass(seconds(2));
        line.is_header(&only(seen), ANSWER + 1);
        let last = only(line.server(ACK, ANSWER + 1, behind + 1, b""));
        assert_eq!(numbers(&last), (ACK, ANSWER + 1, FIRST + 1, 0));
        assert_eq!(line.pass(seconds(60)), []);
    }
}

/// A connection ends with its header under way, and another takes its place in the table: that has a header of its own,
/// and nothing of the old one comes after.
#[test]
fn the_next_connection_in_the_same_place_has_nothing_of_it() {
    let mut line = Line::opened(Family::V4);
    line.gateway.change(|plan| {
        plan.settings.expire_nodest_conn = true;
        plan.edit(0, |service| service.servers.clear());
    });
    line.gateway.turn();
    assert_eq!(line.gateway.states(), [""; 0]);
    line.gateway.change(|plan| {
        let server = Family::V4.real(1, Mode::Fullnat, 8080);
        plan.edit(0, |service| service.servers.push(server));
    });
    line.client = Family::V4.client(2, 9);
    line.ask(b"");
    assert_eq!(line.pass(seconds(20)), []);
    line.answer();
    line.open();
    let seen = line.pass(seconds(1) + 8);
    line.is_header(&only(seen), ANSWER);
    assert_eq!(line.counts(), [2, 1, 0]);
}

/// A connection whose timer is far away is asked for its header in time, and later ends when it should.
#[test]
fn the_header_does_not_change_when_a_connection_ends() {
    for acknowledged in [false, true] {
        let mut line = Line::opened(Family::V4);
        let start = line.gateway.now;
        if acknowledged {
            line.server(ACK, ANSWER, line.first + 28, b"");
        }
        line.gateway.pass(seconds(899));
        assert_eq!(line.gateway.states(), ["ESTABLISHED"]);
        line.gateway.pass(seconds(1) + 8);
        assert_eq!(line.gateway.states(), [""; 0]);
        assert_eq!(line.gateway.now.since(start), seconds(900) + 8);
    }
}
