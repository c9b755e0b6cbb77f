//! FULLNAT between families with real kernels at both ends: a client that has one family only, and a server that has
//! only the other. Pages arrive whole, a hop that takes 1400 bytes is learnt on the other side of the gateway, and
//! datagrams in fragments come back.
//!
//! ```text
//!     client --- 1400 --- router --- wan [ gateway ] lan --- server1            downloads
//!     client --- wan [ gateway ] lan --- router --- 1400 --- server1            uploads
//! ```
//!
//! Over TAP devices, whose frames are those of a wire.

use crate::balance::curl;
use crate::lab::{Capture, Echo, Gateway, Host, Lab, Nginx, PATIENCE, authority, on_taps, until};
use crate::modes::{NETWORK, assert_same, fetch, pattern};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Bytes of downloads and uploads: hundreds of full packets.
const BYTES: usize = 3_000_000;
/// Short requests, each a connection.
const REQUESTS: u32 = 500;
/// The echo service's port.
const ECHO: u16 = 7;

/// The families by number, as clients and servers have them: IPv4, IPv6. Whoever has one talks to the other.
const V4: usize = 0;
const V6: usize = 1;

/// VIPs of the near and the far server, for clients of each family.
const NEAR: [&str; 2] = ["203.0.113.120", "2001:db8:1::120"];
const FAR: [&str; 2] = ["203.0.113.121", "2001:db8:1::121"];
/// Who servers take for their client.
const LOCAL: [&str; 2] = ["10.0.0.200", "fd00::200"];

fn yaml() -> String {
    let mut yaml = on_taps(NETWORK)
        + r#"
  - { to: 10.1.0.0/24, via: 10.0.0.254 }
  - { to: "fd01::/64", via: "fd00::fe" }
local_addresses:
  - { name: dip, port: lan, addresses: [10.0.0.200, "fd00::200"] }
pools:
  - { name: near-4, servers: [{ address: 10.0.0.11, port: 8080 }] }
  - { name: near-6, servers: [{ address: "fd00::11", port: 8080 }] }
  - { name: far-4, servers: [{ address: 10.1.0.11, port: 8080 }] }
  - { name: far-6, servers: [{ address: "fd01::11", port: 8080 }] }
  - { name: echo-4, servers: [{ address: 10.0.0.11 }] }
  - { name: echo-6, servers: [{ address: "fd00::11" }] }
services:
"#;
    for (client, server) in [(V4, "6"), (V6, "4")] {
        for (name, vip, port) in [
            ("near", NEAR, "80/tcp"),
            ("far", FAR, "80/tcp"),
            ("echo", NEAR, "7/udp"),
        ] {
            yaml += &format!(
                "  - {{ name: {name}-to-{server}, listen: \"{}:{port}\", pool: {name}-{server}, mode: fullnat, \
                 scheduler: rr, local_addresses: dip }}\n",
                authority(vip[client])
            );
        }
    }
    yaml
}

/// The other family.
fn other(family: usize) -> usize {
    1 - family
}

/// A lab of bare namespaces in which the client has one family and the server the other, and a gateway whose devices
/// are not yet plugged in.
fn start(client: usize) -> (Lab, Gateway) {
    let lab = Lab::bare();
    lab.host("switch").enable_ipv6();
    match client {
        V6 => lab.client().enable_ipv6(),
        _ => lab.server(1).enable_ipv6(),
    }
    let gateway = Gateway::start(&lab, &yaml());
    (lab, gateway)
}

/// Makes the switch's namespace a router, one of whose links takes 1400 bytes and has that address.
fn router(lab: &Lab, to: &str, interface: &str, address: &str) -> Host {
    let router = lab.host("switch");
    router.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
    lab.link("switch", "narrow", to, interface);
    router.run("ip link set narrow mtu 1400");
    router.run(&format!("ip address add {address} dev narrow"));
    router
}

fn default_route(host: &Host, family: usize, via: &str) {
    let ip = if family == V6 { "ip -6" } else { "ip" };
    host.run(&format!("{ip} route add default via {via}"));
}

/// The client on the gateway's link, and the server.
fn near(lab: &Lab, client: usize) {
    let at = [
        ["203.0.113.1/24", "10.0.0.11/24"],
        ["2001:db8:1::1/64", "fd00::11/64"],
    ];
    lab.plug("tgwan", &lab.client(), &[at[client][0]]);
    lab.plug("tglan", &lab.server(1), &[at[other(client)][1]]);
    // An address can be bound to when the kernel has seen that the link is up.
    for host in [lab.client(), lab.server(1)] {
        until("the addresses", PATIENCE, || {
            let tentative = host.run("ip address show").contains("tentative");
            (!tentative).then_some(())
        });
    }
}

/// The client behind a router whose link takes 1400 bytes, the server on the gateway's link.
fn narrow_client(lab: &Lab, client: usize) {
    let narrow = ["198.51.100.1/24", "2001:db8:3::1/64"][client];
    let router = router(lab, "client", "wan0", narrow);
    lab.plug(
        "tgwan",
        &router,
        &[["203.0.113.1/24", "2001:db8:1::1/64"][client]],
    );
    let own = ["198.51.100.2/24", "2001:db8:3::2/64"][client];
    lab.client().run(&format!("ip address add {own} dev wan0"));
    default_route(&lab.client(), client, ["198.51.100.1", "2001:db8:3::1"][client]);
    let server = ["10.0.0.11/24", "fd00::11/64"][other(client)];
    lab.plug("tglan", &lab.server(1), &[server]);
}

/// The server behind a router whose link takes 1400 bytes, the client on the gateway's link.
fn narrow_server(lab: &Lab, client: usize) {
    let family = other(client);
    let router = router(lab, "server1", "lan0", ["10.1.0.1/24", "fd01::1/64"][family]);
    lab.plug("tglan", &router, &[["10.0.0.254/24", "fd00::fe/64"][family]]);
    let server = lab.server(1);
    let own = ["10.1.0.11/24", "fd01::11/64"][family];
    server.run(&format!("ip address add {own} dev lan0"));
    default_route(&server, family, ["10.1.0.1", "fd01::1"][family]);
    lab.plug(
        "tgwan",
        &lab.client(),
        &[["203.0.113.1/24", "2001:db8:1::1/64"][client]],
    );
}

fn assert_no_checksum_errors(lab: &Lab) {
    for host in [lab.client(), lab.host("switch"), lab.server(1)] {
        for (counter, value) in host.checksum_errors() {
            assert_eq!(value, 0, "{counter} in {}", host.namespace());
        }
    }
}

fn icmp(family: usize) -> &'static str {
    ["icmp", "icmpv6"][family]
}

/// Every packet of one family only, all checksums right, and an ICMP error seen where `told` says.
fn assert_family(captured: &crate::lab::Captured, family: usize, told: bool) {
    let strange = captured.frames(["ipv6.nxt == 6", "ip.proto == 6"][family]);
    assert_eq!(strange, Vec::<String>::new(), "TCP of the other family");
    captured.assert_good_checksums("tcp");
    if told {
        captured.assert_good_checksums(icmp(family));
    }
}

/// Downloads by a hop of 1400 bytes, and asserts that the server has learnt what that is in its family; then many short
/// requests.
fn download(client: usize, learnt: u32) {
    let (lab, gateway) = start(client);
    narrow_client(&lab, client);
    let server = Nginx::start(&lab, 1);
    server.publish(&pattern(&lab, "pattern", BYTES), "pattern");
    let local = LOCAL[other(client)];
    assert_eq!(lab.server(1).learnt_mtu(local), None);
    let outside = Capture::start(&lab, &lab.host("switch"), "tgwan");
    let inside = Capture::start(&lab, &lab.server(1), "tglan");
    fetch(&lab, &lab.client(), NEAR[client], "pattern", "pattern");
    assert_eq!(lab.server(1).learnt_mtu(local), Some(learnt));
    let answers = curl(&lab.client(), &authority(NEAR[client]), REQUESTS);
    assert_eq!(answers, vec!["server 1"; REQUESTS as usize]);
    assert_family(&outside.end(), client, true);
    assert_family(&inside.end(), other(client), true);
    let requests = until("the server's log", PATIENCE, || {
        Some(server.requests()).filter(|requests| requests.len() > REQUESTS as usize)
    });
    assert!(
        requests
            .iter()
            .all(|request| request.client == local && request.status == 200)
    );
    assert_no_checksum_errors(&lab);
    gateway.finish();
}

#[test]
fn nat64_serves_ipv6_clients_from_ipv4_servers() {
    download(V6, 1380);
}

#[test]
fn nat46_serves_ipv4_clients_from_ipv6_servers() {
    download(V4, 1420);
}

/// Uploads to a server behind a hop of 1400 bytes, and asserts that the client has learnt what that is in its family.
fn upload(client: usize, learnt: u32) {
    let (lab, gateway) = start(client);
    narrow_server(&lab, client);
    let server = Nginx::start(&lab, 1);
    let (host, file) = (lab.client(), pattern(&lab, "pattern", BYTES));
    let outside = Capture::start(&lab, &host, "tgwan");
    host.run(&format!(
        "curl -gsS --fail --max-time 120 -o /dev/null -T {} http://{}/upload",
        file.display(),
        authority(FAR[client])
    ));
    assert_same(&server.uploads()[0], &file);
    assert_eq!(host.learnt_mtu(FAR[client]), Some(learnt));
    let outside = outside.end();
    assert_family(&outside, client, true);
    let told = outside.frames(&format!("icmp.mtu == {learnt} || icmpv6.mtu == {learnt}"));
    assert!(!told.is_empty(), "no ICMP with MTU {learnt}");
    assert_no_checksum_errors(&lab);
    gateway.finish();
}

#[test]
fn nat64_tells_ipv6_clients_of_a_narrow_hop_in_ipv4() {
    upload(V6, 1420);
}

#[test]
fn nat46_tells_ipv4_clients_of_a_narrow_hop_in_ipv6() {
    upload(V4, 1380);
}

fn address(text: &str, port: u16) -> SocketAddr {
    (text.parse::<IpAddr>().unwrap(), port).into()
}

/// Datagrams of many lengths, in fragments where they are long, come back whole.
fn echo(client: usize) {
    let (lab, gateway) = start(client);
    near(&lab, client);
    let server = ["10.0.0.11", "fd00::11"][other(client)];
    let _echo = Echo::start(&lab.server(1), address(server, ECHO));
    let own = ["203.0.113.1", "2001:db8:1::1"][client];
    let socket = lab.client().inside(|| {
        let socket = UdpSocket::bind(address(own, 0)).unwrap();
        socket.connect(address(NEAR[client], ECHO)).unwrap();
        socket
    });
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    for len in [1, 100, 1232, 1400, 1452, 1453, 1472, 1473, 3000, 9000, 60_000] {
        let sent: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
        let mut received = vec![0; 65_536];
        // The sender of a datagram that fits its own link only is told so, and has to send again.
        until(&format!("{len} bytes to come back"), PATIENCE, || {
            socket.send(&sent).ok()?;
            let count = socket.recv(&mut received).ok()?;
            (received[..count] == sent).then_some(())
        });
    }
    assert_no_checksum_errors(&lab);
    until("no fragment to be held", PATIENCE, || {
        let workers = gateway.rows("workers");
        workers.iter().all(|row| row["held"] == 0).then_some(())
    });
    gateway.finish();
}

#[test]
fn frag_01_large_datagrams_pass_nat64_both_ways() {
    echo(V6);
}

#[test]
fn frag_01_large_datagrams_pass_nat46_both_ways() {
    echo(V4);
}
