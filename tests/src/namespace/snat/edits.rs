//! Limits of hosts inside, and other rules and addresses under traffic.

use super::{INSIDE, OUTSIDE, cabled, curl, inside, yaml};
use crate::lab::{Echo, Gateway, LARGE, Nginx, PATIENCE, number, until};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// A sixth connection is refused, and counted, while five of a host go on and others have theirs.
#[test]
fn a_host_inside_has_no_more_connections_than_its_rule_allows() {
    let lab = cabled();
    let gateway = Gateway::start(&lab, &yaml());
    let end = SocketAddr::new(OUTSIDE[0].parse().unwrap(), 7);
    let _echo = Echo::start(&lab.server(1), end);
    let socket = |from: &'static str| {
        let socket = lab.client().inside(move || UdpSocket::bind((from, 0)).unwrap());
        socket.connect(end).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let answered = |socket: &UdpSocket| {
        socket.send(b"hello").unwrap();
        socket.recv(&mut [0; 64]).unwrap()
    };
    let five: Vec<UdpSocket> = (0..5).map(|_| socket("10.0.0.99")).collect();
    for socket in &five {
        assert_eq!(answered(socket), 5);
    }
    let sixth = socket("10.0.0.99");
    sixth.send(b"hello").unwrap();
    until("the refusal", PATIENCE, || {
        (number(&gateway.named("snat", "few"), "refused") == 1).then_some(())
    });
    assert_eq!(gateway.dropped("snat_limit"), 1);
    assert_eq!(answered(&five[0]), 5);
    assert_eq!(answered(&socket("10.0.0.21")), 5);
    sixth.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    assert!(sixth.recv(&mut [0; 64]).is_err());

    // The limit of a new file holds for the next connection.
    gateway.write(&yaml().replace("connections_per_client: 5", "connections_per_client: 6"));
    let output = gateway.reload();
    let summary = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        summary.contains("SNAT rules: 0 added, 1 changed, 0 removed"),
        "{summary}"
    );
    sixth.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(answered(&sixth), 5);
    let row = gateway.named("snat", "few");
    assert_eq!(
        (number(&row, "connections"), number(&row, "refused")),
        (6, 1),
        "{row}"
    );
    gateway.finish();
}

/// A download goes on from an address that has been taken out of the pool, while its host gets another one for the rest.
#[test]
fn a_download_goes_on_when_its_address_is_removed() {
    let lab = cabled();
    let gateway = Gateway::start(&lab, &yaml());
    let server = Nginx::start(&lab, 1);
    let from = inside(false, INSIDE - 2);
    assert_eq!(curl(&lab, &from, OUTSIDE[0]), "server 1\n");
    let seen = until("the server's log", PATIENCE, || {
        server.requests().first().cloned()
    });
    let (body, own) = (lab.file("body"), seen.client);
    let line = format!(
        "curl -sS --max-time 120 --interface {from} -o {} http://{}/large",
        body.display(),
        OUTSIDE[0]
    );
    let mut download = lab.client().start(&line, &lab.file("curl"));
    until("the download to begin", PATIENCE, || {
        fs::metadata(&body).is_ok_and(|body| body.len() > 0).then_some(())
    });
    gateway.write(&yaml().replace(&format!("{own}, "), ""));
    assert!(gateway.reload().status.success());
    let pool = gateway.named("local-addresses", "egress");
    let is_draining = |row: &serde_json::Value| row["address"] == own.as_str() && row["draining"] == true;
    assert!(
        pool["addresses"].as_array().unwrap().iter().any(is_draining),
        "{pool}"
    );
    let before = server.requests().len();
    assert_eq!(curl(&lab, &from, OUTSIDE[0]), "server 1\n");
    let seen = until("the server's log", PATIENCE, || {
        server.requests().get(before).cloned()
    });
    assert!(
        seen.client.starts_with("203.0.113.20") && seen.client != own,
        "{seen:?}"
    );
    let ended = download.end("the download", PATIENCE * 4);
    assert!(ended.success(), "{}", download.output());
    assert_eq!(fs::read(&body).unwrap().len(), LARGE);
    gateway.finish();
}

/// A rule that goes takes its connections' packets with it; counters of those that stay go on.
#[test]
fn rules_come_and_go_by_their_names() {
    let lab = cabled();
    let gateway = Gateway::start(&lab, &yaml());
    let _server = Nginx::start(&lab, 1);
    let from = inside(false, 0);
    assert_eq!(curl(&lab, &from, OUTSIDE[0]), "server 1\n");
    let rule = "  - { name: office, source: [10.0.0.0/24, 10.2.0.0/24], local_addresses: egress }\n";
    assert_eq!(yaml().matches(rule).count(), 1);
    gateway.write(&yaml().replace(rule, ""));
    assert!(gateway.reload().status.success());
    let refused = lab.client().attempt(&format!(
        "curl -sS --max-time 2 --interface {from} http://{}/",
        OUTSIDE[0]
    ));
    assert!(!refused.status.success(), "a way out without a rule");
    assert!(gateway.dropped("not_for_us") > 0);
    gateway.write(&yaml());
    assert!(gateway.reload().status.success());
    assert_eq!(curl(&lab, &from, OUTSIDE[0]), "server 1\n");
    let row = gateway.named("snat", "office");
    assert_eq!(number(&row, "connections"), 2, "{row}");
    gateway.finish();
}
