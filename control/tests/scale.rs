//! Large configurations: what they cost in memory, and that they work at all. Times are for benchmarks.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::fmt::Write;
use tidegate::config;
use tidegate::replay::Replay;

const SERVICES: u32 = 10_000;
const SERVERS: u32 = 10;

/// 10,000 services of 10 servers with 4 local addresses: 400,000 pairs that may need local ports.
fn large() -> String {
    let mut text = String::from(
        "ports:
  - { name: wan, device: net_null0, addresses: [203.0.113.2/24] }
  - { name: lan, device: net_null1, addresses: [10.0.0.1/8] }
local_addresses: [{ name: dip, port: lan, addresses: [10.250.0.1-4] }]
pools:
",
    );
    for pool in 0..SERVICES {
        let servers: Vec<String> = (0..SERVERS)
            .map(|server| {
                format!(
                    "{{ address: 10.{}.{}.{} }}",
                    1 + pool / 200,
                    pool % 200,
                    1 + server
                )
            })
            .collect();
        let _ = writeln!(text, "  - {{ name: p{pool}, servers: [{}] }}", servers.join(", "));
    }
    text.push_str("services:\n");
    for service in 0..SERVICES {
        let _ = writeln!(
            text,
            "  - {{ name: s{service}, listen: \"203.0.113.{}:{}/tcp\", pool: p{service}, mode: fullnat, \
             local_addresses: dip }}",
            100 + service % 100,
            1000 + service / 100,
        );
    }
    text
}

fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn ten_thousand_services_of_ten_servers_start_in_less_than_a_gigabyte() {
    let config = config::parse("large.yaml", &large()).unwrap();
    let mut gateway = Replay::new(&config).unwrap();
    gateway.advance_to(10.0);
    assert_eq!(gateway.model().services().count(), SERVICES as usize);
    let resident = resident_mb();
    assert!(resident < 1000, "{resident} MB");
}
