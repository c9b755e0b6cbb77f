//! Each kind of tunnel, with either family in either family.

use super::{NETWORK, Sites};
use crate::balance::curl;
use crate::lab::authority;
use std::net::IpAddr;
use tidegate_tests::tunnel_end::GUE_PORT;

/// Requests through each tunnel.
const REQUESTS: u32 = 40;

/// Packets of a closing connection that come late.
const LATE: u64 = 3;

/// Kinds of tunnels as YAML has them, and which counter of [`tidegate_tests::tunnel_end::TunnelEnd::packets`] they raise.
fn kinds() -> [(String, usize); 6] {
    [
        ("type: ipip".to_owned(), 0),
        (format!("type: gue, port: {GUE_PORT}"), 1),
        (format!("type: gue, port: {GUE_PORT}, checksum: outer"), 1),
        (format!("type: gue, port: {GUE_PORT}, checksum: remote"), 1),
        ("type: gre".to_owned(), 2),
        ("type: gre, checksum: outer".to_owned(), 2),
    ]
}

/// A tunnel under test.
struct Case {
    vip: String,
    /// Whether the servers, and so the outer header, are IPv6.
    over_ipv6: bool,
    counter: usize,
}

/// A service for each kind of tunnel and each pair of families.
fn services() -> (String, Vec<Case>) {
    let mut yaml = NETWORK.to_owned()
        + "pools:\n\
           \x20 - { name: servers4, servers: [{ address: 10.0.0.11 }, { address: 10.0.0.12 }] }\n\
           \x20 - { name: servers6, servers: [{ address: \"fd00::11\" }, { address: \"fd00::12\" }] }\n\
           services:\n";
    let mut cases = Vec::new();
    for (tunnel, counter) in kinds() {
        for over_ipv6 in [false, true] {
            for ipv6 in [false, true] {
                let n = 120 + cases.len();
                let vip = if ipv6 {
                    format!("2001:db8:1::{n}")
                } else {
                    format!("203.0.113.{n}")
                };
                let (listen, pool) = (authority(&vip), if over_ipv6 { 6 } else { 4 });
                yaml += &format!(
                    "  - {{ name: tunnel{n}, listen: \"{listen}:80/tcp\", pool: servers{pool}, mode: tun, \
                     scheduler: rr, tunnel: {{ {tunnel} }} }}\n"
                );
                cases.push(Case {
                    vip,
                    over_ipv6,
                    counter,
                });
            }
        }
    }
    (yaml, cases)
}

#[test]
fn every_tunnel_carries_either_family() {
    let (yaml, cases) = services();
    let sites = Sites::start(&yaml);
    let vips: Vec<&str> = cases.iter().map(|case| &*case.vip).collect();
    let ends = [1, 2].map(|number| sites.lab.tunnel_end(number, &vips));
    let captures = sites.capture();
    for (n, case) in cases.iter().enumerate() {
        let before = ends.each_ref().map(|end| end.packets());
        let answers = curl(&sites.lab.client(), &authority(&case.vip), REQUESTS);
        let of_first = answers.iter().filter(|answer| *answer == "server 1").count();
        assert_eq!(
            (answers.len(), of_first),
            (REQUESTS as usize, REQUESTS as usize / 2)
        );
        for (end, before) in ends.iter().zip(before) {
            let now = end.packets();
            for kind in 0..3 {
                let new = now[kind] - before[kind];
                // The last packets of the connection before may be on their way still.
                let right = match kind == case.counter {
                    true => new >= u64::from(REQUESTS) * 2,
                    false => new <= LATE,
                };
                assert!(right, "{n}: {} {before:?} {now:?}", case.vip);
            }
        }
        let outer: IpAddr = if case.over_ipv6 { "fd00::1" } else { "10.0.0.1" }
            .parse()
            .unwrap();
        for end in &ends {
            assert_eq!(end.refused(), 0);
            assert!(end.senders().contains(&outer), "{:?}", end.senders());
        }
    }
    for capture in captures {
        capture.end().assert_good_checksums("tcp");
    }
    sites.finish();
}
