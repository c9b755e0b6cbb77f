//! The packets of one burst between the stages: parallel arrays, so that a stage touches only what it needs.

use super::io::{Arrival, BURST};
use crate::flow::Query;
use crate::flow::table::NOT_FOUND;
use crate::packet::{Headers, PortId};
use arrayvec::ArrayVec;

/// A packet whose stages are not over, by its place in the burst.
pub(super) type Place = u8;

/// One burst under way. A packet leaves its place when it is dropped, held, handed over or sent.
pub(super) struct Burst<P> {
    pub(super) packets: ArrayVec<Option<P>, BURST>,
    pub(super) ports: ArrayVec<PortId, BURST>,
    pub(super) headers: [Headers; BURST],
    /// For a packet that was put together from IPv6 fragments: the identification that they shared.
    pub(super) identifications: [u32; BURST],
    /// Places of TCP, UDP and SCTP packets that are ours to forward, in order of arrival.
    pub(super) flows: ArrayVec<Place, BURST>,
    /// What to look up for each of `flows`.
    pub(super) queries: ArrayVec<Query, BURST>,
    /// What most likely is the record of each of `flows`, see [`ConnectionTable::find_candidates`](crate::flow::ConnectionTable::find_candidates).
    pub(super) candidates: [u32; BURST],
    /// Places of packets that were handed over for good, a bit each: they are not steered again.
    pub(super) settled: u32,
}

impl<P> Burst<P> {
    pub(super) fn new() -> Burst<P> {
        Burst {
            packets: ArrayVec::new(),
            ports: ArrayVec::new(),
            headers: [Headers::NONE; BURST],
            identifications: [0; BURST],
            flows: ArrayVec::new(),
            queries: ArrayVec::new(),
            candidates: [NOT_FOUND; BURST],
            settled: 0,
        }
    }

    /// Empties it for the next packets.
    pub(super) fn clear(&mut self) {
        self.packets.clear();
        self.ports.clear();
        self.flows.clear();
        self.queries.clear();
        self.settled = 0;
    }

    /// What another worker has to be told of a packet.
    pub(super) fn arrival(&self, place: Place) -> Arrival {
        let at = usize::from(place);
        Arrival {
            port: self.ports[at],
            largest_fragment: self.headers[at].largest_fragment,
            identification: self.identifications[at],
            settled: false,
        }
    }

    /// Whether the packet was handed over for good.
    pub(super) fn is_settled(&self, place: Place) -> bool {
        self.settled >> place & 1 != 0
    }

    /// Takes the packet out of its place.
    pub(super) fn take(&mut self, place: Place) -> Option<P> {
        self.packets[usize::from(place)].take()
    }
}
