//! Next hops that stand in for one another: they are confirmed every few seconds whether they are used or not, given up
//! after three requests in vain, and asked on until they answer again. So a route with several next hops leaves a
//! dead one within [`CONFIRM`] and three seconds more, before most flows have noticed.

use super::{Full, NeighbourId, NeighbourTable, State};
use crate::packet::PortId;
use crate::time::{Tick, seconds};
use std::net::IpAddr;

/// Ticks from an answer to the next request.
pub(super) const CONFIRM: u32 = seconds(2);

impl<P> NeighbourTable<P> {
    /// Watches the neighbour with this address, and resolves it ahead, until [`NeighbourTable::unwatch_all`].
    ///
    /// # Errors
    /// [`Full`] when no id is free.
    pub fn watch(&mut self, port: PortId, address: IpAddr, now: Tick) -> Result<(), Full> {
        let id = self.find_or_create(port, address, now)?;
        let entry = &mut self.entries[id.index()];
        if !entry.watched {
            entry.watched = true;
            self.down += u16::from(entry.state == State::Failed);
            // One that was confirmed long ago is asked at once.
            if entry.state != State::Static {
                self.due[id.index()] = now;
            }
        }
        Ok(())
    }

    /// Watches nobody any more.
    pub fn unwatch_all(&mut self) {
        let used = self.entries.iter_mut().take(self.high + 1);
        used.for_each(|entry| entry.watched = false);
        self.down = 0;
        self.returned = false;
    }

    /// Whether a watched neighbour does not answer: then [`NeighbourTable::is_down`] is worth a call.
    #[inline]
    #[must_use]
    pub fn any_down(&self) -> bool {
        self.down != 0
    }

    /// Whether this is a watched neighbour that does not answer.
    #[must_use]
    pub fn is_down(&self, id: NeighbourId) -> bool {
        self.entries
            .get(id.index())
            .is_some_and(|entry| entry.watched && entry.state == State::Failed)
    }

    /// Whether flows may take this neighbour: it is not known to be dead.
    #[must_use]
    pub fn may_take(&self, port: PortId, address: IpAddr) -> bool {
        self.find(port, address)
            .is_none_or(|id| self.entries[id.index()].state != State::Failed)
    }

    /// Gives up a watched neighbour, as the link to it is down; not one whose MAC is configured. What waits for it is dropped
    /// when it is asked next.
    pub fn give_up(&mut self, port: PortId, address: IpAddr) {
        if let Some(id) = self.find(port, address)
            && self.entries[id.index()].watched
            && self.entries[id.index()].state != State::Static
        {
            self.set_state(id, State::Failed);
        }
    }

    /// Asks a neighbour that has been given up at once, as the link to it is back.
    pub fn ask_again(&mut self, port: PortId, address: IpAddr, now: Tick) {
        if let Some(id) = self.find(port, address)
            && self.entries[id.index()].state == State::Failed
        {
            self.entries[id.index()].may_ask = now;
            self.due[id.index()] = now;
        }
    }

    /// Whether a watched neighbour that did not answer has done so since the last call.
    pub fn take_returned(&mut self) -> bool {
        std::mem::take(&mut self.returned)
    }

    /// Keeps count of who is down, before an entry gets this state.
    pub(super) fn note_watched(&mut self, id: NeighbourId, state: State) {
        let entry = &self.entries[id.index()];
        if entry.watched && (entry.state == State::Failed) != (state == State::Failed) {
            if state == State::Failed {
                self.down += 1;
            } else {
                self.down -= 1;
                self.returned = true;
            }
        }
    }
}
