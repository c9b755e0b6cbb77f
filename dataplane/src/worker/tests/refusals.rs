//! What is not forwarded, and what its sender is told.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::service::NoService;
use crate::time::TICKS_PER_SECOND;

fn closed(port: u16) -> std::net::SocketAddrV4 {
    end(VIP.octets(), port)
}

/// RST-01.
#[test]
fn a_vip_without_service_on_the_port_rejects() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 1));
    let from = client(1, 40000);
    let syn = Sent::tcp(from, closed(81), SYN).at(7000, 0).data(b"ab");
    let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&syn));
    assert_eq!(dropped, Some((DropReason::NoService, 1)));
    let reset = one(sent);
    assert_eq!((reset.from, reset.to, reset.flags), (closed(81), from, RST | ACK));
    assert_eq!((reset.sequence, reset.acknowledgement), (0, 7003));

    let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&Sent::tcp(from, WEB, ACK).at(1, 99)));
    assert_eq!(dropped, Some((DropReason::NotSyn, 1)));
    let reset = one(sent);
    assert_eq!((reset.flags, reset.sequence, reset.acknowledgement), (RST, 99, 0));

    let datagram = Sent::udp(from, closed(54), b"query");
    let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&datagram));
    assert_eq!(dropped, Some((DropReason::NoService, 1)));
    let error = one(sent);
    assert_eq!(
        (error.from.ip(), error.icmp, error.data),
        (&VIP, (3, 3, 0), datagram.packet())
    );

    let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&Sent::tcp(from, closed(81), RST)));
    assert_eq!(
        (dropped, sent.len()),
        (Some((DropReason::NotSyn, 1)), 0),
        "a reset is never answered"
    );
}

#[test]
fn a_packet_to_a_local_address_of_no_connection_is_answered_to_the_server() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 1));
    let from = end(server_ip(1).octets(), SERVER_PORT);
    let (dropped, sent) = gateway
        .dropped_by(|gateway| gateway.outbound(&Sent::tcp(from, end(LIP.octets(), 2000), ACK).at(1, 7)));
    assert_eq!(dropped, Some((DropReason::NoConnection, 1)));
    let reset = one(sent);
    assert_eq!(
        (reset.to, reset.flags, reset.sequence, reset.to_mac),
        (from, RST, 7, server_mac(1))
    );
}

#[test]
fn silence_where_that_is_the_policy() {
    let mut plan = Plan::web(Mode::Fullnat, 1);
    plan.settings.no_service = NoService::Drop;
    let mut gateway = Gateway::new(plan);
    let from = client(1, 40000);
    for (packet, reason) in [
        (Sent::tcp(from, closed(81), SYN), DropReason::NoService),
        (Sent::udp(from, closed(81), b""), DropReason::NoService),
        (Sent::tcp(from, WEB, ACK), DropReason::NotSyn),
        (
            Sent::tcp(from, end(LIP.octets(), 2000), ACK),
            DropReason::NoConnection,
        ),
    ] {
        let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&packet));
        assert_eq!((dropped, sent.len()), (Some((reason, 1)), 0));
    }
}

/// RST-02: ICMP port unreachable, for TCP too.
#[test]
fn a_service_without_a_usable_server_answers_by_icmp() {
    let mut plan = Plan::web(Mode::Fullnat, 1);
    plan.add(DNS, crate::service::Protocol::Udp, Vec::new());
    plan.edit(0, |service| service.servers[0].weight = 0);
    let mut gateway = Gateway::new(plan);
    let from = client(1, 40000);
    for packet in [Sent::tcp(from, WEB, SYN), Sent::udp(from, DNS, b"query")] {
        let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&packet));
        assert_eq!(dropped, Some((DropReason::NoServer, 1)));
        let error = one(sent);
        assert_eq!(
            (error.from.ip(), error.to.ip(), error.icmp),
            (&VIP, from.ip(), (3, 3, 0))
        );
        assert_eq!(error.data, packet.packet());
    }
    assert_eq!((gateway.stats.opened.get(), gateway.ports_in_use()), (0, 0));
}

#[test]
fn answers_are_limited_by_the_second() {
    let mut plan = Plan::web(Mode::Fullnat, 1);
    plan.settings.icmp_rate = 5;
    let mut gateway = Gateway::new(plan);
    for _ in 0..3 {
        // Resets do not use up what may be said.
        for _ in 0..20 {
            assert_eq!(gateway.inbound(&Sent::tcp(client(1, 1), closed(81), RST)), []);
        }
        let answers: usize = (0..20)
            .map(|n| gateway.inbound(&Sent::tcp(client(1, n), closed(81), SYN)).len())
            .sum();
        assert_eq!(answers, 5);
        gateway.now = gateway.now.after(TICKS_PER_SECOND);
    }
    assert_eq!(gateway.drops(DropReason::NoService), 60);
}

#[test]
fn without_a_route_to_the_client_nothing_can_be_said() {
    let mut plan = Plan::web(Mode::Fullnat, 1);
    plan.routes = std::sync::Arc::new(crate::neighbour::RouteTable::default());
    let mut gateway = Gateway::new(plan);
    let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&Sent::tcp(client(1, 1), WEB, SYN)));
    // What it would be told is counted too: it was made, and ended here. The connection is there, as in Linux.
    assert_eq!((dropped, sent.len()), (Some((DropReason::NoRoute, 2)), 0));
    assert_eq!(gateway.stats.opened.get(), 1);
    gateway.inbound(&Sent::tcp(client(1, 1), closed(81), SYN));
    assert_eq!(gateway.drops(DropReason::NoRoute), 3);
}
