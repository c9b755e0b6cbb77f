//! The snapshot itself, with what is derived from its services so that no packet has to search.

use super::derived::{self, Derived};
use super::{
    Extras, MarkRules, NoServer, NoService, PortSettings, Protocol, Service, ServiceKey, Settings, SnatRules,
    StaticNeighbour, VipPolicy,
};
use crate::flow::{Flags, Record, Timeouts};
use crate::neighbour::{AddressTable, RouteTable};
use crate::packet::PortId;
use crate::worker::shard::ShardMap;
use hashbrown::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// What the configuration says of the slot of a server or SNAT rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Presence {
    /// It has been removed, or never was.
    #[default]
    Gone,
    /// It is there.
    Here,
    /// It is there with weight 0, and the UDP connections that it has leave it.
    Leaving,
}

/// Everything of the configuration that workers read.
#[derive(Debug)]
pub struct Snapshot {
    /// Number of this snapshot; workers report it once they use it.
    pub epoch: u64,
    /// Settings that hold for all services.
    pub settings: Settings,
    /// Which worker owns which shard.
    pub shards: ShardMap,
    /// What each address of ours is; shared with the predecessor while unchanged.
    pub addresses: Arc<AddressTable>,
    /// Where packets go; shared with the predecessor while unchanged.
    pub routes: Arc<RouteTable>,
    /// Neighbours that are never asked for their MAC address; shared with the predecessor while unchanged.
    pub neighbours: Arc<[StaticNeighbour]>,
    /// The Ethernet ports, VLANs included: the same, in the same order, as long as the gateway runs, but for their
    /// addresses. Neighbours and packets name them by index.
    pub ports: Arc<[PortSettings]>,
    /// What single VIPs do otherwise than the settings say; shared with the predecessor while unchanged.
    pub vips: Arc<HashMap<IpAddr, VipPolicy>>,
    /// The rules of SNAT; shared with the predecessor while unchanged.
    pub snat: Arc<SnatRules>,
    /// The rules of firewall marks; shared with the predecessor while unchanged.
    pub marks: Arc<MarkRules>,
    services: Vec<Option<Arc<Service>>>,
    /// By service slot.
    extras: Vec<Extras>,
    derived: Derived,
}

/// The parts of a snapshot that are not derived from its services.
#[derive(Clone, Debug)]
pub struct Network {
    /// Which worker owns which shard.
    pub shards: ShardMap,
    /// What each address of ours is; shared with the predecessor while unchanged.
    pub addresses: Arc<AddressTable>,
    /// Where packets go.
    pub routes: Arc<RouteTable>,
    /// Neighbours that are never asked for their MAC address.
    pub neighbours: Arc<[StaticNeighbour]>,
    /// The Ethernet ports.
    pub ports: Arc<[PortSettings]>,
    /// What single VIPs do otherwise than the settings say.
    pub vips: Arc<HashMap<IpAddr, VipPolicy>>,
    /// The rules of SNAT.
    pub snat: Arc<SnatRules>,
    /// The rules of firewall marks.
    pub marks: Arc<MarkRules>,
}

#[cfg(test)]
thread_local! {
    /// How often a service has been looked at in this thread: there is no other way to one.
    pub(crate) static LOOKUPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl Snapshot {
    /// Builds a snapshot from services at their slots, and the memory of their schedulers.
    #[must_use]
    pub fn new(
        epoch: u64,
        settings: Settings,
        network: Network,
        services: Vec<Option<Arc<Service>>>,
    ) -> Snapshot {
        for service in services.iter().flatten() {
            service.prepare(network.shards.workers().into());
        }
        let derived = Derived::new(&settings, &network, &services);
        Snapshot::of(epoch, settings, network, services, derived)
    }

    /// As [`Snapshot::new`], for the successor of this one: what it costs is by how many services have changed.
    #[must_use]
    pub fn next(
        &self,
        epoch: u64,
        settings: Settings,
        network: Network,
        services: Vec<Option<Arc<Service>>>,
    ) -> Snapshot {
        let changed = || derived::changed(&services, &self.services);
        let alone = self.derived.replies.is_empty()
            && !changed().any(|service| derived::depends_on_others(service))
            && !settings.nat_icmp_send
            && !self.settings.nat_icmp_send
            && Arc::ptr_eq(&network.snat, &self.snat);
        if !alone || network.shards.workers() != self.shards.workers() {
            return Snapshot::new(epoch, settings, network, services);
        }
        for service in changed() {
            service.prepare(network.shards.workers().into());
        }
        let derived = Derived::after(&self.derived, &self.services, &services);
        Snapshot::of(epoch, settings, network, services, derived)
    }

    fn of(
        epoch: u64,
        settings: Settings,
        network: Network,
        services: Vec<Option<Arc<Service>>>,
        derived: Derived,
    ) -> Snapshot {
        let extras = services.iter();
        let extras = extras.map(|service| service.as_deref().map(Extras::of).unwrap_or_default());
        let Network {
            shards,
            addresses,
            routes,
            neighbours,
            ports,
            vips,
            snat,
            marks,
        } = network;
        Snapshot {
            epoch,
            settings,
            shards,
            addresses,
            routes,
            neighbours,
            ports,
            vips,
            snat,
            marks,
            extras: extras.collect(),
            services,
            derived,
        }
    }

    /// The service in that slot.
    #[inline]
    #[must_use]
    pub fn service(&self, slot: u32) -> Option<&Arc<Service>> {
        #[cfg(test)]
        LOOKUPS.set(LOOKUPS.get() + 1);
        self.services.get(slot as usize)?.as_ref()
    }

    /// What few services have, and the one in that slot has.
    #[inline]
    #[must_use]
    pub fn extras(&self, slot: u32) -> Extras {
        self.extras.get(slot as usize).copied().unwrap_or_default()
    }

    /// How many service slots the snapshot spans.
    #[must_use]
    pub fn service_slots(&self) -> usize {
        self.services.len()
    }

    /// The service that is addressed by `key`.
    #[inline]
    #[must_use]
    pub fn find(&self, key: &ServiceKey) -> Option<&Arc<Service>> {
        self.service(*self.derived.by_key.get(&key.words())?)
    }

    /// The service of packets to this endpoint (port in host order). One on that very port comes first; then, as in LVS,
    /// the persistent service of FTP's port for what may be data of FTP, and the one for all ports.
    #[inline]
    #[must_use]
    pub fn find_for(&self, address: IpAddr, port: u16, protocol: Protocol) -> Option<&Arc<Service>> {
        let at = |port| self.find(&ServiceKey::new(address, port, protocol));
        at(port).or_else(|| self.find_persistent(address, port, protocol))
    }

    /// The persistent service of more than one port that packets to this endpoint are for.
    #[cold]
    fn find_persistent(&self, address: IpAddr, port: u16, protocol: Protocol) -> Option<&Arc<Service>> {
        const FTP: u16 = 21;
        const FTP_DATA: u16 = 20;
        let persistent = |port| {
            let found = self.find(&ServiceKey::new(address, port, protocol));
            found.filter(|service| service.persistence.is_some())
        };
        let maybe_data = protocol == Protocol::Tcp && (port == FTP_DATA || port >= 1024);
        let data = persistent(FTP).filter(|_| maybe_data);
        data.or_else(|| persistent(0))
    }

    /// Whether there is neither a service nor a rule of SNAT. LVS then touches no packet, not even of the connections
    /// that it still lists.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.derived.by_key.is_empty() && self.snat.is_empty()
    }

    /// Whether any service or rule of SNAT takes local ports. Looks at every service: for the start.
    #[must_use]
    pub fn takes_local_ports(&self) -> bool {
        let mut services = self.services.iter().flatten();
        !self.snat.is_empty() || services.any(|service| !service.local_pools.is_empty())
    }

    /// Whether the server or SNAT rule in that slot is still configured.
    #[must_use]
    pub fn server_present(&self, slot: u32) -> bool {
        self.presence(slot) != Presence::Gone
    }

    /// What has become of the server or SNAT rule in that slot.
    #[inline]
    #[must_use]
    pub fn presence(&self, slot: u32) -> Presence {
        self.derived
            .present
            .get(slot as usize)
            .copied()
            .unwrap_or_default()
    }

    /// The timeouts of a connection: those of its service or SNAT rule, else those of the settings.
    #[inline]
    #[must_use]
    pub fn timeouts_of(&self, record: &Record) -> &Timeouts {
        let is_snat = record.flags.has(Flags::SNAT);
        if is_snat || self.extras(record.service).has_any(Extras::TIMEOUTS) {
            self.own_timeouts(record).unwrap_or(&self.settings.timeouts)
        } else {
            &self.settings.timeouts
        }
    }

    #[cold]
    fn own_timeouts(&self, record: &Record) -> Option<&Timeouts> {
        if record.flags.has(Flags::SNAT) {
            let rule = self.snat.by_slot(record.server);
            rule.and_then(|rule| rule.timeouts.as_deref())
        } else {
            let service = self.service(record.service);
            service.and_then(|service| service.timeouts.as_deref())
        }
    }

    /// Whether any server is reached by NAT: only then can a packet to a stranger be a server's reply.
    #[must_use]
    pub fn has_nat(&self) -> bool {
        self.derived.nat > 0
    }

    /// The VIP and port (host order) that a NAT server answers for from this endpoint (port in host order) without a
    /// connection: those of a one-packet service whose replies are translated.
    #[must_use]
    pub fn reply_to(&self, server: IpAddr, port: u16, protocol: Protocol) -> Option<(IpAddr, u16)> {
        self.derived.replies.get(&(server, port, protocol)).copied()
    }

    /// Whether this is the endpoint (port in host order) of a NAT server whose stray packets are answered by ICMP:
    /// never without the setting `nat_icmp_send`.
    #[must_use]
    pub fn is_nat_server(&self, server: IpAddr, port: u16, protocol: Protocol) -> bool {
        self.derived.nat_servers.contains(&(server, port, protocol))
    }

    /// What happens to packets for a port of `vip` without a service, and for a service of it without a usable
    /// server.
    #[must_use]
    pub fn vip_policy(&self, vip: IpAddr) -> (NoService, NoServer) {
        let own = self.vips.get(&vip).copied().unwrap_or_default();
        (
            own.no_service.unwrap_or(self.settings.no_service),
            own.no_server.unwrap_or(self.settings.no_server),
        )
    }

    /// Whether ARP requests or neighbour solicitations for `address` are answered on `port`: it is that port's to
    /// answer for, or the port's link-local address.
    #[must_use]
    pub fn answers_for(&self, port: PortId, address: IpAddr) -> bool {
        self.addresses.owner(address) == Some(port) || self.is_link_local_of(port, address)
    }

    /// Whether the same is derived in both.
    #[cfg(test)]
    pub(super) fn knows_as(&self, other: &Snapshot) -> bool {
        self.derived.is_as(&other.derived)
    }

    fn is_link_local_of(&self, port: PortId, address: IpAddr) -> bool {
        let settings = self.ports.get(usize::from(port.0));
        matches!((settings, address), (Some(settings), IpAddr::V6(address)) if settings.has_link_local(address))
    }
}
