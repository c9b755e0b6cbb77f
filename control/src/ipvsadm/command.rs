//! What an ipvsadm command line means: typed, complete, and independent of what the data plane supports.
//! The model refuses what it cannot do yet, with its own words; nothing here does.

use std::net::{IpAddr, Ipv4Addr};

/// One command that changes the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// `-A`: adds a service without servers.
    AddService(Service),
    /// `-E`: replaces every setting of a service; what the line does not say returns to its default.
    EditService(Service),
    /// `-D`: deletes a service with its servers.
    DeleteService(ServiceId),
    /// `-C`: deletes all services.
    Clear,
    /// `-a`: adds a server, at the head of the service's list.
    AddServer(ServiceId, Server),
    /// `-e`: replaces every setting of a server; what the line does not say returns to its default.
    EditServer(ServiceId, Server),
    /// `-d`: takes a server away; its connections stay.
    DeleteServer(ServiceId, Endpoint),
    /// `--set`: the timeouts of connections, in seconds; 0 keeps the present one.
    SetTimeouts {
        /// Established TCP.
        tcp: u32,
        /// TCP after a FIN.
        tcp_fin: u32,
        /// UDP.
        udp: u32,
    },
}

/// The transport protocols that a service can have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Protocol {
    /// `-t`
    Tcp,
    /// `-u`
    Udp,
    /// `--sctp-service`
    Sctp,
}

/// The address family of a firewall-mark service.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Family {
    /// IPv4, the default.
    V4,
    /// IPv6, `-6`.
    V6,
}

/// What identifies a service.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ServiceId {
    /// Protocol, VIP and port.
    Address {
        /// The transport protocol.
        protocol: Protocol,
        /// The VIP.
        address: IpAddr,
        /// The port, host order; 0 stands for every port.
        port: u16,
    },
    /// A firewall mark.
    Mark {
        /// The mark, never 0.
        mark: u32,
        /// Whose packets.
        family: Family,
    },
}

impl ServiceId {
    /// The address family of the service.
    #[must_use]
    pub fn family(&self) -> Family {
        match self {
            ServiceId::Address {
                address: IpAddr::V4(_),
                ..
            } => Family::V4,
            ServiceId::Address {
                address: IpAddr::V6(_),
                ..
            } => Family::V6,
            ServiceId::Mark { family, .. } => *family,
        }
    }
}

/// A service with all its settings, as `-A` and `-E` give them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// Its identity.
    pub id: ServiceId,
    /// The scheduler's name, not checked; `wlc` when the line names none.
    pub scheduler: String,
    /// The scheduler's flags.
    pub flags: SchedulerFlags,
    /// Persistence, `-p`; none when absent.
    pub persistence: Option<Persistence>,
    /// One-packet scheduling, `-o`.
    pub one_packet: bool,
    /// The persistence engine's name, `--pe`, not checked.
    pub engine: Option<String>,
    /// The named local addresses that FULLNAT uses towards the servers, `--local-addresses`.
    pub local_addresses: Option<String>,
}

/// The three scheduler flags: `flag-1` is `sh-fallback` or `mh-fallback`, `flag-2` is `sh-port` or `mh-port`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash, Debug)]
pub struct SchedulerFlags(pub u8);

impl SchedulerFlags {
    /// Go on to the next server when the hashed one is unusable.
    pub const FALLBACK: SchedulerFlags = SchedulerFlags(1);
    /// Hash the source port too.
    pub const PORT: SchedulerFlags = SchedulerFlags(2);
    /// The third flag, which no scheduler uses.
    pub const THIRD: SchedulerFlags = SchedulerFlags(4);

    /// Whether every flag of `other` is set.
    #[must_use]
    pub fn has(self, other: SchedulerFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and those of `other`.
    #[must_use]
    pub fn with(self, other: SchedulerFlags) -> SchedulerFlags {
        SchedulerFlags(self.0 | other.0)
    }
}

/// How clients are kept on their server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Persistence {
    /// Seconds that a template lives after its last connection was made, 1 to 2,678,400.
    pub timeout: u32,
    /// Which bits of the client's address count.
    pub mask: Mask,
}

/// The granularity of persistence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mask {
    /// IPv4: any bit mask, contiguous or not.
    V4(Ipv4Addr),
    /// IPv6: a prefix length, 1 to 128.
    V6(u8),
}

/// A server's address and port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Endpoint {
    /// The address; another family than the service's only by tunnel and FULLNAT.
    pub address: IpAddr,
    /// The port, host order. In DR and tunnel mode it is the service's, whatever the line said.
    pub port: u16,
}

/// A server with all its settings, as `-a` and `-e` give them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Server {
    /// Where it is.
    pub endpoint: Endpoint,
    /// The port that the line names, when `endpoint` has the service's instead.
    pub ignored_port: Option<u16>,
    /// How packets get there; DR when the line does not say.
    pub forwarding: Forwarding,
    /// The weight, 0 to 2,147,483,647; 1 when the line does not say, 0 takes no new connections.
    pub weight: u32,
    /// Connections from which on the server counts as overloaded; 0 for no limit.
    pub upper_threshold: u32,
    /// Connections below which it no longer does; 0 for three quarters of the upper one.
    pub lower_threshold: u32,
}

/// The forwarding modes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forwarding {
    /// `-g`: direct routing.
    Dr,
    /// `-m`: the destination is translated.
    Nat,
    /// `-i`: encapsulated.
    Tun(Tunnel),
    /// `--fullnat`: both addresses are translated.
    Fullnat,
}

/// The encapsulation of tunnel mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tunnel {
    /// IP in IP, the default.
    Ipip,
    /// Generic UDP encapsulation.
    Gue {
        /// Destination port of the outer UDP header, host order, never 0.
        port: u16,
        /// Its checksum.
        checksum: TunnelChecksum,
    },
    /// GRE; its checksum is never `Remote`.
    Gre {
        /// Its checksum.
        checksum: TunnelChecksum,
    },
}

/// The checksum of a tunnel header.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum TunnelChecksum {
    /// `--tun-nocsum`, the default.
    #[default]
    None,
    /// `--tun-csum`
    Full,
    /// `--tun-remcsum`: remote checksum offload.
    Remote,
}
