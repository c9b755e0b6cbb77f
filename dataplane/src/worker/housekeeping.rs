//! What a worker does between bursts: orders from control, timers, neighbours, announcements, sweeps; snapshots in
//! [`super::adoption`]. Each has a budget, so that no turn grows long; what is left over is done at the next.

use super::connection::pair_of;
use super::mailbox::{Event, Order, Spent};
use super::rate::RateLimit;
use super::{Io, Sizes, Worker};
use crate::flow::{Flags, FlowIndex, Mode, RecordId, Verdict};
use crate::local::ReleaseHint;
use crate::neighbour::{self, Announcer};
use crate::time::{Tick, seconds};
use arrayvec::ArrayVec;

/// A worker with packets to move looks after the house at every so many turns; an idle one at every turn.
const EVERY: u64 = 64;
/// Timers that one round handles: 10 to 40 microseconds of work when all of them are due and nothing of them is in the
/// caches. No fewer than connections open in a turn.
const TIMER_BUDGET: usize = 64;
/// How many timers are taken off the wheel before the first of them is looked at.
const TIMERS_AHEAD: usize = 4;
/// Neighbours, announcements and records that one round handles.
pub(super) const NEIGHBOUR_BUDGET: usize = 16;
const ANNOUNCE_BUDGET: usize = 8;
const REVIEW_BUDGET: usize = 64;
/// Gratuitous ARP at start: rounds, and ticks between them.
const ANNOUNCE_ROUNDS: u8 = 3;
const ANNOUNCE_INTERVAL: u32 = seconds(1);

/// The neighbour table's settings for a worker of this size.
pub(super) fn neighbour_settings(sizes: &Sizes) -> neighbour::Settings {
    neighbour::Settings {
        capacity: sizes.neighbours,
        seed: sizes.seed ^ 0x6e65_6967_6862,
        ..Default::default()
    }
}

/// The gratuitous ARP of a start.
pub(super) fn announcer() -> Announcer {
    Announcer::new(ANNOUNCE_ROUNDS, ANNOUNCE_INTERVAL, Tick(0))
}

/// Lets each kind of event through once a second.
#[derive(Default)]
pub(super) struct EventGate([RateLimit; 5]);

impl EventGate {
    fn lets_through(&mut self, event: &Event, now: Tick) -> bool {
        let kind = match event {
            Event::LocalPortsExhausted { .. } => 0,
            // Rare by themselves: it takes a rise, or seconds of silence.
            Event::LocalPortsLow { .. } | Event::NextHopFailed { .. } => return true,
            Event::TableFull => 1,
            Event::NeighbourFailed => 2,
            Event::SnatPortsExhausted { .. } => 3,
            Event::SnatPortsLow { .. } => 4,
        };
        self.0[kind].allows(now, 1)
    }
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Everything that is due between bursts.
    pub(super) fn keep_house(&mut self, idle: bool) {
        self.go_on_adopting();
        // What is ordered while a snapshot is being adopted waits its turn.
        while !self.adoption.is_under_way()
            && let Some(order) = self.mailbox.orders.pop()
        {
            self.obey(order);
        }
        self.adoption.rest();
        if !idle && !self.turns.is_multiple_of(EVERY) {
            // Connections open at every turn: were they ended at some only, a flood would keep the table full of
            // dead ones.
            if self.behind {
                self.expire();
            }
            return;
        }
        self.judge_security();
        self.go_on_looking();
        self.end_drained();
        self.expire();
        self.tend_neighbours();
        self.expire_fragments();
        self.announce();
        self.go_on_reviewing();
        self.go_on_sweeping();
        self.go_on_listing();
    }

    fn obey(&mut self, order: Order) {
        let spent = match order {
            Order::Publish(snapshot) => {
                self.adopt(snapshot);
                None
            }
            Order::Link { port, up } => {
                self.link_changed(port, up);
                None
            }
            Order::ListConnections(listing) => self.listings.begin_connections(listing),
            Order::ListNeighbours(listing) => self.listings.begin_neighbours(listing),
            Order::ListLocalAddresses(listing) => self.listings.begin_locals(listing),
            Order::ListLocalPairs(listing) => self.listings.begin_pairs(listing),
        };
        if let Some(spent) = spent {
            self.give_back(spent);
        }
    }

    /// Sends what is no longer needed to control, which frees it. Control collects before it posts, so there is
    /// room; were there none, the worker would have to free it itself.
    pub(super) fn give_back(&self, spent: Spent) {
        let _ = self.mailbox.spent.push(spent);
    }

    /// Tells the operator, at most once a second for each kind of event.
    pub(super) fn report(&mut self, event: Event) {
        if self.events.lets_through(&event, self.now) {
            let _ = self.mailbox.events.push(event);
        }
    }

    /// Ends what has timed out; re-arms what has been seen since its timer was set.
    fn expire(&mut self) {
        self.behind = true;
        // What is due waits for a few others, while what its end takes comes from memory.
        let mut due = [(RecordId::NONE, ReleaseHint::default()); TIMERS_AHEAD];
        for step in 0..TIMER_BUDGET + TIMERS_AHEAD {
            let mut next = (RecordId::NONE, ReleaseHint::default());
            if self.behind && step < TIMER_BUDGET {
                match self.wheel.pop_due(self.table.records_mut(), self.now) {
                    Some(id) => {
                        next = (id, self.announce_end(id));
                    }
                    None => self.behind = false,
                }
            }
            let (_, hint) = due[(step + TIMERS_AHEAD / 2) % TIMERS_AHEAD];
            self.locals.announce_queue(hint);
            let (id, _) = std::mem::replace(&mut due[step % TIMERS_AHEAD], next);
            if id != RecordId::NONE {
                self.time_is_up(id);
            } else if !self.behind && step > TIMERS_AHEAD {
                break;
            }
        }
    }

    /// Asks the cache for what the end of a connection takes beside its record, if its time is up as far as can be seen.
    /// What [`crate::local::LocalPorts::announce_queue`] is to know some time later.
    fn announce_end(&self, id: RecordId) -> ReleaseHint {
        let record = self.table.get(id);
        let deadline = self.snapshot.timeouts_of(record).deadline(record);
        if Verdict::at(deadline, self.now) != Verdict::Expired {
            return ReleaseHint::default();
        }
        self.table.announce_removal(record);
        if record.mode() != Mode::Fullnat || record.is_template() {
            return ReleaseHint::default();
        }
        let (pair, port) = (pair_of(&self.table, record), record.outbound.destination_port());
        let closing = record.flags.has(Flags::CLOSING_LISTED);
        self.locals.announce_release(&pair, port, id, closing)
    }

    /// The timer of a connection has fired: it ends, unless it has been seen since, or is held.
    fn time_is_up(&mut self, id: RecordId) {
        let record = self.table.get(id);
        let deadline = self.snapshot.timeouts_of(record).deadline(record);
        match Verdict::at(deadline, self.now) {
            Verdict::Expired if self.hold_template(id) => {}
            Verdict::Expired => self.time_out(id),
            Verdict::Rearm(deadline) => {
                self.look_after_header(id);
                self.arm(id, deadline);
            }
        }
    }

    fn tend_neighbours(&mut self) {
        let mut due = ArrayVec::<_, { 2 * NEIGHBOUR_BUDGET }>::new();
        // One entry gives at most one request, or drops its waiting packets.
        let mut failed = None;
        let mut left = ArrayVec::<_, NEIGHBOUR_BUDGET>::new();
        let stats = &self.stats;
        self.neighbours
            .tick(self.now, NEIGHBOUR_BUDGET, |event| match event {
                neighbour::Event::Ask(request) => {
                    let _ = due.try_push(request);
                }
                neighbour::Event::Drop(packet, reason) => {
                    stats.count_drop(reason);
                    drop(packet);
                    failed = Some(Event::NeighbourFailed);
                }
                neighbour::Event::Failed { port, address } => {
                    let _ = left.try_push(Event::NextHopFailed { port, address });
                }
            });
        for request in due {
            self.ask(&request);
        }
        for event in left.into_iter().chain(failed) {
            self.report(event);
        }
        if self.neighbours.take_returned() {
            self.forget_all_neighbours();
        }
    }

    /// Gratuitous ARP and unsolicited advertisements. The first worker sends those of all.
    fn announce(&mut self) {
        if self.number != 0 {
            return;
        }
        let mut due = ArrayVec::<_, { 2 * ANNOUNCE_BUDGET }>::new();
        self.announcer.tick(
            self.now,
            ANNOUNCE_BUDGET,
            &self.snapshot.addresses,
            |announcement| {
                let _ = due.try_push(announcement);
            },
        );
        for announcement in due {
            self.send_announcement(&announcement);
        }
    }

    /// Looks at every connection again after a new snapshot, a slice of the table at a time: ends those whose server
    /// is gone, where that is wanted, and brings timers forward where timeouts have become shorter.
    fn go_on_reviewing(&mut self) {
        let Some(cursor) = self.review_from else { return };
        let mut slice = ArrayVec::<RecordId, REVIEW_BUDGET>::new();
        self.review_from = self.table.scan(cursor, REVIEW_BUDGET, |id, _| slice.push(id));
        for id in slice {
            self.review(id);
        }
    }
}
