//! Services, pools of servers, and what holds for all of them.

use std::fmt;
use std::net::IpAddr;

use dataplane::flow::{Mode, Timeouts};
use dataplane::scheduler::{SchedulerFlags, SchedulerKind};
use dataplane::service::{
    ClientAddress, Persistence, PersistenceEngine, Policy, ServiceKey, Tunnel, VipPolicy,
};

use super::Owner;
use crate::config::Place;

/// A virtual service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// Its name: what logs and metrics call it. Its identity, which a reload goes by, is each listener.
    pub name: String,
    /// The name of the service in the file that it is a queue of, if it is one: then its own is that with its port.
    pub queue_of: Option<String>,
    /// Where it listens; never empty, and no listener is written twice in a file.
    pub listeners: Vec<Listener>,
    /// Its servers: an index into `pools`.
    pub pool: usize,
    /// The forwarding mode of servers that do not state one.
    pub mode: Mode,
    /// The tunnel to TUN servers that do not state one.
    pub tunnel: Tunnel,
    /// How a server is chosen.
    pub scheduler: SchedulerKind,
    /// Its flags.
    pub scheduler_flags: SchedulerFlags,
    /// Local addresses for FULLNAT and for hairpins: indices into `local_addresses`. Empty only when there is neither.
    pub local_addresses: Vec<usize>,
    /// How clients are kept on their server; none = they are not.
    pub persistence: Option<Persistence>,
    /// What makes a client beside its address; UDP only.
    pub engine: Option<PersistenceEngine>,
    /// Whether each datagram is scheduled on its own; UDP only.
    pub one_packet: bool,
    /// Whether the answers of NAT servers to such datagrams are translated back.
    pub translate_replies: bool,
    /// Whether NAT hides a client on the server's own link behind a local address.
    pub hairpin_snat: bool,
    /// The largest MSS that SYNs may announce, in bytes; 0 = as they say. TCP only.
    pub mss_clamp: u16,
    /// How FULLNAT servers learn who their client is; TCP only.
    pub client_address: ClientAddress,
    /// Its own timeouts, the whole set; none = those of the file.
    pub timeouts: Option<Timeouts>,
    /// How its connections end otherwise than in LVS, and how many it takes.
    pub policy: Policy,
    /// Where it stands.
    pub place: Place,
}

impl Service {
    /// The forwarding mode of `server` in this service.
    #[must_use]
    pub fn mode_of(&self, server: &Server) -> Mode {
        server.mode.unwrap_or(self.mode)
    }

    /// The tunnel to `server` in this service; of no meaning unless its mode is TUN.
    #[must_use]
    pub fn tunnel_of(&self, server: &Server) -> Tunnel {
        server.tunnel.unwrap_or(self.tunnel)
    }
}

/// What identifies a service: a VIP, port and protocol, or a firewall mark in one family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listener {
    /// The identity.
    pub key: ServiceKey,
    /// Where it stands.
    pub place: Place,
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

/// A VIP that is one whether a service listens there or not, and what it does otherwise than `settings` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vip {
    /// The address.
    pub address: IpAddr,
    /// What it does.
    pub policy: VipPolicy,
    /// Who says whether it is the gateway's.
    pub owner: Owner,
    /// Whether it is announced while it can be served; none as [`super::Config::announce`] says.
    pub announce: Option<bool>,
    /// Where it stands.
    pub place: Place,
}

/// A named group of servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its servers in the order of the file; may be empty.
    pub servers: Vec<Server>,
    /// Where it stands.
    pub place: Place,
}

/// A real server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Server {
    /// Its address.
    pub address: IpAddr,
    /// Its L4 port, host order, never 0; none takes the listener's, see [`Server::port_for`].
    pub port: Option<u16>,
    /// Its weight, 0 to 2,147,483,647; 0 = quiesced: no new connections.
    pub weight: u32,
    /// Its forwarding mode, when not the service's.
    pub mode: Option<Mode>,
    /// The tunnel to it, when not the service's.
    pub tunnel: Option<Tunnel>,
    /// Connections from which on it gets no new ones; 0 = no limit.
    pub upper_threshold: u32,
    /// Connections below which it gets new ones again; 0 = three quarters of `upper_threshold`.
    pub lower_threshold: u32,
    /// Whether it is marked overloaded, and gets no new connections, whatever its thresholds are.
    pub overloaded: bool,
    /// Where it stands.
    pub place: Place,
}

impl Server {
    /// The port that traffic of `listener` goes to; 0 = the one that it comes to.
    #[must_use]
    pub fn port_for(&self, listener: &Listener) -> u16 {
        self.port.unwrap_or(listener.key.port())
    }
}
