//! The other workers of the gateway: what they have of each server, and what any of them hears of neighbours.
//!
//! Schedulers, thresholds and bounds go by the connections of all workers:
//! a worker's own, which it knows exactly, and those of the others as of its last *round*, in which it reads their
//! counters. A round begins with the first turn of each tick (10 ms) and goes on in slices, so that no turn grows long
//! with the number of servers. A worker that is alone never looks anywhere.
//!
//! How far this is from exact: what the other workers have opened and ended since they were looked at. So a server has
//! at most so many connections too many, by its share or its threshold, as the others open in that time.
//!
//! A neighbour's answer arrives at one worker, whichever asked. So each tells the others what it hears, through their
//! mailboxes, and keeps a table of its own.

use super::{Io, Mailbox, Worker, WorkerStats};
use crate::flow::FlowIndex;
use crate::neighbour::Heard;
use crate::scheduler::Load;
use crate::time::Tick;
use std::sync::Arc;

/// Counters of others, each a cache line that is likely in another core's cache, that one slice reads: a few
/// microseconds of work. A service without servers to look at costs as much as one.
const BUDGET: usize = 64;
/// What others have heard that one turn takes in.
const HEARD: usize = 32;

/// The other workers, and how far the round is.
pub(super) struct Others {
    stats: Box<[Arc<WorkerStats>]>,
    mailboxes: Box<[Arc<Mailbox>]>,
    /// When the last round began.
    begun: Tick,
    /// Where it goes on; none once it is done.
    next: Option<Place>,
}

/// A server's place in the snapshot.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The slot of its service.
    service: u32,
    position: usize,
}

impl Others {
    /// No others.
    pub(super) fn none() -> Others {
        Others {
            stats: Box::default(),
            mailboxes: Box::default(),
            begun: Tick(0),
            next: None,
        }
    }

    /// Those that count and are told there; the first round begins at once.
    pub(super) fn new(
        others: impl IntoIterator<Item = (Arc<WorkerStats>, Arc<Mailbox>)>,
        now: Tick,
    ) -> Others {
        let (stats, mailboxes): (Vec<_>, Vec<_>) = others.into_iter().unzip();
        Others {
            stats: stats.into(),
            mailboxes: mailboxes.into(),
            begun: now,
            next: Some(Place::default()),
        }
    }

    /// Tells them what has been heard of a neighbour.
    pub(super) fn tell(&self, heard: &Heard) {
        for mailbox in &self.mailboxes {
            let _ = mailbox.heard.push(*heard);
        }
    }

    /// The mailbox of worker `number`; `own` is the one whose others these are.
    pub(super) fn mailbox(&self, own: u8, number: u8) -> Option<&Mailbox> {
        let at = usize::from(number) - usize::from(number > own);
        let other = self.mailboxes.get(at).filter(|_| number != own)?;
        Some(other)
    }

    /// How many questions of worker `own` have been lost, since there was no room for the answer.
    pub(super) fn unanswered(&self, own: u8) -> u64 {
        let of = |stats: &Arc<WorkerStats>| {
            let steered = stats.steered.get(usize::from(own));
            steered.map_or(0, |steered| steered.unanswered.get())
        };
        self.stats.iter().map(of).sum()
    }

    /// What they have of a server now. A connection that changes from inactive to active meanwhile may be missing, or
    /// there twice: until the next round.
    pub(super) fn load_of(&self, slot: u32) -> Load {
        let servers = self
            .stats
            .iter()
            .filter_map(|stats| stats.servers.get(slot as usize));
        servers.fold(Load::default(), |sum, server| sum.and(server.load()))
    }

    /// Whether a round is due: with every tick, once the last one is done.
    #[inline]
    fn is_due(&self, now: Tick) -> bool {
        !self.stats.is_empty() && self.next.is_none() && now != self.begun
    }
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Tells the worker of the other workers of its gateway, in the order of their numbers, by what they count and where
    /// they are told. To be called before its first turn, wherever there are several: without it schedulers know of its own connections alone, and
    /// neighbours that answer to another worker are not heard.
    #[must_use]
    pub fn beside(
        mut self,
        others: impl IntoIterator<Item = (Arc<WorkerStats>, Arc<Mailbox>)>,
    ) -> Worker<I, X> {
        self.others = Others::new(others, self.now);
        self
    }

    /// Begins a round if the clock has gone on. At the start of a turn: what a worker opens after a rest goes by what
    /// the others have now.
    #[inline]
    pub(super) fn look_at_others(&mut self) {
        if self.others.is_due(self.now) {
            self.others.begun = self.now;
            self.others.next = Some(Place::default());
            self.go_on_looking();
        }
    }

    /// Takes in what others have heard of neighbours, as packets may wait for it, and what they tell of connections.
    #[inline]
    pub(super) fn listen_to_others(&mut self) {
        if self.others.mailboxes.is_empty() {
            return;
        }
        if !self.mailbox.heard.is_empty() {
            self.hear_others();
        }
        self.listen_to_holders();
    }

    #[cold]
    #[inline(never)]
    fn hear_others(&mut self) {
        for _ in 0..HEARD {
            let Some(heard) = self.mailbox.heard.pop() else {
                return;
            };
            self.learn(&heard);
        }
    }

    /// The next slice of the round.
    pub(super) fn go_on_looking(&mut self) {
        let Some(mut place) = self.others.next else { return };
        let mut budget = BUDGET;
        while budget > 0 {
            if place.service as usize >= self.snapshot.service_slots() {
                self.others.next = None;
                return;
            }
            let service = self.snapshot.service(place.service);
            let service = service.filter(|service| service.tables.goes_by_loads());
            if let Some(server) = service.and_then(|service| service.servers.get(place.position)) {
                let slot = server.slot;
                self.look_at(slot);
                place.position += 1;
                budget = budget.saturating_sub(self.others.stats.len());
            } else {
                place = Place {
                    service: place.service + 1,
                    position: 0,
                };
                budget -= 1;
            }
        }
        self.others.next = Some(place);
    }

    /// Notes what the others have of a server.
    fn look_at(&mut self, slot: u32) {
        let load = self.others.load_of(slot);
        let state = &mut self.servers[slot as usize];
        if state.others != load {
            state.others = load;
            self.weigh(slot);
        }
    }
}
