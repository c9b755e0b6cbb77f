//! What becomes of connections: timeouts, rules that go, fragments; and that every port comes back.

use super::*;
use crate::drops::DropReason;
use crate::flow::Timeouts;
use crate::packet::MacAddr;
use crate::service::StaticNeighbour;
use crate::time::seconds;
use crate::worker::tests::frames::{ACK, FIN, RST, SYN};
use proptest::prelude::*;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// A rule has timeouts of its own; a reload brings them to the connections that are there.
#[test]
fn a_rule_has_timeouts_of_its_own() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_999));
        let (host, server) = (inside(family, 1, 40000), outside(family, 9, 53));
        gateway.goes_out(&Wire::udp(host, server, b"query"));
        assert_eq!(gateway.state(), ("UDP", 300));
        let timeouts = Timeouts {
            udp: seconds(30),
            icmp: seconds(5),
            ..Timeouts::default()
        };
        gateway.change_raw(|plan| {
            for rule in &mut plan.snat {
                rule.timeouts = Some(Arc::new(timeouts));
            }
        });
        assert_eq!(gateway.state(), ("UDP", 30));
        gateway.goes_out(&Wire::ping(host.ip(), server.ip(), b"ping"));
        gateway.pass_raw(seconds(6));
        assert_eq!(gateway.states(), ["UDP"]);
        gateway.pass_raw(seconds(25));
        assert_eq!(gateway.ports_in_use(), 0);
    }
}

/// A rule that is gone is as a server that is gone.
#[test]
fn connections_of_a_rule_that_is_gone_wait_or_end() {
    for (family, ends) in Family::BOTH
        .into_iter()
        .flat_map(|family| [(family, false), (family, true)])
    {
        let mut plan = Plan::behind_snat(10_000, 10_999);
        plan.settings.expire_nodest_conn = ends;
        let other = match family {
            Family::V4 => Family::V6,
            Family::V6 => Family::V4,
        };
        let mut gateway = Gateway::new(plan);
        let (host, server) = (inside(family, 1, 40000), outside(family, 9, 53));
        let query = Wire::udp(host, server, b"query");
        let local = gateway.goes_out(&query).from;
        let rules = gateway.plan.snat.clone();
        gateway.change_raw(|plan| plan.snat.retain(|rule| rule.slot as usize == slot(other)));
        gateway.pass_raw(seconds(1));
        let reason = if ends {
            DropReason::NotForUs
        } else {
            DropReason::ServerGone
        };
        let (dropped, out) = gateway.dropped_by(|gateway| gateway.exchange(LAN, &query));
        assert_eq!((dropped, out), (Some((reason, 1)), vec![]));
        assert_eq!(gateway.ports_in_use(), u32::from(!ends));
        gateway.change_raw(|plan| plan.snat = rules);
        let again = gateway.goes_out(&query).from;
        assert_eq!(again == local, !ends, "the connection that waited");
    }
}

/// An address that a reload takes out of the pool keeps its connections as long as it is the gateway's.
#[test]
fn a_new_pool_is_for_new_connections() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_999));
        let server = outside(family, 9, 443);
        let hosts: Vec<_> = (1..=8)
            .map(|number| (number, inside(family, number, 40000)))
            .collect();
        let locals: Vec<_> = hosts
            .iter()
            .map(|(_, host)| gateway.goes_out(&Wire::tcp(*host, server, SYN, b"")).from)
            .collect();
        gateway.change_raw(|plan| {
            // The old addresses stay the gateway's, as draining ones do.
            let old = plan.snat.clone();
            for rule in &mut plan.snat {
                rule.local_pools = family.rule(0, 1, 10_000, 10_999).local_pools;
            }
            plan.snat.extend(old.into_iter().map(|mut rule| {
                rule.slot += 2;
                rule
            }));
        });
        for ((number, host), local) in hosts.iter().zip(&locals) {
            gateway.comes_in(*number, &Wire::tcp(server, *local, SYN | ACK, b""));
            assert_eq!(gateway.goes_out(&Wire::tcp(*host, server, ACK, b"")).from, *local);
            let new = SocketAddr::new(host.ip(), 50000);
            assert_eq!(
                gateway.goes_out(&Wire::tcp(new, server, SYN, b"")).from.ip(),
                family.outside(0)
            );
        }
    }
}

/// What comes in fragments goes on in fragments, with an identification that no other host's fragments have.
#[test]
fn fragments_are_put_together_and_go_on_in_fragments() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_999));
        let (host, server) = (inside(family, 1, 40000), outside(family, 9, 53));
        let mut labels = std::collections::HashSet::new();
        for packet in [
            Wire::udp(host, server, &[7; 3000]),
            Wire::udp(inside(family, 2, 40000), server, &[7; 3000]),
            Wire::ping(host.ip(), server.ip(), &[8; 3000]),
        ] {
            let packet = packet.may_be_cut();
            let pieces = cut(&packet.packet(), 1400);
            let mut out = Vec::new();
            for piece in pieces.iter().rev() {
                gateway.come(LAN, piece);
                out.extend(gateway.out());
            }
            assert_eq!(out.len(), 3);
            assert!(out.iter().all(|out| (out.port, out.to_mac) == (WAN, ROUTER_MAC)));
            let pieces: Vec<_> = out.iter().map(|out| out.packet.clone()).collect();
            let label = match family {
                Family::V4 => pieces[0][4..6].to_vec(),
                Family::V6 => pieces[0][44..48].to_vec(),
            };
            assert!(labels.insert((pieces[0][12..16].to_vec(), label)));
            let seen = Wire::read(&assemble(&pieces));
            assert_eq!((seen.to.ip(), seen.data()), (server.ip(), packet.data()));
            assert_ne!(seen.from.ip(), packet.from.ip());
        }
    }
}

/// No way to a server outside: the host is told, and nothing is opened.
#[test]
fn a_host_is_told_that_there_is_no_way() {
    let mut plan = Plan::behind_snat(10_000, 10_999);
    plan.routes = Arc::new(crate::neighbour::RouteTable::new(&[], &[], &[]).unwrap());
    let mut gateway = Gateway::new(plan);
    let syn = Wire::tcp(inside(Family::V4, 1, 1), outside(Family::V4, 9, 443), SYN, b"");
    let (dropped, _) = gateway.dropped_by(|gateway| gateway.exchange(LAN, &syn));
    assert_eq!(dropped.map(|(reason, _)| reason), Some(DropReason::NoRoute));
    assert_eq!(gateway.stats.opened.get(), 0);
}

/// Another way out is taken by the connections that are there as well.
#[test]
fn connections_follow_the_routes() {
    let other = (Ipv4Addr::new(203, 0, 113, 3), MacAddr([2, 0, 0, 0, 1, 3]));
    let mut plan = Plan::behind_snat(10_000, 10_999);
    plan.neighbours = plan
        .neighbours
        .iter()
        .copied()
        .chain([StaticNeighbour {
            port: WAN,
            address: other.0.into(),
            mac: other.1,
        }])
        .collect();
    let mut gateway = Gateway::new(plan);
    let query = Wire::udp(inside(Family::V4, 1, 1), outside(Family::V4, 9, 53), b"query");
    let local = gateway.goes_out(&query).from;
    gateway.change_raw(|plan| plan.route_by(other.0));
    gateway.pass_raw(1);
    let out = gateway.pass_on(LAN, &query);
    assert_eq!((out.port, out.to_mac, out.wire().from), (WAN, other.1, local));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A host's packet: host, its port, server, kind of packet.
    Out(u8, u8, u8, u8),
    /// An answer to one of the packets before: which, flags.
    Back(u8, u8),
    Pass(u16),
    Rules(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => any::<(u8, u8, u8, u8)>().prop_map(|(a, b, c, d)| Step::Out(a, b, c, d)),
        4 => any::<(u8, u8)>().prop_map(|(a, b)| Step::Back(a, b)),
        1 => (1u16..400).prop_map(Step::Pass),
        1 => any::<u8>().prop_map(Step::Rules),
    ];
    proptest::collection::vec(step, 1..150)
}

const FLAGS: [u8; 5] = [SYN, ACK, FIN | ACK, RST, SYN | ACK];

/// Lets that happen; whatever it was, all ports and counts are free in the end.
fn run(family: Family, steps: &[Step]) {
    let mut plan = Plan::behind_snat(10_000, 10_003);
    plan.settings.expire_nodest_conn = steps.len().is_multiple_of(2);
    let mut gateway = Gateway::new(plan);
    let rules = gateway.plan.snat.clone();
    let mut seen = Vec::new();
    for step in steps {
        match *step {
            Step::Out(host, port, server, kind) => {
                let host = inside(family, 1 + u32::from(host % 8), 1000 + u16::from(port % 4));
                let server = outside(family, server % 2, 443);
                let packet = match kind % 8 {
                    at @ 0..5 => Wire::tcp(host, server, FLAGS[usize::from(at)], b""),
                    5 => Wire::udp(host, server, b"data"),
                    6 => Wire::sctp(
                        host,
                        server,
                        0,
                        &[1, 0, 0, 20, 0, 0, 0, 1, 0, 1, 0, 0, 0, 5, 0, 5, 0, 0, 0, 1],
                    ),
                    _ => Wire::ping(host.ip(), server.ip(), b"ping"),
                };
                let out = gateway.exchange(LAN, &packet);
                seen.extend(out.iter().filter(|out| out.port == WAN).map(Out::wire));
            }
            Step::Back(which, flags) if !seen.is_empty() => {
                let packet: &Wire = &seen[usize::from(which) % seen.len()];
                let answer = match packet.load {
                    Load::Tcp { .. } => {
                        let flags = FLAGS[usize::from(flags) % FLAGS.len()];
                        Wire::tcp(packet.to, packet.from, flags, b"")
                    }
                    _ => packet.between(packet.to, packet.from),
                };
                gateway.exchange(WAN, &answer);
            }
            Step::Back(..) => {}
            Step::Pass(time) => drop(gateway.pass_raw(seconds(time.into()))),
            Step::Rules(which) => drop(gateway.change_raw(|plan| {
                plan.snat = rules.clone();
                if which % 4 != 0 {
                    plan.snat.remove(usize::from(which % 2));
                    plan.snat[0].client_limit = u32::from(which % 8);
                }
            })),
        }
        gateway.check();
    }
    gateway.pass_raw(seconds(1000));
    assert_eq!((gateway.ports_in_use(), gateway.worker.clients.len()), (0, 0));
    assert_eq!(gateway.stats.connections.get(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// LPORT-02.
    #[test]
    fn every_port_comes_back(v6: bool, steps in steps()) {
        run(if v6 { Family::V6 } else { Family::V4 }, &steps);
    }
}
