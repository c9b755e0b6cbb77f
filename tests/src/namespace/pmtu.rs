//! Path MTU discovery through the gateway: a hop in the way takes 1400 bytes only, says so by ICMP, and whoever sends
//! too much learns it, however the gateway has rewritten or wrapped the packet that the hop complains about.
//!
//! ```text
//!     client --- 1400 --- router --- wan [ gateway ] lan --- server1            downloads
//!     client --- wan [ gateway ] lan --- (router --- 1400 ---) server1          uploads through a tunnel
//!       +--------------------- the server's own way -------------+
//! ```
//!
//! Over TAP devices: `net_af_packet` would cut and join packets where a wire does not.

use crate::lab::{Capture, Gateway, Host, Lab, Nginx, authority, on_taps};
use crate::modes::{NETWORK, assert_same, fetch, pattern};

/// Bytes of downloads and uploads: hundreds of full packets.
const BYTES: usize = 3_000_000;

/// The client's addresses behind the router, and those of the VIPs.
const FAR: [&str; 2] = ["198.51.100.2", "2001:db8:3::2"];
const NAT: [&str; 2] = ["203.0.113.110", "2001:db8:1::110"];
const FULLNAT: [&str; 2] = ["203.0.113.113", "2001:db8:1::113"];
const TUN: [&str; 2] = ["203.0.113.112", "2001:db8:1::112"];
const FAR_TUN: [&str; 2] = ["203.0.113.114", "2001:db8:1::114"];

fn yaml() -> String {
    let [nat, nat6] = NAT.map(authority);
    let [fullnat, fullnat6] = FULLNAT.map(authority);
    let [tun, tun6] = TUN.map(authority);
    let [far, far6] = FAR_TUN.map(authority);
    on_taps(NETWORK)
        + &format!(
            r#"
  - {{ to: 10.1.0.0/24, via: 10.0.0.254 }}
  - {{ to: "fd01::/64", via: "fd00::fe" }}
local_addresses:
  - {{ name: dip, port: lan, addresses: [10.0.0.200, "fd00::200"] }}
pools:
  - {{ name: near, servers: [{{ address: 10.0.0.11 }}] }}
  - {{ name: near6, servers: [{{ address: "fd00::11" }}] }}
  - {{ name: far, servers: [{{ address: 10.1.0.11 }}] }}
  - {{ name: far6, servers: [{{ address: "fd01::11" }}] }}
services:
  - {{ name: nat, listen: "{nat}:80/tcp", pool: near, mode: nat, scheduler: rr }}
  - {{ name: nat6, listen: "{nat6}:80/tcp", pool: near6, mode: nat, scheduler: rr }}
  - {{ name: fullnat, listen: "{fullnat}:80/tcp", pool: near, mode: fullnat, scheduler: rr, local_addresses: dip }}
  - {{ name: fullnat6, listen: "{fullnat6}:80/tcp", pool: near6, mode: fullnat, scheduler: rr, local_addresses: dip }}
  - {{ name: tun, listen: "{tun}:80/tcp", pool: near, mode: tun, scheduler: rr }}
  - {{ name: tun6, listen: "{tun6}:80/tcp", pool: near6, mode: tun, scheduler: rr }}
  - {{ name: far, listen: "{far}:80/tcp", pool: far, mode: tun, scheduler: rr }}
  - {{ name: far6, listen: "{far6}:80/tcp", pool: far6, mode: tun, scheduler: rr }}
"#
        )
}

/// A lab of bare namespaces with both families, and a gateway on TAP devices that are not yet plugged in.
fn start() -> (Lab, Gateway) {
    let lab = Lab::bare();
    for host in [lab.client(), lab.host("switch"), lab.server(1)] {
        host.enable_ipv6();
        host.run("sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0");
    }
    let gateway = Gateway::start(&lab, &yaml());
    (lab, gateway)
}

/// Makes the switch's namespace a router, one of whose links takes 1400 bytes.
fn router(lab: &Lab, to: &str, interface: &str, addresses: [&str; 2]) -> Host {
    let router = lab.host("switch");
    router.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
    lab.link("switch", "narrow", to, interface);
    router.run("ip link set narrow mtu 1400");
    for address in addresses {
        router.run(&format!("ip address add {address} dev narrow"));
    }
    router
}

/// The client behind a router whose link takes 1400 bytes, the server on the gateway's link.
fn narrow_client(lab: &Lab) {
    let (client, server) = (lab.client(), lab.server(1));
    let router = router(lab, "client", "wan0", ["198.51.100.1/24", "2001:db8:3::1/64"]);
    lab.plug("tgwan", &router, &["203.0.113.1/24", "2001:db8:1::1/64"]);
    for (address, length) in FAR.into_iter().zip([24, 64]) {
        client.run(&format!("ip address add {address}/{length} dev wan0"));
    }
    client.run("ip route add default via 198.51.100.1");
    client.run("ip -6 route add default via 2001:db8:3::1");
    lab.plug("tglan", &server, &["10.0.0.11/24", "fd00::11/64"]);
    server.run("ip route add default via 10.0.0.1");
    server.run("ip -6 route add default via fd00::1");
}

/// Downloads, and asserts that the server has learnt the hop's MTU for whom it sees as the client.
fn download_learns(vip: &str, server_sees: &str) {
    let (lab, gateway) = start();
    narrow_client(&lab);
    let server = Nginx::start(&lab, 1);
    server.publish(&pattern(&lab, "pattern", BYTES), "pattern");
    assert_eq!(lab.server(1).learnt_mtu(server_sees), None);
    fetch(&lab, &lab.client(), vip, "pattern", "pattern");
    assert_eq!(lab.server(1).learnt_mtu(server_sees), Some(1400));
    assert_no_checksum_errors(&lab);
    gateway.finish();
}

fn assert_no_checksum_errors(lab: &Lab) {
    for host in [lab.client(), lab.host("switch"), lab.server(1)] {
        for (counter, value) in host.checksum_errors() {
            assert_eq!(value, 0, "{counter} in {}", host.namespace());
        }
    }
}

#[test]
fn a_nat_server_learns_of_a_narrow_hop() {
    download_learns(NAT[0], FAR[0]);
}

#[test]
fn a_nat_server_learns_of_a_narrow_hop_in_ipv6() {
    download_learns(NAT[1], FAR[1]);
}

#[test]
fn a_fullnat_server_learns_of_a_narrow_hop() {
    download_learns(FULLNAT[0], "10.0.0.200");
}

#[test]
fn a_fullnat_server_learns_of_a_narrow_hop_in_ipv6() {
    download_learns(FULLNAT[1], "fd00::200");
}

/// The server's own way to the client, past the gateway.
fn own_way(lab: &Lab) {
    lab.link("server1", "out0", "client", "direct1");
    let (client, server) = (lab.client(), lab.server(1));
    for (address, host, interface) in [
        ("192.0.2.5/30", &client, "direct1"),
        ("2001:db8:2:1::1/64", &client, "direct1"),
        ("192.0.2.6/30", &server, "out0"),
        ("2001:db8:2:1::2/64", &server, "out0"),
    ] {
        host.run(&format!("ip address add {address} dev {interface}"));
    }
    server.run("ip route add default via 192.0.2.5");
    server.run("ip -6 route add default via 2001:db8:2:1::1");
}

/// Uploads a file in packets that do not fit the tunnel, and asserts that it arrives whole and that the client has
/// been told of just that MTU.
fn upload_learns(lab: &Lab, vip: &str, mtu: u32) {
    let server = Nginx::start(lab, 1);
    let end = lab.tunnel_end(1, &[vip]);
    let (client, file) = (lab.client(), pattern(lab, "pattern", BYTES));
    let told = Capture::start(lab, &client, "tgwan");
    client.run(&format!(
        "curl -gsS --fail --max-time 120 -o /dev/null -T {} http://{}/upload",
        file.display(),
        authority(vip)
    ));
    assert_same(&server.uploads()[0], &file);
    assert_eq!(client.learnt_mtu(vip), Some(mtu));
    let told = told.end();
    let icmp = told.frames(&format!("icmp.mtu == {mtu} || icmpv6.mtu == {mtu}"));
    assert!(!icmp.is_empty(), "no ICMP with MTU {mtu}");
    told.assert_good_checksums("tcp");
    told.assert_good_checksums(if vip.contains(':') { "icmpv6" } else { "icmp" });
    assert!(end.packets()[0] > (BYTES / 1500) as u64);
    assert_eq!(end.refused(), 0);
}

#[test]
fn a_client_is_told_what_fits_into_a_tunnel() {
    let (lab, gateway) = start();
    lab.plug("tgwan", &lab.client(), &["203.0.113.1/24", "2001:db8:1::1/64"]);
    lab.plug("tglan", &lab.server(1), &["10.0.0.11/24", "fd00::11/64"]);
    own_way(&lab);
    upload_learns(&lab, TUN[0], 1480);
    assert_no_checksum_errors(&lab);
    gateway.finish();
}

#[test]
fn a_client_is_told_what_fits_into_a_tunnel_in_ipv6() {
    let (lab, gateway) = start();
    lab.plug("tgwan", &lab.client(), &["203.0.113.1/24", "2001:db8:1::1/64"]);
    lab.plug("tglan", &lab.server(1), &["10.0.0.11/24", "fd00::11/64"]);
    own_way(&lab);
    upload_learns(&lab, TUN[1], 1460);
    assert_no_checksum_errors(&lab);
    gateway.finish();
}

/// The server behind a router whose link takes 1400 bytes, the client on the gateway's link.
fn narrow_server(lab: &Lab) {
    let (client, server) = (lab.client(), lab.server(1));
    let router = router(lab, "server1", "lan0", ["10.1.0.1/24", "fd01::1/64"]);
    lab.plug("tglan", &router, &["10.0.0.254/24", "fd00::fe/64"]);
    lab.plug("tgwan", &client, &["203.0.113.1/24", "2001:db8:1::1/64"]);
    server.run("ip address add 10.1.0.11/24 dev lan0");
    server.run("ip -6 address add fd01::11/64 dev lan0");
    own_way(lab);
}

#[test]
fn a_client_is_told_of_a_narrow_hop_within_a_tunnel() {
    let (lab, gateway) = start();
    narrow_server(&lab);
    upload_learns(&lab, FAR_TUN[0], 1380);
    assert_no_checksum_errors(&lab);
    gateway.finish();
}

#[test]
fn a_client_is_told_of_a_narrow_hop_within_a_tunnel_in_ipv6() {
    let (lab, gateway) = start();
    narrow_server(&lab);
    upload_learns(&lab, FAR_TUN[1], 1360);
    assert_no_checksum_errors(&lab);
    gateway.finish();
}
