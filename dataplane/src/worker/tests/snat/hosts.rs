//! Whom rules are for, and what hosts get of local addresses.

use super::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::local::LipPool;
use crate::neighbour::Prefix;
use crate::service::Protocol;
use crate::worker::Event;
use crate::worker::tests::frames::{ACK, FIN, SYN};
use std::collections::HashSet;
use std::sync::Arc;

/// RFC 4787 REQ-2: a host keeps its local address; both of the pool are used.
#[test]
fn each_host_has_one_local_address() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_999));
        let mut used = HashSet::new();
        for number in 1..=8 {
            let mut of_host = HashSet::new();
            for n in 0..20 {
                let server = outside(family, 1 + n as u8, 443);
                let packet = match n % 2 {
                    0 => Wire::tcp(inside(family, number, 40000 + n), server, SYN, b""),
                    _ => Wire::udp(inside(family, number, 40000 + n), server, b"query"),
                };
                of_host.insert(gateway.goes_out(&packet).from.ip());
            }
            assert_eq!(of_host.len(), 1);
            used.extend(of_host);
        }
        assert_eq!(used, HashSet::from([family.outside(0), family.outside(1)]));
        assert_eq!(gateway.stats.snat_moved.get(), 0);
    }
}

/// With all ports of a host's own address in use towards a server, another address serves; with none left anywhere the
/// host is refused, and told of by an event.
#[test]
fn a_dry_address_gives_way_to_another_and_a_dry_pool_refuses() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_009));
        let server = outside(family, 9, 443);
        let syn = |n: u16| Wire::tcp(inside(family, 1, 40000 + n), server, SYN, b"");
        let from: Vec<_> = (0..20).map(|n| gateway.goes_out(&syn(n)).from).collect();
        assert!(from[..10].iter().all(|local| local.ip() == from[0].ip()));
        assert!(from[10..].iter().all(|local| local.ip() != from[0].ip()));
        assert_eq!(gateway.stats.snat_moved.get(), 10);
        let (dropped, out) = gateway.dropped_by(|gateway| gateway.exchange(LAN, &syn(20)));
        assert_eq!(
            (dropped, out),
            (Some((DropReason::LocalPortsExhausted, 1)), vec![])
        );
        let events = gateway.events();
        let (low, dry) = events.split_at(events.len() - 1);
        assert!(
            low.iter()
                .all(|event| matches!(event, Event::SnatPortsLow { .. }))
                && !low.is_empty()
        );
        assert_eq!(
            dry,
            [Event::SnatPortsExhausted {
                rule: slot(family) as u32,
                destination: server.ip(),
                destination_port: 443,
                protocol: 6,
            }]
        );
        // Towards another server there are all ports.
        gateway.goes_out(&Wire::tcp(
            inside(family, 1, 40020),
            outside(family, 8, 443),
            SYN,
            b"",
        ));
    }
}

/// As in FULLNAT: the connection that has been closing longest gives up its port, and its successor's numbers are
/// above its own.
#[test]
fn a_closing_connection_gives_up_its_port() {
    for family in Family::BOTH {
        let mut plan = Plan::behind_snat(1, 1);
        plan.snat = vec![family.rule(40, 1, 10_000, 10_000)];
        let mut gateway = Gateway::new(plan);
        let server = outside(family, 9, 443);
        let (first, second) = (inside(family, 1, 40000), inside(family, 2, 40000));
        let numbered = |from, flags, number| {
            let mut packet = Wire::tcp(from, server, flags, b"");
            let Load::Tcp { sequence, .. } = &mut packet.load else {
                unreachable!()
            };
            *sequence = number;
            packet
        };
        let local = gateway.goes_out(&numbered(first, SYN, 5_000_000)).from;
        gateway.comes_in(1, &Wire::tcp(server, local, SYN | ACK, b""));
        gateway.goes_out(&numbered(first, FIN | ACK, 5_000_001));
        gateway.comes_in(1, &Wire::tcp(server, local, FIN | ACK, b""));
        let syn = gateway.goes_out(&numbered(second, SYN, 1000));
        let Load::Tcp { sequence, .. } = syn.load else {
            unreachable!()
        };
        assert_eq!(syn.from, local);
        assert!((5_000_003..6_000_000).contains(&sequence), "{sequence}");
        let shown = gateway.connections();
        assert_eq!((shown.len(), shown[0].client), (1, second));
    }
}

/// The first rule that a packet falls under decides: by source, destination, protocol and port.
#[test]
fn the_first_rule_decides() {
    for family in Family::BOTH {
        let mut plan = Plan::behind_snat(10_000, 10_999);
        let base = family.rule(40, 1, 10_000, 10_999);
        let of = |slot: u32, number: u8| {
            let mut rule = family.rule(slot, 1, 10_000, 10_999);
            let pool = LipPool::new([family.outside(number)], base.local_pools[0].ports());
            rule.local_pools = vec![Arc::new(pool)];
            rule
        };
        let (mut by_port, mut by_protocol, mut by_destination) = (of(42, 1), of(43, 2), of(44, 3));
        by_port.ports = vec![443..=443, 8000..=8100];
        by_protocol.protocols = vec![17];
        let length = if family == Family::V4 { 32 } else { 128 };
        by_destination.destinations = vec![Prefix::around(outside(family, 9, 0).ip(), length)];
        let mut by_source = of(45, 4);
        by_source.sources = vec![Prefix::around(inside(family, 2, 0).ip(), length)];
        plan.snat = vec![by_port, by_protocol, by_destination, by_source];
        let mut gateway = Gateway::new(plan);
        let host = inside(family, 1, 40000);
        let tcp = |from, number, port| Wire::tcp(from, outside(family, number, port), SYN, b"");
        for (packet, number) in [
            (tcp(host, 8, 443), Some(1)),
            (tcp(host, 8, 8050), Some(1)),
            (Wire::udp(host, outside(family, 9, 53), b""), Some(2)),
            (tcp(host, 9, 80), Some(3)),
            (tcp(inside(family, 2, 1), 8, 80), Some(4)),
            (tcp(inside(family, 2, 1), 9, 80), Some(3)),
            (tcp(host, 8, 80), None),
        ] {
            let got = gateway.source_of(&packet);
            assert_eq!(got, number.map(|number| family.outside(number)), "{packet:?}");
        }
        assert_eq!(gateway.drops(DropReason::NotForUs), 1);
    }
}

/// An exempt packet is routed on as it is, whether or not the gateway is a router otherwise.
#[test]
fn an_exempt_packet_goes_on_as_it_is() {
    for family in Family::BOTH {
        let mut plan = Plan::behind_snat(10_000, 10_999);
        let mut exempt = family.rule(42, 0, 1, 1);
        let length = if family == Family::V4 { 32 } else { 128 };
        exempt.destinations = vec![Prefix::around(outside(family, 9, 0).ip(), length)];
        exempt.exempt = true;
        exempt.local_pools.clear();
        plan.snat.insert(0, exempt);
        let mut gateway = Gateway::new(plan);
        let host = inside(family, 1, 40000);
        for packet in [
            Wire::tcp(host, outside(family, 9, 443), ACK, b"data"),
            Wire::udp(host, outside(family, 9, 53), b"query"),
            Wire::ping(host.ip(), outside(family, 9, 0).ip(), b"ping"),
        ] {
            assert_eq!(gateway.goes_out(&packet), packet.later());
        }
        assert_eq!(gateway.connections(), []);
        let other = gateway.goes_out(&Wire::udp(host, outside(family, 8, 53), b"query"));
        assert_ne!(other.from.ip(), host.ip());
    }
}

/// A host has as many connections as its rule allows, and one more when one of them ends. A limit that comes later
/// counts the connections that are there.
#[test]
fn a_host_has_as_many_connections_as_its_rule_allows() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_999));
        let udp = |number, n: u16| {
            Wire::udp(
                inside(family, number, 40000 + n),
                outside(family, 9, 53),
                b"query",
            )
        };
        for n in 0..3 {
            gateway.goes_out(&udp(1, n));
        }
        gateway.change_raw(|plan| plan.snat.iter_mut().for_each(|rule| rule.client_limit = 5));
        for n in 3..5 {
            gateway.goes_out(&udp(1, n));
        }
        for n in 5..7 {
            let (dropped, out) = gateway.dropped_by(|gateway| gateway.exchange(LAN, &udp(1, n)));
            assert_eq!((dropped, out), (Some((DropReason::SnatLimit, 1)), vec![]));
        }
        gateway.goes_out(&udp(1, 0));
        for n in 0..5 {
            gateway.goes_out(&udp(2, n));
        }
        gateway.pass_raw(crate::time::seconds(301));
        assert_eq!(gateway.worker.clients.len(), 0);
        gateway.goes_out(&udp(1, 5));
        assert_eq!(gateway.worker.clients.len(), 1);
    }
}

/// Replies of NAT servers come first, and their other packets are SNAT's.
#[test]
fn a_nat_server_answers_its_clients_and_goes_out_by_snat() {
    for family in Family::BOTH {
        let mut plan = Plan::behind_snat(10_000, 10_999);
        plan.add(
            family.vip(80),
            Protocol::Tcp,
            vec![family.real(1, Mode::Nat, 8080)],
        );
        let mut gateway = Gateway::new(plan);
        let client = family.client(1, 40000);
        let (seen, server) = gateway.open_both(client, family.vip(80));
        assert_eq!((seen, server), (client, family.server(1, 8080)));
        let own = gateway.goes_out(&Wire::tcp(inside(family, 1, 50000), client, SYN, b""));
        assert!((0..2).any(|number| family.outside(number) == own.from.ip()));
        assert_eq!(gateway.connections().iter().filter(|shown| shown.snat).count(), 1);
    }
}

/// An address of the gateway's own is no host, wherever it says to be from.
#[test]
fn nobody_goes_out_under_an_address_of_the_gateway() {
    for family in Family::BOTH {
        let mut plan = Plan::behind_snat(10_000, 10_999);
        plan.snat
            .iter_mut()
            .for_each(|rule| rule.sources = vec![Prefix::DEFAULT, Prefix::DEFAULT6]);
        let mut gateway = Gateway::new(plan);
        let server = outside(family, 9, 53);
        for own in [family.outside(0), family.own(LAN), family.local(0)] {
            for packet in [
                Wire::udp(SocketAddr::new(own, 1), server, b"query"),
                Wire::ping(own, server.ip(), b"ping"),
            ] {
                let (dropped, out) = gateway.dropped_by(|gateway| gateway.exchange(LAN, &packet));
                assert_eq!((dropped, out), (Some((DropReason::BadSource, 1)), vec![]));
            }
        }
        assert_eq!(gateway.stats.opened.get(), 0);
    }
}
