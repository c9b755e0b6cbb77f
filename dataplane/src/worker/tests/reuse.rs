//! A local port that comes back within the server's TIME_WAIT, however it became free.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::service::NoServer;
use crate::time::seconds;
use std::net::SocketAddrV4;

const SERVER: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(10, 0, 0, 11), SERVER_PORT);

/// One local address with so many ports, one server.
fn few_ports(ports: u16) -> Gateway {
    let mut plan = Plan::web(Mode::Fullnat, 1);
    plan.use_locals(pool(1, 10_000, 9_999 + ports));
    Gateway::new(plan)
}

/// The server closes an established connection first.
fn server_closes(gateway: &mut Gateway, from: SocketAddrV4, local: SocketAddrV4) {
    gateway.answer(&Sent::tcp(SERVER, local, FIN | ACK).at(5001, 1001));
    gateway.forward(&Sent::tcp(from, WEB, FIN | ACK).at(1001, 5002));
}

/// A SYN below the last sequence number of the connections that the gateway's helpers make.
fn low_syn(from: SocketAddrV4) -> Sent {
    let timestamps = [8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 1];
    Sent::tcp(from, WEB, SYN).at(500, 0).options(&timestamps)
}

fn is_above(seen: &Seen) -> bool {
    seen.sequence.wrapping_sub(1002) < u32::MAX / 2 && seen.options == [1; 12]
}

/// Nothing is recycled here: the client takes its own port again, and with it ends its old connection.
#[test]
fn a_port_whose_client_came_again_is_remembered() {
    let mut gateway = few_ports(1);
    let from = client(1, 1024);
    let first = gateway.establish(from, WEB);
    server_closes(&mut gateway, from, first);
    let again = gateway.forward(&low_syn(from));
    assert_eq!(again.from, first);
    assert!(is_above(&again), "{again:?}");
}

/// Two minutes after its last packet no server remembers it any more.
#[test]
fn a_port_that_was_freed_early_is_remembered_for_two_minutes() {
    for (pass, remembered) in [(3, true), (100, true), (125, false)] {
        let mut plan = Plan::web(Mode::Fullnat, 1);
        plan.use_locals(pool(1, 10_000, 10_000));
        plan.settings.timeouts.tcp[crate::flow::TcpState::TimeWait as usize] = seconds(2);
        let mut gateway = Gateway::new(plan);
        let local = gateway.establish(client(1, 1024), WEB);
        server_closes(&mut gateway, client(1, 1024), local);
        gateway.pass(seconds(pass));
        assert_eq!(gateway.ports_in_use(), 0);
        let syn = low_syn(client(2, 1024));
        let seen = gateway.forward(&syn);
        assert_eq!(is_above(&seen), remembered, "after {pass} s: {seen:?}");
        assert_eq!(seen.sequence == 500, !remembered);
    }
}

/// The client has closed first and owes the server an acknowledgement, or more: perhaps it has to ask again for data.
#[test]
fn a_port_is_not_taken_before_the_client_has_acknowledged_the_servers_fin() {
    let mut gateway = few_ports(1);
    let (old, new) = (client(1, 1024), client(2, 1024));
    let local = gateway.establish(old, WEB);
    gateway.forward(&Sent::tcp(old, WEB, FIN | ACK).at(1001, 5001));
    gateway.answer(&Sent::tcp(SERVER, local, FIN | ACK).at(5001, 1002));
    assert_eq!(gateway.state().0, "TIME_WAIT");
    for _ in 0..2 {
        let (dropped, _) = gateway.dropped_by(|gateway| gateway.inbound(&low_syn(new)));
        assert_eq!(dropped, Some((DropReason::LocalPortsExhausted, 1)));
        // The server asks for it once more.
        gateway.answer(&Sent::tcp(SERVER, local, FIN | ACK).at(5001, 1002));
    }
    gateway.forward(&Sent::tcp(old, WEB, ACK).at(1002, 5002));
    assert!(is_above(&gateway.forward(&low_syn(new))));
}

/// Segments of the old connection that arrive before the answer to the new one's SYN leave its state alone, and only the
/// first acknowledgement, which is nobody's any more, is kept from its client.
#[test]
fn the_servers_last_words_to_the_old_client_do_not_count_for_the_new_one() {
    let mut gateway = few_ports(1);
    let (old, new) = (client(1, 1024), client(2, 1024));
    let local = gateway.establish(old, WEB);
    server_closes(&mut gateway, old, local);
    let syn = gateway.forward(&low_syn(new));
    assert_eq!(syn.from, local);
    let last = Sent::tcp(SERVER, local, ACK).at(5002, 1002);
    let (dropped, sent) = gateway.dropped_by(|gateway| gateway.outbound(&last));
    assert_eq!(
        (dropped, sent.len()),
        (Some((DropReason::FormerConnection, 1)), 0)
    );
    // Once more, it refuses the SYN: the client is told, and resets what is in the way.
    gateway.answer(&last);
    gateway.answer(&Sent::tcp(SERVER, local, RST).at(5002, 0));
    gateway.forward(&Sent::tcp(new, WEB, RST).at(1002u32.wrapping_sub(syn.sequence - 500), 0));
    assert_eq!(gateway.state().0, "SYN_RECV");
    gateway.answer(&Sent::tcp(SERVER, local, SYN | ACK).at(9000, syn.sequence + 1));
    gateway.forward(&Sent::tcp(new, WEB, ACK).at(501, 9001));
    assert_eq!(gateway.state(), ("ESTABLISHED", 900));
    // A third client gets nothing: the port is a live connection's.
    let (dropped, _) = gateway.dropped_by(|gateway| gateway.inbound(&low_syn(client(3, 1))));
    assert_eq!(dropped, Some((DropReason::LocalPortsExhausted, 1)));
}

/// A server that refuses the connection says so to its client, and to the state.
#[test]
fn a_reset_that_acknowledges_the_syn_counts() {
    let mut gateway = few_ports(1);
    let syn = gateway.forward(&low_syn(client(1, 1)));
    gateway.answer(&Sent::tcp(SERVER, syn.from, RST | ACK).at(0, syn.sequence + 1));
    assert_eq!(gateway.state().0, "CLOSE");
}

#[test]
fn a_client_without_a_local_port_is_told_as_configured() {
    for (policy, answer) in [
        (NoServer::Drop, None),
        (NoServer::Reset, Some(TCP)),
        (NoServer::Icmp, Some(ICMP)),
    ] {
        let mut gateway = few_ports(1);
        gateway.change(|plan| plan.settings.no_local_port = policy);
        gateway.establish(client(1, 1), WEB);
        let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&low_syn(client(2, 1))));
        assert_eq!(dropped, Some((DropReason::LocalPortsExhausted, 1)));
        assert_eq!(sent.first().map(|seen| seen.protocol), answer, "{policy:?}");
        if policy == NoServer::Reset {
            assert_eq!((sent[0].flags & RST, sent[0].to), (RST, client(2, 1)));
        }
    }
}
