//! What goes into a neighbour table and comes out of it: settings, what was heard, what to ask, what to drop.

use super::State;
use crate::drops::DropReason;
use crate::packet::arp::{Arp, Operation};
use crate::packet::{MacAddr, PortId};
use crate::time::seconds;
use std::net::Ipv4Addr;

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

/// How to address an ARP request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// To the Ethernet broadcast.
    Broadcast,
    /// To the MAC that is to be confirmed.
    Unicast(MacAddr),
}

/// An ARP request that the worker sends now: the table counts on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The port to send from, with the port's own MAC and address as sender.
    pub port: PortId,
    /// The target address.
    pub address: Ipv4Addr,
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

/// How a sender's addresses came to be heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Means {
    /// A reply to one of our addresses.
    Reply,
    /// A request for one of our addresses.
    Request,
    /// Any other ARP packet: gratuitous (either form), or between others.
    Overheard,
}

/// The sender of an ARP packet that was received. The caller has checked that the address is one of the port's
/// connected prefix and not one of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    /// The port it came in by.
    pub port: PortId,
    /// The sender's protocol address; 0.0.0.0 in a probe (RFC 5227), which teaches nothing.
    pub address: Ipv4Addr,
    /// The sender's hardware address.
    pub mac: MacAddr,
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
            address: arp.sender,
            mac: arp.sender_mac,
            means,
        }
    }
}

/// What was learnt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Learnt {
    /// Nothing: a probe, an address that cannot be, a static entry, or a stranger's packet that was not for us.
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
}

/// A neighbour as `show neighbours` prints it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighbourView {
    /// Its address.
    pub address: Ipv4Addr,
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
