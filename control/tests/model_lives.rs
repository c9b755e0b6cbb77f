//! What the file and commands say of the lives of connections, and weights that rise.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use dataplane::flow::TcpState;
use dataplane::packet::MacAddr;
use dataplane::service::{OnRemove, PortSettings, Protocol, ServiceKey, Snapshot};
use dataplane::time::seconds;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use tidegate::config::{self, Config};
use tidegate::ipvsadm;
use tidegate::model::Model;

const BASE: &str = r#"
ports:
  - { name: wan, device: net_null0, addresses: [203.0.113.2/24] }
  - { name: lan, device: net_null1, addresses: [10.0.0.1/24] }
timeouts: { tcp: { close: 3 } }
pools: [{ name: web, servers: [{ address: 10.0.0.11, weight: 2 }, { address: 10.0.0.12 }] }]
services:
  - name: web
    listen: "203.0.113.100:80/tcp"
    pool: web
    mode: nat
    scheduler: wlc
    on_remove: reset
    timeouts: { tcp: { established: 60 } }
    limits: { connections: 5 }
    slow_start: 30
"#;

fn parse(text: &str) -> Config {
    config::parse("gateway.yaml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn model(config: &Config) -> Model {
    let port = PortSettings {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        any_mac: false,
        vlan: None,
        mtu: 1500,
        addresses: Vec::new(),
        check_partial: false,
        exception_rate: 0,
    };
    let mut model = Model::new(vec![port.clone(), port], 1, 16, 16);
    model.apply_file(config).unwrap();
    model
}

fn run(model: &mut Model, line: &str) {
    model.apply_command(&ipvsadm::parse_line(line).unwrap()).unwrap();
}

const WEB: ServiceKey = ServiceKey::new(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 100)), 80, Protocol::Tcp);

fn at(model: &mut Model, second: u64) -> Arc<Snapshot> {
    model.set_time(Duration::from_secs(second));
    model.snapshot()
}

/// Weights by the last byte of the server's address.
fn weights(snapshot: &Snapshot) -> Vec<(u8, u32)> {
    let servers = snapshot.find(&WEB).unwrap().servers.iter();
    let mut weights: Vec<(u8, u32)> = servers
        .map(|server| match server.address {
            IpAddr::V4(address) => (address.octets()[3], server.weight),
            IpAddr::V6(_) => panic!("IPv4"),
        })
        .collect();
    weights.sort_unstable();
    weights
}

#[test]
fn commands_leave_what_they_cannot_say_as_the_file_has_it() {
    let mut model = model(&parse(BASE));
    run(&mut model, "-E -t 203.0.113.100:80 -s wrr");
    run(&mut model, "--set 1000 20 30");
    let snapshot = model.snapshot();
    let web = snapshot.find(&WEB).unwrap();
    assert_eq!(web.policy.on_remove, OnRemove::Reset);
    assert_eq!(web.policy.limits.connections, 5);
    let timeouts = web.timeouts.as_deref().unwrap();
    assert_eq!(timeouts.tcp[TcpState::Established as usize], seconds(60));
    assert_eq!(timeouts.tcp[TcpState::Close as usize], seconds(3));
    assert_eq!(snapshot.settings.timeouts.udp, seconds(30));
}

/// `-p` says all of persistence but its bound.
#[test]
fn a_command_leaves_the_bound_of_persistence_as_the_file_has_it() {
    let mut model = model(&parse(&format!("{BASE}    persistence: {{ bound: 1.5 }}\n")));
    let kept = |model: &Model| model.service(&WEB).unwrap().service.persistence;
    let kept = |model: &Model| kept(model).map(|kept| (kept.timeout, kept.bound));
    assert_eq!(kept(&model), Some((seconds(360), 150)));
    run(&mut model, "-E -t 203.0.113.100:80 -s wrr -p 100");
    assert_eq!(kept(&model), Some((seconds(100), 150)));
    run(&mut model, "-E -t 203.0.113.100:80 -s wrr");
    assert_eq!(kept(&model), None);
}

/// The same file is the same service; each of its keys alone makes another.
#[test]
fn a_reload_tells_what_of_a_service_is_different() {
    let mut model = model(&parse(BASE));
    let before = model.snapshot();
    model.apply_file(&parse(BASE)).unwrap();
    let after = model.snapshot();
    assert!(Arc::ptr_eq(before.find(&WEB).unwrap(), after.find(&WEB).unwrap()));
    for (old, new) in [
        ("on_remove: reset", "on_remove: drain"),
        ("established: 60", "established: 61"),
        ("connections: 5", "connections: 6"),
        ("slow_start: 30", "slow_start: 31"),
        // What the service inherits is its own too.
        ("close: 3", "close: 4"),
    ] {
        let changed = BASE.replace(old, new);
        assert_eq!(
            model.apply_file(&parse(&changed)).unwrap().services_changed,
            1,
            "{new}"
        );
        assert_eq!(
            model.apply_file(&parse(BASE)).unwrap().services_changed,
            1,
            "{new}"
        );
    }
}

/// Connections name their service by its slot: another service does not get it before they have ended.
#[test]
fn a_removed_service_keeps_its_slot_while_its_servers_have_connections() {
    let mut model = model(&parse(BASE));
    let slot = model.snapshot().find(&WEB).unwrap().slot;
    run(&mut model, "-D -t 203.0.113.100:80");
    model.reclaim(|_| 1);
    run(&mut model, "-A -t 203.0.113.101:80");
    run(&mut model, "-A -t 203.0.113.102:80");
    let taken: Vec<u32> = model.services().map(|entry| entry.service.slot).collect();
    assert!(!taken.contains(&slot), "{taken:?}");
    model.reclaim(|_| 0);
    run(&mut model, "-A -t 203.0.113.103:80");
    assert!(model.services().any(|entry| entry.service.slot == slot));
}

#[test]
fn a_server_that_joins_rises_to_its_weight() {
    let mut model = model(&parse(BASE));
    assert_eq!(weights(&at(&mut model, 0)), [(11, 2), (12, 1)], "all at once");
    run(&mut model, "-a -t 203.0.113.100:80 -r 10.0.0.13 -m -w 4");
    let joined = at(&mut model, 100);
    assert_eq!(weights(&joined), [(11, 200), (12, 100), (13, 1)]);
    assert!(model.is_rising());
    let half = at(&mut model, 115);
    assert_eq!(weights(&half), [(11, 200), (12, 100), (13, 200)]);
    let revision = |snapshot: &Snapshot| snapshot.find(&WEB).unwrap().revision;
    assert_ne!(revision(&joined), revision(&half), "schedulers look again");
    assert_eq!(weights(&at(&mut model, 130)), [(11, 2), (12, 1), (13, 4)]);
    assert!(!model.is_rising());
    // The model itself, which is shown and saved, has the weights that were asked for.
    let told = model.service(&WEB).unwrap();
    assert!(told.service.servers.iter().any(|server| server.weight == 4));
}

/// What rises with each scheduler, 9 of 30 seconds after a server of weight 10 has joined: finer weights where only their
/// proportions count, whole ones where they are numbers of connections, and the share of hashed clients.
#[test]
fn each_scheduler_that_goes_by_weight_has_something_that_rises() {
    let finer = ("wrr wlc sed nq fo twos", [(11, 200), (12, 100), (13, 300)], 100);
    let whole = ("ovf lblc lblcr", [(11, 2), (12, 1), (13, 3)], 100);
    let share = ("sh mh", [(11, 2), (12, 1), (13, 10)], 30);
    for (schedulers, expected, share) in [finer, whole, share] {
        for scheduler in schedulers.split(' ') {
            let text = BASE.replace("scheduler: wlc", &format!("scheduler: {scheduler}"));
            let mut model = model(&parse(&text));
            at(&mut model, 0);
            run(&mut model, "-a -t 203.0.113.100:80 -r 10.0.0.13 -m -w 10");
            at(&mut model, 100);
            let rising = at(&mut model, 109);
            assert_eq!(weights(&rising), expected, "{scheduler}");
            let servers = rising.find(&WEB).unwrap().servers.iter();
            let (joined, others): (Vec<_>, Vec<_>) =
                servers.partition(|server| server.address.to_string() == "10.0.0.13");
            assert_eq!(
                (joined[0].hash_share, joined[0].table_weight),
                (share, 10),
                "{scheduler}"
            );
            assert!(
                others.iter().all(|server| server.hash_share == 100),
                "{scheduler}"
            );
            let risen = at(&mut model, 130);
            assert_eq!(weights(&risen), [(11, 2), (12, 1), (13, 10)], "{scheduler}");
            assert!(!model.is_rising(), "{scheduler}");
        }
    }
    for scheduler in ["rr", "lc", "dh"] {
        let text = BASE.replace("scheduler: wlc", &format!("scheduler: {scheduler}"));
        assert!(config::parse("gateway.yaml", &text).is_err(), "{scheduler}");
    }
}

#[test]
fn a_quiesced_server_that_returns_rises_and_a_lone_one_does_not() {
    let mut model = model(&parse(BASE));
    at(&mut model, 0);
    run(&mut model, "-e -t 203.0.113.100:80 -r 10.0.0.12 -m -w 0");
    assert_eq!(weights(&at(&mut model, 10)), [(11, 2), (12, 0)]);
    run(&mut model, "-e -t 203.0.113.100:80 -r 10.0.0.12 -m -w 1");
    assert_eq!(weights(&at(&mut model, 20)), [(11, 200), (12, 1)]);
    assert_eq!(weights(&at(&mut model, 35)), [(11, 200), (12, 50)]);
    // Both are gone, and one comes back: it is all that there is.
    for server in [11, 12] {
        run(
            &mut model,
            &format!("-e -t 203.0.113.100:80 -r 10.0.0.{server} -m -w 0"),
        );
    }
    at(&mut model, 40);
    run(&mut model, "-e -t 203.0.113.100:80 -r 10.0.0.12 -m -w 1");
    assert_eq!(weights(&at(&mut model, 41)), [(11, 0), (12, 1)]);
}
