//! Local addresses that come and go under traffic, and that run low.

use crate::balance::curl;
use crate::lab::{FULLNAT, Gateway, Lab, Nginx, PATIENCE, Process, number, until};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Connections that have ended are forgotten soon.
const TIMEOUTS: &str =
    "timeouts: { tcp: { fin_wait: 2, time_wait: 2, close: 2, close_wait: 2, last_ack: 2 } }\n";

const ALL: &str = "addresses: [10.0.0.200-10.0.0.203]";

/// A download that takes about so many seconds, once it has begun.
fn slow_download(lab: &Lab, name: &str, seconds: usize) -> Process {
    let body = lab.file(name);
    let rate = crate::lab::LARGE / seconds;
    let line = format!(
        "curl -sS --max-time 120 --limit-rate {rate} -o {} http://{FULLNAT}/large",
        body.display()
    );
    let download = lab.client().start(&line, &lab.file(&format!("{name}-log")));
    let begun = |body: &Path| fs::metadata(body).is_ok_and(|body| body.len() > 0);
    until("the download to begin", PATIENCE, || begun(&body).then_some(()));
    download
}

/// What is told of the local addresses of the one group.
fn addresses(gateway: &Gateway) -> Vec<Value> {
    let pool = gateway.named("local-addresses", "dip");
    pool["addresses"].as_array().unwrap().clone()
}

fn reload(gateway: &Gateway, yaml: &str) -> String {
    gateway.write(yaml);
    let output = gateway.reload();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    text
}

/// The local addresses that the servers have seen since they had logged so many requests.
fn seen(servers: &[Nginx; 2], before: [usize; 2]) -> Vec<String> {
    let requests = servers.iter().zip(before);
    let clients = requests.flat_map(|(server, before)| {
        let new = server.requests().split_off(before);
        new.into_iter().map(|request| request.client)
    });
    let mut clients: Vec<String> = clients.collect();
    clients.sort();
    clients.dedup();
    clients
}

#[test]
fn a_local_address_drains_under_a_download() {
    let lab = Lab::new();
    let servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let usual = Gateway::usual() + TIMEOUTS;
    let gateway = Gateway::start(&lab, &usual);
    let mut download = slow_download(&lab, "body", 8);
    let used = addresses(&gateway);
    let used: Vec<&str> = used
        .iter()
        .filter(|address| number(address, "used") > 0)
        .map(|address| address["address"].as_str().unwrap())
        .collect();
    let [drained] = used[..] else {
        panic!("one download, and in use: {used:?}")
    };
    let rest: Vec<String> = (200..=203)
        .map(|last| format!("10.0.0.{last}"))
        .filter(|address| address != drained)
        .collect();

    let without = usual.replace(ALL, &format!("addresses: [{}]", rest.join(", ")));
    let text = reload(&gateway, &without);
    assert!(text.contains("1 local address drains"), "{text}");
    // New connections have the others.
    let before = servers.each_ref().map(|server| server.requests().len());
    assert_eq!(curl(&lab.client(), FULLNAT, 60).len(), 60);
    until("the servers' logs", PATIENCE, || {
        (seen(&servers, before) == rest).then_some(())
    });
    let of_drained = |gateway: &Gateway| {
        let addresses = addresses(gateway);
        addresses
            .into_iter()
            .find(|address| address["address"] == drained)
    };
    let row = of_drained(&gateway).unwrap_or_else(|| panic!("{drained} is not shown"));
    assert_eq!(
        (&row["draining"], number(&row, "used")),
        (&Value::Bool(true), 1),
        "{row}"
    );
    assert!(
        download.ended().is_none(),
        "the download was to be under way: {}",
        download.output()
    );
    // It may be nothing else meanwhile, and that changes nothing.
    let epoch = gateway.epoch();
    gateway.write(&without.replace("address: 10.0.0.12, port", &format!("address: {drained}, port")));
    assert!(!gateway.reload().status.success());
    assert_eq!(gateway.epoch(), epoch);

    assert!(
        download.end("the download", PATIENCE * 4).success(),
        "{}",
        download.output()
    );
    assert_eq!(fs::read(lab.file("body")).unwrap(), crate::lab::large());
    until("the address to be gone", PATIENCE, || {
        of_drained(&gateway).is_none().then_some(())
    });
    // The log says so once it is gone.
    until("the log to tell", PATIENCE, || {
        let told = gateway.log().contains(&format!("{drained} has drained"));
        told.then_some(())
    });
    // It comes back, and serves at once.
    reload(&gateway, &usual);
    let before = servers.each_ref().map(|server| server.requests().len());
    assert_eq!(curl(&lab.client(), FULLNAT, 60).len(), 60);
    until("the servers' logs", PATIENCE, || {
        (seen(&servers, before).len() == 4).then_some(())
    });
    gateway.finish();
}

#[test]
fn an_operator_reads_of_local_ports_that_run_low() {
    let lab = Lab::new();
    let _servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let few = Gateway::usual()
        .replace(ALL, "addresses: [10.0.0.200], ports: 20000-20004")
        .replace("port: 8080, weight: 2", "port: 8080, weight: 0");
    let gateway = Gateway::start(&lab, &few);
    let mut downloads = vec![];
    let end = "10.0.0.12:8080/tcp";
    let high = format!("80 % or more of those towards server {end} are in use, 4 of 5");
    for n in 0..4 {
        assert!(!gateway.log().contains("run low"), "{n} of 5: {}", gateway.log());
        downloads.push(slow_download(&lab, &format!("body{n}"), 12));
    }
    until("the warning", PATIENCE, || {
        gateway.log().contains(&high).then_some(())
    });
    downloads.push(slow_download(&lab, "body4", 12));
    let critical = format!("95 % or more of those towards server {end} are in use, 5 of 5");
    until("the second warning", PATIENCE, || {
        gateway.log().contains(&critical).then_some(())
    });
    let text = gateway.metrics();
    let labels =
        "pool=\"dip\",address=\"10.0.0.200\",server=\"10.0.0.12\",server_port=\"8080\",protocol=\"tcp\"";
    for series in [
        format!("tidegate_local_server_ports_used{{{labels}}} 5\n"),
        format!("tidegate_local_server_ports_free{{{labels}}} 0\n"),
    ] {
        assert!(text.contains(&series), "no {series} in\n{text}");
    }
    for mut download in downloads {
        assert!(
            download.end("a download", PATIENCE * 4).success(),
            "{}",
            download.output()
        );
    }
    gateway.finish();
}
