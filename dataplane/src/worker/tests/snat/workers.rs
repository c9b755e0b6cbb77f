//! SNAT with several workers: whichever queue a packet arrives at, the owner of its source has the connection, and
//! answers, errors and replies find it.

use super::*;
use crate::flow::Mode;
use crate::packet::PortId;
use crate::service::Protocol;
use crate::worker::tests::errors::{error, least_quote, on_the_way};
use crate::worker::tests::frames::{ACK, SYN};
use crate::worker::tests::steering::Team;
use std::collections::HashSet;

/// A gateway of so many workers, with a NAT service beside SNAT or without any.
fn team(workers: u8, nat: bool) -> Team {
    let mut plan = Plan::behind_snat(1024, 65535);
    plan.workers = workers;
    if nat {
        for family in Family::BOTH {
            plan.add(
                family.vip(80),
                Protocol::Tcp,
                vec![family.real(1, Mode::Nat, 8080)],
            );
        }
    }
    let mut team = Team::of(plan, usize::MAX);
    // What is announced at the start is out of the way.
    team.carry(0, WAN, &[0; 60]);
    team
}

/// Lets a packet arrive at that worker's queue. By whom it went on, and what; it goes on once, or not at all.
fn carried(team: &mut Team, at: u8, port: PortId, packet: &Wire) -> Option<(u8, PortId, Wire)> {
    let mac = if port == WAN { WAN_MAC } else { LAN_MAC };
    let (_, mut sent) = team.carry(at, port, &link(mac, &packet.packet()));
    assert!(sent.len() <= 1, "{sent:02x?}");
    let (number, port, frame) = sent.pop()?;
    Some((number, port, Wire::read(&frame[14..])))
}

fn each(test: impl Fn(&mut Team, u8, Family)) {
    for workers in 1..=4 {
        for nat in [false, true] {
            for family in Family::BOTH {
                test(&mut team(workers, nat), workers, family);
            }
        }
    }
}

#[test]
fn packets_of_a_connection_find_its_owner_from_every_queue() {
    each(|team, workers, family| {
        let mut owners = HashSet::new();
        for n in 0..24u16 {
            let host = inside(family, 1 + u32::from(n % 8), 40000 + 37 * n);
            let server = outside(family, 1 + (n % 5) as u8, 443);
            let owner = team.owner(host);
            owners.insert(owner);
            let first = match n % 2 {
                0 => Wire::tcp(host, server, SYN, b""),
                _ => Wire::udp(host, server, b"query"),
            };
            let mut local = None;
            for at in 0..workers {
                let (by, port, seen) = carried(team, at, LAN, &first).unwrap();
                assert_eq!((by, port, seen.to), (owner, WAN, server));
                assert_eq!(*local.get_or_insert(seen.from), seen.from, "one connection");
            }
            let local = local.unwrap();
            assert_eq!(team.owner(local), owner);
            for at in 0..workers {
                let answer = match n % 2 {
                    0 => Wire::tcp(server, local, SYN | ACK, b""),
                    _ => Wire::udp(server, local, b"answer"),
                };
                let (by, port, back) = carried(team, at, WAN, &answer).unwrap();
                assert_eq!(
                    (by, port, back),
                    (owner, LAN, answer.between(server, host).later())
                );
            }
        }
        assert_eq!(owners.len(), usize::from(workers));
        let opened: u64 = team.stats.iter().map(|stats| stats.opened.get()).sum();
        assert_eq!(opened, 24);
    });
}

/// ICMP-09: on every queue.
#[test]
fn pings_and_errors_find_the_owner_from_every_queue() {
    each(|team, workers, family| {
        for n in 0..12u16 {
            let host = inside(family, 1 + u32::from(n % 8), 40000 + 37 * n);
            let server = outside(family, 1 + (n % 5) as u8, 33434);
            let at = (n % u16::from(workers)) as u8;
            let code = if family == Family::V4 {
                (11, 0, 0)
            } else {
                (3, 0, 0)
            };
            let ping = Wire::ping(host.ip(), server.ip(), b"ping");
            for probe in [Wire::udp(host, server, b"probe"), ping.clone()] {
                let (_, _, seen) = carried(team, at, LAN, &probe).unwrap();
                for at in 0..workers {
                    let sent = error(on_the_way(family), seen.from.ip(), code, &least_quote(&seen));
                    let (_, port, back) = carried(team, at, WAN, &sent).unwrap();
                    assert_eq!(
                        (port, back.from.ip(), back.to.ip()),
                        (LAN, on_the_way(family), host.ip())
                    );
                    // And the host's own, about an answer.
                    let answer = match probe.from.port() {
                        0 => Wire::icmp(server.ip(), host.ip(), code_of_reply(family), 0, 0x0007_0001, b""),
                        _ => Wire::udp(server, host, b"answer"),
                    };
                    let refusal = if family == Family::V4 {
                        (3, 3, 0)
                    } else {
                        (1, 4, 0)
                    };
                    let sent = error(host.ip(), server.ip(), refusal, &answer.packet());
                    let (_, port, seen_error) = carried(team, at, LAN, &sent).unwrap();
                    assert_eq!((port, seen_error.from.ip()), (WAN, seen.from.ip()));
                }
            }
            let (_, _, seen) = carried(team, at, LAN, &ping).unwrap();
            let rest = seen.message().2;
            for at in 0..workers {
                let reply = Wire::icmp(
                    server.ip(),
                    seen.from.ip(),
                    code_of_reply(family),
                    0,
                    rest,
                    b"ping",
                );
                let (_, port, back) = carried(team, at, WAN, &reply).unwrap();
                assert_eq!(
                    (port, back.to.ip(), back.message().2),
                    (LAN, host.ip(), 0x0007_0001)
                );
            }
        }
    });
}

fn code_of_reply(family: Family) -> u8 {
    if family == Family::V4 { 0 } else { 129 }
}

/// A NAT server's replies go to the owner of their client, its own connections to the owner of its source.
#[test]
fn a_nat_server_is_served_by_both() {
    for workers in 1..=4 {
        for family in Family::BOTH {
            let mut team = team(workers, true);
            for n in 0..12u16 {
                let client = family.client(1 + n as u8, 40000 + 37 * n);
                let server = family.server(1, 8080);
                let syn = Wire::tcp(client, family.vip(80), SYN, b"");
                assert_eq!(carried(&mut team, 0, WAN, &syn).unwrap().2.to, server);
                for at in 0..workers {
                    let answer = Wire::tcp(server, client, SYN | ACK, b"");
                    let (by, _, seen) = carried(&mut team, at, LAN, &answer).unwrap();
                    assert_eq!((by, seen.from), (team.owner(client), family.vip(80)));
                    let own = Wire::tcp(family.server(1, 50000), client, SYN, b"");
                    let (by, _, seen) = carried(&mut team, at, LAN, &own).unwrap();
                    assert_eq!(by, team.owner(own.from));
                    assert!((0..2).any(|number| family.outside(number) == seen.from.ip()));
                }
            }
        }
    }
}

/// Hosts have one local address, whichever worker their connections are on.
#[test]
fn workers_agree_on_the_address_of_a_host() {
    for family in Family::BOTH {
        let mut team = team(4, false);
        let mut all = HashSet::new();
        for number in 1..=8 {
            let mut own = HashSet::new();
            for n in 0..16 {
                let packet = Wire::udp(inside(family, number, 40000 + n), outside(family, 9, 53), b"");
                own.insert(carried(&mut team, 0, LAN, &packet).unwrap().2.from.ip());
            }
            assert_eq!(own.len(), 1);
            all.extend(own);
        }
        assert_eq!(all.len(), 2);
    }
}
