//! The immutable snapshot of the configuration that workers read: services, servers, addresses, routes.
//! `control` compiles and publishes it; workers take it at a burst's edge and never change it.

use crate::flow::{Mode, Timeouts};
use crate::local::LipPool;
use crate::neighbour::Prefix;
use crate::scheduler::{SchedulerFlags, SchedulerKind, SchedulerTables};
use crate::time::seconds;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

mod derived;
mod extras;
mod key;
mod marks;
mod persistence;
mod policy;
mod port;
mod snapshot;
mod snat;
#[cfg(test)]
mod tests;

pub use extras::Extras;
pub use key::ServiceKey;
pub use marks::{MarkQuery, MarkRule, MarkRules};
pub use persistence::{Persistence, PersistenceEngine};
pub use policy::{Limits, OnRemove, Policy};
pub use port::{PortSettings, StaticNeighbour, Vlan};
#[cfg(test)]
pub(crate) use snapshot::LOOKUPS;
pub use snapshot::{Network, Presence, Snapshot};
pub use snat::{SnatQuery, SnatRule, SnatRules};

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

/// How FULLNAT servers learn who their client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum ClientAddress {
    /// They do not.
    #[default]
    None,
    /// TCP: by an option in the segments that complete the handshake, see [`crate::forward::toa`].
    Toa,
    /// By the header of the PROXY protocol, version 2: before the first byte of a TCP connection, in every datagram of
    /// UDP.
    ProxyV2,
}

impl ClientAddress {
    /// As written in configuration and listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ClientAddress::None => "none",
            ClientAddress::Toa => "toa",
            ClientAddress::ProxyV2 => "proxy_v2",
        }
    }
}

/// A real server of one service. The forwarding mode belongs to the server, as in LVS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// Stable slot: worker-side counters and state are indexed by it, and connection records name it.
    pub slot: u32,
    /// The server's address. Of the service's family, but for TUN.
    pub address: IpAddr,
    /// The server's port, host order; 0 = the one that the packet has, see [`Service::port_of`].
    pub port: u16,
    /// Share of new connections; 0 = quiesced. At most 2,147,483,647.
    pub weight: u32,
    /// The weight given last that was not 0: a quiesced server keeps its places in a Maglev table by it. 0 = there
    /// never was one.
    pub table_weight: u32,
    /// Slow start with `sh` and `mh`: percent of the clients hashed to it that it takes already; 100 = all. The others go
    /// where they would without it, so that each comes once, and nobody else moves.
    pub hash_share: u8,
    /// How packets reach the server.
    pub mode: Mode,
    /// How a TUN server's packets are wrapped; of no meaning in other modes.
    pub tunnel: Tunnel,
    /// Connections (active and inactive) at which the server counts as overloaded; 0 = no limit.
    pub upper_threshold: u32,
    /// Connections below which an overloaded server is used again; 0 = three quarters of the upper threshold.
    pub lower_threshold: u32,
    /// Whether the operator has marked it overloaded: as beyond its upper threshold, however few connections it has.
    pub overloaded: bool,
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
    /// Its flags.
    pub scheduler_flags: SchedulerFlags,
    /// Its memory, made with the snapshot.
    pub tables: SchedulerTables,
    /// How clients are kept on their server; none = they are not.
    pub persistence: Option<Persistence>,
    /// What makes a client beside its address, where there is persistence.
    pub engine: Option<PersistenceEngine>,
    /// Every datagram is scheduled on its own, without a connection (UDP only).
    pub one_packet: bool,
    /// One-packet NAT: replies of the servers are translated back although no connection remains.
    pub translate_replies: bool,
    /// NAT: a client on the server's own link is translated as by FULLNAT, from `local_pools`, so that the server's
    /// replies come back through the gateway.
    pub hairpin_snat: bool,
    /// The largest TCP segment (MSS option, bytes) that SYNs may announce; 0 = as they say.
    pub mss_clamp: u16,
    /// How FULLNAT servers learn who their client is.
    pub client_address: ClientAddress,
    /// Timeouts of its connections that differ from those of the settings; none = no such.
    pub timeouts: Option<Arc<Timeouts>>,
    /// How its connections come and end otherwise than in LVS.
    pub policy: Policy,
    /// Local addresses for FULLNAT servers, tried in this order.
    pub local_pools: Vec<Arc<LipPool>>,
    /// The servers in LVS's list order: the one added last comes first.
    pub servers: Vec<Server>,
    /// Raised by every addition, edit or removal of a server, also one that changes no value.
    pub revision: u64,
}

impl Service {
    /// A service to be edited: no longer shared with snapshots, and without the tables of what it was.
    pub fn edit(shared: &mut Arc<Service>) -> &mut Service {
        let service = Arc::make_mut(shared);
        service.tables = SchedulerTables::default();
        service
    }

    /// The port of `server` (host order) that a packet to this port goes to. A service with persistence translates only
    /// its own port, as in LVS: what comes to other ones, by a mark or as data of FTP, keeps its own.
    #[must_use]
    pub fn port_of(&self, server: &Server, port: u16) -> u16 {
        let keeps = server.port == 0 || self.persistence.is_some() && port != self.key.port();
        if keeps { port } else { server.port }
    }

    /// Makes the scheduler's memory for that many workers, unless it is there. For control only: it allocates.
    pub fn prepare(&self, workers: usize) {
        self.tables.prepare(self, workers);
    }
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
    /// Whether a persistent client leaves a server of weight 0 with its next connection.
    pub expire_quiescent_template: bool,
    /// Whether a packet of a connection whose server is gone ends the connection.
    pub expire_nodest_conn: bool,
    /// LVS's defence against half-open connections: 0 never, 3 always, 1 and 2 while connections are short of room.
    /// See [`crate::flow::TcpState::next_secure`].
    pub secure_tcp: u8,
    /// Half-open TCP connections at once, in percent of the connection table.
    pub embryonic_limit: u8,
    /// What happens to packets for a VIP's port without a service.
    pub no_service: NoService,
    /// What happens to packets for a service without a usable server.
    pub no_server: NoServer,
    /// What happens to packets for a FULLNAT server towards which no local port is left.
    pub no_local_port: NoServer,
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
    /// Tunnels take their IPv4 source address by flow from this prefix instead of the port's own address. Routers
    /// have to send what is for the prefix to the gateway, or errors about tunnels are lost.
    pub tunnel_source: Option<Prefix>,
    /// Tunnels take their IPv6 source address by flow from this prefix.
    pub tunnel_source6: Option<Prefix>,
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
            expire_quiescent_template: false,
            expire_nodest_conn: false,
            secure_tcp: 0,
            embryonic_limit: 100,
            no_service: NoService::Reject,
            no_server: NoServer::Icmp,
            no_local_port: NoServer::Drop,
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
