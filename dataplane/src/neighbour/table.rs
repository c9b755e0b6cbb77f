//! The neighbour table: ARP's state (RFC 826, RFC 1122 2.3.2), with the unreachability detection of RFC 4861 7.3
//! by unicast requests. One worker owns a table and is its only writer; it calls [`NeighbourTable::tick`] between
//! bursts. The table never sees a frame: it is told what was heard, and gives back what to ask.
//!
//! Once resolved, a neighbour stays usable until it has been asked six times in vain, so slow ARP is no outage.

use super::map::Map;
use super::waiting::{Queue, Waiting};
use super::words::{NeighbourId, NeighbourState as State, NeighbourWords};
use crate::drops::DropReason;
use crate::packet::{MacAddr, PortId};
use crate::time::{TICKS_PER_SECOND, Tick, seconds};
use std::net::Ipv4Addr;
use std::sync::Arc;

mod sweep;
#[cfg(test)]
mod tests;

/// Requests of one kind (by unicast, by broadcast) before the next step is taken.
const PROBES: u8 = 3;
/// RFC 1122 2.3.2.1: at most one request per second and address.
const REQUEST_INTERVAL: u32 = TICKS_PER_SECOND;
/// How long an address that does not answer is remembered once nothing wants it.
const FAILED_IDLE: u32 = 10 * TICKS_PER_SECOND;
/// Entries that nothing happens to by themselves are looked at this seldom.
const RARELY: u32 = 3600 * TICKS_PER_SECOND;
/// Deadlines that one tick compares: 4 kB of memory, about a microsecond.
const SCAN: usize = 1024;

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

/// What became of a packet given to [`NeighbourTable::hold`].
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

/// What [`NeighbourTable::tick`] gives back.
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

#[derive(Clone, Copy)]
struct Entry {
    address: Ipv4Addr,
    port: PortId,
    mac: MacAddr,
    state: State,
    /// Requests since the last answer.
    probes: u8,
    queue: Queue,
    confirmed: Tick,
    last_used: Tick,
    /// From when on the next request may be sent.
    may_ask: Tick,
}

impl Entry {
    const FREE: Entry = Entry {
        address: Ipv4Addr::UNSPECIFIED,
        port: PortId(0),
        mac: MacAddr([0; 6]),
        state: State::Free,
        probes: 0,
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
    pub fn find(&self, port: PortId, address: Ipv4Addr) -> Option<NeighbourId> {
        self.lookup(port, address)
            .filter(|id| !matches!(self.entries[id.index()].state, State::Retired | State::Sweeping))
    }

    /// The entry of an address, made if need be; a retired one comes back to life under its old id. A new entry
    /// is asked for by the first packet held, or by the next tick, so that an address may be resolved ahead.
    ///
    /// # Errors
    /// [`Full`] when no id is free.
    pub fn find_or_create(
        &mut self,
        port: PortId,
        address: Ipv4Addr,
        now: Tick,
    ) -> Result<NeighbourId, Full> {
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
        self.map.insert(self.map.hash(key(port, address)), id);
        Ok(id)
    }

    /// Lets a packet wait for its next hop's MAC. The queue of each neighbour is bounded, and all of them
    /// together; the oldest gives way, in this neighbour's queue when that is full, else in the fullest ones.
    pub fn hold(&mut self, id: NeighbourId, packet: P, now: Tick) -> Hold<P> {
        self.revive(id, now);
        let Some(entry) = self.entries.get_mut(id.index()) else {
            return Hold::Failed(packet);
        };
        entry.last_used = now;
        match entry.state {
            State::Incomplete => {}
            // The negative period: one packet a second asks again, the rest are refused.
            State::Failed if now.reached(entry.may_ask) => {}
            _ if entry.state.usable() => {
                self.words.mark_used(id);
                return Hold::Resolved(packet, entry.port, entry.mac);
            }
            _ => return Hold::Failed(packet),
        }
        let request = entry.ask(Ask::Broadcast, now);
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

    /// Takes in what an ARP packet says of its sender, and hands out the packets that waited for it, oldest
    /// first, with the port and MAC to send them to.
    ///
    /// RFC 826: a known sender's MAC is updated by whatever it sends, at once (a server or router may have failed
    /// over); a stranger is entered only when it asks for one of our addresses. Static entries and probes
    /// teach nothing. Only a reply confirms a neighbour: anything else proves one direction alone, and a MAC
    /// learnt from it is confirmed by a unicast request once it is used.
    pub fn learn(&mut self, heard: &Heard, now: Tick, release: impl FnMut(P, PortId, MacAddr)) -> Learnt {
        if !believable(heard) {
            return Learnt::Nothing;
        }
        let (id, new) = match (self.find(heard.port, heard.address), heard.means) {
            (Some(id), _) => (id, false),
            (None, Means::Request) => match self.find_or_create(heard.port, heard.address, now) {
                Ok(id) => (id, true),
                Err(Full) => return Learnt::NoRoom,
            },
            (None, _) => return Learnt::Nothing,
        };
        let entry = self.entries[id.index()];
        if entry.state == State::Static {
            return Learnt::Nothing;
        }
        let moved = entry.state.usable() && entry.mac != heard.mac;
        if heard.means == Means::Reply {
            self.resolve(id, heard.mac, State::Reachable, now, release);
        } else if moved || !entry.state.usable() {
            self.resolve(id, heard.mac, State::Stale, now, release);
        }
        match (new, moved) {
            (true, _) => Learnt::New,
            (false, true) => Learnt::Moved(entry.mac),
            (false, false) => Learnt::Known,
        }
    }

    /// Enters or changes a static neighbour; packets that waited for it are handed out.
    ///
    /// # Errors
    /// [`Full`] when no id is free.
    pub fn set_static(
        &mut self,
        port: PortId,
        address: Ipv4Addr,
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
    pub fn clear_static(&mut self, port: PortId, address: Ipv4Addr, now: Tick) -> bool {
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

    /// Ages, refreshes and removes entries: looks at those whose time has come, at most `budget` of them, each of
    /// which gives at most one request and a queue of dropped packets. Called every tick or so.
    pub fn tick(&mut self, now: Tick, budget: usize, mut event: impl FnMut(Event<P>)) {
        let mut handled = 0;
        for _ in 0..self.high.min(SCAN) {
            self.cursor = if self.cursor < self.high {
                self.cursor + 1
            } else {
                1
            };
            if now.reached(self.due[self.cursor]) {
                self.advance(NeighbourId(self.cursor as u16), now, &mut event);
                handled += 1;
                if handled >= budget {
                    return;
                }
            }
        }
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

    fn lookup(&self, port: PortId, address: Ipv4Addr) -> Option<NeighbourId> {
        self.map.find(self.map.hash(key(port, address)), |id| {
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
                self.settings.reachable - self.refresh_margin()
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

    /// How long before the end of the reachable time a refresh begins: time for the unicast requests.
    fn refresh_margin(&self) -> u32 {
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
        let (unicast, all) = if entry.state == State::Probing {
            (PROBES, 2 * PROBES)
        } else {
            (0, PROBES)
        };
        if entry.probes >= all {
            entry.last_used = now;
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

fn key(port: PortId, address: Ipv4Addr) -> u64 {
    u64::from(port.0) << 32 | u64::from(address.to_bits())
}

/// Whether the sender can be a neighbour at all: not a probe (RFC 5227 2.1.1), a group or nobody.
fn believable(heard: &Heard) -> bool {
    let nobody = heard.mac.0 == [0; 6] || heard.mac.is_multicast();
    let no_host =
        heard.address.is_unspecified() || heard.address.is_multicast() || heard.address.is_broadcast();
    !nobody && !no_host
}
