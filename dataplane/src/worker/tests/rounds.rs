//! How a worker looks at the others: in slices, and only where something depends on it.

use super::gateway::*;
use super::plan::*;
use crate::flow::Mode;
use crate::scheduler::SchedulerKind;
use crate::service::{Persistence, Protocol, Server, Service};
use crate::time::seconds;
use crate::worker::others::Others;
use crate::worker::{Mailbox, WorkerStats};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

/// A gateway with so many services of so many servers beside two other workers, each of which has 3 active connections
/// of every server.
fn beside(services: u32, servers: u32, change: impl Fn(&mut Service)) -> (Gateway, Vec<Arc<WorkerStats>>) {
    let mut plan = Plan::empty();
    plan.sizes.servers = services * servers;
    for service in 0..services {
        let server = |number: u32| Server {
            slot: service * servers + number,
            address: Ipv4Addr::from_bits(0x0a01_0000 + number).into(),
            ..server(1, Mode::Fullnat)
        };
        let at = SocketAddrV4::new(VIP, 1000 + service as u16);
        plan.add(at, Protocol::Tcp, (0..servers).map(server).collect());
        plan.edit(service as usize, &change);
    }
    let slots = plan.sizes.servers as usize;
    let mut gateway = Gateway::new(plan);
    let others: Vec<Arc<WorkerStats>> = (0..2).map(|_| Arc::new(WorkerStats::new(2, slots))).collect();
    for server in others.iter().flat_map(|other| &other.servers) {
        server.active.set(3);
    }
    gateway.worker.others = Others::new(
        others
            .iter()
            .map(|stats| (Arc::clone(stats), Arc::new(Mailbox::default()))),
        gateway.now,
    );
    (gateway, others)
}

/// Servers whose connections with the others are known.
fn known(gateway: &Gateway) -> usize {
    let servers = gateway.worker.servers.iter();
    servers.filter(|server| server.others.active == 6).count()
}

#[test]
fn a_turn_looks_at_a_bounded_number_of_servers_until_all_are_seen() {
    let (mut gateway, others) = beside(5, 100, |service| service.scheduler = SchedulerKind::Wlc);
    let (mut seen, mut turns) = (0, 0);
    while seen < 500 {
        gateway.turn_raw();
        turns += 1;
        let now = known(&gateway);
        // 64 counters, two for each server.
        assert!(now > seen && now <= seen + 32, "{seen}, then {now}");
        seen = now;
    }
    assert!(turns < 20);
    // What changes is seen within another round, which the next tick begins.
    others[0].servers[499].active.set(4);
    for _ in 0..20 {
        gateway.turn_raw();
    }
    assert_eq!(known(&gateway), 500, "the clock stands still");
    gateway.now = gateway.now.after(1);
    for _ in 0..20 {
        gateway.turn_raw();
    }
    assert_eq!(gateway.worker.servers[499].others.active, 7);
}

type Change = fn(&mut Service);

#[test]
fn only_what_depends_on_connections_is_looked_at() {
    let rr = |service: &mut Service| service.scheduler = SchedulerKind::Rr;
    let (mut gateway, _) = beside(3, 4, rr);
    gateway.turn_raw();
    assert_eq!(known(&gateway), 0, "round robin goes by none");
    let changes: [(&str, Change); 5] = [
        ("a threshold", |service| service.servers[2].upper_threshold = 100),
        ("a scheduler", |service| service.scheduler = SchedulerKind::Twos),
        ("another", |service| service.scheduler = SchedulerKind::Sed),
        ("a bound", |service| {
            service.scheduler = SchedulerKind::Mh;
            service.policy.bound = 125;
        }),
        ("a bound of persistence", |service| {
            service.persistence = Some(Persistence {
                bound: 125,
                ..Persistence::new(seconds(60))
            });
        }),
    ];
    for (what, change) in changes {
        let (mut gateway, _) = beside(3, 4, |service| {
            rr(service);
            if service.slot == 1 {
                change(service);
            }
        });
        gateway.turn_raw();
        assert_eq!(known(&gateway), 4, "{what}");
    }
}
