//! The immutable snapshot of the configuration that workers read: services, servers, addresses, routes.
//! `control` compiles and publishes it; workers take it at a burst's edge and never change it.

use crate::flow::{Mode, Timeouts};
use crate::local::LipPool;
use crate::neighbour::{AddressTable, Prefix, RouteTable};
use crate::packet::{MacAddr, PortId};
use crate::scheduler::SchedulerKind;
use crate::time::seconds;
use crate::worker::shard::ShardMap;
use hashbrown::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A transport protocol that services balance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Protocol {
    /// TCP, IP protocol 6.
    Tcp = 6,
    /// UDP, IP protocol 17.
    Udp = 17,
    /// SCTP, IP protocol 132.
    Sctp = 132,
}

impl Protocol {
    /// The protocol of that IP protocol number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Protocol> {
        match number {
            6 => Some(Protocol::Tcp),
            17 => Some(Protocol::Udp),
            132 => Some(Protocol::Sctp),
            _ => None,
        }
    }

    /// Lower-case name: `tcp`, `udp`, `sctp`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
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

/// How a TUN server's packets are wrapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum TunnelKind {
    /// IP in IP (RFC 2003, RFC 2473, RFC 4213).
    #[default]
    Ipip,
    /// Generic UDP encapsulation, to this UDP port (host order).
    Gue {
        /// The destination port, host order.
        port: u16,
    },
    /// Generic routing encapsulation (RFC 2784).
    Gre,
}

/// Whether a tunnel's own header carries a checksum over what it wraps. IPIP has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum TunnelChecksum {
    /// None: GUE's UDP checksum is 0, GRE has no checksum field.
    #[default]
    None,
    /// GUE's UDP checksum or GRE's checksum is computed.
    Outer,
    /// GUE with remote checksum offload: as [`TunnelChecksum::Outer`] for packets whose own checksum is complete,
    /// which all are that leave this gateway.
    Remote,
}

/// The tunnel to a TUN server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Tunnel {
    /// The encapsulation.
    pub kind: TunnelKind,
    /// Its checksum.
    pub checksum: TunnelChecksum,
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
    /// How a TUN server's packets are wrapped; of no meaning in other modes.
    pub tunnel: Tunnel,
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
    /// One-packet NAT: replies of the servers are translated back although no connection remains.
    pub translate_replies: bool,
    /// NAT: a client on the server's own link is translated as by FULLNAT, from `local_pools`, so that the server's
    /// replies come back through the gateway.
    pub hairpin_snat: bool,
    /// The largest TCP segment (MSS option, bytes) that SYNs may announce; 0 = as they say.
    pub mss_clamp: u16,
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

/// What the gateway tells the sender of a packet for a service that has no usable server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NoServer {
    /// ICMP port unreachable, for TCP too, as LVS does.
    #[default]
    Icmp,
    /// TCP reset; ICMP port unreachable for other protocols.
    Reset,
    /// Nothing.
    Drop,
}

/// What one VIP does otherwise than [`Settings`] says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VipPolicy {
    /// What happens to packets for a port without a service; none = as for all.
    pub no_service: Option<NoService>,
    /// What happens to packets for a service without a usable server; none = as for all.
    pub no_server: Option<NoServer>,
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
    /// What happens to packets for a service without a usable server.
    pub no_server: NoServer,
    /// Whether an SCTP packet without an INIT chunk may open a connection.
    pub sloppy_sctp: bool,
    /// Whether an ICMP error about no connection may open one for the packet that it quotes.
    pub schedule_icmp: bool,
    /// Whether a NAT server whose packet belongs to no connection is told so by ICMP port unreachable.
    pub nat_icmp_send: bool,
    /// Whether tunnels keep the client's DF, and clients are told of a tunnel's MTU; without it, tunnel packets
    /// that are too big are fragmented.
    pub pmtu_disc: bool,
    /// Whether packets that are neither for the gateway nor of a connection are routed on, as a router does.
    pub transit: bool,
    /// Tunnels take their IPv4 source address by flow from this prefix instead of the port's own address.
    pub tunnel_source: Option<Prefix>,
    /// Tunnels take their IPv6 source address by flow from this prefix (address and length, at most 128).
    pub tunnel_source6: Option<(Ipv6Addr, u8)>,
    /// How long the fragments of a packet may take to arrive, in ticks.
    pub fragment_timeout: u32,
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
            no_server: NoServer::Icmp,
            sloppy_sctp: false,
            schedule_icmp: false,
            nat_icmp_send: false,
            pmtu_disc: true,
            transit: false,
            tunnel_source: None,
            tunnel_source6: None,
            fragment_timeout: seconds(30),
            icmp_rate: 1000,
        }
    }
}

/// A port that is a VLAN of another one (IEEE 802.1Q).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vlan {
    /// The port whose frames carry the tag.
    pub parent: PortId,
    /// The VLAN's number, 1 to 4094.
    pub id: u16,
}

/// An Ethernet port as the packet path sees it; its index is its [`crate::packet::PortId`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortSettings {
    /// The port's MAC address.
    pub mac: MacAddr,
    /// Take unicast frames whatever their destination MAC: for devices that have no MAC of their own.
    pub any_mac: bool,
    /// The VLAN that the port is; none for a port with queues of its own. Those come first, VLANs after them.
    pub vlan: Option<Vlan>,
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
    /// What single VIPs do otherwise than the settings say; shared with the predecessor while unchanged.
    pub vips: Arc<HashMap<IpAddr, VipPolicy>>,
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
    /// What single VIPs do otherwise than the settings say.
    pub vips: Arc<HashMap<IpAddr, VipPolicy>>,
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
            vips,
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
