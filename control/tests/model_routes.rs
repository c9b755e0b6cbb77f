//! Routes of the file, of the kernel, and both: which of them count.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use dataplane::neighbour::{Hops, RouteTable};
use dataplane::packet::{MacAddr, PortId};
use dataplane::service::PortSettings;
use std::sync::Arc;
use std::time::Instant;
use tidegate::config::{self, Config};
use tidegate::model::{LearntHop, LearntRoute, Model};

const WAN: PortId = PortId(0);
const LAN: PortId = PortId(1);

const BASE: &str = r#"
ports:
  - { name: wan, device: net_null0, addresses: [203.0.113.2/24, "2001:db8:1::2/64"], kernel_device: wan0 }
  - { name: lan, device: net_null1, addresses: [10.0.0.1/24], kernel_device: lan0 }
kernel_routes: main
routes:
  - { to: default, via: [203.0.113.1, { address: 10.0.0.254, weight: 3 }] }
  - { to: 10.1.0.0/16, via: 10.0.0.253 }
  - { to: 10.2.0.0/16, unreachable: true }
pools: [{ name: far, servers: [{ address: 172.16.0.1 }] }]
services: [{ name: far, listen: "203.0.113.100:80/tcp", pool: far, mode: nat }]
"#;

fn parse(text: &str) -> Config {
    config::parse("gateway.yaml", text).unwrap()
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

fn learnt(to: &str, hops: &[(PortId, &str)]) -> LearntRoute {
    let hop = |&(port, via): &(PortId, &str)| LearntHop {
        port,
        via: (via != "link").then(|| via.parse().unwrap()),
        weight: 1,
    };
    LearntRoute {
        to: to.parse().unwrap(),
        hops: hops.iter().map(hop).collect(),
    }
}

/// The ways to an address: port, gateway and weight of each.
fn ways(table: &RouteTable, to: &str) -> Vec<String> {
    match table.hops(to.parse().unwrap()) {
        None => vec![],
        Some(Hops::One(hop)) => vec![format!("{} {}", hop.port.0, hop.address)],
        Some(Hops::Several(hops)) => hops
            .iter()
            .map(|one| format!("{} {} x{}", one.hop.port.0, one.hop.address, one.weight))
            .collect(),
    }
}

#[test]
fn several_gateways_of_the_file_are_several_next_hops() {
    let config = parse(BASE);
    let routes = &model(&config).snapshot().routes;
    assert_eq!(ways(routes, "8.8.8.8"), ["0 203.0.113.1 x1", "1 10.0.0.254 x3"]);
    assert_eq!(ways(routes, "10.1.0.1"), ["1 10.0.0.253"]);
    assert_eq!(ways(routes, "10.2.0.1"), Vec::<String>::new());
}

#[test]
fn the_kernel_adds_routes_and_the_file_goes_before_it() {
    let config = parse(BASE);
    let mut model = model(&config);
    let of_kernel = vec![
        // On these prefixes the file or a port has said something.
        learnt("0.0.0.0/0", &[(WAN, "203.0.113.9")]),
        learnt("10.1.0.0/16", &[(LAN, "10.0.0.9")]),
        learnt("10.2.0.0/16", &[(LAN, "10.0.0.9")]),
        learnt("10.0.0.0/24", &[(WAN, "link")]),
        // On these it has not, be they longer or shorter.
        learnt("10.2.7.0/24", &[(LAN, "10.0.0.9")]),
        learnt("10.0.0.0/8", &[(WAN, "203.0.113.9"), (LAN, "10.0.0.9")]),
        learnt("198.51.100.0/24", &[(WAN, "link")]),
        learnt("172.16.0.0/12", &[(WAN, "203.0.113.11"), (WAN, "203.0.113.12")]),
        // A gateway that cannot be asked for its MAC address takes nothing else along.
        learnt("172.17.0.0/16", &[(WAN, "192.0.2.1")]),
        learnt("172.18.0.0/16", &[(WAN, "192.0.2.1"), (WAN, "203.0.113.12")]),
        learnt("172.19.0.0/16", &[(WAN, "10.0.0.9")]),
        // A router by its link-local address, on both links.
        learnt("2001:db8:c::/48", &[(WAN, "fe80::1"), (LAN, "fe80::1")]),
        learnt("::/0", &[(WAN, "2001:db8:1::1")]),
    ];
    assert!(model.learn_routes(of_kernel.clone(), &config).unwrap());
    let routes = Arc::clone(&model.snapshot().routes);
    let both = ["0 203.0.113.9 x1", "1 10.0.0.9 x1"];
    let pair = ["0 203.0.113.11 x1", "0 203.0.113.12 x1"];
    for (to, expected) in [
        ("8.8.8.8", &["0 203.0.113.1 x1", "1 10.0.0.254 x3"][..]),
        ("10.1.0.1", &["1 10.0.0.253"]),
        ("10.2.0.1", &[]),
        ("10.0.0.7", &["1 10.0.0.7"]),
        ("10.2.7.1", &["1 10.0.0.9"]),
        ("10.3.0.1", &both),
        ("198.51.100.7", &["0 198.51.100.7"]),
        ("172.16.0.1", &pair),
        ("172.17.0.1", &pair),
        ("172.18.0.1", &["0 203.0.113.12"]),
        ("172.19.0.1", &pair),
        ("2001:db8:c::1", &["0 fe80::1 x1", "1 fe80::1 x1"]),
        ("2001:db8:d::1", &["0 2001:db8:1::1"]),
    ] {
        assert_eq!(ways(&routes, to), expected, "{to}");
    }
    // The same once more is no change, whatever was left out of it; a reload keeps it.
    assert!(!model.learn_routes(of_kernel, &config).unwrap());
    model.apply_file(&config).unwrap();
    assert_eq!(*model.snapshot().routes, *routes);
    // A file that says something of a prefix takes it away from the kernel, and gives it back.
    let more = BASE.replace(
        "routes:\n",
        "routes:\n  - { to: 172.16.0.0/12, unreachable: true }\n",
    );
    model.apply_file(&parse(&more)).unwrap();
    assert_eq!(ways(&model.snapshot().routes, "172.16.0.1"), Vec::<String>::new());
    model.apply_file(&config).unwrap();
    assert_eq!(*model.snapshot().routes, *routes);
    // All is withdrawn.
    assert!(model.learn_routes(Vec::new(), &config).unwrap());
    assert_eq!(
        ways(&model.snapshot().routes, "2001:db8:c::1"),
        Vec::<String>::new()
    );
}

/// A server that nothing in the file leads to is no mistake where the kernel may know the way.
#[test]
fn a_server_may_be_behind_a_route_of_the_kernel() {
    let far = "routes: []\npools: [{ name: far, servers: [{ address: 172.16.0.1 }] }]\n\
               services: [{ name: far, listen: \"203.0.113.100:80/tcp\", pool: far, mode: nat }]\n";
    let port =
        "ports: [{ name: wan, device: net_null0, addresses: [203.0.113.2/24], kernel_device: wan0 }]\n";
    assert!(config::parse("f", &format!("{port}kernel_routes: 100\n{far}")).is_ok());
    let errors = config::parse("f", &format!("{port}{far}")).unwrap_err();
    assert!(errors.to_string().contains("no route leads to it"), "{errors}");
}

#[test]
fn ten_thousand_routes_are_taken_over_quickly() {
    let config = parse(BASE);
    let mut model = model(&config);
    let route = |number: u32| {
        let to = format!("172.{}.{}.0/24", 16 + number / 256, number % 256);
        let via = format!("203.0.113.{}", 10 + number % 4);
        learnt(&to, &[(WAN, &via), (WAN, "203.0.113.20")])
    };
    let mut all: Vec<LearntRoute> = (0..10_000).map(route).collect();
    let begun = Instant::now();
    assert!(model.learn_routes(all.clone(), &config).unwrap());
    let first = begun.elapsed();
    all.truncate(9_999);
    let begun = Instant::now();
    assert!(model.learn_routes(all, &config).unwrap());
    println!("10,000 routes: {first:?}, one change: {:?}", begun.elapsed());
    let routes = Arc::clone(&model.snapshot().routes);
    assert_eq!(
        ways(&routes, "172.16.5.1"),
        ["0 203.0.113.11 x1", "0 203.0.113.20 x1"]
    );
    assert_eq!(routes.shared_hops().len(), 7);
}
