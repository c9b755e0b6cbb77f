//! What services can be told to do: one packet at a time, hairpins, MSS clamping; and packets of nobody's connection.

use super::exchange::*;
use super::frames::{ACK, SYN};
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::packet::PortId;
use crate::service::Protocol;
use std::net::SocketAddr;

fn one_packet(family: Family, mode: Mode, translate: bool) -> Plan {
    let mut plan = Plan::dual();
    let port = if mode == Mode::Nat { 8080 } else { 80 };
    let servers = (1..=2).map(|number| family.real(number, mode, port)).collect();
    let slot = plan.add(family.vip(80), Protocol::Udp, servers);
    plan.edit(slot, |service| {
        service.one_packet = true;
        service.translate_replies = translate;
    });
    plan
}

/// OPS-01: eight datagrams from one port go to two servers in turn, and leave no connection.
#[test]
fn one_packet_services_schedule_every_datagram() {
    for (family, mode) in Family::BOTH
        .into_iter()
        .flat_map(|f| [Mode::Nat, Mode::Dr, Mode::Tun].map(|m| (f, m)))
    {
        let mut gateway = Gateway::new(one_packet(family, mode, false));
        let packet = Wire::udp(family.client(1, 5060), family.vip(80), b"register");
        let mut order = Vec::new();
        for _ in 0..8 {
            let out = gateway.pass_on(WAN, &packet);
            order.push(if out.to_mac == server_mac(1) { 1 } else { 2 });
            let server = family.server(order[order.len() - 1], 8080);
            match mode {
                Mode::Nat => assert_eq!(out.wire(), packet.between(packet.from, server).later()),
                Mode::Dr => assert_eq!(out.wire(), packet.later()),
                _ => assert_eq!(super::carried::unwrap(&out.packet).2, packet.later()),
            }
        }
        assert_eq!(order, [1, 2].repeat(4));
        assert_eq!(gateway.connections(), []);
        for number in 1..=2 {
            let slot = family.real(number, mode, 80).slot as usize;
            assert_eq!(
                (gateway.server(slot).inbound_packets.get(), gateway.counts(slot)),
                (4, (0, 0))
            );
            assert_eq!(gateway.server(slot).connections.get(), 4);
        }
    }
}

/// OPS: replies of one-packet NAT are translated where that is configured, leave as they are from a gateway that
/// routes, and are nobody's otherwise.
#[test]
fn replies_of_one_packet_services_are_translated_where_configured() {
    for family in Family::BOTH {
        for (translate, transit) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut plan = one_packet(family, Mode::Nat, translate);
            plan.settings.transit = transit;
            let mut gateway = Gateway::new(plan);
            let (client, vip, server) = (family.client(1, 5060), family.vip(80), family.server(1, 8080));
            gateway.pass_on(WAN, &Wire::udp(client, vip, b"query"));
            let reply = Wire::udp(server, client, b"answer");
            let (dropped, sent) = gateway.dropped_by(|gateway| gateway.exchange(LAN, &reply));
            let expected = match (translate, transit) {
                (true, _) => reply.between(vip, client).later(),
                (false, true) => reply.later(),
                (false, false) => {
                    assert_eq!((dropped, sent), (Some((DropReason::NotForUs, 1)), vec![]));
                    continue;
                }
            };
            assert_eq!(only(sent).wire(), expected);
            // Another port of the server is nobody's reply.
            let other = Wire::udp(family.server(1, 8081), client, b"");
            let sent = gateway.exchange(LAN, &other);
            assert_eq!(
                sent.iter().map(|out| out.wire()).collect::<Vec<_>>(),
                if transit { vec![other.later()] } else { vec![] }
            );
        }
    }
}

/// HAIR-01: a NAT server that is scheduled for itself. Without `hairpin_snat` that cannot work, and is counted; with
/// it, the server sees a local address, and itself answered by the VIP.
#[test]
fn a_server_asks_for_itself() {
    for family in Family::BOTH {
        for snat in [false, true] {
            let mut plan = Plan::dual();
            let slot = plan.add(
                family.vip(80),
                Protocol::Tcp,
                vec![family.real(1, Mode::Nat, 8080)],
            );
            plan.edit(slot, |service| service.hairpin_snat = snat);
            let mut gateway = Gateway::new(plan);
            let (itself, vip, server) = (family.server(1, 40000), family.vip(80), family.server(1, 8080));
            let syn = Wire::tcp(itself, vip, SYN, b"");
            let (dropped, sent) = gateway.dropped_by(|gateway| gateway.exchange(LAN, &syn));
            if !snat {
                assert_eq!(
                    (dropped, sent),
                    (Some((DropReason::HairpinUnsupported, 1)), vec![])
                );
                continue;
            }
            let out = only(sent);
            assert_eq!((out.port, out.to_mac), (LAN, server_mac(1)));
            let seen = out.wire();
            assert_eq!((seen.from.ip(), seen.to), (family.local(0), server));
            let answer = Wire::tcp(server, seen.from, SYN | ACK, b"");
            let out = gateway.pass_on(LAN, &answer);
            assert_eq!((out.port, out.to_mac), (LAN, server_mac(1)));
            assert_eq!((out.wire().from, out.wire().to), (vip, itself));
        }
    }
}

/// HAIR-01: a client on the servers' own link is translated with `hairpin_snat`; one behind a router never is.
#[test]
fn clients_beside_the_server_come_from_a_local_address() {
    for family in Family::BOTH {
        let mut plan = Plan::dual_web(Mode::Nat, Protocol::Tcp, 1, 80);
        for slot in 0..2 {
            plan.edit(slot, |service| service.hairpin_snat = true);
        }
        let mut gateway = Gateway::new(plan);
        let (beside, vip) = (family.server(2, 40000), family.vip(80));
        let seen = gateway.pass_on(LAN, &Wire::tcp(beside, vip, SYN, b"")).wire();
        assert_eq!(seen.from.ip(), family.local(0));
        let reply = gateway.pass_on(LAN, &Wire::tcp(seen.to, seen.from, SYN | ACK, b""));
        assert_eq!((reply.port, reply.to_mac), (LAN, server_mac(2)));
        assert_eq!((reply.wire().from, reply.wire().to), (vip, beside));
        let away = family.client(1, 40000);
        assert_eq!(gateway.towards_server(&Wire::tcp(away, vip, SYN, b"")).from, away);
    }
}

/// A SYN's MSS is lowered where its service says so, in both directions, and never raised; nothing else changes.
#[test]
fn an_mss_is_clamped() {
    for (family, mode) in [
        (Family::V4, Mode::Nat),
        (Family::V6, Mode::Nat),
        (Family::V4, Mode::Fullnat),
        (Family::V6, Mode::Fullnat),
        (Family::V4, Mode::Dr),
        (Family::V6, Mode::Tun),
    ] {
        let mut plan = Plan::dual();
        let slot = plan.add(family.vip(80), Protocol::Tcp, vec![family.real(1, mode, 80)]);
        plan.edit(slot, |service| service.mss_clamp = 1400);
        let mut gateway = Gateway::new(plan);
        for (number, announced, shown) in [(1, 1460, 1400), (2, 1400, 1400), (3, 536, 536)] {
            let mss = |mss: u16| [&[2, 4][..], &mss.to_be_bytes(), &[1, 1, 4, 2]].concat();
            let syn =
                Wire::tcp(family.client(1, number), family.vip(80), SYN, b"").with_options(&mss(announced));
            let out = gateway.pass_on(WAN, &syn);
            let seen = match mode {
                Mode::Tun => super::carried::unwrap(&out.packet).2,
                _ => out.wire(),
            };
            let expected = syn.between(seen.from, seen.to).later().with_options(&mss(shown));
            assert_eq!(seen, expected, "{mode:?}");
            if mode == Mode::Nat {
                let answer = Wire::tcp(seen.to, seen.from, SYN | ACK, b"").with_options(&mss(announced));
                let expected = answer.between(syn.to, syn.from).later().with_options(&mss(shown));
                assert_eq!(gateway.towards_client(&answer), expected);
            }
            let ack = Wire::tcp(syn.from, syn.to, ACK, b"").with_options(&mss(announced));
            if mode == Mode::Dr {
                assert_eq!(gateway.towards_server(&ack), ack.later(), "only a SYN announces");
            }
        }
    }
}

/// `nat_icmp_send`: a NAT server whose packet belongs to no connection is told so; without it, and for any other
/// port, nobody is.
#[test]
fn stray_packets_of_a_nat_server_are_answered_where_configured() {
    for (family, send) in Family::BOTH
        .into_iter()
        .flat_map(|family| [false, true].map(|send| (family, send)))
    {
        let mut plan = Plan::dual();
        plan.settings.nat_icmp_send = send;
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            plan.add(family.vip(80), protocol, vec![family.real(1, Mode::Nat, 8080)]);
        }
        let mut gateway = Gateway::new(plan);
        let (server, client) = (family.server(1, 8080), family.client(1, 40000));
        for packet in [
            Wire::tcp(server, client, ACK, b"late"),
            Wire::udp(server, client, b"late"),
        ] {
            let (dropped, sent) = gateway.dropped_by(|gateway| gateway.exchange(LAN, &packet));
            if !send {
                assert_eq!((dropped, sent), (Some((DropReason::NotForUs, 1)), vec![]));
                continue;
            }
            assert_eq!(dropped, Some((DropReason::NoConnection, 1)));
            let out = only(sent);
            assert_eq!((out.port, out.to_mac), (LAN, server_mac(1)));
            let told = out.wire();
            let message = if family == Family::V4 {
                (3, 3, 0)
            } else {
                (1, 4, 0)
            };
            assert_eq!((told.to.ip(), told.message()), (server.ip(), message));
            assert_eq!(quoted(told.data()), (server, client));
        }
        let other = Wire::udp(family.server(1, 9), client, b"");
        let (dropped, sent) = gateway.dropped_by(|gateway| gateway.exchange(LAN, &other));
        assert_eq!((dropped, sent), (Some((DropReason::NotForUs, 1)), vec![]));
        assert_eq!(gateway.connections(), []);
    }
}

/// `transit`: packets between strangers are routed as by a router, or nobody's.
#[test]
fn strangers_packets_are_routed_where_configured() {
    for (family, transit) in Family::BOTH
        .into_iter()
        .flat_map(|family| [false, true].map(|t| (family, t)))
    {
        let mut plan = Plan::dual_web(Mode::Dr, Protocol::Tcp, 1, 80);
        plan.settings.transit = transit;
        plan.set_mtu(WAN, 1400);
        let mut gateway = Gateway::new(plan);
        let (client, server) = (family.client(1, 40000), family.server(2, 22));
        for (port, packet, mac) in [
            (WAN, Wire::tcp(client, server, SYN, b""), server_mac(2)),
            (WAN, Wire::udp(client, server, b"odd"), server_mac(2)),
            (WAN, Wire::ping(client.ip(), server.ip(), b"ping"), server_mac(2)),
            (LAN, Wire::tcp(server, client, SYN | ACK, b""), ROUTER_MAC),
            (
                LAN,
                Wire::sctp(server, client, 7, &super::sctp::data(b"odd")),
                ROUTER_MAC,
            ),
        ] {
            let (dropped, sent) = gateway.dropped_by(|gateway| gateway.exchange(port, &packet));
            if !transit {
                assert_eq!((dropped, sent), (Some((DropReason::NotForUs, 1)), vec![]));
                continue;
            }
            let out = only(sent);
            assert_eq!(
                (out.port, out.to_mac, out.wire()),
                (PortId(1 - port.0), mac, packet.later())
            );
        }
        assert_eq!(gateway.connections(), []);
        if transit {
            routers_duties(&mut gateway, client, server);
        }
    }
}

/// The last hop, and a packet that does not fit the way out: told from the port's own address.
fn routers_duties(gateway: &mut Gateway, client: SocketAddr, server: SocketAddr) {
    let family = if client.is_ipv4() { Family::V4 } else { Family::V6 };
    let (exceeded, too_big) = match family {
        Family::V4 => ((11, 0, 0), (3, 4, 1400)),
        Family::V6 => ((3, 0, 0), (2, 0, 1400)),
    };
    for last in [
        Wire::udp(client, server, b"probe").hops(1),
        Wire::ping(client.ip(), server.ip(), b"probe").hops(1),
    ] {
        let told = gateway.told(&last);
        assert_eq!(
            (told.from.ip(), told.to.ip(), told.message()),
            (family.own(WAN), client.ip(), exceeded)
        );
    }
    let long = Wire::udp(server, client, &[7; 1440]);
    let told = gateway.pass_on(LAN, &long).wire();
    assert_eq!(
        (told.from.ip(), told.to.ip(), told.message()),
        (family.own(LAN), server.ip(), too_big)
    );
}
