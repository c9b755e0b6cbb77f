//! A peer that leaves checksums to a NIC that is none: said at start, completed, counted, never silent.

use crate::balance::curl;
use crate::lab::{FULLNAT, Gateway, Lab, Nginx, PATIENCE, until};

#[test]
fn csum_10_half_checksums_are_completed_and_counted() {
    let lab = Lab::new();
    let _servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let client = lab.client();
    client.run("ethtool -K wan0 tx on");
    let gateway = Gateway::start(&lab, &Gateway::usual());
    assert_eq!(curl(&client, FULLNAT, 6).len(), 6);
    until("completed checksums to be counted", PATIENCE, || {
        let metrics = gateway.metrics();
        let count = metrics
            .lines()
            .find(|line| line.starts_with("tidegate_worker_completed_checksums_total"));
        count.is_some_and(|line| !line.ends_with(" 0")).then_some(())
    });
    gateway.finish();
}

#[test]
fn csum_10_a_peer_that_offloads_is_named_at_start() {
    let lab = Lab::new();
    lab.client().run("ethtool -K wan0 tx on");
    let gateway = Gateway::start(&lab, &Gateway::usual());
    let log = gateway.log();
    let warning = log
        .lines()
        .find(|line| line.contains("WARN") && line.contains("wan") && line.contains("offload"));
    assert!(
        warning.is_some_and(|line| line.contains("ethtool -K")),
        "no warning with its remedy:\n{log}"
    );
    gateway.finish();
}
