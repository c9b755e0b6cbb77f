//! The network around the recorded machine: its addresses, and the gateway's configuration that stands in for it.

use super::gateway::Port;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

/// The gateway's MAC on the client side.
const WAN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The gateway's MAC on the server side.
const LAN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The router that all clients are behind, 10.0.0.254.
pub(super) const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xfe];
/// Who sends on the server side.
const LAN_SENDER_MAC: [u8; 6] = [2, 0, 0, 1, 0, 0xfe];
/// Every scenario's VIP, unless it says otherwise.
pub(super) const VIP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);
/// The client of the state tables.
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
/// The local address of FULLNAT, which the recordings do not have.
const LOCAL_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 200);
/// What the configuration calls it.
pub(super) const LOCAL_ADDRESSES: &str = "dip";
/// How many servers have a static neighbour entry, as in the recordings.
const SERVERS: u8 = 40;

/// The gateway's MAC and the sender's, of a frame that arrives at `port`.
pub(super) fn macs(port: Port) -> ([u8; 6], [u8; 6]) {
    match port {
        Port::Wan => (WAN_MAC, ROUTER_MAC),
        Port::Lan => (LAN_MAC, LAN_SENDER_MAC),
    }
}

/// `rsN`: the server that a MAC belongs to.
pub(super) fn server_of_mac(mac: &[u8]) -> Option<String> {
    match mac {
        [2, 0, 0, 1, 0, n] if *n != LAN_SENDER_MAC[5] => Some(format!("rs{n}")),
        _ => None,
    }
}

/// The address of `rsN`.
pub(super) fn server_address(id: &str) -> Option<IpAddr> {
    let n: u8 = id.strip_prefix("rs")?.parse().ok()?;
    Some(Ipv4Addr::new(192, 168, 1, n.checked_add(10)?).into())
}

/// The gateway's configuration. It has no service: the scenarios' commands make them.
pub(super) fn configuration() -> String {
    let mut yaml = format!(
        "node: {{ name: golden, seed: 1, limits: {{ connections: 65536 }} }}
ports:
  - {{ name: wan, device: net_null0, mac: \"{}\", addresses: [10.0.0.1/24] }}
  - {{ name: lan, device: net_null1, mac: \"{}\", addresses: [192.168.1.1/24] }}
routes:
  - {{ to: 0.0.0.0/0, via: 10.0.0.254 }}
local_addresses:
  - {{ name: {LOCAL_ADDRESSES}, port: lan, addresses: [{LOCAL_ADDRESS}] }}
settings: {{ no_service: reject, icmp_rate: 1000000 }}
neighbours:
  - {{ address: 10.0.0.254, mac: \"{}\", port: wan }}
",
        mac_text(WAN_MAC),
        mac_text(LAN_MAC),
        mac_text(ROUTER_MAC),
    );
    for n in 1..=SERVERS {
        let (address, mac) = (10 + n, mac_text([2, 0, 0, 1, 0, n]));
        // Writing to a String cannot fail.
        let _ = writeln!(
            yaml,
            "  - {{ address: 192.168.1.{address}, mac: \"{mac}\", port: lan }}"
        );
    }
    yaml
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
