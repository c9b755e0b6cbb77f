//! Ethernet ports.

use crate::config::{self, Link};
use crate::gateway::{Gateway, Member, PortCounters, Spread};
use dataplane::service::PortSettings;
use serde::{Deserialize, Serialize};

/// An Ethernet port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Port {
    /// Its number: the order of the configuration.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// The device, as DPDK is told of it. A VLAN has none of its own.
    pub device: Option<String>,
    /// The DPDK driver of that device.
    pub driver: Option<String>,
    /// The name of the port that the VLAN is on.
    pub parent: Option<String>,
    /// The VLAN's number, 1 to 4094.
    pub vlan: Option<u16>,
    /// Its MAC address.
    pub mac: String,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Whether the link is up; that of a VLAN is its parent's.
    pub link_up: bool,
    /// How often that link has come up or gone down since the start.
    pub link_changes: u64,
    /// The members of a bond, in the order of the configuration.
    pub members: Vec<Member>,
    /// Its own addresses, with the length of the prefix of each.
    pub addresses: Vec<String>,
    /// What the device counts, the frames of its VLANs included.
    pub counters: Option<PortCounters>,
    /// Receive queues of that device.
    pub queues: Option<u16>,
    /// How that device spreads packets over the workers.
    pub spread: Option<Spread>,
    /// Packets that workers received from it.
    pub worker_received: u64,
    /// Packets that workers sent by it.
    pub worker_sent: u64,
}

/// Every Ethernet port, VLANs last.
#[must_use]
pub fn ports(gateway: &Gateway) -> Vec<Port> {
    let links = gateway.links();
    let state = gateway.state();
    let configured = state.config.ports.iter().zip(state.model.network().ports.iter());
    let view = |(number, (port, settings)): (usize, (&config::Port, &PortSettings))| {
        let (parent, vlan) = match port.link {
            Link::Device(_) => (None, None),
            Link::Vlan { parent, id } => (Some(parent), Some(id)),
        };
        // The devices stand in the order of their ports, which come before VLANs.
        let device = gateway.ports().get(parent.unwrap_or(number));
        let link = links.get(parent.unwrap_or(number));
        let own = device.filter(|_| parent.is_none());
        let stats = || gateway.workers().iter().map(|worker| &worker.stats);
        Port {
            number,
            name: port.name.clone(),
            device: port.device().map(|device| device.argument().to_owned()),
            driver: own.map(|device| device.driver()),
            parent: parent.map(|parent| state.config.ports[parent].name.clone()),
            vlan,
            mac: settings.mac.to_string(),
            mtu: settings.mtu,
            link_up: link.is_some_and(|link| link.look.up),
            link_changes: link.map_or(0, |link| link.changes),
            members: link
                .filter(|_| parent.is_none())
                .map_or_else(Vec::new, |link| link.look.members.clone()),
            addresses: settings
                .addresses
                .iter()
                .map(|(own, length)| format!("{own}/{length}"))
                .collect(),
            counters: own.map(|device| device.counters()),
            queues: own.map(|device| device.queues()),
            spread: own.map(|device| device.spread()),
            worker_received: stats().map(|stats| stats.port_received[number].get()).sum(),
            worker_sent: stats().map(|stats| stats.port_sent[number].get()).sum(),
        }
    };
    configured.enumerate().map(view).collect()
}
