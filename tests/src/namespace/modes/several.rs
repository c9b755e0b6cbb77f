//! Several workers over one network: the same promises, however packets are spread over queues that know nothing of
//! whose they are.

use super::{DR, FULLNAT, NAT, OLD_SERVERS, Sites, client_itself, yaml};
use crate::lab::{number, several};
use std::collections::HashSet;

/// How uneven servers' shares may be, in tenths: each worker takes turns by itself.
const OWN_TURNS: usize = OLD_SERVERS;

fn serves(workers: usize, pairs: usize, service: &str, vip: &str, client: &str) {
    let sites = Sites::start(&several(&yaml(), workers, pairs));
    if !service.starts_with("fullnat") {
        sites.set_up(service, false);
    }
    for seen in sites.serve(vip, client, OWN_TURNS) {
        seen.assert_good_checksums("tcp");
    }
    let rows = sites.gateway.rows("workers");
    assert_eq!(rows.len(), workers);
    let sum = |key| rows.iter().map(|row| number(row, key)).sum::<u64>();
    assert!(rows.iter().all(|row| number(row, "opened") > 0), "{rows:?}");
    assert!(sum("handed_over") > 0, "{rows:?}");
    assert_eq!(sum("handed_over"), sum("taken_over"), "{rows:?}");
    let mut full = 0;
    for row in &rows {
        let to = row["steered"].as_array().unwrap();
        let handed: u64 = to.iter().map(|one| number(one, "handed_over")).sum();
        assert_eq!(handed, number(row, "handed_over"), "{row}");
        full += to.iter().map(|one| number(one, "full")).sum::<u64>();
    }
    // A worker whose CPU others use may lose some of a large download, as a wire would.
    assert_eq!(sites.gateway.dropped("steer_full"), full);
    let metrics = sites.gateway.metrics();
    for pair in [r#"{worker="0",to="1"}"#, r#"{worker="1",to="0"}"#] {
        for name in ["steered_packets_total", "steer_full_packets_total"] {
            let series = format!("tidegate_worker_{name}{pair} ");
            assert!(metrics.contains(&series), "no {series}\n{metrics}");
        }
    }
    // No connection has two owners.
    let connections = sites.gateway.connections();
    let known: HashSet<String> = connections
        .iter()
        .map(|row| format!("{} {} {}", row["protocol"], row["client"], row["virtual"]))
        .collect();
    assert_eq!(known.len(), connections.len());
    let opened = number(&sites.gateway.named("services", service), "connections");
    assert_eq!(opened, sum("opened"), "counted once");
    // One row for each neighbour, whoever knows it.
    let neighbours = sites.gateway.rows("neighbours");
    let addresses: HashSet<String> = neighbours
        .iter()
        .map(|row| format!("{} {}", row["port"], row["address"]))
        .collect();
    assert_eq!(addresses.len(), neighbours.len(), "{neighbours:?}");
    sites.finish();
}

#[test]
fn two_workers_share_one_queue_in_fullnat() {
    serves(2, 1, "fullnat", FULLNAT[0], "10.0.0.200");
}

#[test]
fn two_workers_with_a_queue_each_in_fullnat() {
    serves(2, 2, "fullnat6", FULLNAT[1], "fd00::200");
}

#[test]
fn four_workers_share_two_queues_in_nat() {
    serves(4, 2, "nat", NAT[0], client_itself(NAT[0]));
}

#[test]
fn two_workers_with_a_queue_each_in_dr() {
    serves(2, 2, "dr", DR[0], client_itself(DR[0]));
}

#[test]
fn one_worker_with_two_queues_sees_both() {
    let sites = Sites::start(&several(&yaml(), 1, 2));
    sites.serve(FULLNAT[0], "10.0.0.200", 0);
    assert_eq!(sites.gateway.rows("workers").len(), 1);
    sites.finish();
}
