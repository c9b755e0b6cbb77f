//! FULLNAT: servers see a local address of the gateway, and answer to it. Nothing is set up on them.

use super::{FULLNAT, Sites, yaml};

#[test]
fn fullnat_serves_downloads_and_pages() {
    let sites = Sites::start(&yaml());
    let captured = sites.serve(FULLNAT, "10.0.0.200", 0);
    for seen in &captured {
        seen.assert_good_checksums("tcp");
    }
    let [wan, first, second] = &captured;
    for server in [first, second] {
        let untranslated = server.frames(&format!("tcp && ip.addr == {FULLNAT}"));
        assert_eq!(untranslated, Vec::<String>::new(), "the VIP on a server's link");
    }
    let local = wan.frames("tcp && ip.addr == 10.0.0.200");
    assert_eq!(
        local,
        Vec::<String>::new(),
        "the local address on the client's link"
    );
    sites.finish();
}
