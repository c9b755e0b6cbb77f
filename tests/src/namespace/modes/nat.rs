//! NAT: servers see the client, know nothing of the VIP, and answer through the gateway, their default route.

use super::{NAT, Sites, client_itself, yaml};
use crate::lab::number;

fn nat_serves(service: &str, vip: &str) {
    let sites = Sites::start(&yaml());
    sites.set_up(service, false);
    let captured = sites.serve(vip, client_itself(vip), 0);
    for seen in &captured {
        seen.assert_good_checksums("tcp");
    }
    let [wan, first, second] = &captured;
    let field = if vip.contains(':') { "ipv6" } else { "ip" };
    for server in [first, second] {
        let untranslated = server.frames(&format!("tcp && {field}.addr == {vip}"));
        assert_eq!(untranslated, Vec::<String>::new(), "the VIP on a server's link");
    }
    let foreign = wan.frames(&format!("tcp && !({field}.addr == {vip})"));
    assert_eq!(foreign, Vec::<String>::new(), "not the VIP on the client's link");
    let row = sites.gateway.named("services", service);
    assert!(number(&row, "outbound_bytes") > super::DOWNLOAD as u64, "{row}");
    sites.finish();
}

#[test]
fn nat_serves_downloads_and_pages_in_ipv4() {
    nat_serves("nat", NAT[0]);
}

#[test]
fn nat_serves_downloads_and_pages_in_ipv6() {
    nat_serves("nat6", NAT[1]);
}
