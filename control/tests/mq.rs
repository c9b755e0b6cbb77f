//! Services whose ports are queues, each with a pool and a scheduler of its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use dataplane::drops::DropReason;
use dataplane::packet::{MacAddr, checksum};
use dataplane::scheduler::SchedulerKind;
use dataplane::service::{PortSettings, Protocol, ServiceKey};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use tidegate::config::{self, Config};
use tidegate::ipvsadm;
use tidegate::model::{CommandError, Model};
use tidegate::replay::{Outcome, Replay};

const BASE: &str = r#"
node: { limits: { connections: 1000, services: 16, servers: 16, neighbours: 16 } }
ports:
  - { name: wan, device: net_null0, mac: 02:00:00:00:00:a1, addresses: [203.0.113.2/24], arp_announce: false }
  - { name: lan, device: net_null1, mac: 02:00:00:00:00:a2, addresses: [10.0.0.1/24], arp_announce: false }
neighbours:
  - { address: 10.0.0.11, mac: 02:00:00:00:00:11 }
  - { address: 10.0.0.12, mac: 02:00:00:00:00:12 }
  - { address: 10.0.0.13, mac: 02:00:00:00:00:13 }
  - { address: 10.0.0.14, mac: 02:00:00:00:00:14 }
pools:
  - { name: web, servers: [{ address: 10.0.0.11 }, { address: 10.0.0.12 }] }
  - { name: tls, servers: [{ address: 10.0.0.13 }, { address: 10.0.0.14 }] }
services:
  - name: shop
    listen: 203.0.113.100/tcp
    mode: dr
    scheduler: mq
    on_remove: drain
    limits: { connections: 12 }
    queues:
      - { port: 80, pool: web, scheduler: rr }
      - { port: 443, pool: tls, scheduler: sh, scheduler_flags: sh-port }
"#;

const VIP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 100);

fn parse(text: &str) -> Config {
    config::parse("gateway.yaml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn key(port: u16) -> ServiceKey {
    ServiceKey::new(VIP.into(), port, Protocol::Tcp)
}

fn model(text: &str) -> Model {
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
    model.apply_file(&parse(text)).unwrap();
    model
}

#[test]
fn a_service_with_queues_is_one_for_each_port() {
    let config = parse(BASE);
    assert_eq!(config.warnings, []);
    let told: Vec<_> = config
        .services
        .iter()
        .map(|service| {
            (
                service.name.as_str(),
                service.queue_of.as_deref(),
                service.listeners[0].to_string(),
                config.pools[service.pool].name.as_str(),
                service.scheduler,
                service.scheduler_flags.bits(),
                service.policy.limits.connections,
            )
        })
        .collect();
    let queue = |name, port: u16, pool, scheduler, flags| {
        let listen = format!("203.0.113.100:{port}/tcp");
        (name, Some("shop"), listen, pool, scheduler, flags, 12)
    };
    assert_eq!(
        told,
        [
            queue("shop:80", 80, "web", SchedulerKind::Rr, 0),
            queue("shop:443", 443, "tls", SchedulerKind::Sh, 2),
        ]
    );
}

#[test]
fn queues_of_both_families_have_a_listener_in_each() {
    let text = BASE
        .replace("[203.0.113.2/24]", "[203.0.113.2/24, \"2001:db8::2/64\"]")
        .replace("[10.0.0.1/24]", "[10.0.0.1/24, \"2001:db8:1::1/64\"]")
        .replace(
            "listen: 203.0.113.100/tcp",
            "listen: [203.0.113.100/tcp, \"2001:db8::100/tcp\", \"[2001:db8::101]/udp\"]",
        )
        .replace("mode: dr", "mode: tun")
        .replace("limits: { connections: 12 }", "slow_start: 10\n    bound: 1.25")
        .replace("scheduler: rr", "scheduler: wrr")
        .replace("scheduler: sh, scheduler_flags: sh-port", "scheduler: mh");
    let config = parse(&text);
    let listeners = |at: usize| {
        let listeners = config.services[at].listeners.iter();
        listeners.map(ToString::to_string).collect::<Vec<_>>()
    };
    let of = |port: u16| {
        [
            format!("203.0.113.100:{port}/tcp"),
            format!("[2001:db8::100]:{port}/tcp"),
            format!("[2001:db8::101]:{port}/udp"),
        ]
    };
    assert_eq!((listeners(0), listeners(1)), (of(80).to_vec(), of(443).to_vec()));
}

/// RLD-01: a queue that comes or goes leaves the others, and their connections, where they are.
#[test]
fn a_queue_comes_and_goes_and_the_others_stay() {
    let mut model = model(BASE);
    let before = model.snapshot();
    let more = format!("{BASE}      - {{ port: 8080, pool: web }}\n");
    let changes = model.apply_file(&parse(&more)).unwrap();
    assert_eq!(
        (
            changes.services_added,
            changes.services_changed,
            changes.servers_added
        ),
        (1, 0, 2)
    );
    let with = model.snapshot();
    for port in [80, 443] {
        assert!(Arc::ptr_eq(
            before.find(&key(port)).unwrap(),
            with.find(&key(port)).unwrap()
        ));
    }
    assert_eq!(with.find(&key(8080)).unwrap().scheduler, SchedulerKind::Wlc);
    let changes = model.apply_file(&parse(BASE)).unwrap();
    assert_eq!((changes.services_removed, changes.servers_removed), (1, 2));
    let entry = model.service(&key(443)).unwrap();
    assert!(entry.is_called("shop") && entry.is_called("shop:443") && !entry.is_called("shop:80"));
    // A queue that becomes a service of its own keeps its slot.
    let own = BASE.replace("      - { port: 80, pool: web, scheduler: rr }\n", "")
        + "  - { name: plain, listen: \"203.0.113.100:80/tcp\", mode: dr, pool: web, scheduler: rr }\n";
    let slot = model.service(&key(80)).unwrap().service.slot;
    let changes = model.apply_file(&parse(&own)).unwrap();
    assert_eq!((changes.services_added, changes.services_removed), (0, 0));
    let entry = model.service(&key(80)).unwrap();
    assert_eq!((entry.service.slot, &entry.queue_of), (slot, &None));
}

#[test]
fn ipvsadm_is_told_to_add_a_service_for_each_port() {
    let mut model = model(BASE);
    let mut run = |line: &str| model.apply_command(&ipvsadm::parse_line(line).unwrap());
    let refused = run("-A -t 203.0.113.100:81 -s mq").unwrap_err();
    assert_eq!(refused, CommandError::Queues);
    assert!(
        refused.to_string().contains("add a service for each port"),
        "{refused}"
    );
    assert_eq!(
        run("-E -t 203.0.113.100:80 -s mq").unwrap_err(),
        CommandError::Queues
    );
    // A queue is a service as any other.
    run("-E -t 203.0.113.100:80 -s wrr").unwrap();
    assert_eq!(
        model.service(&key(80)).unwrap().service.scheduler,
        SchedulerKind::Wrr
    );
}

/// An edit by ipvsadm leaves the operator's mark; a reload makes the table what the file says.
#[test]
fn a_mark_stays_through_edits_until_a_reload() {
    let mut model = model(BASE);
    let marked = model.mark_overloaded("shop", |server| server.ip().to_string() == "10.0.0.11", true);
    assert_eq!(marked.len(), 1);
    let is_marked = |model: &Model| {
        let servers = &model.service(&key(80)).unwrap().service.servers;
        servers
            .iter()
            .map(|server| (server.weight, server.overloaded))
            .collect::<Vec<_>>()
    };
    let edit = ipvsadm::parse_line("-e -t 203.0.113.100:80 -r 10.0.0.11 -g -w 5").unwrap();
    model.apply_command(&edit).unwrap();
    assert_eq!(is_marked(&model), [(1, false), (5, true)]);
    let changes = model.apply_file(&parse(BASE)).unwrap();
    assert_eq!(
        (changes.servers_changed, is_marked(&model)),
        (1, vec![(1, false), (1, false)])
    );
    let said = BASE.replace(
        "{ address: 10.0.0.11 }",
        "{ address: 10.0.0.11, overloaded: true }",
    );
    model.apply_file(&parse(&said)).unwrap();
    assert_eq!(is_marked(&model), [(1, false), (1, true)]);
}

/// A SYN from 203.0.113.50.
fn syn(client_port: u16, port: u16) -> Vec<u8> {
    let client = Ipv4Addr::new(203, 0, 113, 50);
    let mut segment = [0; 20];
    segment[..2].copy_from_slice(&client_port.to_be_bytes());
    segment[2..4].copy_from_slice(&port.to_be_bytes());
    segment[12..16].copy_from_slice(&[0x50, 0x02, 0xff, 0xff]);
    let sum = !checksum::l4_sum(client, VIP, 6, &segment);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut header = [0; 20];
    header[..4].copy_from_slice(&[0x45, 0, 0, 40]);
    header[8..10].copy_from_slice(&[64, 6]);
    header[12..16].copy_from_slice(&client.octets());
    header[16..20].copy_from_slice(&VIP.octets());
    let sum = !checksum::sum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut frame = vec![2, 0, 0, 0, 0, 0xa1, 2, 0, 0, 0, 0, 0x50, 8, 0];
    frame.extend(header);
    frame.extend(segment);
    frame
}

/// The last byte of the MAC address that each SYN went on to; none for one that did not.
fn connect(gateway: &mut Replay, clients: std::ops::Range<u16>, port: u16) -> Vec<Option<u8>> {
    let went = clients.map(|client| {
        let outcomes = gateway.inject(0, &syn(client, port));
        outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Sent(1, frame) => Some(frame[5]),
            _ => None,
        })
    });
    went.collect()
}

/// Two ports, two pools, two schedulers: `rr` takes turns, `sh` goes by the client, and neither sees the other's pool.
#[test]
fn each_queue_picks_by_its_own_scheduler_from_its_own_pool() {
    let mut gateway = Replay::new(&parse(BASE)).unwrap();
    let web = connect(&mut gateway, 1000..1008, 80);
    assert_eq!(web[..4], [Some(0x12), Some(0x11), Some(0x12), Some(0x11)]);
    let tls = connect(&mut gateway, 1000..1012, 443);
    let mut count: HashMap<_, usize> = HashMap::new();
    tls.iter()
        .for_each(|server| *count.entry(*server).or_default() += 1);
    assert_eq!(count.len(), 2, "{count:?}");
    assert!(
        count.contains_key(&Some(0x13)) && count.contains_key(&Some(0x14)),
        "{count:?}"
    );
    // The limit of 12 is each queue's own: one is full, and the other has room for four.
    let dropped = gateway.inject(0, &syn(2000, 443));
    assert!(
        dropped.contains(&Outcome::Dropped(DropReason::ServiceLimit)),
        "{dropped:?}"
    );
    let more = connect(&mut gateway, 2000..2005, 80);
    assert_eq!(more.iter().flatten().count(), 4);
    // No other port is served.
    assert_eq!(connect(&mut gateway, 3000..3001, 81), [None]);
    // By the client and its port, also when it comes back to the other queue in between.
    let again = Replay::new(&parse(BASE)).map(|mut gateway| connect(&mut gateway, 1000..1012, 443));
    assert_eq!(again.unwrap(), tls);
}
