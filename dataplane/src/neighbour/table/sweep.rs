//! How an entry goes although connection records cache its id.
//!
//! 1. An entry that is no longer wanted becomes `Retired`: its word no longer resolves, its id stays taken. When
//!    the address is wanted again, it comes back to life under the same id, and every cached id is right again.
//! 2. When [`NeighbourTable::sweep_wanted`], the owner calls [`NeighbourTable::begin_sweep`]. Then each worker goes
//!    over all its records, and whatever else caches ids, in slices between bursts, and sets those to
//!    [`NeighbourId::NONE`] for which [`NeighbourWords::leaving`] holds. A record whose id is none looks its next
//!    hop up anew.
//! 3. When every worker is through, the owner calls [`NeighbourTable::retired_done`]: what is still being swept
//!    has no record left and is free. An entry that came back to life meanwhile stays, whether or not its
//!    records were cleared.
//!
//! It is sound because ids are got from the table only, which revives what it gives out: an id must not be copied
//! from one record to another, nor kept from one burst to the next outside what is swept.

#[cfg(doc)]
use super::NeighbourWords;
use super::{NeighbourId, NeighbourTable, State};
use crate::time::Tick;

impl<P> NeighbourTable<P> {
    /// Whether a sweep is worth its while: none is under way, and as many entries are retired as are free. Going
    /// over all records is dear and an entry is cheap, so a roomy table is rarely swept.
    #[must_use]
    pub fn sweep_wanted(&self) -> bool {
        !self.sweeping && self.retired > 0 && usize::from(self.retired) >= self.free.len()
    }

    /// Begins a sweep, which concerns the entries retired so far. Not to be called again before
    /// [`NeighbourTable::retired_done`]. See the protocol at the head of `table/sweep.rs`; the readers' part of
    /// it is [`NeighbourWords::leaving`].
    pub fn begin_sweep(&mut self) {
        for index in 1..=self.high {
            if self.entries[index].state == State::Retired {
                self.set_state(NeighbourId(index as u16), State::Sweeping);
            }
        }
        self.retired = 0;
        self.sweeping = true;
    }

    /// Ends a sweep: no record of any worker holds an id that [`NeighbourWords::leaving`] names. These ids are
    /// free again; their number is returned.
    pub fn retired_done(&mut self) -> usize {
        self.sweeping = false;
        let mut freed = 0;
        for index in 1..=self.high {
            if self.entries[index].state == State::Sweeping {
                let id = NeighbourId(index as u16);
                let entries = &self.entries;
                self.map.remove(id, |map, id| {
                    let entry = &entries[id.index()];
                    map.hash(entry.port, entry.address)
                });
                self.set_state(id, State::Free);
                self.free.push(id.0);
                freed += 1;
            }
        }
        freed
    }

    /// An entry that nothing has wanted for long.
    pub(super) fn retire(&mut self, id: NeighbourId) {
        self.set_state(id, State::Retired);
        self.retired += 1;
    }

    /// Brings a retired entry back to life, unresolved.
    pub(super) fn revive(&mut self, id: NeighbourId, now: Tick) {
        match self.entries.get(id.index()).map(|e| e.state) {
            Some(State::Retired) => self.retired -= 1,
            Some(State::Sweeping) => {}
            _ => return,
        }
        self.begin(id, now);
    }
}
