//! The program, as operators call it.

use crate::support::{BASE, Fake, MODES};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn tidegate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments)
        .env_remove("TIDEGATE_SOCKET")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Shows something of the gateway; it must succeed in silence.
pub(crate) fn show(fake: &Fake, arguments: &[&str]) -> String {
    let socket = fake.socket();
    let output = tidegate(&[&["show", "--socket", socket.to_str().unwrap()], arguments].concat());
    assert_eq!(
        (code(&output), stderr(&output)),
        (0, String::new()),
        "{arguments:?}"
    );
    stdout(&output)
}

#[test]
fn check_sums_up_a_good_file_and_tells_every_error_of_a_bad_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gateway.yaml");
    std::fs::write(&file, BASE).unwrap();
    let output = tidegate(&["check", file.to_str().unwrap()]);
    assert_eq!((code(&output), stderr(&output).as_str()), (0, ""));
    assert!(
        stdout(&output).ends_with(": good: 2 ports, 3 services, 4 servers, 0 warnings\n"),
        "{}",
        stdout(&output)
    );
    std::fs::write(
        &file,
        BASE.replace("pool: web", "pool: wbe")
            .replace("mode: fullnat, scheduler: rr", "mode: x"),
    )
    .unwrap();
    let output = tidegate(&["check", file.to_str().unwrap()]);
    assert_eq!((code(&output), stdout(&output).as_str()), (2, ""));
    let place = format!("{}:", file.display());
    assert_eq!(
        stderr(&output)
            .lines()
            .filter(|line| line.starts_with(&place))
            .count(),
        3,
        "{}",
        stderr(&output)
    );
    // Running it is refused in the same words, before anything is opened.
    let run = tidegate(&["run", "--config", file.to_str().unwrap()]);
    assert_eq!((code(&run), stderr(&run)), (2, stderr(&output)));
}

#[test]
fn every_listing_is_a_table_or_json() {
    let fake = Fake::new(BASE);
    (1..=3).for_each(|port| fake.open(port));
    fake.arrive(vec![0; 20]);
    for (what, title, row) in [
        ("status", "GATEWAY", "gw1"),
        ("services", "NAME", "203.0.113.101:80/tcp"),
        ("servers", "LISTEN", "10.0.0.12:8080"),
        ("connections", "PROTO", "203.0.113.50:2"),
        ("ports", "NAME", "net_memory"),
        ("workers", "NO", "all"),
        ("neighbours", "ADDRESS", "02:00:00:00:00:12"),
        ("routes", "TO", "203.0.113.0/24"),
        ("drops", "REASON", "1"),
        ("local-addresses", "POOL", "10.0.0.201"),
        ("local-addresses", "POOL", "active"),
    ] {
        let table = show(&fake, &[what]);
        assert!(
            table.trim_start().starts_with(title) && table.contains(row),
            "{what}:\n{table}"
        );
        let json = show(&fake, &[what, "--json"]);
        for value in serde_json::Deserializer::from_str(&json).into_iter::<serde_json::Value>() {
            value.unwrap_or_else(|error| panic!("{what}: {error}: {json}"));
        }
    }
    assert_eq!(
        show(&fake, &["connections", "--service", "web", "--limit", "2"])
            .lines()
            .count(),
        3
    );
    assert_eq!(
        show(&fake, &["servers", "--service", "203.0.113.100:80/udp"])
            .lines()
            .count(),
        2
    );
    // Two addresses of a group; three connections to two servers.
    let towards = show(&fake, &["local-addresses", "--servers"]);
    assert!(
        show(&fake, &["local-addresses"]).lines().count() == 1 + 1 + 2
            && towards
                .lines()
                .filter(|line| line.contains("10.0.0.12:8080/tcp"))
                .count()
                >= 1,
        "{towards}"
    );
    assert_eq!(
        show(&fake, &["drops", "--all"]).lines().count(),
        1 + dataplane::drops::DropReason::COUNT
    );
}

#[test]
fn reload_tells_what_changed_or_what_is_wrong() {
    let fake = Fake::new(BASE);
    let socket = fake.socket();
    let reload = || tidegate(&["reload", "--socket", socket.to_str().unwrap()]);
    let output = reload();
    assert_eq!(
        (code(&output), stdout(&output).as_str()),
        (0, "epoch 2: nothing has changed\n")
    );
    fake.write(&BASE.replace("pool: one", "pool: two"));
    let output = reload();
    assert_eq!((code(&output), stdout(&output).as_str()), (2, ""));
    assert_eq!(stderr(&output).lines().count(), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("two"), "{}", stderr(&output));
}

#[test]
fn without_a_gateway_the_remedy_is_told() {
    let output = tidegate(&["show", "status", "--socket", "/nonexistent/api.sock"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (1, ""));
    let said = stderr(&output);
    assert!(
        said.contains("/nonexistent/api.sock") && said.contains("is tidegate running?"),
        "{said}"
    );
}

#[test]
fn the_gateway_s_refusals_come_through() {
    let fake = Fake::new(BASE);
    let socket = fake.socket();
    let output = tidegate(&[
        "show",
        "connections",
        "--service",
        "nosuch",
        "--socket",
        socket.to_str().unwrap(),
    ]);
    assert_eq!(code(&output), 1);
    assert_eq!(
        stderr(&output),
        "tidegate: no service is named nosuch or listens there; see show services\n"
    );
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let fake = Fake::new(BASE);
    (1..=900).for_each(|port| fake.open(port));
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["show", "connections", "--socket"])
        .arg(fake.socket())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), stderr(&output).as_str()), (0, ""));
}

#[test]
fn replay_reads_a_file_or_standard_input() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("gateway.yaml");
    std::fs::write(&config, BASE).unwrap();
    let scenario = directory.path().join("scenario.jsonl");
    std::fs::write(&scenario, "{\"at\": 0, \"port\": \"wan\", \"hex\": \"00\"}\n").unwrap();
    let replay = |scenario: &Path| {
        tidegate(&[
            "replay",
            "--config",
            config.to_str().unwrap(),
            scenario.to_str().unwrap(),
            "--connections",
        ])
    };
    let output = replay(&scenario);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(
        stdout(&output).contains("\"reason\":\"runt_frame\""),
        "{}",
        stdout(&output)
    );
    // Standard input is empty here.
    assert_eq!(
        (
            code(&replay(Path::new("-"))),
            stdout(&replay(Path::new("-"))).as_str()
        ),
        (0, "")
    );
    std::fs::write(&scenario, "{\"at\": 0, \"prt\": \"wan\"}\n").unwrap();
    let output = replay(&scenario);
    assert_eq!(code(&output), 1);
    assert!(
        stderr(&output).contains("scenario.jsonl:1: not an event"),
        "{}",
        stderr(&output)
    );
    assert_eq!(code(&replay(&directory.path().join("missing"))), 1);
}

#[test]
fn the_version_is_that_of_the_package() {
    assert_eq!(
        stdout(&tidegate(&["version"])),
        format!("tidegate {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn modes_tunnels_vlans_and_ipv6_are_shown() {
    let fake = Fake::new(MODES);
    fake.command("-a -t 203.0.113.100:80 -r 203.0.113.15:8080 -g");
    let servers = show(&fake, &["servers"]);
    for text in [
        "[2001:db8::12]:80",
        "tun gue:6080 remote",
        "tun ipip",
        "port 8080 has no effect: dr leaves packets as they are, on port 80",
    ] {
        assert!(servers.contains(text), "{text}: {servers}");
    }
    let services = show(&fake, &["services"]);
    for text in [
        "[2001:db8::100]:80/sctp",
        "mss-clamp=1400",
        "1 server: see show servers",
    ] {
        assert!(services.contains(text), "{text}: {services}");
    }
    assert!(show(&fake, &["ports"]).contains("VLAN 20 of wan"));
}

/// Servers of each family for clients of the other.
const MIXED: &str = r#"
node: { limits: { connections: 1000, services: 16, servers: 32, neighbours: 64 } }
ports:
  - { name: wan, device: net_null0, addresses: [203.0.113.2/24, "2001:db8:1::2/64"] }
  - { name: lan, device: net_null1, addresses: [10.0.0.1/24, "2001:db8:2::1/64"] }
local_addresses: [{ name: dip, port: lan, addresses: [10.0.0.200, "2001:db8:2::200"] }]
pools:
  - { name: four, servers: [{ address: 10.0.0.11, port: 8080 }] }
  - { name: six, servers: [{ address: "2001:db8:2::11", port: 8080 }] }
services:
  - { name: 6-4, listen: "[2001:db8:1::100]:80/tcp", pool: four, mode: fullnat, local_addresses: dip }
  - { name: 4-6, listen: "203.0.113.100:80/tcp", pool: six, mode: fullnat, local_addresses: dip }
"#;

/// A SYN from an IPv6 client, port 7, to port 80 of that service.
fn syn6() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0x50, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0, 0, 20, 6, 64]);
    for address in ["2001:db8:1::50", "2001:db8:1::100"] {
        frame.extend(address.parse::<std::net::Ipv6Addr>().unwrap().octets());
    }
    frame.extend([
        0, 7, 0, 80, 0, 0, 3, 232, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0,
    ]);
    frame
}

/// NAT64-03: a connection is one line, each end in its own family, IPv6 in brackets.
#[test]
fn nat64_03_connections_between_families_are_listed() {
    let fake = Fake::new(MIXED);
    fake.open(7);
    fake.arrive(syn6());
    let table = show(&fake, &["connections"]);
    let line = |client: &str| {
        let line = table.lines().find(|line| line.contains(client));
        let columns = line.unwrap_or_else(|| panic!("{table}")).split_whitespace();
        columns.skip(4).map(str::to_owned).collect::<Vec<_>>()
    };
    for (client, virtual_address, local, server) in [
        (
            "203.0.113.50:7",
            "203.0.113.100:80",
            "[2001:db8:2::200]:",
            "[2001:db8:2::11]:8080",
        ),
        (
            "[2001:db8:1::50]:7",
            "[2001:db8:1::100]:80",
            "10.0.0.200:",
            "10.0.0.11:8080",
        ),
    ] {
        let shown = line(client);
        assert_eq!(
            (&*shown[0], &*shown[1], &*shown[3]),
            (client, virtual_address, server)
        );
        assert!(shown[2].starts_with(local), "{table}");
    }
    for (family, count) in [("[2001:db8:2::11]:8080", 1), ("10.0.0.11", 1)] {
        let shown = show(&fake, &["connections", "--server", family]);
        assert_eq!(shown.lines().count(), 1 + count, "{shown}");
    }
}
