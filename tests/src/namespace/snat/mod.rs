//! SNAT: hosts inside, which have no other way out, reach servers outside through two local addresses.
//!
//! ```text
//!     client (hosts inside)                         router               server1 (outside)
//!     10.0.0.21... ------ lan [ gateway ] wan ----- 203.0.113.1
//!     fd00::21...     10.0.0.1 |       203.0.113.2  198.51.100.1 ------- 198.51.100.11
//!                              | dmz 10.2.0.1                            2001:db8:3::11
//!                     server2 10.2.0.12 (inside too, with the VIP 203.0.113.100)
//! ```

mod edits;
mod errors;

use crate::lab::{Gateway, Host, Lab, Nginx, PATIENCE, Process, authority, number, several, until};
use std::collections::{BTreeMap, BTreeSet};

/// The server outside.
const OUTSIDE: [&str; 2] = ["198.51.100.11", "2001:db8:3::11"];
/// The gateway's address on the link of hosts inside, and the router's on that of the gateway.
const HOPS: [[&str; 2]; 2] = [["10.0.0.1", "203.0.113.1"], ["fd00::1", "2001:db8:1::1"]];
/// Where the local addresses begin, of which there are two in each family.
const LOCAL: [&str; 2] = ["203.0.113.20", "2001:db8:1::20"];
/// The VIP of the server inside.
const VIP: &str = "203.0.113.100";
/// Hosts inside: so many that some get the one local address and some the other, but for one key in half a million.
const INSIDE: usize = 20;

/// A host inside, in a family.
fn inside(ipv6: bool, number: usize) -> String {
    format!("{}{}", if ipv6 { "fd00::" } else { "10.0.0." }, 21 + number)
}

/// The gateway's configuration.
fn yaml() -> String {
    format!(
        r#"
node:
  name: test
  workers: auto
  hugepages: off
  memory: 256
  idle: sleep
  limits: {{ connections: 100_000, services: 64, servers: 256, neighbours: 256 }}
metrics: {{ listen: "127.0.0.1:9101" }}
ports:
  - {{ name: wan, device: "net_af_packet0,iface=wan0", addresses: [203.0.113.2/24, "2001:db8:1::2/64"] }}
  - {{ name: lan, device: "net_af_packet1,iface=lan0", addresses: [10.0.0.1/24, "fd00::1/64"] }}
  - {{ name: dmz, device: "net_af_packet2,iface=dmz0", addresses: [10.2.0.1/24] }}
routes:
  - {{ to: default, via: 203.0.113.1 }}
  - {{ to: default6, via: "2001:db8:1::1" }}
local_addresses:
  - {{ name: egress, port: wan, addresses: [203.0.113.200, 203.0.113.201, "2001:db8:1::200-2001:db8:1::201"] }}
pools:
  - {{ name: dmz, servers: [{{ address: 10.2.0.12, port: 8080 }}] }}
services:
  - {{ name: dmz, listen: "{VIP}:80/tcp", pool: dmz, mode: nat, scheduler: rr }}
snat:
  - {{ name: inside, source: 10.0.0.0/8, destination: 10.0.0.0/8, exempt: true }}
  - {{ name: few, source: 10.0.0.99, local_addresses: egress, connections_per_client: 5 }}
  - {{ name: office, source: [10.0.0.0/24, 10.2.0.0/24], local_addresses: egress }}
  - {{ name: office6, source: "fd00::/64", local_addresses: egress }}
"#
    )
}

/// The hosts, each with its addresses and routes, and the gateway's three cables.
fn cabled() -> Lab {
    let lab = Lab::bare();
    ready(&lab);
    lab.link("client", "in0", "gateway", "lan0");
    lab.link("gateway", "wan0", "switch", "wan0");
    lab.link("gateway", "dmz0", "server2", "dmz0");
    address(&lab.client(), "in0", "10.0.0.99/24 fd00::99/64");
    for number in 0..INSIDE {
        let (four, six) = (inside(false, number), inside(true, number));
        address(&lab.client(), "in0", &format!("{four}/24 {six}/64"));
    }
    routes(&lab.client(), "10.0.0.1 fd00::1");
    address(&lab.host("switch"), "wan0", "203.0.113.1/24 2001:db8:1::1/64");
    address(&lab.server(2), "dmz0", "10.2.0.12/24");
    routes(&lab.server(2), "10.2.0.1");
    lab
}

/// Both families, a router, and the server behind it.
fn ready(lab: &Lab) {
    for host in [lab.client(), lab.host("switch"), lab.server(1), lab.server(2)] {
        host.enable_ipv6();
        // Each of three traceroutes makes some errors at once.
        host.run(
            "sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv4.icmp_msgs_per_sec=10000 net.ipv6.icmp.ratelimit=0",
        );
    }
    let router = lab.host("switch");
    router.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
    lab.link("switch", "out0", "server1", "lan0");
    address(&router, "out0", "198.51.100.1/24 2001:db8:3::1/64");
    address(&lab.server(1), "lan0", "198.51.100.11/24 2001:db8:3::11/64");
    routes(&lab.server(1), "198.51.100.1 2001:db8:3::1");
}

fn address(host: &Host, interface: &str, addresses: &str) {
    for address in addresses.split_whitespace() {
        host.run(&format!("ip address add {address} dev {interface}"));
    }
}

/// Default routes by these routers.
fn routes(host: &Host, routers: &str) {
    for router in routers.split_whitespace() {
        let family = if router.contains(':') { "-6" } else { "-4" };
        host.run(&format!("ip {family} route add default via {router}"));
    }
}

fn dnsmasq(lab: &Lab) -> Process {
    let [four, six] = OUTSIDE;
    let line = format!(
        "dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --user=root --pid-file= \
         --bind-interfaces --listen-address={four},{six} --address=/example.test/192.0.2.99"
    );
    let host = lab.server(1);
    let process = host.start(&line, &lab.file("dnsmasq.log"));
    until("dnsmasq", PATIENCE, || {
        host.run("ss -Huln").contains(":53").then_some(())
    });
    process
}

/// A page for a host inside.
fn curl(lab: &Lab, from: &str, to: &str) -> String {
    let url = authority(to);
    lab.client().run(&format!(
        "curl -gsS --fail --max-time 30 --interface {from} http://{url}/"
    ))
}

fn no_checksum_errors(lab: &Lab) {
    for host in [lab.client(), lab.host("switch"), lab.server(1), lab.server(2)] {
        for (counter, value) in host.checksum_errors() {
            // Linux takes a TTL that runs out for an error of the header, which traceroute sees to.
            if counter.ends_with("InHdrErrors") && host.namespace() == lab.host("switch").namespace() {
                continue;
            }
            assert_eq!(value, 0, "{counter} in {}", host.namespace());
        }
    }
}

#[test]
fn hosts_inside_fetch_pages_each_from_its_own_address() {
    pages_inside(&yaml());
}

/// Whatever worker a host's connections belong to, and whatever queue their packets arrive at.
#[test]
fn hosts_inside_have_one_address_with_several_workers() {
    pages_inside(&several(&yaml(), 4, 2));
}

/// Each host has one local address for all that it does, and both are used.
fn pages_inside(yaml: &str) {
    let lab = cabled();
    let gateway = Gateway::start(&lab, yaml);
    let server = Nginx::start(&lab, 1);
    for (family, ipv6) in [false, true].into_iter().enumerate() {
        let mut addresses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for round in 0..3 {
            for host in 0..INSIDE {
                let from = inside(ipv6, host);
                let before = server.requests().len();
                assert_eq!(curl(&lab, &from, OUTSIDE[family]), "server 1\n");
                let seen = until("the server's log", PATIENCE, || {
                    server.requests().get(before).cloned()
                });
                assert!(
                    seen.client.starts_with(LOCAL[family]),
                    "{round}: {from} as {seen:?}"
                );
                addresses.entry(seen.client).or_default().insert(from);
            }
        }
        assert_eq!(addresses.len(), 2, "one local address is not used: {addresses:?}");
        let hosts: usize = addresses.values().map(BTreeSet::len).sum();
        assert_eq!(hosts, INSIDE, "a host had both: {addresses:?}");
    }
    for (rule, other) in [("office", "few"), ("office6", "inside")] {
        let row = gateway.named("snat", rule);
        assert_eq!(number(&row, "connections"), 3 * INSIDE as u64, "{row}");
        assert!(
            number(&row, "outbound_bytes") > number(&row, "outbound_packets") * 20,
            "{row}"
        );
        assert_eq!(number(&gateway.named("snat", other), "connections"), 0);
    }
    let metric = format!(
        "tidegate_snat_connections_opened_total{{rule=\"office\"}} {}\n",
        3 * INSIDE
    );
    assert!(gateway.metrics().contains(&metric), "no {metric}");
    no_checksum_errors(&lab);
    gateway.finish();
}

#[test]
fn hosts_inside_ask_for_names_and_ping() {
    let lab = cabled();
    let gateway = Gateway::start(&lab, &yaml());
    let _names = dnsmasq(&lab);
    let client = lab.client();
    for (family, ipv6) in [false, true].into_iter().enumerate() {
        for host in 0..4 {
            let (from, to) = (inside(ipv6, host), OUTSIDE[family]);
            let answer = client.run(&format!(
                "dig -b {from} @{to} +short +tries=1 +timeout=20 a.example.test"
            ));
            assert_eq!(answer, "192.0.2.99\n");
            client.run(&format!("ping -n -c 3 -i 0.2 -W 20 -I {from} {to}"));
        }
    }
    let opened = |rule| number(&gateway.named("snat", rule), "connections");
    // A query and a ping of each host.
    assert_eq!((opened("office"), opened("office6")), (8, 8));
    // Who is outside cannot ping in: the gateway answers for its address itself, and nothing reaches the client.
    lab.server(1).run("ping -n -c 1 -W 20 203.0.113.200");
    assert_eq!((opened("office"), opened("office6")), (8, 8));
    no_checksum_errors(&lab);
    gateway.finish();
}

/// From inside to a VIP whose server is inside: a service's business. And from inside to inside: nothing is translated.
#[test]
fn what_is_inside_is_reached_by_its_vip_and_as_itself() {
    let lab = cabled();
    let gateway = Gateway::start(&lab, &yaml());
    let server = Nginx::start(&lab, 2);
    for to in [VIP, "10.2.0.12"] {
        let (from, before) = (inside(false, 1), server.requests().len());
        assert_eq!(curl(&lab, &from, to), "server 2\n");
        let seen = until("the server's log", PATIENCE, || {
            server.requests().get(before).cloned()
        });
        assert_eq!(seen.client, from, "by {to}");
    }
    assert_eq!(number(&gateway.named("services", "dmz"), "connections"), 1);
    for row in gateway.rows("snat") {
        assert_eq!(number(&row, "connections"), 0, "{row}");
    }
    // The server's own way out.
    let outside = Nginx::start(&lab, 1);
    let page = lab
        .server(2)
        .run(&format!("curl -sS --fail --max-time 30 http://{}/", OUTSIDE[0]));
    assert_eq!(page, "server 1\n");
    let seen = until("the server's log", PATIENCE, || {
        outside.requests().first().cloned()
    });
    assert!(seen.client.starts_with(LOCAL[0]), "{seen:?}");
    gateway.finish();
}
