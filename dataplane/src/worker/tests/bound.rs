//! Persistence with a bound: a client with many connections spreads, everybody else stays.

use super::cluster::*;
use super::frames::*;
use super::plan::*;
use super::wire::Wire;
use crate::flow::Mode;
use crate::neighbour::Prefix;
use crate::scheduler::SchedulerKind;
use crate::service::{MarkRule, Persistence, Protocol, ServiceKey};
use crate::time::seconds;
use std::collections::HashMap;
use std::net::{SocketAddr, SocketAddrV4};

fn bounded(bound: u32) -> Persistence {
    Persistence {
        bound,
        ..Persistence::new(seconds(300))
    }
}

fn plan(mode: Mode, servers: u32, bound: u32) -> Plan {
    let mut plan = Plan::web(mode, servers);
    plan.edit(0, |service| {
        service.scheduler = SchedulerKind::Wlc;
        service.persistence = Some(bounded(bound));
    });
    plan
}

/// The server that a new connection of that client goes to.
fn connect(gateway: &mut Cluster, from: SocketAddrV4) -> u32 {
    let seen = gateway.forward(&Sent::tcp(from, WEB, SYN));
    (1..=8).find(|number| seen.to_mac == server_mac(*number)).unwrap()
}

fn load(gateway: &Cluster, server: u32) -> u32 {
    let (active, inactive) = gateway.counts(server as usize);
    active + inactive
}

/// 2000 connections of one address among those of 100 small clients, which come between.
#[test]
fn a_client_that_overloads_its_server_spreads_and_small_ones_stay() {
    for (workers, connections) in WORKERS.into_iter().zip([2000, 1000, 600, 500u16]) {
        for mode in [Mode::Nat, Mode::Dr, Mode::Fullnat] {
            let mut gateway = Cluster::new(plan(mode, 4, 125), workers);
            let mut homes: HashMap<u8, u32> = HashMap::new();
            let mut spread = HashMap::new();
            for n in 0..connections {
                *spread
                    .entry(connect(&mut gateway, client(1, 1024 + n)))
                    .or_insert(0) += 1;
                if n % 5 == 0 {
                    gateway.pass(1);
                    let small = 2 + (n / 5 % 100) as u8;
                    let to = connect(&mut gateway, client(small, 1024 + n));
                    assert_eq!(*homes.entry(small).or_insert(to), to, "{small} at {n}");
                }
            }
            assert_eq!(spread.len(), 4, "{spread:?}");
            let all: u32 = (1..=4).map(|server| load(&gateway, server)).sum();
            assert_eq!(all, u32::from(connections) * 6 / 5);
            for server in 1..=4 {
                // Small clients stay also where the bound is reached.
                assert!(
                    load(&gateway, server) <= all * 125 / 400 + 4,
                    "{mode:?} {spread:?}"
                );
            }
            assert_eq!(gateway.templates(), homes.len() as u64 + 1, "one for each client");
        }
    }
}

/// Without a bound all go to one server, with one the first 64.
#[test]
fn a_client_with_few_connections_stays_on_its_server() {
    for workers in WORKERS {
        for (bound, connections, servers) in [(0, 2000, 1), (125, 64, 1), (125, 65, 2), (125, 66, 3)] {
            let mut gateway = Cluster::new(plan(Mode::Dr, 3, bound), workers);
            let used: std::collections::HashSet<u32> = (0..connections)
                .map(|n| connect(&mut gateway, client(1, 1024 + n)))
                .collect();
            assert_eq!(used.len(), servers, "{bound} {connections}");
        }
    }
}

#[test]
fn the_client_comes_home_when_its_server_has_room_again() {
    for workers in WORKERS {
        let mut gateway = Cluster::new(plan(Mode::Dr, 2, 150), workers);
        let home = connect(&mut gateway, client(1, 1024));
        for n in 1..300 {
            connect(&mut gateway, client(1, 1024 + n));
        }
        let away = 3 - home;
        assert!(load(&gateway, away) > 70);
        let templates =
            [home, away].map(|slot| gateway.of_server(slot as usize, |server| server.templates.get()));
        assert_eq!(templates, [1, 0]);
        // Everything is established, reset and gone.
        for n in 0..300 {
            for flags in [ACK, RST] {
                gateway.inbound(&Sent::tcp(client(1, 1024 + n), WEB, flags));
            }
        }
        gateway.pass(seconds(11));
        assert_eq!(load(&gateway, home), 0);
        for n in 0..10 {
            assert_eq!(connect(&mut gateway, client(1, 2000 + n)), home);
        }
    }
}

/// When nobody else is usable, the template holds.
#[test]
fn the_only_usable_server_keeps_the_client() {
    for workers in WORKERS {
        let mut gateway = Cluster::new(plan(Mode::Dr, 2, 125), workers);
        let home = connect(&mut gateway, client(1, 1024));
        let other = 2 - home as usize;
        gateway.change(|plan| plan.edit(0, |service| service.servers[other].weight = 0));
        for n in 1..200 {
            assert_eq!(connect(&mut gateway, client(1, 1024 + n)), home);
        }
        // Quiesced itself: still the only one that it has.
        gateway.change(|plan| plan.edit(0, |service| service.servers[1 - other].weight = 0));
        assert_eq!(connect(&mut gateway, client(1, 3000)), home);
    }
}

/// Under a mask, for a firewall mark, on all ports, and in IPv6.
#[test]
fn masked_clients_marks_all_ports_and_ipv6() {
    for workers in WORKERS {
        let key_of = |mark, family| match mark {
            Some(mark) => ServiceKey::Mark {
                mark,
                ipv6: family == Family::V6,
            },
            None => {
                let at: SocketAddr = match family {
                    Family::V4 => Family::V4.vip(0),
                    Family::V6 => Family::V6.vip(0),
                };
                ServiceKey::new(at.ip(), 0, Protocol::Udp)
            }
        };
        for family in Family::BOTH {
            for mark in [None, Some(7)] {
                let mut plan = Plan::dual_web(Mode::Dr, Protocol::Udp, 3, 0);
                let slot = usize::from(family == Family::V6);
                plan.edit(slot, |service| {
                    service.key = key_of(mark, family);
                    service.scheduler = SchedulerKind::Wlc;
                    service.persistence = Some(Persistence {
                        netmask: [255, 255, 255, 0].into(),
                        prefix: 64,
                        ..bounded(125)
                    });
                });
                // A single address has to be a VIP of the plan; a prefix need not.
                plan.marks.extend(mark.map(|mark| MarkRule {
                    mark,
                    destination: Prefix::around(
                        family.vip(0).ip(),
                        if family == Family::V6 { 64 } else { 24 },
                    ),
                    source: None,
                    protocol: None,
                    ports: Vec::new(),
                    input: None,
                }));
                let mut gateway = Cluster::new(plan, workers);
                let first = if family == Family::V6 { 21 } else { 1 };
                for n in 0..600u16 {
                    let from = family.client((n % 7) as u8, 1024 + n);
                    let datagram = Wire::udp(from, family.vip(5000 + n % 3), b"x");
                    let (dropped, sent) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &datagram));
                    assert_eq!((dropped, sent.len()), (None, 1), "{family:?} {mark:?}");
                }
                let loads: Vec<u32> = (first..first + 3).map(|server| load(&gateway, server)).collect();
                assert_eq!(loads.iter().sum::<u32>(), 600);
                assert!(
                    loads.iter().all(|load| (100..=250).contains(load)),
                    "{family:?} {mark:?} {loads:?}"
                );
                assert_eq!(gateway.templates(), 1, "all are one client");
            }
        }
    }
}
