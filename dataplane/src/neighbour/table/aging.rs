//! What time does to a neighbour: refresh, failure, removal.
//!
//! ```text
//!                     reply                      unused
//! incomplete ----------------------> reachable ----------> stale ----> retired (idle)
//!     |                                |    ^                |
//!     | 3 broadcasts              used |    | reply          | used
//!     v                                v    |                v
//!   failed <------------------------- probing <--------------+
//!     |      3 unicasts, 3 broadcasts
//!     +----> retired (nothing wants it for 10 s)
//! ```
//!
//! A failed neighbour that packets still want is asked once a second, by [`NeighbourTable::hold`]. One that is watched
//! (`table/watch.rs`) counts as used, fails after 3 unicasts, and is never retired but asked on.

use super::{Ask, Event, NeighbourId, NeighbourTable, RARELY, REQUEST_INTERVAL, State};
use crate::drops::DropReason;
use crate::time::{TICKS_PER_SECOND, Tick};

/// Requests of one kind (by unicast, by broadcast) before the next step is taken.
const PROBES: u8 = 3;
/// How long an address that does not answer is remembered once nothing wants it.
const FAILED_IDLE: u32 = 10 * TICKS_PER_SECOND;
/// Deadlines that one tick compares: 4 kB of memory, half a microsecond.
const SCAN: usize = 1024;

impl<P> NeighbourTable<P> {
    /// Ages, refreshes and removes entries: looks at those whose time has come, at most `budget` of them, each of
    /// which gives at most one request and a queue of dropped packets. Called every tick or so.
    pub fn tick(&mut self, now: Tick, budget: usize, mut event: impl FnMut(Event<P>)) {
        let (mut handled, mut left) = (0, self.high.min(SCAN));
        while left > 0 && handled < budget {
            let from = if self.cursor < self.high {
                self.cursor + 1
            } else {
                1
            };
            let to = (from + left).min(self.high + 1);
            let Some(skipped) = self.due[from..to].iter().position(|due| now.reached(*due)) else {
                self.cursor = to - 1;
                left -= to - from;
                continue;
            };
            self.cursor = from + skipped;
            left -= skipped + 1;
            handled += 1;
            self.advance(NeighbourId(self.cursor as u16), now, &mut event);
        }
    }

    /// How long before the end of the reachable time a refresh begins: time for the unicast requests.
    pub(super) fn refresh_margin(&self) -> u32 {
        (u32::from(PROBES) * REQUEST_INTERVAL).min(self.settings.reachable / 2)
    }

    /// Takes the next step of an entry whose time has come.
    fn advance(&mut self, id: NeighbourId, now: Tick, event: &mut impl FnMut(Event<P>)) {
        let used = self.words.take_used(id);
        let settings = self.settings;
        let entry = &mut self.entries[id.index()];
        if used {
            entry.last_used = now;
        }
        let used = used || entry.watched;
        let idle = now.since(entry.last_used);
        let mut wait = REQUEST_INTERVAL;
        match entry.state {
            State::Free | State::Retired | State::Sweeping | State::Static => wait = RARELY,
            State::Reachable | State::Stale if used => {
                entry.probes = 0;
                self.set_state(id, State::Probing);
                self.probe(id, now, event);
            }
            State::Reachable => {
                wait = settings.reachable.saturating_sub(now.since(entry.confirmed));
                if wait == 0 {
                    wait = REQUEST_INTERVAL;
                    self.set_state(id, State::Stale);
                }
            }
            State::Stale if idle >= settings.idle => self.retire(id),
            State::Stale => {}
            State::Incomplete | State::Probing => self.probe(id, now, event),
            State::Failed if entry.watched => {
                let request = entry.ask(Ask::Broadcast, now);
                self.drop_waiting(id, event);
                if let Some(request) = request {
                    event(Event::Ask(request));
                }
            }
            State::Failed => {
                self.drop_waiting(id, event);
                if idle >= FAILED_IDLE {
                    self.retire(id);
                }
            }
        }
        self.due[id.index()] = now.after(wait);
    }

    /// Asks once more, by unicast while the MAC is still worth it, or gives up.
    fn probe(&mut self, id: NeighbourId, now: Tick, event: &mut impl FnMut(Event<P>)) {
        let entry = &mut self.entries[id.index()];
        let (unicast, all) = match entry.state {
            // There is somebody to stand in for it.
            State::Probing if entry.watched => (PROBES, PROBES),
            State::Probing => (PROBES, 2 * PROBES),
            _ => (0, PROBES),
        };
        if entry.probes >= all {
            entry.last_used = now;
            if entry.watched {
                let (port, address) = (entry.port, entry.address);
                event(Event::Failed { port, address });
            }
            self.set_state(id, State::Failed);
            self.drop_waiting(id, event);
            return;
        }
        let ask = if entry.probes < unicast {
            Ask::Unicast(entry.mac)
        } else {
            Ask::Broadcast
        };
        if let Some(request) = entry.ask(ask, now) {
            event(Event::Ask(request));
        }
    }

    fn drop_waiting(&mut self, id: NeighbourId, event: &mut impl FnMut(Event<P>)) {
        let queue = &mut self.entries[id.index()].queue;
        while let Some(packet) = self.waiting.pop(queue) {
            event(Event::Drop(packet, DropReason::NeighbourFailed));
        }
    }
}
