//! Every example that we hand to operators is right, and none gives a warning.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::path::Path;

use dataplane::flow::Mode;
use tidegate::config;

fn configs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs")
}

#[test]
fn every_example_loads_without_a_warning() {
    let mut count = 0;
    let folders = ["", "bench", "ecmp", "failover"].map(|folder| configs().join(folder));
    let entries = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap());
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let config = config::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
            assert_eq!(config.warnings, [], "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 3, "examples are missing");
}

#[test]
fn the_fullnat_example_means_what_it_says() {
    let config = config::load(&configs().join("fullnat.yaml")).unwrap();
    assert_eq!(config.node.name, "gw1");
    assert_eq!(config.node.workers, config::Workers::Cpus(vec![1]));
    let [wan, lan] = &config.ports[..] else {
        panic!("two ports")
    };
    assert_eq!(
        (&*wan.name, wan.device().unwrap().argument()),
        ("wan", "net_af_packet0,iface=wan0")
    );
    assert_eq!(lan.addresses[0].prefix().to_string(), "10.0.0.0/24");
    assert_eq!((config.routes[0].to.length(), config.routes[0].port), (0, 0));
    let dip = &config.local_addresses[0];
    let addresses: Vec<String> = dip.addresses().map(|address| address.to_string()).collect();
    assert_eq!(
        addresses,
        [
            "10.0.0.200",
            "10.0.0.201",
            "10.0.0.202",
            "10.0.0.203",
            "2001:db8:2::200",
            "2001:db8:2::201",
            "2001:db8:2::202",
            "2001:db8:2::203"
        ]
    );
    assert_eq!((dip.port, dip.ports.first, dip.ports.last), (1, 1024, 65535));
    let web = &config.services[0];
    let server = config.pools[web.pool].servers[0];
    assert_eq!(
        (web.mode_of(&server), server.weight, server.port),
        (Mode::Fullnat, 2, Some(8080))
    );
    assert_eq!(web.listeners[0].to_string(), "203.0.113.100:80/tcp");
    assert_eq!(web.local_addresses, [0]);
    assert_eq!(
        config.services[1].listeners[0].to_string(),
        "[2001:db8:1::100]:80/tcp"
    );
    let dns = &config.services[2];
    assert_eq!(config.pools[dns.pool].servers[1].port_for(&dns.listeners[0]), 53);
    assert_eq!((web.place.line, web.place.column), (36, 5));
}
