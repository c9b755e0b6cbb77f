//! FULLNAT: servers see a local address of the gateway, and answer to it. Nothing is set up on them.

use super::{FULLNAT, Sites, yaml};
use crate::lab::number;

fn fullnat_serves(service: &str, vip: &str, local: &str) {
    let sites = Sites::start(&yaml());
    let captured = sites.serve(vip, local, 0);
    for seen in &captured {
        seen.assert_good_checksums("tcp");
    }
    let [wan, first, second] = &captured;
    let field = if vip.contains(':') { "ipv6" } else { "ip" };
    for server in [first, second] {
        let untranslated = server.frames(&format!("tcp && {field}.addr == {vip}"));
        assert_eq!(untranslated, Vec::<String>::new(), "the VIP on a server's link");
    }
    let foreign = wan.frames(&format!("tcp && {field}.addr == {local}"));
    assert_eq!(
        foreign,
        Vec::<String>::new(),
        "the local address on the client's link"
    );
    let row = sites.gateway.named("services", service);
    assert!(number(&row, "outbound_bytes") > super::DOWNLOAD as u64, "{row}");
    sites.finish();
}

#[test]
fn fullnat_serves_downloads_and_pages_in_ipv4() {
    fullnat_serves("fullnat", FULLNAT[0], "10.0.0.200");
}

#[test]
fn fullnat_serves_downloads_and_pages_in_ipv6() {
    fullnat_serves("fullnat6", FULLNAT[1], "fd00::200");
}
