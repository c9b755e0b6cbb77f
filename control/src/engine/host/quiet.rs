//! Interfaces of the kernel that the gateway shares with it by `net_af_packet`: the kernel sees all of their packets
//! too. As long as it has no address that does no harm. With the port's addresses on a TAP device it would answer ARP
//! and connections on the interface as well as there, so it is told to leave the interface alone.

use super::super::peer;
use crate::config::Device;
use std::fs;
use std::path::PathBuf;

/// Answer ARP for no address; drop what another device leads back to; no IPv6.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("ipv4", "arp_ignore", "8"),
    ("ipv4", "rp_filter", "1"),
    ("ipv6", "disable_ipv6", "1"),
];

/// Keeps the kernel's own stack off the interface of a port, where it has one.
pub(super) fn keep_kernel_off(device: &Device) {
    if !device.argument().starts_with("net_af_packet") {
        return;
    }
    let Some(interface) = peer::interface(device) else {
        return;
    };
    for (family, key, value) in SETTINGS {
        let path = file(family, interface, key);
        // A kernel without IPv6 has nothing to be switched off.
        if family == "ipv6" && !path.exists() {
            continue;
        }
        if let Err(error) = fs::write(&path, value) {
            tracing::warn!(
                interface,
                "the kernel may answer beside the gateway: {key} stays as it is: {error}; write \
                 net.{family}.conf.{interface}.{key}={value} by sysctl"
            );
        }
    }
    tracing::info!(
        interface,
        "the kernel leaves this interface alone (arp_ignore, rp_filter, disable_ipv6), also when the gateway has ended"
    );
}

fn file(family: &str, interface: &str, key: &str) -> PathBuf {
    PathBuf::from(format!("/proc/sys/net/{family}/conf/{interface}/{key}"))
}
