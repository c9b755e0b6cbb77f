//! Local ports of FULLNAT: which port of a local address stands for a connection towards its server.
//!
//! Ports are counted per *pair*: local address, server address, server port and protocol. All services that use
//! a server share its pairs, so that no two connections ever show the same endpoint to it, and one local address
//! gives its whole range of ports to each server. A worker owns one [`LocalPorts`] and calls it when a connection
//! opens ([`LocalPorts::take_from_pool`]), begins to close ([`LocalPorts::closing`]), comes back to life
//! ([`LocalPorts::reopened`]) and ends ([`LocalPorts::release`]); never for a packet of a known connection.
//!
//! Within a pair the ports of each shard go round on their own, the least recently used first: the port is chosen
//! so that its shard is the client's, and the server's answers arrive at the worker that has the connection. A
//! port that comes back early would meet the server's TIME_WAIT: what the server was shown there last is remembered
//! beyond the connection ([`LocalPorts::release_shown`]), so that a new one can be shown above it.
//!
//! Nothing here allocates after construction, ends a connection, or reads a clock. A pair that was never used
//! costs nothing: all memory is zeroed pages that the system hands out when they are first written.

mod addresses;
mod arena;
mod chains;
mod closing;
mod counts;
mod lifecycle;
mod pairs;
mod pool;
mod ports;
mod pressure;
mod sets;
mod shown;
mod sticky;
mod usage;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::ops::RangeInclusive;

use thiserror::Error;

use crate::flow::RecordId;

pub use addresses::AddressUse;
pub use pool::{LipPool, Rotation, Server};
pub use ports::{LocalPorts, LocalPortsConfig};
pub use pressure::{Pressure, Usage};
pub use usage::{MemoryUse, PairReport, PairUse, ResidentMemory};

/// Who shares local ports: one local address towards one server, both of one family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Pair {
    /// The local address (LIP).
    pub local: IpAddr,
    /// The server's address.
    pub server: IpAddr,
    /// The server's port, in host order.
    pub server_port: u16,
    /// The IP protocol number.
    pub protocol: u8,
}

/// The ports of a local address that may be handed out: never empty, never port 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// The ports from `first` to `last`, in host order; none when that is empty or begins with port 0.
    #[must_use]
    pub const fn new(first: u16, last: u16) -> Option<PortRange> {
        if first == 0 || first > last {
            None
        } else {
            Some(PortRange { first, last })
        }
    }

    /// The lowest port, in host order.
    #[must_use]
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The highest port, in host order.
    #[must_use]
    pub const fn last(self) -> u16 {
        self.last
    }

    /// How many ports there are.
    #[must_use]
    pub const fn count(self) -> u32 {
        (self.last - self.first) as u32 + 1
    }

    /// The ports as a range of the standard library.
    #[must_use]
    pub const fn ports(self) -> RangeInclusive<u16> {
        self.first..=self.last
    }
}

impl Default for PortRange {
    /// 1024 to 65535.
    fn default() -> PortRange {
        PortRange {
            first: 1024,
            last: u16::MAX,
        }
    }
}

/// A local endpoint that was handed out, until [`LocalPorts::release`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The local address.
    pub local: IpAddr,
    /// The local port, in host order.
    pub port: u16,
    /// The port's shard is not the client's but another one of the worker's.
    pub borrowed: bool,
    /// Where what was shown there is remembered.
    pub place: PortPlace,
}

/// Where what servers were shown on one port of a pair is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortPlace(u64);

/// Where a port will most likely be put that comes back; zero, nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReleaseHint(u32);

/// Why no local port was handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum TakeError {
    /// Every port is in use.
    #[error(
        "no local port is free towards this server: add local addresses, or servers, or widen the port range"
    )]
    Exhausted {
        /// The record of the connection that has been closing for the longest. The caller ends that connection,
        /// which releases its port, takes once more, and counts the port as recycled. None when none is
        /// closing.
        recyclable: Option<RecordId>,
    },
    /// Ports are free, but the memory to keep account of them is used up.
    #[error("the memory for local ports is used up: raise the limits of pairs, port sets or port memory")]
    Memory,
}
