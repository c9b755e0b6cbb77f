//! `tidegate replay` as an operator uses it: events in, what would happen out.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use serde_json::Value;
use tidegate::config;
use tidegate::replay::{Outcome, Replay, Scenario, Spread, run};

const GATEWAY: &str = r#"
node: { name: gw1, limits: { connections: 1000 } }
ports:
  - { name: wan, device: net_null0, mac: "02:00:00:00:00:01", addresses: [203.0.113.2/24] }
  - { name: lan, device: net_null1, mac: "02:00:00:00:00:02", addresses: [10.0.0.1/24] }
routes: [{ to: default, via: 203.0.113.1 }]
neighbours:
  - { address: 203.0.113.1, mac: "02:00:00:00:01:01", port: wan }
  - { address: 10.0.0.11, mac: "02:00:00:00:02:0b", port: lan }
local_addresses: [{ name: dip, port: lan, addresses: [10.0.0.200] }]
pools: [{ name: web, servers: [{ address: 10.0.0.11, port: 8080 }] }]
services:
  - { name: web, listen: "203.0.113.100:80/tcp", pool: web, mode: fullnat, local_addresses: dip }
"#;

/// A SYN from 198.51.100.10:40000 to 203.0.113.100:80, checksums right.
const SYN: &str = "020000000001020000000101080045000028000100004006142dc633640acb0071649c4000500000006400000000500220008c4b0000";

fn replay(scenario: &str, connections: bool) -> (Vec<Value>, Result<(), String>) {
    let config = config::parse("gateway.yaml", GATEWAY).unwrap();
    let mut gateway = Replay::new(&config).unwrap();
    let mut out = Vec::new();
    let scenario = Scenario {
        name: "scenario.jsonl".to_owned(),
        lines: scenario.as_bytes(),
        connections,
    };
    let outcome = run(&mut gateway, scenario, &mut out).map_err(|error| error.to_string());
    assert!(gateway.stats().iter().all(|stats| stats.conserves()));
    let lines = String::from_utf8(out).unwrap();
    (
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
        outcome,
    )
}

fn events(lines: &[Value]) -> Vec<&Value> {
    // The gratuitous ARP of the start is not what these tests are about.
    let arp = |line: &&Value| line["hex"].as_str().is_some_and(|hex| hex[24..28] == *"0806");
    lines.iter().filter(|line| !arp(line)).collect()
}

#[test]
fn a_packet_a_timeout_and_the_table() {
    let scenario = format!(
        "{{\"at\": 5}}\n{{\"at\": 5, \"port\": \"wan\", \"hex\": \"{SYN}\"}}\n\n{{\"at\": 64}}\n{{\"at\": 66}}\n"
    );
    let (lines, outcome) = replay(&scenario, true);
    outcome.unwrap();
    let lines = events(&lines);
    assert_eq!(lines.len(), 5, "{lines:#?}");
    assert_eq!(lines[0]["connections"].as_array().unwrap().len(), 0);
    let sent = lines[1];
    assert_eq!(
        (sent["at"].as_f64(), sent["port"].as_str()),
        (Some(5.0), Some("lan"))
    );
    let hex = sent["hex"].as_str().unwrap();
    assert!(hex.starts_with("02000000020b0200000000020800"), "{hex}");
    let table = lines[2]["connections"].as_array().unwrap();
    assert_eq!(table[0]["state"], "SYN_RECV");
    assert_eq!(table[0]["client"], "198.51.100.10:40000");
    assert_eq!(table[0]["server"], "10.0.0.11:8080");
    assert!(table[0]["local"].as_str().unwrap().starts_with("10.0.0.200:"));
    assert_eq!(lines[3]["connections"][0]["expires"], 1, "59 s of 60 have passed");
    assert_eq!(
        lines[4]["connections"].as_array().unwrap().len(),
        0,
        "a half-open connection lives for 60 s"
    );
}

#[test]
fn commands_change_the_table_and_tell_what_they_say() {
    let scenario = format!(
        "{{\"command\": \"ipvsadm -d -t 203.0.113.100:80 -r 10.0.0.11:8080\"}}\n\
         {{\"at\": 1, \"port\": \"wan\", \"hex\": \"{SYN}\"}}\n\
         {{\"command\": \"ipvsadm -D -t 203.0.113.101:80\"}}\n"
    );
    let (lines, outcome) = replay(&scenario, false);
    outcome.unwrap();
    let lines = events(&lines);
    assert_eq!(
        (lines[0]["exit"].as_u64(), lines[0]["stdout"].as_str()),
        (Some(0), Some(""))
    );
    assert_eq!(
        lines[1]["port"], "wan",
        "ICMP port unreachable goes back to the client"
    );
    assert_eq!(lines[2]["reason"], "no_server");
    assert_eq!(
        (lines[3]["exit"].as_u64(), lines[3]["stderr"].as_str()),
        (Some(255), Some("No such service\n"))
    );
}

#[test]
fn wrong_lines_are_named_with_what_to_write_instead() {
    for (scenario, expected) in [
        ("{\"at\": 1}\nnonsense\n", "scenario.jsonl:2: not an event"),
        ("{\"at\": 1, \"what\": 2}\n", "unknown field"),
        ("{\"port\": \"wan\"}\n", "port without hex"),
        ("{\"hex\": \"00\"}\n", "hex without port"),
        (
            "{\"port\": \"wam\", \"hex\": \"00\"}\n",
            "no port is named wam; the configuration has: wan, lan",
        ),
        ("{\"port\": \"wan\", \"hex\": \"0\"}\n", "even number of digits"),
        ("{\"port\": \"wan\", \"hex\": \"zz\"}\n", "digits 0-9 and a-f"),
        ("{\"at\": 2}\n{\"at\": 1}\n", "time runs forwards"),
    ] {
        let error = replay(scenario, false).1.unwrap_err();
        assert!(error.contains(expected), "{scenario}: {error}");
    }
}

/// TIME-01, and why replay exists: days pass in a moment.
#[test]
fn days_pass_in_a_moment() {
    let scenario = format!(
        "{{\"command\": \"ipvsadm --set 86400 0 0\"}}\n{{\"at\": 1, \"port\": \"wan\", \"hex\": \"{SYN}\"}}\n{{\"at\": 2678400}}\n"
    );
    let (lines, outcome) = replay(&scenario, true);
    outcome.unwrap();
    let last = lines.last().unwrap();
    assert_eq!(last["at"], 2_678_400.0);
    assert_eq!(last["connections"].as_array().unwrap().len(), 0);
}

/// Whatever the ports do, with several workers a packet goes where it goes with one, and is in one worker's table.
#[test]
fn several_workers_do_the_same_over_every_kind_of_port() {
    let config = config::parse("gateway.yaml", GATEWAY).unwrap();
    let frame: Vec<u8> = (0..SYN.len() / 2)
        .map(|at| u8::from_str_radix(&SYN[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    for workers in 1..=4 {
        for spread in [Spread::Rss, Spread::Random, Spread::WrongHash] {
            let mut gateway = Replay::with_workers(&config, workers, spread).unwrap();
            gateway.advance_to(5.0);
            let outcomes = gateway.inject(0, &frame);
            assert!(matches!(&outcomes[..], [Outcome::Sent(1, _)]), "{outcomes:?}");
            let connections = gateway.connections();
            assert_eq!(connections.len(), 1, "{workers}, {spread:?}");
            let handed: u64 = gateway.stats().iter().map(|stats| stats.handed_over.get()).sum();
            match spread {
                Spread::Rss => assert_eq!(handed, 0),
                Spread::WrongHash => assert_eq!(handed, u64::from(workers > 1)),
                Spread::Random => assert!(handed <= 1),
            }
            gateway.advance_to(70.0);
            assert!(gateway.connections().is_empty());
            assert!(gateway.stats().iter().all(|stats| stats.conserves()));
        }
    }
}
