//! The same with several workers: a client's connections are of all of them, and its template is of one.

use super::shipped::keeps_clients;
use super::{all_ports, networks, quiescing, removal, server_of, templates, with};
use crate::lab::{CLIENT, FULLNAT, Gateway, Lab, Nginx, number, several};

fn two(yaml: &str) -> String {
    several(yaml, 2, 1)
}

fn four(yaml: &str) -> String {
    several(yaml, 4, 2)
}

#[test]
fn per_04_networks_share_a_server_with_two_workers() {
    networks(two);
}

#[test]
fn per_04_networks_share_a_server_with_four_workers() {
    networks(four);
}

#[test]
fn per_01_a_quiesced_server_keeps_its_clients_with_four_workers() {
    quiescing(four);
}

#[test]
fn per_02_a_client_of_a_removed_server_is_served_at_once_with_two_workers() {
    removal(two);
}

#[test]
fn per_05_all_ports_of_a_vip_are_one_service_with_four_workers() {
    all_ports(four);
}

#[test]
fn the_shipped_configuration_keeps_clients_with_two_workers() {
    keeps_clients(two);
}

/// One client with many connections at once: they are of every worker, and of one server; its one template is held by all
/// of them, and each worker's packets are accounted for.
#[test]
fn a_client_of_many_connections_has_one_template() {
    let lab = Lab::new();
    let _servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let gateway = Gateway::start(&lab, &four(&with("persistence: { timeout: 300 }")));
    let client = lab.client();
    let url = format!("http://{FULLNAT}/");
    server_of(&client, CLIENT, &url, 100);
    let rows = gateway.rows("workers");
    assert_eq!(rows.len(), 4);
    let each = |key: &str| rows.iter().map(|row| number(row, key)).collect::<Vec<_>>();
    assert!(each("opened").iter().all(|opened| *opened > 0), "{rows:?}");
    assert_eq!(each("opened").iter().sum::<u64>(), 100);
    // Three of four connections are of another worker than the template: their first packets hop twice more.
    assert!(each("handed_over").iter().sum::<u64>() > 100, "{rows:?}");
    assert_eq!(gateway.dropped("steer_full"), 0);
    let kept = templates(&gateway);
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(kept[0]["state"], "ASSURED", "{kept:?}");
    gateway.finish();
}
