//! Services with the PROXY protocol, in both families, and what their servers read.

use crate::lab::{CLIENT, CLIENT6, Gateway, Lab, authority};
use crate::modes::NETWORK;
use std::net::{IpAddr, SocketAddr};

/// The VIP of each family, the client that asks it, and server 1.
pub(super) const VIPS: [&str; 2] = ["203.0.113.113", "2001:db8:1::113"];
pub(super) const CLIENTS: [&str; 2] = [CLIENT, CLIENT6];
pub(super) const SERVERS: [&str; 2] = ["10.0.0.11", "fd00::11"];

/// A service: its name, where it listens, its server's port, and which server.
const SERVICES: [(&str, &str, u16, u16); 5] = [
    ("web", "80/tcp", super::nginx::PLAIN, 1),
    ("secure", "443/tcp", super::nginx::SECURE, 1),
    ("balanced", "81/tcp", super::haproxy::PORT, 2),
    ("greeter", "25/tcp", super::greeter::PORT, 1),
    ("names", "53/udp", super::datagrams::PORT, 1),
];

/// The configuration of all of them.
pub(super) fn yaml() -> String {
    let mut yaml = NETWORK.to_owned()
        + "local_addresses: [{ name: dip, port: lan, addresses: [10.0.0.200, \"fd00::200\"] }]\n";
    let (mut pools, mut services) = ("pools:\n".to_owned(), "services:\n".to_owned());
    for (family, (vip, prefix)) in ["", "6"]
        .into_iter()
        .zip(VIPS.into_iter().zip(["10.0.0.1", "fd00::1"]))
    {
        for (name, listen, port, server) in SERVICES {
            pools += &format!(
                "  - {{ name: {name}{family}, servers: [{{ address: \"{prefix}{server}\", port: {port} }}] }}\n"
            );
            services += &format!(
                "  - {{ name: {name}{family}, listen: \"{}:{listen}\", pool: {name}{family}, mode: fullnat, \
                 scheduler: rr, local_addresses: dip, client_address: proxy_v2 }}\n",
                authority(vip)
            );
        }
    }
    yaml += &pools;
    yaml + &services
}

/// A gateway in front of servers that are there already.
pub(super) fn gateway(lab: &Lab) -> Gateway {
    let gateway = Gateway::start(lab, &yaml());
    for name in ["web", "names6"] {
        assert_eq!(gateway.named("services", name)["client_address"], "proxy_v2");
    }
    gateway
}

/// Asserts that no kernel saw a bad checksum, and ends the gateway.
pub(super) fn finish(lab: &Lab, gateway: Gateway) {
    for host in [lab.client(), lab.server(1), lab.server(2)] {
        for (counter, value) in host.checksum_errors() {
            assert_eq!(value, 0, "{counter} in {}", host.namespace());
        }
    }
    gateway.finish();
}

pub(super) fn end(address: &str, port: u16) -> SocketAddr {
    (address.parse::<IpAddr>().unwrap(), port).into()
}

/// Reads a header of the PROXY protocol, version 2, by its specification: client, VIP, and its length. `datagram` is
/// what it has to say of the transport. None when the bytes end before it does.
pub(super) fn header(bytes: &[u8], datagram: bool) -> Option<(SocketAddr, SocketAddr, usize)> {
    let fixed = bytes.get(..16)?;
    assert_eq!(fixed[..13], *b"\r\n\r\n\0\r\nQUIT\n\x21");
    let ends = bytes.get(16..16 + usize::from(u16::from_be_bytes([fixed[14], fixed[15]])))?;
    let address = |at: usize, len: usize| match len {
        4 => IpAddr::from(<[u8; 4]>::try_from(&ends[at..at + 4]).unwrap()),
        _ => IpAddr::from(<[u8; 16]>::try_from(&ends[at..at + 16]).unwrap()),
    };
    let len = match (fixed[13] >> 4, ends.len()) {
        (1, 12) => 4,
        (2, 36) => 16,
        other => panic!("family and length {other:?}"),
    };
    assert_eq!(fixed[13] & 15, if datagram { 2 } else { 1 });
    let port = |at: usize| u16::from_be_bytes([ends[at], ends[at + 1]]);
    Some((
        SocketAddr::new(address(0, len), port(2 * len)),
        SocketAddr::new(address(len, len), port(2 * len + 2)),
        16 + ends.len(),
    ))
}

/// What a metric of the only worker is now.
pub(super) fn metric(gateway: &Gateway, name: &str) -> u64 {
    super::metric(gateway, name)
}
