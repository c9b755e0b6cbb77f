//! Services, pools of servers, and what holds for all of them.

use std::fmt;
use std::net::Ipv4Addr;

use crate::config::Place;

/// A virtual service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// Its name: what logs and metrics call it. Its identity, which a reload goes by, is each listener.
    pub name: String,
    /// Where it listens; never empty, and no listener is written twice in a file.
    pub listeners: Vec<Listener>,
    /// Its servers: an index into `pools`.
    pub pool: usize,
    /// The forwarding mode of servers that do not state one.
    pub mode: Mode,
    /// How a server is chosen.
    pub scheduler: Scheduler,
    /// Local addresses for FULLNAT: indices into `local_addresses`. Empty only when no server is FULLNAT.
    pub local_addresses: Vec<usize>,
    /// Whether each datagram is scheduled on its own; UDP only.
    pub one_packet: bool,
    /// Where it stands.
    pub place: Place,
}

impl Service {
    /// The forwarding mode of `server` in this service.
    #[must_use]
    pub fn mode_of(&self, server: &Server) -> Mode {
        server.mode.unwrap_or(self.mode)
    }
}

/// A VIP, port and protocol: what identifies a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listener {
    /// The VIP.
    pub address: Ipv4Addr,
    /// The L4 port, host order, never 0.
    pub port: u16,
    /// The protocol.
    pub protocol: Protocol,
    /// Where it stands.
    pub place: Place,
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.address, self.port, self.protocol)
    }
}

/// A transport protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Protocol {
    /// TCP (6).
    Tcp,
    /// UDP (17).
    Udp,
}

impl Protocol {
    /// The protocol's number in the IP header.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        })
    }
}

/// How packets reach a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Both addresses are rewritten: the server sees a local address and answers to it.
    Fullnat,
    /// Only the MAC address is: the server has the VIP itself and answers to the client.
    Dr,
}

/// How a server is chosen for a new connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheduler {
    /// Round robin.
    Rr,
    /// Weighted round robin.
    #[default]
    Wrr,
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
    pub address: Ipv4Addr,
    /// Its L4 port, host order, never 0; none takes the listener's, see [`Server::port_for`].
    pub port: Option<u16>,
    /// Its weight, 0 to 2,147,483,647; 0 = quiesced: no new connections.
    pub weight: u32,
    /// Its forwarding mode, when not the service's.
    pub mode: Option<Mode>,
    /// Connections from which on it gets no new ones; 0 = no limit.
    pub upper_threshold: u32,
    /// Connections below which it gets new ones again; 0 = three quarters of `upper_threshold`.
    pub lower_threshold: u32,
    /// Where it stands.
    pub place: Place,
}

impl Server {
    /// The port that traffic of `listener` goes to.
    #[must_use]
    pub fn port_for(&self, listener: &Listener) -> u16 {
        self.port.unwrap_or(listener.port)
    }
}

/// How long a connection lives without a packet, in seconds, never 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// By TCP state.
    pub tcp: TcpTimeouts,
    /// A UDP connection.
    pub udp: u32,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            tcp: TcpTimeouts::default(),
            udp: 300,
        }
    }
}

/// How long a TCP connection lives without a packet, by its state, in seconds, never 0. The states are those of
/// the LVS state machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpTimeouts {
    /// ESTABLISHED.
    pub established: u32,
    /// SYN_SENT.
    pub syn_sent: u32,
    /// SYN_RECV.
    pub syn_recv: u32,
    /// FIN_WAIT.
    pub fin_wait: u32,
    /// TIME_WAIT.
    pub time_wait: u32,
    /// CLOSE.
    pub close: u32,
    /// CLOSE_WAIT.
    pub close_wait: u32,
    /// LAST_ACK.
    pub last_ack: u32,
    /// LISTEN.
    pub listen: u32,
    /// SYNACK.
    pub synack: u32,
}

impl Default for TcpTimeouts {
    fn default() -> TcpTimeouts {
        TcpTimeouts {
            established: 900,
            syn_sent: 120,
            syn_recv: 60,
            fin_wait: 120,
            time_wait: 120,
            close: 10,
            close_wait: 60,
            last_ack: 30,
            listen: 120,
            synack: 120,
        }
    }
}

/// Behaviour that holds for all services; the names are those of LVS's sysctls where it has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Whether a TCP segment other than a SYN may start a connection.
    pub sloppy_tcp: bool,
    /// Bits: 1 = a SYN on a connection that has ended is scheduled anew, 2 = also in FIN_WAIT; 0 to 3.
    pub conn_reuse_mode: u8,
    /// Whether connections of a deleted server end at their next packet instead of waiting for it to come back.
    pub expire_nodest_conn: bool,
    /// What a packet to a VIP gets on a port without a service.
    pub no_service: NoService,
    /// ICMP errors and resets that the gateway itself makes, at most so many a second; 0 = none.
    pub icmp_rate: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            sloppy_tcp: false,
            conn_reuse_mode: 1,
            expire_nodest_conn: false,
            no_service: NoService::Reject,
            icmp_rate: 1000,
        }
    }
}

/// What a packet to a VIP gets on a port without a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NoService {
    /// TCP RST, or ICMP port unreachable.
    #[default]
    Reject,
    /// Nothing.
    Drop,
}
