//! The neighbour table: the state of ARP (RFC 826, RFC 1122 2.3.2) and of neighbour discovery (RFC 4861 7.2), with
//! the unreachability detection of RFC 4861 7.3 by unicast requests for both. One worker owns a table and is its only writer; it calls [`NeighbourTable::tick`] between
//! bursts. The table never sees a frame: it is told what was heard, and gives back what to ask.
//!
//! Once resolved, a neighbour stays usable until it has been asked six times in vain, so a slow answer is no outage.

use super::map::Map;
use super::waiting::{Queue, Waiting};
use super::words::{NeighbourId, NeighbourState as State, NeighbourWords};
use crate::packet::{MacAddr, PortId};
use crate::time::{TICKS_PER_SECOND, Tick};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

mod aging;
mod facts;
mod learn;
mod sweep;
#[cfg(test)]
mod tests;
mod watch;

pub use facts::{Ask, Event, Full, Heard, Hold, Learnt, Means, NeighbourView, Request, Settings};

/// RFC 1122 2.3.2.1: at most one request per second and address; RFC 4861's RetransTimer is the same.
const REQUEST_INTERVAL: u32 = TICKS_PER_SECOND;
/// Entries that nothing happens to by themselves are looked at this seldom.
const RARELY: u32 = 3600 * TICKS_PER_SECOND;

#[derive(Clone, Copy)]
struct Entry {
    address: IpAddr,
    port: PortId,
    mac: MacAddr,
    state: State,
    /// Requests since the last answer.
    probes: u8,
    /// One of several next hops, confirmed whether it is used or not.
    watched: bool,
    queue: Queue,
    confirmed: Tick,
    last_used: Tick,
    /// From when on the next request may be sent.
    may_ask: Tick,
}

impl Entry {
    const FREE: Entry = Entry {
        address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        port: PortId(0),
        mac: MacAddr([0; 6]),
        state: State::Free,
        probes: 0,
        watched: false,
        queue: Queue::EMPTY,
        confirmed: Tick(0),
        last_used: Tick(0),
        may_ask: Tick(0),
    };

    /// The request to send now, if the rate allows one.
    fn ask(&mut self, ask: Ask, now: Tick) -> Option<Request> {
        if !now.reached(self.may_ask) {
            return None;
        }
        self.may_ask = now.after(REQUEST_INTERVAL);
        self.probes = self.probes.saturating_add(1);
        Some(Request {
            port: self.port,
            address: self.address,
            ask,
        })
    }
}

/// The neighbours of all ports. `P` is the packet that waits. Nothing is allocated after [`NeighbourTable::new`].
pub struct NeighbourTable<P> {
    words: Arc<NeighbourWords>,
    /// Indexed by id; entry 0 is never used.
    entries: Box<[Entry]>,
    /// When to look at each entry next: apart from the entries, so that a tick scans few cache lines.
    due: Box<[Tick]>,
    map: Map,
    waiting: Waiting<P>,
    free: Vec<u16>,
    /// The highest id ever given out.
    high: usize,
    /// The id that the last tick looked at last.
    cursor: usize,
    /// Entries in state `Retired`.
    retired: u16,
    /// A sweep is under way.
    sweeping: bool,
    /// Watched entries in state `Failed`.
    down: u16,
    /// One of them has answered since the last look.
    returned: bool,
    settings: Settings,
}

impl<P> NeighbourTable<P> {
    /// An empty table.
    #[must_use]
    pub fn new(settings: Settings) -> NeighbourTable<P> {
        let slots = usize::from(settings.capacity) + 1;
        NeighbourTable {
            words: Arc::new(NeighbourWords::new(settings.capacity)),
            entries: vec![Entry::FREE; slots].into_boxed_slice(),
            due: vec![Tick(0); slots].into_boxed_slice(),
            map: Map::new(settings.capacity, settings.seed),
            waiting: Waiting::new(settings.waiting),
            // Low ids first: a tick looks no further than the highest one in use.
            free: (1..=settings.capacity).rev().collect(),
            high: 0,
            cursor: 0,
            retired: 0,
            sweeping: false,
            down: 0,
            returned: false,
            settings,
        }
    }

    /// The words that the other workers read.
    #[must_use]
    pub fn words(&self) -> Arc<NeighbourWords> {
        Arc::clone(&self.words)
    }

    /// As [`NeighbourWords::resolved`], for the owner.
    #[inline]
    #[must_use]
    pub fn resolved(&self, id: NeighbourId) -> Option<(PortId, MacAddr)> {
        self.words.resolved(id)
    }

    /// The port that a neighbour is on.
    #[must_use]
    pub fn port_of(&self, id: NeighbourId) -> PortId {
        self.entries[id.index()].port
    }

    /// Packets that wait: part of `held` in the worker's conservation equation.
    #[must_use]
    pub fn held(&self) -> usize {
        self.waiting.held()
    }

    /// The entry of an address, unless there is none or it has been retired.
    #[must_use]
    pub fn find(&self, port: PortId, address: IpAddr) -> Option<NeighbourId> {
        self.lookup(port, address)
            .filter(|id| !matches!(self.entries[id.index()].state, State::Retired | State::Sweeping))
    }

    /// The entry of an address, made if need be; a retired one comes back to life under its old id. A new entry
    /// is asked for by the first packet held, or by the next tick, so that an address may be resolved ahead.
    ///
    /// # Errors
    /// [`Full`] when no id is free.
    pub fn find_or_create(&mut self, port: PortId, address: IpAddr, now: Tick) -> Result<NeighbourId, Full> {
        if let Some(id) = self.lookup(port, address) {
            self.revive(id, now);
            return Ok(id);
        }
        let id = NeighbourId(self.free.pop().ok_or(Full)?);
        self.entries[id.index()] = Entry {
            address,
            port,
            ..Entry::FREE
        };
        self.begin(id, now);
        self.high = self.high.max(id.index());
        self.map.insert(self.map.hash(port, address), id);
        Ok(id)
    }

    /// Lets a packet wait for its next hop's MAC. The queue of each neighbour is bounded, and all of them
    /// together; the oldest gives way, in this neighbour's queue when that is full, else in one of the others.
    ///
    /// Of a neighbour that does not answer, one packet a second is taken, which asks again; the rest are refused.
    pub fn hold(&mut self, id: NeighbourId, packet: P, now: Tick) -> Hold<P> {
        self.revive(id, now);
        let Some(entry) = self.entries.get_mut(id.index()) else {
            return Hold::Failed(packet);
        };
        entry.last_used = now;
        match entry.state {
            State::Incomplete => {}
            // Not before a tick has dropped the packet that asked last.
            State::Failed if entry.queue.len() == 0 && now.reached(entry.may_ask) => {}
            _ if entry.state.usable() => {
                self.words.mark_used(id);
                return Hold::Resolved(packet, entry.port, entry.mac);
            }
            _ => return Hold::Failed(packet),
        }
        // The first packet asks. The rest is for ticks to ask or to give up: else a flood would put that off.
        let first = entry.state == State::Failed || entry.probes == 0;
        let request = if first {
            entry.ask(Ask::Broadcast, now)
        } else {
            None
        };
        if request.is_some() {
            self.due[id.index()] = now.after(REQUEST_INTERVAL);
        }
        let gave_way = self.make_room(id);
        let queue = &mut self.entries[id.index()].queue;
        match self.waiting.push(queue, id.0, packet) {
            Ok(()) => Hold::Waits { request, gave_way },
            // There is room now, so this does not happen; if it did, the packet would be the one to give way.
            Err(packet) => Hold::Failed(packet),
        }
    }

    /// Enters or changes a static neighbour; packets that waited for it are handed out.
    ///
    /// # Errors
    /// [`Full`] when no id is free.
    pub fn set_static(
        &mut self,
        port: PortId,
        address: IpAddr,
        mac: MacAddr,
        now: Tick,
        release: impl FnMut(P, PortId, MacAddr),
    ) -> Result<NeighbourId, Full> {
        let id = self.find_or_create(port, address, now)?;
        self.resolve(id, mac, State::Static, now, release);
        Ok(id)
    }

    /// Makes a static neighbour dynamic: its MAC stays in use and is confirmed as any other. False when there is
    /// no such static neighbour.
    pub fn clear_static(&mut self, port: PortId, address: IpAddr, now: Tick) -> bool {
        let Some(id) = self.find(port, address) else {
            return false;
        };
        let entry = self.entries[id.index()];
        let was = entry.state == State::Static;
        if was {
            self.entries[id.index()].last_used = now;
            self.resolve(id, entry.mac, State::Stale, now, |_, _, _| {});
        }
        was
    }

    /// Gives back every packet that waits, as at shutdown.
    pub fn drain(&mut self, mut packet: impl FnMut(P)) {
        for entry in &mut self.entries {
            while let Some(p) = self.waiting.pop(&mut entry.queue) {
                packet(p);
            }
        }
    }

    /// The neighbours, in no particular order; retired ones are left out.
    pub fn iter(&self, now: Tick) -> impl Iterator<Item = NeighbourView> + '_ {
        let shown = |e: &&Entry| !matches!(e.state, State::Free | State::Retired | State::Sweeping);
        self.entries.iter().filter(shown).map(move |e| NeighbourView {
            address: e.address,
            port: e.port,
            mac: e.state.usable().then_some(e.mac),
            state: e.state,
            age: now.since(e.confirmed) / TICKS_PER_SECOND,
            waiting: e.queue.len(),
        })
    }

    fn lookup(&self, port: PortId, address: IpAddr) -> Option<NeighbourId> {
        self.map.find(self.map.hash(port, address), |id| {
            let entry = &self.entries[id.index()];
            entry.port == port && entry.address == address
        })
    }

    /// Starts to resolve an entry.
    fn begin(&mut self, id: NeighbourId, now: Tick) {
        let entry = &mut self.entries[id.index()];
        entry.probes = 0;
        entry.confirmed = now;
        entry.last_used = now;
        entry.may_ask = now;
        self.set_state(id, State::Incomplete);
        self.due[id.index()] = now;
    }

    fn set_state(&mut self, id: NeighbourId, state: State) {
        self.note_watched(id, state);
        let entry = &mut self.entries[id.index()];
        entry.state = state;
        self.words.publish(id, entry.port, entry.mac, state);
    }

    /// Makes room for one packet to `id`, if need be at the cost of one that is given back.
    fn make_room(&mut self, id: NeighbourId) -> Option<P> {
        let owner = if self.entries[id.index()].queue.len() >= self.settings.waiting_each.max(1) {
            id.index()
        } else if self.waiting.full() {
            usize::from(self.waiting.victim())
        } else {
            return None;
        };
        self.waiting.pop(&mut self.entries[owner].queue)
    }

    /// A MAC is known: publishes it and hands out what waited.
    fn resolve(
        &mut self,
        id: NeighbourId,
        mac: MacAddr,
        state: State,
        now: Tick,
        mut release: impl FnMut(P, PortId, MacAddr),
    ) {
        let entry = &mut self.entries[id.index()];
        entry.mac = mac;
        entry.probes = 0;
        if entry.queue.len() > 0 {
            entry.last_used = now;
            self.words.mark_used(id);
        }
        let wait = match state {
            State::Reachable => {
                entry.confirmed = now;
                if entry.watched {
                    watch::CONFIRM
                } else {
                    self.settings.reachable - self.refresh_margin()
                }
            }
            State::Static => {
                entry.confirmed = now;
                RARELY
            }
            _ => 0,
        };
        self.due[id.index()] = now.after(wait);
        self.set_state(id, state);
        let entry = &mut self.entries[id.index()];
        while let Some(packet) = self.waiting.pop(&mut entry.queue) {
            release(packet, entry.port, mac);
        }
    }
}
