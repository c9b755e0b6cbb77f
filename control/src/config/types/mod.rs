//! The validated configuration. Every value here has been checked; references are indices into the lists of
//! [`Config`], and whatever the file left out has its default. Items keep the place where they were written, so
//! that later stages (a device that is missing, a CPU that does not exist) can point at it.

mod marks;
mod network;
mod node;
mod service;
mod snat;

pub use dataplane::neighbour::Prefix;
pub use marks::Mark;
pub use network::{
    AddressRange, Bond, BondMode, Device, Exception, InterfaceAddress, Link, LocalAddresses, Neighbour,
    Owner, Port, PortRange, Route,
};
pub use node::{Api, Hugepages, Idle, Limits, MOST_WORKERS, Metrics, Node, Workers};
pub use service::{Listener, Pool, Server, Service, Vip};
pub use snat::{SnatProtocol, SnatRule};

use dataplane::service::Settings;
use std::collections::HashMap;
use std::net::IpAddr;

use super::Diagnostic;

/// A whole configuration file, validated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The file as it was named to [`load`](super::load) or [`parse`](super::parse), to build messages with.
    pub file: String,
    /// The gateway as a process: workers, memory, limits.
    pub node: Node,
    /// The API socket.
    pub api: Api,
    /// The Prometheus endpoint.
    pub metrics: Metrics,
    /// Ethernet ports: those with a device, then VLANs of them, both in the order of the file. The index is the
    /// `PortId` of the data plane; there are 1 to 255.
    pub ports: Vec<Port>,
    /// Static routes, beside the connected prefixes of `ports`.
    pub routes: Vec<Route>,
    /// Destinations that no route leads to, whatever wider prefix has one.
    pub unreachable: Vec<Prefix>,
    /// The kernel's routing table whose routes are taken over, where its devices stand for ports.
    pub kernel_routes: Option<u32>,
    /// Whether VIPs are announced that do not say otherwise: they are addresses of the kernel's `lo` while they can be
    /// served.
    pub announce: bool,
    /// Static neighbours.
    pub neighbours: Vec<Neighbour>,
    /// Named groups of local addresses for FULLNAT.
    pub local_addresses: Vec<LocalAddresses>,
    /// Named groups of servers.
    pub pools: Vec<Pool>,
    /// Virtual services. One with several listeners is several services of LVS that share everything else.
    pub services: Vec<Service>,
    /// Which packets get which firewall mark: the first rule that a packet falls under decides.
    pub marks: Vec<Mark>,
    /// VIPs that do otherwise than `settings` says.
    pub vips: Vec<Vip>,
    /// Rules of SNAT: the first that a packet falls under decides.
    pub snat: Vec<SnatRule>,
    /// Connection timeouts, and behaviour that holds for all services.
    pub settings: Settings,
    /// Findings that do not stop the file from being used, in the order of their places.
    pub warnings: Vec<Diagnostic>,
}

impl Config {
    /// How many ports have a device of their own. They come first in `ports`.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.ports.iter().filter_map(Port::device).count()
    }

    /// What tells whether a VIP is to be announced while it can be served. Never one of which the kernel is the owner.
    pub fn announces(&self) -> impl Fn(IpAddr) -> bool + use<> {
        let own = self.vips.iter().map(|vip| {
            let wanted = vip.announce.unwrap_or(self.announce);
            (vip.address, wanted && vip.owner == Owner::Gateway)
        });
        let (own, others) = (own.collect::<HashMap<_, _>>(), self.announce);
        move |vip| own.get(&vip).copied().unwrap_or(others)
    }

    /// Whether any VIP may ever be announced.
    #[must_use]
    pub fn announces_any(&self) -> bool {
        self.announce || self.vips.iter().any(|vip| vip.announce == Some(true))
    }

    /// The addresses that are the gateway's only while the kernel has them.
    pub fn kernel_owned(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let vips = self.vips.iter().filter(|vip| vip.owner == Owner::Kernel);
        let groups = self.local_addresses.iter();
        let groups = groups.filter(|group| group.owner == Owner::Kernel);
        vips.map(|vip| vip.address)
            .chain(groups.flat_map(LocalAddresses::addresses))
    }
}
