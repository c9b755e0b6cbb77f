//! The snapshot itself, with what is derived from its services so that no packet has to search.

use super::{
    Extras, MarkRules, NoServer, NoService, PortSettings, Protocol, Server, Service, ServiceKey, Settings,
    SnatRules, StaticNeighbour, VipPolicy,
};
use crate::flow::{Flags, Mode, Record, Timeouts};
use crate::neighbour::{AddressTable, RouteTable};
use crate::packet::PortId;
use crate::worker::shard::ShardMap;
use hashbrown::{HashMap, HashSet};
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
    /// By [`ServiceKey::words`].
    by_key: HashMap<(u128, u32), u32>,
    /// By server slot.
    present: Vec<Presence>,
    has_nat: bool,
    /// Endpoints of NAT servers; empty unless `nat_icmp_send` asks for them.
    nat_servers: HashSet<(IpAddr, u16, Protocol)>,
    /// By a server's endpoint: the endpoint of its one-packet service.
    replies: HashMap<(IpAddr, u16, Protocol), (IpAddr, u16)>,
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

impl Snapshot {
    /// Builds a snapshot from services at their slots, and the memory of their schedulers.
    #[must_use]
    pub fn new(
        epoch: u64,
        settings: Settings,
        network: Network,
        services: Vec<Option<Arc<Service>>>,
    ) -> Snapshot {
        let mut by_key = HashMap::with_capacity(services.len());
        let mut present = Vec::new();
        let mut has_nat = false;
        let mut mark_present = |slot: u32, presence: Presence| {
            let slot = slot as usize;
            if present.len() <= slot {
                present.resize(slot + 1, Presence::Gone);
            }
            present[slot] = presence;
        };
        for rule in network.snat.rules() {
            mark_present(rule.slot, Presence::Here);
        }
        for service in services.iter().flatten() {
            service.prepare(network.shards.workers().into());
            by_key.insert(service.key.words(), service.slot);
            for server in &service.servers {
                mark_present(server.slot, presence(service, server));
                has_nat |= server.mode == Mode::Nat;
            }
        }
        let extras = services.iter();
        let extras = extras.map(|service| service.as_deref().map(Extras::of).unwrap_or_default());
        let replies = replies(&services);
        let nat_servers = if settings.nat_icmp_send {
            nat_servers(&services)
        } else {
            HashSet::new()
        };
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
            by_key,
            present,
            has_nat,
            nat_servers,
            replies,
        }
    }

    /// The service in that slot.
    #[inline]
    #[must_use]
    pub fn service(&self, slot: u32) -> Option<&Arc<Service>> {
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
        self.service(*self.by_key.get(&key.words())?)
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
        self.by_key.is_empty() && self.snat.is_empty()
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
        self.present.get(slot as usize).copied().unwrap_or_default()
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
        self.has_nat
    }

    /// The VIP and port (host order) that a NAT server answers for from this endpoint (port in host order) without a
    /// connection: those of a one-packet service whose replies are translated.
    #[must_use]
    pub fn reply_to(&self, server: IpAddr, port: u16, protocol: Protocol) -> Option<(IpAddr, u16)> {
        self.replies.get(&(server, port, protocol)).copied()
    }

    /// Whether this is the endpoint (port in host order) of a NAT server whose stray packets are answered by ICMP:
    /// never without the setting `nat_icmp_send`.
    #[must_use]
    pub fn is_nat_server(&self, server: IpAddr, port: u16, protocol: Protocol) -> bool {
        self.nat_servers.contains(&(server, port, protocol))
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

    fn is_link_local_of(&self, port: PortId, address: IpAddr) -> bool {
        let settings = self.ports.get(usize::from(port.0));
        matches!((settings, address), (Some(settings), IpAddr::V6(address)) if settings.has_link_local(address))
    }
}

fn presence(service: &Service, server: &Server) -> Presence {
    let leaves = service.policy.expire_quiescent
        && service
            .key
            .protocol()
            .is_none_or(|protocol| protocol == Protocol::Udp);
    if leaves && server.weight == 0 {
        Presence::Leaving
    } else {
        Presence::Here
    }
}

/// Whose replies are translated back although no connection remains. A server of several such services answers for
/// the first in the order of keys: nothing in its reply tells which was asked.
fn replies(services: &[Option<Arc<Service>>]) -> HashMap<(IpAddr, u16, Protocol), (IpAddr, u16)> {
    let translated = |service: &&Arc<Service>| service.one_packet && service.translate_replies;
    let mut sorted: Vec<&Arc<Service>> = services.iter().flatten().filter(translated).collect();
    sorted.sort_unstable_by_key(|service| service.key);
    let mut replies = HashMap::new();
    for service in sorted {
        let ServiceKey::Endpoint {
            address,
            port,
            protocol,
        } = service.key
        else {
            continue;
        };
        for server in service.servers.iter().filter(|server| server.mode == Mode::Nat) {
            let end = (server.address, server.port, protocol);
            replies.entry(end).or_insert((address, port));
        }
    }
    replies
}

fn nat_servers(services: &[Option<Arc<Service>>]) -> HashSet<(IpAddr, u16, Protocol)> {
    let ends = |service: &Arc<Service>| {
        let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
        let own = service.key.protocol();
        let protocols = all
            .into_iter()
            .filter(move |one| own.is_none_or(|own| own == *one));
        let nat = service.servers.iter().filter(|server| server.mode == Mode::Nat);
        nat.flat_map(|server| {
            let protocols = protocols.clone();
            protocols.map(move |protocol| (server.address, server.port, protocol))
        })
        .collect::<Vec<_>>()
    };
    services.iter().flatten().flat_map(ends).collect()
}
