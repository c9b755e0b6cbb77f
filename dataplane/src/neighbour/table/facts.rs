//! What goes into a neighbour table and comes out of it: settings, what was heard, what to ask, what to drop.

use super::State;
use crate::drops::DropReason;
use crate::packet::arp::{Arp, Operation};
use crate::packet::{MacAddr, PortId};
use crate::time::seconds;
use std::net::{IpAddr, Ipv6Addr};

/// The sizes and times of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Entries, static ones included.
    pub capacity: u16,
    /// Packets that may wait for one neighbour (at least 1).
    pub waiting_each: u8,
    /// Packets that may wait in all (at least 1, at most 65,534).
    pub waiting: u16,
    /// Ticks for which an answer confirms a neighbour.
    pub reachable: u32,
    /// Ticks after which an unused dynamic entry is removed.
    pub idle: u32,
    /// Seed of the index: random, so that nobody on the link can choose addresses that collide.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            capacity: 4096,
            waiting_each: 8,
            waiting: 1024,
            reachable: seconds(30),
            idle: seconds(600),
            seed: 0,
        }
    }
}

/// The table is full: counted as [`DropReason::NeighbourTableFull`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the neighbour table is full: raise `limits.neighbours`")]
pub struct Full;

/// How to address an ARP request or a neighbour solicitation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// To the Ethernet broadcast; for IPv6, to the group of nodes whose addresses end alike (the solicited-node
    /// address, RFC 4291 2.7.1).
    Broadcast,
    /// To the MAC that is to be confirmed.
    Unicast(MacAddr),
}

/// An ARP request or a neighbour solicitation that the worker sends now: the table counts on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The port to send from, with the port's own MAC and address as sender.
    pub port: PortId,
    /// The target address.
    pub address: IpAddr,
    /// Whom to ask.
    pub ask: Ask,
}

/// What became of a packet given to [`super::NeighbourTable::hold`].
#[derive(Debug, PartialEq, Eq)]
pub enum Hold<P> {
    /// It waits. Send `request`, if any; count `gave_way`, the older packet that lost its place, under
    /// [`DropReason::NeighbourQueueFull`].
    Waits {
        /// The request that is due now.
        request: Option<Request>,
        /// The packet that gave way.
        gave_way: Option<P>,
    },
    /// The neighbour does not answer: count it under [`DropReason::NeighbourFailed`].
    Failed(P),
    /// The MAC is known after all: send it.
    Resolved(P, PortId, MacAddr),
}

/// How a neighbour's addresses came to be heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Means {
    /// An ARP reply to one of our addresses.
    Reply,
    /// An ARP request or a neighbour solicitation for one of our addresses.
    Request,
    /// Any other ARP packet: gratuitous (either form), or between others.
    Overheard,
    /// A neighbour advertisement, with its flags (RFC 4861 4.4).
    Advertisement {
        /// It answers a solicitation of ours, and so proves both directions.
        solicited: bool,
        /// It may replace a MAC that is known. Clear in an answer for an anycast address, which several nodes give.
        overrides: bool,
    },
}

/// What a packet that was received says of a neighbour. The caller has checked that the address can be a neighbour
/// on the port ([`super::super::RouteTable::is_on_link`]) and is not one of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    /// The port it came in by.
    pub port: PortId,
    /// The neighbour's address; 0.0.0.0 in a probe (RFC 5227), which teaches nothing.
    pub address: IpAddr,
    /// Its MAC; none in an advertisement that leaves it out, because who asked by unicast has it.
    pub mac: Option<MacAddr>,
    /// How it was heard.
    pub means: Means,
}

impl Heard {
    /// What an ARP packet that came in by `port` says of its sender. `for_us` tells whether its target is an
    /// address that is answered for on that port.
    #[must_use]
    pub fn new(port: PortId, arp: &Arp, for_us: bool) -> Heard {
        let means = match arp.operation {
            _ if !for_us => Means::Overheard,
            Operation::Request => Means::Request,
            Operation::Reply => Means::Reply,
        };
        Heard {
            port,
            address: arp.sender.into(),
            mac: Some(arp.sender_mac),
            means,
        }
    }

    /// What a neighbour solicitation for an address that is answered for on `port` says of its source, if it has
    /// the option with the source's MAC (RFC 4861 7.2.3). One for another address says nothing.
    #[must_use]
    pub fn solicitation(port: PortId, source: Ipv6Addr, mac: MacAddr) -> Heard {
        Heard {
            port,
            address: source.into(),
            mac: Some(mac),
            means: Means::Request,
        }
    }

    /// What a neighbour advertisement says of its target, which need not be its source (RFC 4861 7.2.5). `mac` is
    /// that of the option with the target's.
    #[must_use]
    pub fn advertisement(
        port: PortId,
        target: Ipv6Addr,
        mac: Option<MacAddr>,
        solicited: bool,
        overrides: bool,
    ) -> Heard {
        Heard {
            port,
            address: target.into(),
            mac,
            means: Means::Advertisement { solicited, overrides },
        }
    }
}

/// What was learnt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Learnt {
    /// Nothing: a probe, an address that cannot be, a static entry, a stranger's packet that was not for us, or
    /// another MAC from an advertisement that does not override.
    Nothing,
    /// The known MAC was heard again, or an unresolved neighbour was resolved.
    Known,
    /// The neighbour has moved; this was its MAC before.
    Moved(MacAddr),
    /// A new neighbour.
    New,
    /// A new neighbour, for which there is no room.
    NoRoom,
}

/// What [`super::NeighbourTable::tick`] gives back.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<P> {
    /// A request to be sent.
    Ask(Request),
    /// A packet that waited in vain.
    Drop(P, DropReason),
    /// A watched neighbour has left all requests without an answer.
    Failed {
        /// The port it is on.
        port: PortId,
        /// Its address.
        address: IpAddr,
    },
}

/// A neighbour as `show neighbours` prints it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighbourView {
    /// Its address.
    pub address: IpAddr,
    /// The port it is on.
    pub port: PortId,
    /// Its MAC, when one is usable.
    pub mac: Option<MacAddr>,
    /// Its state.
    pub state: State,
    /// Seconds since it was last confirmed; since the entry was made when it never was.
    pub age: u32,
    /// Packets that wait for it.
    pub waiting: u8,
}
