//! The network around the recorded machine: its addresses, and the gateway's configuration that stands in for it.

use super::gateway::Port;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The gateway's MAC on the client side.
const WAN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The gateway's MAC on the server side.
const LAN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The router that all clients are behind, 10.0.0.254.
pub(super) const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xfe];
/// Who sends on the server side.
const LAN_SENDER_MAC: [u8; 6] = [2, 0, 0, 1, 0, 0xfe];
/// Every IPv4 scenario's VIP, unless it says otherwise.
pub(super) const VIP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);
/// The client of the state tables.
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
/// The local address of FULLNAT, which the recordings do not have.
const LOCAL_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 200);
/// What the configuration calls it.
pub(super) const LOCAL_ADDRESSES: &str = "dip";
/// How many servers have static neighbour entries, as in the recordings.
const SERVERS: u8 = 40;

/// The gateway's MAC and the sender's, of a frame that arrives at `port`.
pub(super) fn macs(port: Port) -> ([u8; 6], [u8; 6]) {
    match port {
        Port::Wan => (WAN_MAC, ROUTER_MAC),
        Port::Lan => (LAN_MAC, LAN_SENDER_MAC),
    }
}

/// `rsN`: the server that a MAC belongs to. The recorder calls the router among the servers `rs254`.
pub(super) fn server_of_mac(mac: &[u8]) -> Option<String> {
    match mac {
        [2, 0, 0, 1, 0, n] => Some(format!("rs{n}")),
        _ => None,
    }
}

/// The address of `rsN`.
pub(super) fn server_address(id: &str, ipv6: bool) -> Option<IpAddr> {
    let n: u8 = id.strip_prefix("rs")?.parse().ok()?;
    Some(if ipv6 {
        server_v6(n.checked_add(0x10)?).into()
    } else {
        Ipv4Addr::new(192, 168, 1, n.checked_add(10)?).into()
    })
}

fn server_v6(host: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, host.into())
}

/// The gateway's configuration, with a seed of its hashes. It has no service: the scenarios' commands make them.
pub(super) fn configuration(seed: u16) -> String {
    let mut yaml = format!(
        "node: {{ name: golden, seed: {seed}, limits: {{ connections: 4096, services: 64, servers: 256 }} }}
ports:
  - {{ name: wan, device: net_null0, mac: \"{}\", addresses: [10.0.0.1/24, \"fd00::1/64\"] }}
  - {{ name: lan, device: net_null1, mac: \"{}\", addresses: [192.168.1.1/24, \"fd01::1/64\"] }}
routes:
  - {{ to: 0.0.0.0/0, via: 10.0.0.254 }}
  - {{ to: \"::/0\", via: \"fd00::fe\" }}
marks:
  - {{ mark: 1, destination: [10.9.0.0/16, \"fd09::/16\"] }}
vips:
  - {{ address: {VIP} }}
  - {{ address: \"fd00::100\" }}
local_addresses:
  - {{ name: {LOCAL_ADDRESSES}, port: lan, addresses: [{LOCAL_ADDRESS}] }}
settings: {{ no_service: reject, icmp_rate: 1000000, transit: true }}
neighbours:
",
        mac_text(WAN_MAC),
        mac_text(LAN_MAC),
    );
    let mut neighbour = |port: &str, addresses: [IpAddr; 2], mac: [u8; 6]| {
        for address in addresses {
            let mac = mac_text(mac);
            // Writing to a String cannot fail.
            let _ = writeln!(
                yaml,
                "  - {{ address: \"{address}\", mac: \"{mac}\", port: {port} }}"
            );
        }
    };
    let router = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0xfe);
    neighbour(
        "wan",
        [Ipv4Addr::new(10, 0, 0, 254).into(), router.into()],
        ROUTER_MAC,
    );
    let lan = |host: u8| IpAddr::from([192, 168, 1, host]);
    neighbour("lan", [lan(254), server_v6(0xfe).into()], LAN_SENDER_MAC);
    for n in 1..=SERVERS {
        neighbour(
            "lan",
            [lan(10 + n), server_v6(0x10 + n).into()],
            [2, 0, 0, 1, 0, n],
        );
    }
    yaml
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
