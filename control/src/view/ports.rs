//! Ethernet ports.

use crate::gateway::{Gateway, PortCounters};
use serde::{Deserialize, Serialize};

/// An Ethernet port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Port {
    /// Its number: the order of the configuration.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// The device, as DPDK is told of it.
    pub device: String,
    /// The DPDK driver.
    pub driver: String,
    /// Its MAC address.
    pub mac: String,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Whether the link is up.
    pub link_up: bool,
    /// Its own addresses, with the length of the prefix of each.
    pub addresses: Vec<String>,
    /// What the device counts.
    pub counters: PortCounters,
    /// Packets that workers received from it.
    pub worker_received: u64,
    /// Packets that workers sent by it.
    pub worker_sent: u64,
}

/// Every Ethernet port, in the order of the configuration.
#[must_use]
pub fn ports(gateway: &Gateway) -> Vec<Port> {
    let state = gateway.state();
    let configured = state.config.ports.iter().zip(state.model.network().ports.iter());
    let ports = configured
        .zip(gateway.ports())
        .enumerate()
        .map(|(number, ((named, settings), device))| {
            let stats = || gateway.workers().iter().map(|worker| &worker.stats);
            Port {
                number,
                name: named.name.clone(),
                device: named.device.argument().to_owned(),
                driver: device.driver(),
                mac: settings.mac.to_string(),
                mtu: settings.mtu,
                link_up: device.link_up(),
                addresses: settings
                    .addresses
                    .iter()
                    .map(|(own, length)| format!("{own}/{length}"))
                    .collect(),
                counters: device.counters(),
                worker_received: stats().map(|stats| stats.port_received[number].get()).sum(),
                worker_sent: stats().map(|stats| stats.port_sent[number].get()).sum(),
            }
        });
    ports.collect()
}
