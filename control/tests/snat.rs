//! Rules of SNAT: what the file says of them, and a file with other rules applied to a running model.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use dataplane::flow::{TcpState, Timeouts};
use dataplane::neighbour::AddressClass;
use dataplane::packet::MacAddr;
use dataplane::service::{PortSettings, Snapshot, SnatQuery, SnatRule};
use dataplane::time::seconds;
use std::sync::Arc;
use tidegate::config::{self, Config, SnatProtocol};
use tidegate::model::{Changes, Model, ModelError, SlotOwner};

const BASE: &str = r#"
node: { limits: { services: 4, servers: 4 } }
ports:
  - { name: wan, device: net_null0, addresses: [203.0.113.2/24, "2001:db8:1::2/64"] }
  - { name: lan, device: net_null1, addresses: [10.0.0.1/24, "fd00::1/64"] }
routes: [{ to: default, via: 203.0.113.1 }, { to: default6, via: "2001:db8:1::1" }]
local_addresses:
  - { name: egress, port: wan, addresses: [203.0.113.200-201, "2001:db8:1::200"] }
  - { name: only4, port: wan, addresses: 203.0.113.210 }
timeouts: { udp: 100, icmp: 20 }
snat:
  - { name: inside, source: 10.0.0.0/8, destination: 10.0.0.0/8, exempt: true }
  - name: office
    source: [10.0.0.0/16, 10.9.0.7]
    destination: 0.0.0.0/0
    protocol: [tcp, udp, icmp]
    local_addresses: [only4, egress]
    timeouts: { tcp: { established: 2h }, udp: 60s }
    connections_per_client: 1000
  - { name: six, source: "fd00::/64", protocol: icmp, local_addresses: [only4, egress] }
"#;

fn parse(text: &str) -> Config {
    config::parse("gateway.yaml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn model(config: &Config) -> Model {
    let mut model = empty(config, config.node.limits.servers);
    model.apply_file(config).unwrap();
    model
}

fn empty(config: &Config, servers: u32) -> Model {
    let ports = config.ports.iter().map(|port| PortSettings {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        any_mac: false,
        vlan: None,
        mtu: 1500,
        addresses: port.own_addresses(),
        check_partial: false,
        exception_rate: 0,
    });
    Model::new(ports.collect(), 1, config.node.limits.services, servers)
}

/// The rule of that name in a snapshot of the model.
fn rule(model: &Model, name: &str) -> SnatRule {
    let mut rules = model.snat();
    let found = rules.find(|(known, _)| &***known == name);
    found.map(|(_, rule)| rule.clone()).unwrap()
}

#[test]
fn a_rule_means_what_it_says() {
    let config = parse(BASE);
    assert_eq!(config.warnings, []);
    let [inside, office, six] = &config.snat[..] else {
        panic!("three rules")
    };
    assert!(inside.exempt && inside.local_addresses.is_empty() && inside.timeouts.is_none());
    let sources: Vec<String> = office.sources.iter().map(ToString::to_string).collect();
    assert_eq!(sources, ["10.0.0.0/16", "10.9.0.7/32"]);
    let of_ping = [SnatProtocol::Tcp, SnatProtocol::Udp, SnatProtocol::Icmp];
    assert_eq!(
        (
            &office.protocols[..],
            office.client_limit,
            &office.local_addresses[..]
        ),
        (&of_ping[..], 1000, &[1, 0][..])
    );
    // What the rule's own timeouts leave out is as in the file, and there as ever.
    let mut expected = Timeouts::default();
    expected.tcp[TcpState::Established as usize] = seconds(7200);
    (expected.udp, expected.icmp) = (seconds(60), seconds(20));
    assert_eq!(office.timeouts, Some(expected));
    assert_eq!(config.settings.timeouts.udp, seconds(100));
    assert!(six.is_ipv6() && six.destinations.is_empty());
}

#[test]
fn rules_of_the_model_are_those_of_the_file_in_their_family() {
    let mut model = model(&parse(BASE));
    let snapshot = model.snapshot();
    let names: Vec<&str> = model.snat().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["inside", "office", "six"]);
    assert_eq!(snapshot.snat.rules().len(), 3);
    let groups = |name| -> Vec<usize> {
        let pools = rule(&model, name).local_pools;
        let place = |pool| {
            model
                .local_groups()
                .iter()
                .position(|group| Arc::ptr_eq(&group.pool, pool))
        };
        pools.iter().filter_map(place).collect()
    };
    // In the order of the rule, and without those that have no address of its family.
    assert_eq!(groups("office"), [1, 0]);
    assert_eq!(groups("six"), [0]);
    assert_eq!(rule(&model, "office").protocols, [6, 17, 1]);
    assert_eq!(rule(&model, "six").protocols, [58]);
    let found = |source: [u8; 4], destination: [u8; 4]| {
        let query = SnatQuery {
            source: source.into(),
            destination: destination.into(),
            protocol: 17,
            port: Some(53),
        };
        snapshot.snat.find(&query).map(|rule| rule.slot)
    };
    let slot = |name| Some(rule(&model, name).slot);
    assert_eq!(found([10, 9, 0, 7], [192, 0, 2, 1]), slot("office"));
    assert_eq!(found([10, 9, 0, 7], [10, 0, 0, 9]), slot("inside"));
    assert_eq!(found([10, 9, 0, 8], [192, 0, 2, 1]), None);
    for name in names {
        assert!(snapshot.server_present(rule(&model, name).slot), "{name}");
    }
}

fn changes(added: usize, changed: usize, removed: usize) -> Changes {
    Changes {
        snat_added: added,
        snat_changed: changed,
        snat_removed: removed,
        ..Changes::default()
    }
}

#[test]
fn a_reload_goes_by_the_names_of_rules() {
    let mut model = model(&parse(BASE));
    let before = model.snapshot();
    let slots = ["inside", "office", "six"].map(|name| rule(&model, name).slot);
    assert_eq!(model.apply_file(&parse(BASE)).unwrap(), Changes::default());
    assert!(Arc::ptr_eq(&before.snat, &model.snapshot().snat));

    let edited = BASE.replace("connections_per_client: 1000", "connections_per_client: 5");
    let edited = edited.replace("name: six", "name: echo6");
    let made = model.apply_file(&parse(&edited)).unwrap();
    assert_eq!(made, changes(1, 1, 1));
    assert!(
        made.to_string()
            .ends_with("; SNAT rules: 1 added, 1 changed, 1 removed"),
        "{made}"
    );
    assert_eq!(rule(&model, "office").slot, slots[1]);
    assert_eq!(rule(&model, "office").client_limit, 5);
    let snapshot = model.snapshot();
    assert!(!snapshot.server_present(slots[2]) && snapshot.server_present(rule(&model, "echo6").slot));

    // Back, and in another order: two of the three stand elsewhere.
    model.apply_file(&parse(BASE)).unwrap();
    let (head, tail) = BASE.split_once("  - { name: inside").unwrap();
    let (first, rest) = tail.split_once('\n').unwrap();
    let turned = format!("{head}{rest}  - {{ name: inside{first}\n");
    assert_eq!(model.apply_file(&parse(&turned)).unwrap(), changes(0, 3, 0));
    assert_eq!(
        ["inside", "office", "six"].map(|name| rule(&model, name).slot),
        slots
    );
}

/// A rule that comes back while connections of it are there is the same one; else its slot is another's.
#[test]
fn a_removed_rule_keeps_its_slot_while_connections_name_it() {
    let mut model = model(&parse(BASE));
    let slot = rule(&model, "six").slot;
    let (without, _) = BASE.split_once("  - { name: six").unwrap();
    let without = parse(without);
    assert_eq!(model.apply_file(&without).unwrap(), changes(0, 0, 1));
    assert_eq!(model.reclaim(|_| 1), []);
    model.apply_file(&parse(BASE)).unwrap();
    assert_eq!(rule(&model, "six").slot, slot);

    model.apply_file(&without).unwrap();
    let freed = model.reclaim(|_| 0);
    assert_eq!(freed, [(SlotOwner::Snat("six".into()), slot)]);
    assert_eq!(model.departing_servers().count(), 0);
}

/// Rules and servers share the slots.
#[test]
fn rules_beyond_the_limit_of_servers_are_refused() {
    let full = BASE.replace("servers: 4", "servers: 2");
    let error = config::parse("t", &full).unwrap_err().to_string();
    assert!(
        error.contains(
            "node.limits.servers: 3 servers, counting each once for each listener of its services, and \
                        rules of `snat`, and there is room for 2; write `servers: 3` or more"
        ),
        "{error}"
    );
    let mut config = parse(BASE);
    let mut small = empty(&config, 2);
    assert_eq!(small.apply_file(&config), Err(ModelError::Servers));
    config.snat.pop();
    assert_eq!(small.apply_file(&config).unwrap().snat_added, 2);
}

/// An address that leaves a rule's group drains as one of a service does.
#[test]
fn local_addresses_of_rules_drain() {
    let mut model = model(&parse(BASE));
    let less = BASE.replace("203.0.113.200-201", "203.0.113.201");
    let made = model.apply_file(&parse(&less)).unwrap();
    // Both rules that use the group have other addresses now.
    assert_eq!((made.locals_draining, made.snat_changed), (1, 2));
    let class = |snapshot: &Snapshot| snapshot.addresses.class([203, 0, 113, 200].into());
    assert_eq!(class(&model.snapshot()), AddressClass::Local);
    assert_eq!(model.release_drained(|_| true).unwrap().len(), 1);
    assert_eq!(class(&model.snapshot()), AddressClass::None);
}

#[test]
fn too_many_rules_are_refused() {
    let (head, _) = BASE.split_once("  - { name: inside").unwrap();
    let rules = |count: usize| -> String {
        let rule = |n| {
            format!(
                "  - {{ name: r{n}, source: 10.0.{}.{}, exempt: true }}\n",
                n / 250,
                n % 250
            )
        };
        (0..count).map(rule).collect()
    };
    let wide = head.replace("servers: 4", "servers: 2000") + &rules(1000);
    assert_eq!(parse(&wide).snat.len(), 1000);
    let error = config::parse(
        "t",
        &(wide + "  - { name: more, source: 10.9.9.9, exempt: true }\n"),
    )
    .unwrap_err();
    assert!(
        error.to_string().contains("1001 rules; write at most 1000"),
        "{error}"
    );
}
