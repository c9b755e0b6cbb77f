//! The immutable snapshot of the configuration that workers read: services, servers, addresses, routes.
//! `control` compiles and publishes it; workers take it at a burst's edge and never change it.

use crate::flow::{Mode, Timeouts};
use crate::local::LipPool;
use crate::neighbour::{AddressTable, RouteTable};
use crate::packet::{MacAddr, PortId};
use crate::scheduler::SchedulerKind;
use crate::worker::shard::ShardMap;
use hashbrown::HashMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// A transport protocol that services balance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Protocol {
    /// TCP, IP protocol 6.
    Tcp = 6,
    /// UDP, IP protocol 17.
    Udp = 17,
}

impl Protocol {
    /// The protocol of that IP protocol number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Protocol> {
        match number {
            6 => Some(Protocol::Tcp),
            17 => Some(Protocol::Udp),
            _ => None,
        }
    }

    /// Lower-case name: `tcp`, `udp`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        }
    }
}

/// The lower-case name.
impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What identifies a service: VIP, port (host order) and protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct ServiceKey {
    /// The virtual address.
    pub address: Ipv4Addr,
    /// The virtual port, host order.
    pub port: u16,
    /// The transport protocol.
    pub protocol: Protocol,
}

/// As operators write it: `203.0.113.100:80/tcp`.
impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.address, self.port, self.protocol.name())
    }
}

/// A real server of one service. The forwarding mode belongs to the server, as in LVS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// Stable slot: worker-side counters and state are indexed by it, and connection records name it.
    pub slot: u32,
    /// The server's address.
    pub address: Ipv4Addr,
    /// The server's port, host order.
    pub port: u16,
    /// Share of new connections; 0 = quiesced. At most 2,147,483,647.
    pub weight: u32,
    /// How packets reach the server.
    pub mode: Mode,
    /// Connections (active and inactive) at which the server counts as overloaded; 0 = no limit.
    pub upper_threshold: u32,
    /// Connections below which an overloaded server is used again; 0 = three quarters of the upper threshold.
    pub lower_threshold: u32,
}

/// A virtual service.
#[derive(Clone, Debug)]
pub struct Service {
    /// Stable slot: worker-side scheduler state is indexed by it.
    pub slot: u32,
    /// What identifies the service.
    pub key: ServiceKey,
    /// The scheduling algorithm.
    pub scheduler: SchedulerKind,
    /// Every datagram is scheduled on its own, without a connection (UDP only).
    pub one_packet: bool,
    /// Local addresses for FULLNAT servers, tried in this order.
    pub local_pools: Vec<Arc<LipPool>>,
    /// The servers in LVS's list order: the one added last comes first.
    pub servers: Vec<Server>,
    /// Raised by every addition, edit or removal of a server, also one that changes no value.
    pub revision: u64,
}

/// What the gateway does with a packet to a VIP's port that no service has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NoService {
    /// Tell the sender: TCP reset, or ICMP port unreachable.
    #[default]
    Reject,
    /// Drop in silence.
    Drop,
}

/// Settings that hold for all services.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Timeouts of connections.
    pub timeouts: Timeouts,
    /// Whether any TCP segment but a reset may open a connection, not only a SYN.
    pub sloppy_tcp: bool,
    /// Bit 0: a SYN on a connection in TIME_WAIT opens a new one; bit 1: also in DR's FIN_WAIT.
    pub conn_reuse_mode: u8,
    /// Whether a packet of a connection whose server is gone ends the connection.
    pub expire_nodest_conn: bool,
    /// What happens to packets for a VIP's port without a service.
    pub no_service: NoService,
    /// ICMP errors and TCP resets that a worker may send in a second.
    pub icmp_rate: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            timeouts: Timeouts::default(),
            sloppy_tcp: false,
            conn_reuse_mode: 1,
            expire_nodest_conn: false,
            no_service: NoService::Reject,
            icmp_rate: 1000,
        }
    }
}

/// An Ethernet port as the packet path sees it; its index is its [`crate::packet::PortId`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortSettings {
    /// The port's MAC address.
    pub mac: MacAddr,
    /// Take unicast frames whatever their destination MAC: for devices that have no MAC of their own.
    pub any_mac: bool,
    /// Largest IP packet that may leave through it, in bytes.
    pub mtu: u16,
    /// The port's own addresses, with the length of the prefix of each.
    pub addresses: Vec<(Ipv4Addr, u8)>,
    /// A software device whose peer may leave partial checksums: look for them.
    pub check_partial: bool,
}

impl PortSettings {
    /// The port's own address in the prefix that holds `neighbour`, else its first one, else 0.0.0.0.
    #[must_use]
    pub fn source_for(&self, neighbour: Ipv4Addr) -> Ipv4Addr {
        let near = |&&(address, length): &&(Ipv4Addr, u8)| {
            let shift = 32 - u32::from(length.min(32));
            (address.to_bits() ^ neighbour.to_bits())
                .checked_shr(shift)
                .unwrap_or(0)
                == 0
        };
        let own = self.addresses.iter().find(near).or(self.addresses.first());
        own.map_or(Ipv4Addr::UNSPECIFIED, |&(address, _)| address)
    }
}

/// A neighbour whose MAC address is configured and never asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StaticNeighbour {
    /// The port that it is behind.
    pub port: PortId,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its MAC address.
    pub mac: MacAddr,
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
    /// The Ethernet ports.
    pub ports: Arc<[PortSettings]>,
    services: Vec<Option<Arc<Service>>>,
    by_key: HashMap<ServiceKey, u32>,
    present: Vec<bool>,
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
}

impl Snapshot {
    /// Builds a snapshot from services at their slots.
    #[must_use]
    pub fn new(
        epoch: u64,
        settings: Settings,
        network: Network,
        services: Vec<Option<Arc<Service>>>,
    ) -> Snapshot {
        let mut by_key = HashMap::with_capacity(services.len());
        let mut present = Vec::new();
        for service in services.iter().flatten() {
            by_key.insert(service.key, service.slot);
            for server in &service.servers {
                let slot = server.slot as usize;
                if present.len() <= slot {
                    present.resize(slot + 1, false);
                }
                present[slot] = true;
            }
        }
        let Network {
            shards,
            addresses,
            routes,
            neighbours,
            ports,
        } = network;
        Snapshot {
            epoch,
            settings,
            shards,
            addresses,
            routes,
            neighbours,
            ports,
            services,
            by_key,
            present,
        }
    }

    /// The service in that slot.
    #[must_use]
    pub fn service(&self, slot: u32) -> Option<&Arc<Service>> {
        self.services.get(slot as usize)?.as_ref()
    }

    /// How many service slots the snapshot spans.
    #[must_use]
    pub fn service_slots(&self) -> usize {
        self.services.len()
    }

    /// The service that is addressed by `key`.
    #[must_use]
    pub fn find(&self, key: &ServiceKey) -> Option<&Arc<Service>> {
        self.service(*self.by_key.get(key)?)
    }

    /// Whether the server in that slot is still configured.
    #[must_use]
    pub fn server_present(&self, slot: u32) -> bool {
        self.present.get(slot as usize).copied().unwrap_or(false)
    }
}
