//! Pools of local addresses that run low, and that grow and shrink under connections.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::local::{LipPool, PairReport, Pressure};
use crate::service::{Protocol, Server};
use crate::time::seconds;
use crate::worker::{Event, Listing, Order};
use proptest::prelude::*;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

fn of_ports(ports: u16, addresses: u8) -> Gateway {
    let mut plan = Plan::web(Mode::Fullnat, 1);
    plan.use_locals(pool(addresses, 10_000, 9_999 + ports));
    Gateway::new(plan)
}

/// Takes the first so many addresses out of the service's pool; the gateway still answers for all of them, as while
/// they drain.
fn drain(gateway: &mut Gateway, removed: usize) {
    let locals = &gateway.plan.locals;
    let rest = locals.addresses()[removed..].iter().copied();
    let pools = vec![Arc::new(LipPool::new(rest, locals.ports()))];
    gateway.change(|plan| {
        plan.edit(0, |service| service.local_pools = pools);
    });
}

fn server(number: u32) -> SocketAddrV4 {
    SocketAddrV4::new(server_ip(number), SERVER_PORT)
}

fn pairs(gateway: &mut Gateway) -> Vec<PairReport> {
    let listing = Arc::new(Listing::new(3));
    let order = Order::ListLocalPairs(Arc::clone(&listing));
    gateway.mailbox.orders.push(order).unwrap();
    let mut pairs = vec![];
    while !listing.is_complete() {
        gateway.turn();
        while let Some(pair) = listing.entries.pop() {
            pairs.push(pair);
        }
    }
    while gateway.mailbox.spent.pop().is_some() {}
    pairs
}

#[test]
fn the_operator_hears_of_ports_that_run_low() {
    let mut gateway = of_ports(100, 1);
    let low = |pressure, used| Event::LocalPortsLow {
        server: server_ip(1).into(),
        server_port: SERVER_PORT,
        protocol: 6,
        pressure,
        used,
        capacity: 100,
    };
    for n in 0..94 {
        gateway.establish(client(1, 1024 + n), WEB);
    }
    assert_eq!(gateway.events(), [low(Pressure::High, 80)]);
    for n in 94..100 {
        gateway.establish(client(1, 1024 + n), WEB);
    }
    assert_eq!(gateway.events(), [low(Pressure::Critical, 95)]);
    // All end, and come again: a rise of its own.
    gateway.pass(seconds(910));
    assert_eq!(gateway.ports_in_use(), 0);
    for n in 0..100 {
        gateway.establish(client(2, 1024 + n), WEB);
    }
    assert_eq!(
        gateway.events(),
        [low(Pressure::High, 80), low(Pressure::Critical, 95)]
    );
}

/// In both families at once: each server has the ports of its own family's addresses, and its own marks.
#[test]
fn ports_that_run_low_are_those_of_the_servers_family() {
    let mut plan = Plan::dual_web(Mode::Fullnat, Protocol::Tcp, 1, SERVER_PORT);
    plan.use_locals(both_pool(2, 10_000, 10_049));
    let mut gateway = Gateway::new(plan);
    for family in Family::BOTH {
        let low = |pressure, used| Event::LocalPortsLow {
            server: family.server(1, SERVER_PORT).ip(),
            server_port: SERVER_PORT,
            protocol: 6,
            pressure,
            used,
            capacity: 100,
        };
        for n in 0..100 {
            gateway.open_both(family.client(1, 1024 + n), family.vip(80));
        }
        assert_eq!(
            gateway.events(),
            [low(Pressure::High, 80), low(Pressure::Critical, 95)]
        );
    }
    let mut told: Vec<_> = pairs(&mut gateway)
        .iter()
        .map(|report| (report.pair.local, report.pair.server, report.usage.used))
        .collect();
    told.sort();
    let expected = Family::BOTH.map(|family| {
        let server = family.server(1, SERVER_PORT).ip();
        [0, 1].map(|n| (family.local(n), server, 50))
    });
    assert_eq!(told, expected.concat());
}

#[test]
fn an_address_of_ipv6_drains() {
    let (family, mut plan) = (
        Family::V6,
        Plan::dual_web(Mode::Fullnat, Protocol::Tcp, 1, SERVER_PORT),
    );
    plan.use_locals(both_pool(2, 10_000, 10_009));
    let mut gateway = Gateway::new(plan);
    let vip = family.vip(80);
    let clients = (0..10).map(|n| family.client(1, 1024 + n));
    let old: Vec<_> = clients.map(|from| (from, gateway.open_both(from, vip))).collect();
    let kept = old.iter().filter(|(_, (local, _))| local.ip() == family.local(0));
    assert_eq!(kept.count(), 5);
    // Both families' first address.
    let rest = Family::BOTH.map(|family| family.local(1));
    let locals = LipPool::new(rest, gateway.plan.locals.ports());
    gateway.change(|plan| {
        for slot in 0..2 {
            let pools = vec![Arc::new(locals.clone())];
            plan.edit(slot, |service| service.local_pools = pools);
        }
    });
    for n in 0..5 {
        let (local, _) = gateway.open_both(family.client(2, 1024 + n), vip);
        assert_eq!(local.ip(), family.local(1));
    }
    let late = Wire::tcp(family.client(3, 1024), vip, SYN, b"");
    let (dropped, _) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &late));
    assert_eq!(dropped, Some((DropReason::LocalPortsExhausted, 1)));
    for (from, (local, server)) in &old {
        let seen = gateway.towards_server(&Wire::tcp(*from, vip, PSH | ACK, b"more"));
        assert_eq!((seen.from, seen.to), (*local, *server));
        let seen = gateway.towards_client(&Wire::tcp(*server, *local, ACK, b""));
        assert_eq!((seen.from, seen.to), (vip, *from));
    }
    gateway.pass(seconds(910));
    assert_eq!(gateway.ports_in_use(), 0);
}

#[test]
fn a_warning_that_finds_no_room_is_given_later() {
    let mut gateway = of_ports(10, 1);
    while gateway.mailbox.events.push(Event::TableFull).is_ok() {}
    for n in 0..9 {
        gateway.establish(client(1, 1024 + n), WEB);
    }
    assert!(gateway.events().iter().all(|event| *event == Event::TableFull));
    gateway.establish(client(1, 2000), WEB);
    let [Event::LocalPortsLow { pressure, used, .. }] = gateway.events()[..] else {
        panic!("no warning");
    };
    assert_eq!((pressure, used), (Pressure::Critical, 10));
}

#[test]
fn ports_are_told_by_local_address_and_server() {
    let mut plan = Plan::web(Mode::Fullnat, 4);
    plan.use_locals(pool(2, 10_000, 10_099));
    let mut gateway = Gateway::new(plan);
    for n in 0..80 {
        gateway.establish(client(1, 1024 + n), WEB);
    }
    let told = pairs(&mut gateway);
    let ends: HashSet<_> = told
        .iter()
        .map(|report| (report.pair.local, report.pair.server))
        .collect();
    assert_eq!((told.len(), ends.len()), (8, 8));
    assert_eq!(told.iter().map(|report| report.usage.used).sum::<u32>(), 80);
    assert!(told.iter().all(|report| report.usage.capacity == 100));
}

#[test]
fn a_removed_address_takes_no_new_connection_and_keeps_those_that_it_has() {
    let mut gateway = of_ports(100, 2);
    let old: Vec<_> = (0..20)
        .map(|n| (client(1, 1024 + n), gateway.establish(client(1, 1024 + n), WEB)))
        .collect();
    assert_eq!(old.iter().filter(|(_, local)| *local.ip() == LIP).count(), 10);
    drain(&mut gateway, 1);
    for n in 0..100 {
        // The other address has 90 ports left, and no more can be had.
        let sent = gateway.inbound(&Sent::tcp(client(2, 1024 + n), WEB, SYN));
        let from: Vec<_> = sent.iter().map(|seen| *seen.from.ip()).collect();
        let expected = [Ipv4Addr::new(10, 0, 0, 201)];
        assert_eq!(from, if n < 90 { &expected[..] } else { &[] });
    }
    assert_eq!(gateway.drops(DropReason::LocalPortsExhausted), 10);
    for (from, local) in &old {
        let seen = gateway.forward(&Sent::tcp(*from, WEB, PSH | ACK).data(b"more"));
        assert_eq!((seen.from, seen.to), (*local, server(1)));
        let seen = gateway.answer(&Sent::tcp(server(1), *local, ACK));
        assert_eq!((seen.from, seen.to), (WEB, *from));
    }
    for (from, _) in &old {
        gateway.finish(*from, WEB);
    }
    gateway.pass(seconds(910));
    assert_eq!(gateway.ports_in_use(), 0);
    // It comes back, and serves again.
    drain(&mut gateway, 0);
    let locals: HashSet<_> = (0..4)
        .map(|n| *gateway.establish(client(3, 1024 + n), WEB).ip())
        .collect();
    assert_eq!(locals.len(), 2);
}

#[derive(Clone, Debug)]
enum Step {
    /// A client opens a connection, or goes on with one.
    Open(u16),
    /// Both ends close, in turn.
    Finish(u16),
    Reset(u16),
    /// The server resets.
    ServerReset(u16),
    /// Seconds.
    Pass(u32),
    /// Servers that the service has from now on, as bits.
    Servers(u8),
    /// So many local addresses drain.
    Drain(usize),
    /// The service goes, and comes back.
    Service,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let clients = 1..60u16;
    let step = prop_oneof![
        12 => clients.clone().prop_map(Step::Open),
        3 => clients.clone().prop_map(Step::Finish),
        2 => clients.clone().prop_map(Step::Reset),
        2 => clients.prop_map(Step::ServerReset),
        2 => prop_oneof![1..5u32, 50..200u32].prop_map(Step::Pass),
        1 => (0..8u8).prop_map(Step::Servers),
        1 => (0..=3usize).prop_map(Step::Drain),
        1 => Just(Step::Service),
    ];
    prop::collection::vec(step, 1..150)
}

struct Life {
    gateway: Gateway,
    servers: Vec<Server>,
    /// Local addresses that are drained now.
    drained: Vec<IpAddr>,
}

impl Life {
    fn new(expire_nodest_conn: bool, ports: u16) -> Life {
        let mut plan = Plan::web(Mode::Fullnat, 3);
        plan.settings.expire_nodest_conn = expire_nodest_conn;
        plan.use_locals(pool(3, 10_000, 9_999 + ports));
        let servers = plan.services[0].as_ref().unwrap().servers.clone();
        Life {
            gateway: Gateway::new(plan),
            servers,
            drained: vec![],
        }
    }

    fn step(&mut self, step: &Step) {
        let gateway = &mut self.gateway;
        let from = |n: u16| client((n % 3) as u8 + 1, 1024 + n);
        match *step {
            Step::Open(n) => {
                let opened = gateway.stats.opened.get();
                let sent = gateway.inbound(&Sent::tcp(from(n), WEB, SYN));
                let new = gateway.stats.opened.get() > opened;
                for seen in sent.iter().filter(|seen| seen.port == 1) {
                    assert!(
                        !new || !self.drained.contains(&IpAddr::V4(*seen.from.ip())),
                        "a drained address"
                    );
                    gateway.outbound(&Sent::tcp(seen.to, seen.from, SYN | ACK));
                    gateway.inbound(&Sent::tcp(from(n), WEB, ACK));
                }
            }
            Step::Finish(n) => {
                for seen in gateway.inbound(&Sent::tcp(from(n), WEB, FIN | ACK)) {
                    gateway.outbound(&Sent::tcp(seen.to, seen.from, FIN | ACK));
                }
            }
            Step::Reset(n) => drop(gateway.inbound(&Sent::tcp(from(n), WEB, RST))),
            Step::ServerReset(n) => {
                for seen in gateway.inbound(&Sent::tcp(from(n), WEB, ACK)) {
                    gateway.outbound(&Sent::tcp(seen.to, seen.from, RST));
                }
            }
            Step::Pass(duration) => drop(gateway.pass(seconds(duration))),
            Step::Servers(bits) => {
                let all = self.servers.iter().enumerate();
                let servers: Vec<_> = all
                    .filter(|(n, _)| bits & 1 << n != 0)
                    .map(|(_, server)| server.clone())
                    .collect();
                gateway.change(|plan| plan.edit(0, |service| service.servers = servers));
            }
            Step::Drain(count) => {
                self.drained = gateway.plan.locals.addresses()[..count].to_vec();
                drain(gateway, count);
            }
            Step::Service => {
                let service = gateway.plan.services[0].take();
                gateway.change(|_| {});
                gateway.change(|plan| plan.services[0] = service);
            }
        }
    }

    /// Each connection has one port, and each port in use one connection.
    fn check(&mut self) {
        let connections = self.gateway.connections();
        let used: u32 = pairs(&mut self.gateway)
            .iter()
            .map(|report| report.usage.used)
            .sum();
        let in_use = self.gateway.ports_in_use();
        assert_eq!((used, in_use as usize), (in_use, connections.len()));
        self.gateway.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// LPORT-02: whatever happens to connections, servers and addresses, no port is lost and none is used twice.
    #[test]
    fn no_port_leaks(steps in steps(), expire_nodest_conn: bool, ports in 1..12u16) {
        let mut life = Life::new(expire_nodest_conn, ports);
        for step in &steps {
            life.step(step);
            life.check();
        }
        life.gateway.pass(seconds(910));
        prop_assert_eq!((life.gateway.ports_in_use(), life.gateway.stats.connections.get()), (0, 0));
        life.step(&Step::Drain(0));
        life.step(&Step::Servers(7));
        // All of them serve again: 3 addresses towards 3 servers.
        for n in 0..u16::from(9u8) * ports {
            life.gateway.establish(client(9, 1024 + n), WEB);
        }
        life.check();
        prop_assert_eq!(life.gateway.inbound(&Sent::tcp(client(9, 60_000), WEB, SYN)), []);
    }
}
