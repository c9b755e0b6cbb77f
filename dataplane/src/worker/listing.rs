//! Answers to control's questions, in slices between bursts, so that a listing of millions delays no packet.

use super::mailbox::{Listing, Spent};
use super::{Io, Worker};
use crate::flow::{Connection, Flags, FlowIndex};
use crate::local::{AddressUse, PairReport};
use crate::neighbour::NeighbourView;
use std::sync::Arc;

/// Records that one turn looks at.
const SLICE: usize = 128;

/// A listing under way, and where it goes on.
type Telling<T> = Option<(Arc<Listing<T>>, u32)>;

/// The listings under way, at most one of each kind.
#[derive(Default)]
pub(super) struct Listings {
    connections: Telling<Connection>,
    neighbours: Telling<NeighbourView>,
    locals: Telling<AddressUse>,
    pairs: Telling<PairReport>,
}

impl Listings {
    /// Begins to tell the connections; an unfinished listing of the same kind ends early, as do those below.
    pub(super) fn begin_connections(&mut self, listing: Arc<Listing<Connection>>) -> Option<Spent> {
        self.connections
            .replace((listing, 0))
            .map(|(old, _)| Spent::Connections(old))
    }

    /// Begins to tell the neighbours.
    pub(super) fn begin_neighbours(&mut self, listing: Arc<Listing<NeighbourView>>) -> Option<Spent> {
        self.neighbours
            .replace((listing, 0))
            .map(|(old, _)| Spent::Neighbours(old))
    }

    /// Begins to tell how the local addresses are used.
    pub(super) fn begin_locals(&mut self, listing: Arc<Listing<AddressUse>>) -> Option<Spent> {
        self.locals
            .replace((listing, 0))
            .map(|(old, _)| Spent::LocalAddresses(old))
    }

    /// Begins to tell how their ports are used towards each server.
    pub(super) fn begin_pairs(&mut self, listing: Arc<Listing<PairReport>>) -> Option<Spent> {
        self.pairs
            .replace((listing, 0))
            .map(|(old, _)| Spent::LocalPairs(old))
    }
}

/// Tells one more slice by `tell(listing, where to go on, entries at most)`, which says where to go on then.
fn go_on<T>(
    telling: &mut Telling<T>,
    tell: impl FnOnce(&Listing<T>, u32, usize) -> Option<u32>,
) -> Option<Arc<Listing<T>>> {
    let (listing, cursor) = telling.take()?;
    let room = listing.entries.capacity() - listing.entries.len();
    let next = if room == 0 {
        Some(cursor)
    } else {
        tell(&listing, cursor, room.min(SLICE))
    };
    if let Some(next) = next {
        *telling = Some((listing, next));
        return None;
    }
    listing.finish();
    Some(listing)
}

/// Tells entries by their place in an iteration that control does not mind seeing torn.
fn tell_some<T>(
    listing: &Listing<T>,
    told: u32,
    slice: usize,
    entries: impl Iterator<Item = T>,
) -> Option<u32> {
    let mut count = 0;
    for entry in entries.skip(told as usize).take(slice) {
        // Cannot be full: there was room, and only this worker pushes.
        let _ = listing.entries.push(entry);
        count += 1;
    }
    (count == slice).then_some(told + count as u32)
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Goes on with the listings by one slice each.
    pub(super) fn go_on_listing(&mut self) {
        let Worker {
            listings,
            table,
            neighbours,
            locals,
            servers,
            snapshot,
            now,
            owned,
            ..
        } = self;
        let connections = go_on(&mut listings.connections, |listing, cursor, slice| {
            table.scan(cursor, slice, |_, record| {
                let ends = table.ends(record);
                let server = if record.flags.has(Flags::SNAT) {
                    ends.server
                } else {
                    servers[record.server as usize].end
                };
                let timeouts = snapshot.timeouts_of(record);
                let _ = listing.entries.push(match table.template(record) {
                    Some(template) => Connection::describe_template(record, &template, server, *now),
                    None => Connection::describe(record, &ends, server, timeouts, *now),
                });
            })
        });
        let neighbours = go_on(&mut listings.neighbours, |listing, told, slice| {
            tell_some(listing, told, slice, neighbours.iter(*now))
        });
        let addresses = go_on(&mut listings.locals, |listing, told, slice| {
            tell_some(listing, told, slice, locals.addresses().copied())
        });
        let pairs = go_on(&mut listings.pairs, |listing, cursor, slice| {
            locals.scan_pairs(cursor, slice as u32, *owned, |pair, usage| {
                let _ = listing.entries.push(PairReport { pair: *pair, usage });
            })
        });
        let spent = [
            connections.map(Spent::Connections),
            neighbours.map(Spent::Neighbours),
            addresses.map(Spent::LocalAddresses),
            pairs.map(Spent::LocalPairs),
        ];
        for spent in spent.into_iter().flatten() {
            self.give_back(spent);
        }
    }
}
