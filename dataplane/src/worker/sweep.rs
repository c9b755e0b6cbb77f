//! Who is reached by which neighbour, forgotten: when the neighbour table wants entries back, when routes or addresses
//! have changed, and when one of several next hops answers again. Records are gone over between bursts, a slice at a time.

use super::{Io, Worker};
use crate::flow::FlowIndex;
use crate::neighbour::NeighbourId;
use crate::service::Snapshot;

/// Records that one round handles.
const SWEEP_BUDGET: usize = 256;

/// A walk over all records that makes them forget neighbours.
#[derive(Default)]
pub(super) enum Sweep {
    /// None is under way.
    #[default]
    Idle,
    /// Forgets what the neighbour table wants back.
    Leaving(u32),
    /// Forgets every neighbour, because routes or addresses have changed, or one of several next hops is back. When that
    /// happens again on the way it goes once more over all: it comes to an end however often routes change.
    All { cursor: u32, again: bool },
}

impl Sweep {
    /// Whether every record is to forget its neighbours, and some have not yet.
    pub(super) fn is_of_all(&self) -> bool {
        matches!(self, Sweep::All { .. })
    }
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Makes records forget neighbours, a slice of them at a time.
    pub(super) fn go_on_sweeping(&mut self) {
        let (all, cursor, again) = match self.sweep {
            Sweep::Idle if self.neighbours.sweep_wanted() => {
                self.neighbours.begin_sweep();
                self.forget_server_neighbours();
                (false, 0, false)
            }
            Sweep::Idle => return,
            Sweep::Leaving(cursor) => (false, cursor, false),
            Sweep::All { cursor, again } => (true, cursor, again),
        };
        let words = &self.neighbour_words;
        let goes = |id: u16| all || words.leaving(NeighbourId(id));
        let next = self.table.scan_mut(cursor, SWEEP_BUDGET, |record| {
            if goes(record.neighbour_in) {
                record.neighbour_in = 0;
            }
            if goes(record.neighbour_out) {
                record.neighbour_out = 0;
            }
        });
        self.sweep = match next {
            Some(cursor) if all => Sweep::All { cursor, again },
            Some(cursor) => Sweep::Leaving(cursor),
            None => {
                self.neighbours.retired_done();
                match again {
                    true => Sweep::All {
                        cursor: 0,
                        again: false,
                    },
                    false => Sweep::Idle,
                }
            }
        };
    }

    /// Makes servers and records look up every neighbour anew.
    pub(super) fn forget_all_neighbours(&mut self) {
        self.forget_server_neighbours();
        self.sweep = match self.sweep {
            Sweep::All { cursor, .. } => Sweep::All { cursor, again: true },
            Sweep::Idle | Sweep::Leaving(_) => Sweep::All {
                cursor: 0,
                again: false,
            },
        };
    }

    /// Watches the next hops that stand in for one another.
    pub(super) fn watch_hops(&mut self, snapshot: &Snapshot) {
        self.neighbours.unwatch_all();
        for hop in snapshot.routes.shared_hops() {
            // A full table is told by every packet that finds no room in it.
            let _ = self.neighbours.watch(hop.port, hop.address, self.now);
        }
    }
}
