//! What Prometheus scrapes.

use crate::support::{BASE, Fake, VIP, datagram, syn};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The value of a series, written as in the text.
fn value(text: &str, series: &str) -> f64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is missing in\n{text}"))
        .parse()
        .unwrap()
}

fn assert_no_duplicates(text: &str) {
    let mut seen = HashSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        assert!(seen.insert(series), "{series} twice");
    }
}

/// Field case MET-01.
#[test]
fn services_that_share_a_server_or_an_endpoint_are_distinct_series() {
    let fake = Fake::new(BASE);
    (1..=3).for_each(|port| fake.open(port));
    fake.arrive(syn(4, [203, 0, 113, 101].into()));
    fake.arrive(datagram(9, VIP));
    let text = fake.metrics();
    assert_no_duplicates(&text);
    let opened = |labels: &str| {
        value(
            &text,
            &format!("tidegate_server_connections_opened_total{{{labels}}}"),
        )
    };
    let server = |service: &str, vip: &str, protocol: &str| {
        opened(&format!(
            "service=\"{service}\",vip=\"{vip}\",port=\"80\",protocol=\"{protocol}\",server=\"10.0.0.11\",server_port=\"8080\""
        ))
    };
    assert_eq!(server("web", "203.0.113.100", "tcp"), 1.0);
    assert_eq!(server("dgram", "203.0.113.100", "udp"), 1.0);
    assert_eq!(server("also", "203.0.113.101", "tcp"), 1.0);
    let tcp = "service=\"web\",vip=\"203.0.113.100\",port=\"80\",protocol=\"tcp\"";
    assert_eq!(
        value(
            &text,
            &format!("tidegate_service_connections_opened_total{{{tcp}}}")
        ),
        3.0
    );
    assert_eq!(
        value(
            &text,
            &format!("tidegate_service_packets_total{{{tcp},direction=\"inbound\"}}")
        ),
        3.0
    );
    assert_eq!(
        value(
            &text,
            &format!("tidegate_service_bytes_total{{{tcp},direction=\"inbound\"}}")
        ),
        120.0
    );
    assert_eq!(value(&text, &format!("tidegate_service_servers{{{tcp}}}")), 2.0);
}

#[test]
fn the_gateway_itself_is_measured() {
    let fake = Fake::new(BASE);
    fake.open(1);
    fake.arrive(syn(1, [203, 0, 113, 99].into()));
    let text = fake.metrics();
    for (series, wanted) in [
        ("tidegate_epoch", 1.0),
        ("tidegate_scrape_complete", 1.0),
        ("tidegate_config_last_reload_successful", 1.0),
        ("tidegate_config_reloads_total{result=\"failure\"}", 0.0),
        ("tidegate_worker_received_packets_total{worker=\"0\"}", 2.0),
        ("tidegate_worker_connections{worker=\"0\"}", 1.0),
        ("tidegate_drops_total{reason=\"not_for_us\",worker=\"0\"}", 1.0),
        ("tidegate_drops_total{reason=\"table_full\",worker=\"0\"}", 0.0),
        ("tidegate_local_ports_used{pool=\"dip\"}", 1.0),
        ("tidegate_local_ports_free{pool=\"dip\"}", 5999.0),
        ("tidegate_port_missed_packets_total{port=\"lan\"}", 1.0),
        ("tidegate_port_link_up{port=\"wan\"}", 1.0),
        ("tidegate_neighbours{port=\"lan\",state=\"static\"}", 2.0),
        ("tidegate_routes{source=\"port\",state=\"on link\"}", 2.0),
    ] {
        assert_eq!(value(&text, series), wanted, "{series}");
    }
}

#[test]
fn the_metrics_address_serves_metrics_and_nothing_else() {
    let fake = Fake::new(BASE);
    let (status, text) = fake.ask_metrics_address("/metrics");
    assert_eq!((status, value(&text, "tidegate_epoch")), (200, 1.0));
    for path in ["/v1/status", "/v1/connections", "/"] {
        let (status, body) = fake.ask_metrics_address(path);
        assert_eq!(status, 404, "{body}");
        assert!(body.contains("the paths here are /metrics"), "{body}");
    }
}

#[test]
fn promtool_finds_nothing_to_say() {
    let fake = Fake::new(BASE);
    fake.open(1);
    let text = fake.metrics();
    let mut command = Command::new("promtool");
    command
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let Ok(mut promtool) = command.spawn() else {
        eprintln!("promtool is not installed: not checked");
        return;
    };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[test]
fn ten_thousand_services_can_be_scraped_with_and_without_servers() {
    const SERVICES: usize = 10_000;
    let mut text = String::from(
        "node: { limits: { connections: 1000, services: 10_000, servers: 20_000, neighbours: 64 } }
ports: [{ name: wan, device: net_null0, addresses: [203.0.113.2/24] }]
pools: [{ name: web, servers: [{ address: 203.0.113.11 }, { address: 203.0.113.12 }] }]
services:
",
    );
    for service in 0..SERVICES {
        let (vip, port) = (100 + service % 100, 1000 + service / 100);
        let _ = writeln!(
            text,
            "  - {{ name: s{service}, listen: \"203.0.113.{vip}:{port}/tcp\", pool: web, mode: dr }}"
        );
    }
    let fake = Fake::new(&text);
    let all = fake.metrics();
    assert_no_duplicates(&all);
    let count = |text: &str, begin: &str| text.lines().filter(|line| line.starts_with(begin)).count();
    assert_eq!(count(&all, "tidegate_service_"), 9 * SERVICES);
    assert_eq!(count(&all, "tidegate_server_"), 2 * 9 * SERVICES);
    assert!(all.len() < 40 << 20, "{} bytes", all.len());
    let (status, services) = fake.ask("GET", "/metrics?servers=false");
    assert_eq!((status, count(&services, "tidegate_server_")), (200, 0));
    assert_eq!(count(&services, "tidegate_service_"), 9 * SERVICES);
}

/// Field case STAT-01: counters beyond 32 bits are told exactly, in JSON also where a floating-point number would not.
#[test]
fn stat_01_large_counters_are_exact() {
    let fake = Fake::new(BASE);
    let slot = {
        let state = fake.gateway.state();
        let web = state.model.services().find(|entry| entry.name == "also").unwrap();
        web.service.servers[0].slot as usize
    };
    // The worker, which writes it, forwards nothing here.
    let bytes = &fake.gateway.workers()[0].stats.servers[slot].inbound_bytes;
    for value in [
        99_999_999,
        100_000_000,
        u64::from(u32::MAX),
        u64::from(u32::MAX) + 1,
        5 << 30,
        100_000_000_000_000,
        (1 << 53) + 1,
    ] {
        bytes.set(value);
        for view in ["services", "servers"] {
            let rows: Vec<serde_json::Value> = fake.get(&format!("/v1/{view}"));
            let mut rows = rows.iter();
            let row = rows.find(|row| row["inbound_bytes"] != 0).unwrap();
            assert_eq!(row["inbound_bytes"].as_u64(), Some(value), "{view}");
        }
        let text = fake.metrics();
        let series = "tidegate_service_bytes_total{service=\"also\",vip=\"203.0.113.101\",port=\"80\",protocol=\"tcp\",direction=\"inbound\"}";
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        // Prometheus reads floating-point numbers.
        assert_eq!(line, Some(&*format!(" {}", value as f64)));
    }
}
