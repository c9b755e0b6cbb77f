//! What a worker does between bursts: orders from control, timers, neighbours, announcements, sweeps. Each has a
//! budget, so that no turn grows long; what is left over is done at the next.

use super::connection::ServerLoads;
use super::mailbox::{Event, Order, Spent};
use super::rate::RateLimit;
use super::snat;
use super::transmit::Link;
use super::{Io, ServerState, ServiceState, Sizes, Worker};
use crate::flow::{FlowIndex, RecordId, Verdict};
use crate::neighbour::{self, AddressClass, Announcer, NeighbourId};
use crate::packet::{PortId, PortRules};
use crate::scheduler::{SchedulerState, Seat};
use crate::service::{Service, Snapshot};
use crate::time::{Tick, seconds};
use arrayvec::ArrayVec;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A worker with packets to move looks after the house at every so many turns; an idle one at every turn.
const EVERY: u64 = 64;
/// Timers that one round handles: about 10 microseconds of work when all of them are due.
const TIMER_BUDGET: usize = 64;
/// How many timers are taken off the wheel before the first of them is looked at.
const TIMERS_AHEAD: usize = 4;
/// Neighbours, announcements and records that one round handles.
const NEIGHBOUR_BUDGET: usize = 16;
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
        while let Some(order) = self.mailbox.orders.pop() {
            self.obey(order);
        }
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
                let old = std::mem::replace(&mut self.snapshot, snapshot);
                self.adopt(&old);
                Some(Spent::Snapshot(old))
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
        let mut due = [RecordId::NONE; TIMERS_AHEAD];
        for step in 0..TIMER_BUDGET + TIMERS_AHEAD {
            let mut next = RecordId::NONE;
            if self.behind && step < TIMER_BUDGET {
                match self.wheel.pop_due(self.table.records_mut(), self.now) {
                    Some(id) => {
                        self.table.announce_removal(self.table.get(id));
                        next = id;
                    }
                    None => self.behind = false,
                }
            }
            let id = std::mem::replace(&mut due[step % TIMERS_AHEAD], next);
            if id != RecordId::NONE {
                self.time_is_up(id);
            } else if !self.behind && step > TIMERS_AHEAD {
                break;
            }
        }
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

    fn announce(&mut self) {
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

    /// Whether a server's address is one of the gateway itself.
    fn is_own(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.snapshot.addresses.class_of(address) != AddressClass::None
    }

    /// Takes the first snapshot into use.
    pub(super) fn begin(&mut self) {
        let snapshot = Arc::clone(&self.snapshot);
        self.locals.set_owned(self.owned);
        self.adopt_ports(&snapshot);
        self.set_static_neighbours(&snapshot);
        self.watch_hops(&snapshot);
        for service in (0..snapshot.service_slots()).filter_map(|slot| snapshot.service(slot as u32)) {
            self.adopt_service(None, service);
        }
        self.adopt_rules(&snapshot);
        self.judge_security();
        self.stats.epoch.set(snapshot.epoch);
    }

    /// Takes over what has changed since the snapshot before; what is unchanged keeps its state.
    fn adopt(&mut self, old: &Snapshot) {
        // One count up and down for each snapshot, not for each packet.
        let new = Arc::clone(&self.snapshot);
        self.adopt_ports(&new);
        self.owned = new.shards.owned_by(self.number);
        self.locals.set_owned(self.owned);
        if !Arc::ptr_eq(&old.neighbours, &new.neighbours) {
            for known in old.neighbours.iter() {
                self.neighbours.clear_static(known.port, known.address, self.now);
            }
            self.set_static_neighbours(&new);
        }
        if !Arc::ptr_eq(&old.routes, &new.routes) {
            self.forget_all_neighbours();
            self.watch_hops(&new);
        }
        if !Arc::ptr_eq(&old.addresses, &new.addresses) {
            self.announcer.restart(None, self.now);
            for slot in 0..self.servers.len() {
                self.servers[slot].is_ours = self.is_own(self.servers[slot].end.ip());
            }
        }
        let mut reviews = new.settings.expire_nodest_conn || old.settings.timeouts != new.settings.timeouts;
        for slot in 0..new.service_slots() as u32 {
            let (before, now) = (old.service(slot), new.service(slot));
            match (before, now) {
                (Some(before), Some(now)) if Arc::ptr_eq(before, now) => {}
                (before, Some(now)) => {
                    let before = before.map(AsRef::as_ref);
                    reviews |= before.is_some_and(|before| before.timeouts != now.timeouts);
                    reviews |= before.is_some_and(|before| self.note_removed(before, Some(now), &new));
                    self.adopt_service(before, now);
                }
                (Some(before), None) => {
                    reviews |= self.note_removed(before, None, &new);
                    if let Some(state) = self.services[slot as usize].take() {
                        state.scheduler.retire(before, self.number);
                    }
                }
                (None, None) => {}
            }
        }
        self.adopt_rules(&new);
        if reviews || !Arc::ptr_eq(&old.snat, &new.snat) {
            self.review_from = Some(0);
        }
        self.judge_security();
        self.stats.epoch.set(new.epoch);
    }

    fn adopt_ports(&mut self, snapshot: &Snapshot) {
        self.least_mtu = snapshot.ports.iter().map(|port| port.mtu).min().unwrap_or(0);
        self.rules.clear();
        self.rules.extend(snapshot.ports.iter().map(|port| PortRules {
            mac: port.mac,
            any_mac: port.any_mac,
            check_partial: port.check_partial,
            digest: self.digest,
        }));
        self.links.clear();
        self.links.extend(
            snapshot
                .ports
                .iter()
                .zip(0..)
                .map(|(port, number)| match port.vlan {
                    None => Link {
                        mac: port.mac,
                        queue: PortId(number),
                        vlan: 0,
                    },
                    Some(vlan) => Link {
                        mac: port.mac,
                        queue: vlan.parent,
                        vlan: vlan.id,
                    },
                }),
        );
        self.passes_by = snapshot.has_nat()
            || snapshot.settings.transit
            || !snapshot.snat.is_empty()
            || snapshot.marks.has_prefixes();
        self.outbound = snat::Outbound::of(snapshot);
    }

    /// Slots of rules have no server's state, but for one that had them before.
    fn adopt_rules(&mut self, snapshot: &Snapshot) {
        for rule in snapshot.snat.rules() {
            self.servers[rule.slot as usize] = ServerState::default();
        }
    }

    fn set_static_neighbours(&mut self, snapshot: &Snapshot) {
        let mut freed = ArrayVec::<_, { 2 * NEIGHBOUR_BUDGET }>::new();
        for known in snapshot.neighbours.iter() {
            let release = |packet, port, mac| {
                let _ = freed.try_push((packet, port, mac));
            };
            // A full table is told by every packet that finds no room in it.
            let _ = self
                .neighbours
                .set_static(known.port, known.address, known.mac, self.now, release);
            for (packet, port, mac) in freed.drain(..) {
                self.send(port, mac, packet);
            }
        }
    }

    fn adopt_service(&mut self, before: Option<&Service>, now: &Service) {
        let old = self.services[now.slot as usize].take();
        let old = old.map(|old| old.scheduler).zip(before);
        let seat = Seat {
            worker: self.number,
            workers: self.snapshot.shards.workers(),
        };
        let scheduler = SchedulerState::adopt(old, now, seat);
        self.services[now.slot as usize] = Some(ServiceState { scheduler });
        for (server, position) in now.servers.iter().zip(0..) {
            let is_ours = self.is_own(server.address);
            let others = self.others.load_of(server.slot);
            let state = &mut self.servers[server.slot as usize];
            let end = SocketAddr::new(server.address, server.port);
            if state.end != end {
                *state = ServerState {
                    end,
                    is_ours,
                    ..ServerState::default()
                };
            }
            (state.service, state.position) = (now.slot, position);
            let seen = std::mem::replace(&mut state.others, others);
            state.drain_until = None;
            state.marked_overloaded = server.overloaded;
            if (state.mode, state.tunnel) != (server.mode, server.tunnel) {
                (state.mode, state.tunnel) = (server.mode, server.tunnel);
                // The source of a tunnel is found together with the neighbour.
                state.neighbour = NeighbourId::NONE;
            }
            if (state.upper, state.lower) != (server.upper_threshold, server.lower_threshold) {
                (state.upper, state.lower) = (server.upper_threshold, server.lower_threshold);
                // As in LVS, an edited limit counts at once, and a server that was overloaded stays so until it has fewer
                // connections than the new lower threshold.
                state.overloaded &= state.upper > 0;
                self.weigh(server.slot);
            } else if seen != others {
                self.weigh(server.slot);
            }
        }
        if let Some(state) = &mut self.services[now.slot as usize] {
            let loads = ServerLoads {
                servers: &self.servers,
                stats: &self.stats,
            };
            state.scheduler.loads_changed(now, &loads);
        }
    }
}
