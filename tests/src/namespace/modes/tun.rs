//! TUN: servers take packets out of IPIP, and answer by their own way.

use super::{OLD_SERVERS, Sites, TUN, client_itself, yaml};
use crate::lab::Capture;
use std::net::IpAddr;

fn tun_serves(service: &str, vip: &str, outer: &str) {
    let sites = Sites::start(&yaml());
    let ends = [1, 2].map(|number| sites.lab.tunnel_end(number, &[vip]));
    let direct = Capture::start(&sites.lab, &sites.lab.client(), "direct1");
    let captured = sites.serve(vip, client_itself(vip), OLD_SERVERS);
    for seen in &captured {
        seen.assert_good_checksums("tcp");
    }
    let field = if vip.contains(':') { "ipv6.src" } else { "ip.src" };
    let replies = direct.end().frames(&format!("tcp && {field} == {vip}"));
    assert!(!replies.is_empty(), "no reply on the servers' own way");
    sites.assert_replies_passed_by(service, vip, &captured);
    for end in &ends {
        let [ipip, gue, gre] = end.packets();
        assert!(ipip > 0);
        assert_eq!((gue, gre, end.refused()), (0, 0, 0));
        assert_eq!(end.senders(), [outer.parse::<IpAddr>().unwrap()]);
    }
    sites.finish();
}

#[test]
fn tun_serves_downloads_and_pages_in_ipv4() {
    tun_serves("tun", TUN[0], "10.0.0.1");
}

#[test]
fn tun_serves_downloads_and_pages_in_ipv6() {
    tun_serves("tun6", TUN[1], "fd00::1");
}
