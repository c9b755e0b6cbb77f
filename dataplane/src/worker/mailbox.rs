//! How control talks to a worker: orders in, spent things back out, both through bounded lock-free queues, so
//! that the worker neither waits nor frees memory. Whatever the worker is done with travels back to be dropped
//! by control. Other workers use it too, for what they hear of neighbours, and for what a template has to know of its
//! connections.

use super::holds::Told;
use crate::flow::Connection;
use crate::local::{AddressUse, PairReport, Pressure};
use crate::neighbour::{Heard, NeighbourView};
use crate::packet::PortId;
use crate::service::Snapshot;
use crossbeam::queue::ArrayQueue;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What control asks of a worker.
#[derive(Debug)]
pub enum Order {
    /// Use this snapshot from the next burst on.
    Publish(Arc<Snapshot>),
    /// The link of this device has come up or gone down, or, when it is up as before, has moved to another switch port.
    Link {
        /// The port with the device, not a VLAN.
        port: PortId,
        /// Whether it is up.
        up: bool,
    },
    /// Tell the connections, in slices.
    ListConnections(Arc<Listing<Connection>>),
    /// Tell the neighbours.
    ListNeighbours(Arc<Listing<NeighbourView>>),
    /// Tell how the local addresses are used.
    ListLocalAddresses(Arc<Listing<AddressUse>>),
    /// Tell how the ports of local addresses are used towards each server, in slices.
    ListLocalPairs(Arc<Listing<PairReport>>),
}

/// What a worker is done with.
#[derive(Debug)]
pub enum Spent {
    /// A snapshot that has been replaced.
    Snapshot(Arc<Snapshot>),
    /// A listing that is complete.
    Connections(Arc<Listing<Connection>>),
    /// A listing that is complete.
    Neighbours(Arc<Listing<NeighbourView>>),
    /// A listing that is complete.
    LocalAddresses(Arc<Listing<AddressUse>>),
    /// A listing that is complete.
    LocalPairs(Arc<Listing<PairReport>>),
}

/// An answer under way: the worker fills it while control empties it.
#[derive(Debug)]
pub struct Listing<T> {
    /// Entries on their way to control.
    pub entries: ArrayQueue<T>,
    complete: AtomicBool,
}

impl<T> Listing<T> {
    /// A listing with room for `room` entries under way.
    #[must_use]
    pub fn new(room: usize) -> Listing<T> {
        Listing {
            entries: ArrayQueue::new(room),
            complete: AtomicBool::new(false),
        }
    }

    /// Whether the worker has said everything; entries may still wait to be taken.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    pub(super) fn finish(&self) {
        self.complete.store(true, Ordering::Release);
    }
}

/// Something that the operator should read about, said by the worker at most once a second and kind; of local ports
/// that run low, once for each rise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// No local port was left for a server of a service.
    LocalPortsExhausted {
        /// The virtual address.
        virtual_address: IpAddr,
        /// The virtual port, host order.
        virtual_port: u16,
        /// The server's address.
        server: IpAddr,
        /// The server's port, host order.
        server_port: u16,
        /// The first of the local addresses whose ports are all in use; none when the service has none of that family.
        local: Option<IpAddr>,
        /// How many of them there are.
        locals: u32,
    },
    /// Few ports of a service's local addresses are left towards a server.
    LocalPortsLow {
        /// The server's address.
        server: IpAddr,
        /// The server's port, host order.
        server_port: u16,
        /// The IP protocol number.
        protocol: u8,
        /// How near the end is.
        pressure: Pressure,
        /// Ports in use.
        used: u64,
        /// Ports that there are.
        capacity: u64,
    },
    /// No local port was left for a connection of an SNAT rule.
    SnatPortsExhausted {
        /// The slot of the rule.
        rule: u32,
        /// The address outside.
        destination: IpAddr,
        /// The port outside, host order; 0 for echo.
        destination_port: u16,
        /// The IP protocol number.
        protocol: u8,
    },
    /// Few ports of an SNAT rule's local addresses are left towards a server outside. At most once a second, not only
    /// for each rise: there are too many servers to remember.
    SnatPortsLow {
        /// The slot of the rule.
        rule: u32,
        /// The address outside.
        destination: IpAddr,
        /// The port outside, host order; 0 for echo.
        destination_port: u16,
        /// The IP protocol number.
        protocol: u8,
        /// How near the end is.
        pressure: Pressure,
        /// Ports in use.
        used: u64,
        /// Ports that there are.
        capacity: u64,
    },
    /// The connection table is full.
    TableFull,
    /// A neighbour does not answer ARP or neighbour discovery, and packets waited for it in vain; `show neighbours` names it.
    NeighbourFailed,
    /// One of several next hops has ceased to answer; its flows go by the others.
    NextHopFailed {
        /// The port it is on.
        port: PortId,
        /// Its address.
        address: IpAddr,
    },
}

/// The queues between one worker and those outside: control, and for neighbours and templates the other workers.
#[derive(Debug)]
pub struct Mailbox {
    /// Orders to the worker.
    pub orders: ArrayQueue<Order>,
    /// What comes back to be dropped.
    pub spent: ArrayQueue<Spent>,
    /// What the operator should read about; lost when nobody reads.
    pub events: ArrayQueue<Event>,
    /// What other workers have heard of neighbours. What does not fit is lost: the neighbour is asked again.
    pub heard: ArrayQueue<Heard>,
    /// What other workers say of connections that this worker's templates hold. What does not fit is said later.
    pub(super) told: ArrayQueue<Told>,
}

impl Mailbox {
    /// Orders that may wait. Control takes back what is spent before it posts, so `spent` never overflows.
    pub const ORDERS: usize = 64;

    /// What is heard of neighbours while a worker makes one turn, with room for a link where all speak at once.
    const HEARD: usize = 256;

    /// What is said of templates while a worker makes some turns.
    const TOLD: usize = 1024;
}

impl Default for Mailbox {
    fn default() -> Self {
        Mailbox {
            orders: ArrayQueue::new(Self::ORDERS),
            // Every order leaves at most one thing behind, and the worker holds at most one of each kind.
            spent: ArrayQueue::new(Self::ORDERS + 5),
            events: ArrayQueue::new(64),
            heard: ArrayQueue::new(Self::HEARD),
            told: ArrayQueue::new(Self::TOLD),
        }
    }
}
