//! Pages of real web servers, through FULLNAT and DR: none fails, servers see whom they should, weights hold, and
//! no checksum is bad on either side.

use crate::lab::{CLIENT, Capture, DR, FULLNAT, Gateway, Host, Lab, Nginx, Request, number};
use std::process::Command;

/// Seconds of wrk: what the tests of record take, or a developer's own patience.
fn seconds() -> u32 {
    std::env::var("TIDEGATE_WRK_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(30)
}

/// Fetches the first page in `count` connections one after another; what came back, line by line.
pub(crate) fn curl(client: &Host, vip: &str, count: u32) -> Vec<String> {
    let urls = format!("http://{vip}/?[1-{count}]");
    let output = client
        .command("curl")
        .args(["-sS", "--fail", "--max-time", "60"])
        .args(["-H", "Connection: close", &urls])
        .output();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "curl {vip}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// wrk for some seconds; asserts that no request failed.
fn wrk(client: &Host, vip: &str, seconds: u32, each_its_own_connection: bool) {
    let mut command: Command = client.command("wrk");
    command.args([
        "-t",
        "1",
        "-c",
        &OPEN.to_string(),
        "--timeout",
        "10",
        "-d",
        &seconds.to_string(),
    ]);
    if each_its_own_connection {
        command.args(["-H", "Connection: close"]);
    }
    let output = command.arg(format!("http://{vip}/")).output().expect("wrk");
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && report.contains("requests in"),
        "{report}"
    );
    assert!(
        !report.contains("Socket errors") && !report.contains("Non-2xx"),
        "{report}"
    );
    let rate = report
        .lines()
        .filter(|line| line.contains("requests in") || line.contains("Requests/sec"));
    println!("wrk {vip}: {}", rate.collect::<Vec<_>>().join(", "));
}

/// Distinct connections among requests.
fn connections(requests: &[Request]) -> usize {
    let mut numbers: Vec<u64> = requests.iter().map(|request| request.connection).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.len()
}

/// Connections that wrk keeps open. At its end it cuts them short: some have no request in a log yet.
const OPEN: usize = 30;

/// Asserts two connections of server 1 for each one of server 2, give or take so many.
fn assert_weights(first: usize, second: usize, allowed: usize) {
    assert!(
        first.abs_diff(2 * second) <= allowed,
        "{first} and {second} connections for weights 2 and 1"
    );
}

struct Sites {
    lab: Lab,
    first: Nginx,
    second: Nginx,
    gateway: Gateway,
}

impl Sites {
    fn start() -> Sites {
        let lab = Lab::new();
        let (first, second) = (Nginx::start(&lab, 1), Nginx::start(&lab, 2));
        let gateway = Gateway::start(&lab, &Gateway::usual());
        Sites {
            lab,
            first,
            second,
            gateway,
        }
    }

    /// The requests that each server has logged.
    fn requests(&self) -> [Vec<Request>; 2] {
        [self.first.requests(), self.second.requests()]
    }

    /// Asserts that requests were answered, by both servers, in proportion of weights: exactly as the gateway
    /// counts its connections to `vip`, and as far as the servers' logs know.
    fn assert_balance(&self, vip: &str, client: impl Fn(&str) -> bool) {
        let [first, second] = self.requests();
        for request in first.iter().chain(&second) {
            assert!(client(&request.client), "the server saw {request:?}");
            assert_eq!(request.status, 200, "{request:?}");
        }
        assert_weights(connections(&first), connections(&second), 2 * OPEN);
        let rows = self.gateway.rows("servers");
        let opened = |server: &str| {
            let row = rows.iter().find(|row| {
                row["address"] == server && row["listen"].as_str().is_some_and(|at| at.starts_with(vip))
            });
            number(
                row.unwrap_or_else(|| panic!("no {server} of {vip} in {rows:?}")),
                "connections",
            ) as usize
        };
        // Each worker goes round by itself, and may be in the middle of a round.
        let workers = self.gateway.rows("workers").len();
        assert_weights(opened("10.0.0.11"), opened("10.0.0.12"), 2 * workers);
    }

    /// Asserts that no kernel at either end saw a bad checksum, in any packet of the whole test.
    fn assert_no_checksum_errors(&self) {
        for host in [self.lab.client(), self.lab.server(1), self.lab.server(2)] {
            for (counter, value) in host.checksum_errors() {
                assert_eq!(value, 0, "{counter} in {}", host.namespace());
            }
        }
    }
}

fn local_address(client: &str) -> bool {
    ["10.0.0.200", "10.0.0.201", "10.0.0.202", "10.0.0.203"].contains(&client)
}

#[test]
fn fullnat_serves_pages() {
    let sites = Sites::start();
    let client = sites.lab.client();
    let captures = [
        Capture::start(&sites.lab, &client, "wan0"),
        Capture::start(&sites.lab, &sites.lab.server(1), "lan0"),
        Capture::start(&sites.lab, &sites.lab.server(2), "lan0"),
    ];
    let answers = curl(&client, FULLNAT, 60);
    assert_eq!(answers.iter().filter(|answer| *answer == "server 1").count(), 40);
    assert_eq!(answers.iter().filter(|answer| *answer == "server 2").count(), 20);
    wrk(&client, FULLNAT, seconds(), false);
    wrk(&client, FULLNAT, seconds().div_ceil(6), true);
    sites.assert_balance(FULLNAT, local_address);
    for capture in captures {
        capture.end().assert_good_checksums("tcp");
    }
    sites.assert_no_checksum_errors();
    sites.gateway.finish();
}

#[test]
fn dr_serves_pages_and_replies_pass_it_by() {
    let sites = Sites::start();
    let client = sites.lab.client();
    let captures = [
        Capture::start(&sites.lab, &client, "wan0"),
        Capture::start(&sites.lab, &sites.lab.server(1), "lan0"),
        Capture::start(&sites.lab, &sites.lab.server(2), "lan0"),
    ];
    let direct = Capture::start(&sites.lab, &client, "direct1");
    let answers = curl(&client, DR, 60);
    assert_eq!(answers.iter().filter(|answer| *answer == "server 1").count(), 40);
    wrk(&client, DR, seconds(), false);
    sites.assert_balance(DR, |seen| seen == CLIENT);

    let [wan, first, second] = captures.map(Capture::end);
    let replies = format!("tcp && ip.src == {DR}");
    assert!(
        !direct.end().frames(&replies).is_empty(),
        "no reply on the servers' own way"
    );
    for seen in [&wan, &first, &second] {
        seen.assert_good_checksums("tcp");
        assert_eq!(
            seen.frames(&replies),
            Vec::<String>::new(),
            "replies on the gateway's way"
        );
    }
    assert_eq!(
        number(&sites.gateway.named("services", "web-direct"), "outbound_packets"),
        0
    );
    sites.assert_no_checksum_errors();
    sites.gateway.finish();
}

#[test]
fn metrics_are_clean_while_traffic_flows() {
    let sites = Sites::start();
    curl(&sites.lab.client(), FULLNAT, 30);
    curl(&sites.lab.client(), DR, 30);
    let file = sites.lab.file("metrics");
    std::fs::write(&file, sites.gateway.metrics()).unwrap();
    let input = std::fs::File::open(&file).unwrap();
    let output = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(input)
        .output()
        .expect("promtool");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.trim().is_empty(), "{text}");
    sites.gateway.finish();
}
