//! DR: servers have the VIP on `lo`, as `tidegate server-setup` puts it there, and answer by their own way.

use super::{DR, OLD_SERVERS, Sites, client_itself, yaml};
use crate::lab::Capture;

fn dr_serves(service: &str, vip: &str) {
    let sites = Sites::start(&yaml());
    sites.set_up(service, false);
    let direct = Capture::start(&sites.lab, &sites.lab.client(), "direct1");
    let captured = sites.serve(vip, client_itself(vip), OLD_SERVERS);
    for seen in &captured {
        seen.assert_good_checksums("tcp");
    }
    let field = if vip.contains(':') { "ipv6.src" } else { "ip.src" };
    let replies = direct.end().frames(&format!("tcp && {field} == {vip}"));
    assert!(!replies.is_empty(), "no reply on the servers' own way");
    sites.assert_replies_passed_by(service, vip, &captured);
    sites.finish();
}

#[test]
fn dr_serves_downloads_and_pages_in_ipv4() {
    dr_serves("dr", DR[0]);
}

#[test]
fn dr_serves_downloads_and_pages_in_ipv6() {
    dr_serves("dr6", DR[1]);
}
