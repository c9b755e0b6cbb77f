//! How a worker takes a snapshot into use. Packets go by the new one at once. What the worker keeps of its own for each
//! service and its servers follows in slices, turn by turn, so that ten thousand services delay no packet; a service
//! that a packet asks for before its turn has come is adopted at that moment. The snapshot before goes back to control,
//! and the epoch is told, when all have been adopted.

use super::connection::ServerLoads;
use super::housekeeping::NEIGHBOUR_BUDGET;
use super::mailbox::Spent;
use super::snat;
use super::transmit::Link;
use super::{Io, ServerState, ServiceState, Worker};
use crate::flow::FlowIndex;
use crate::neighbour::NeighbourId;
use crate::packet::{PortId, PortRules};
use crate::scheduler::{SchedulerState, Seat};
use crate::service::{Service, Snapshot};
use arrayvec::ArrayVec;
use std::net::SocketAddr;
use std::sync::Arc;

/// What one turn spends on adoption, where a slot in which nothing has changed costs 1.
const BUDGET: u32 = 512;
/// What the parts of a snapshot cost that are adopted at once.
const SNAPSHOT: u32 = 64;
/// What a service that has changed costs, and each of its servers.
const SERVICE: u32 = 32;
const SERVER: u32 = 8;

/// How far the snapshot in force has been adopted.
pub(super) struct Adoption {
    /// The snapshot before, as long as some services are as it has them.
    old: Option<Arc<Snapshot>>,
    /// The services in all slots below have been adopted.
    next: u32,
    /// By service slot: the epoch of the snapshot that the service has been adopted from.
    epochs: Vec<u64>,
    /// Whether connections have to be looked at again when it is over.
    reviews: bool,
    /// What this turn has spent.
    spent: u32,
}

impl Adoption {
    /// Nothing to adopt, for so many services.
    pub(super) fn new(services: u32) -> Adoption {
        Adoption {
            old: None,
            next: 0,
            epochs: vec![0; services as usize],
            reviews: false,
            spent: 0,
        }
    }

    /// Whether some services have not been adopted yet.
    pub(super) fn is_under_way(&self) -> bool {
        self.old.is_some()
    }

    /// The next turn may spend as much again.
    pub(super) fn rest(&mut self) {
        self.spent = 0;
    }
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Takes the first snapshot into use, all of it: no packet waits yet.
    pub(super) fn begin(&mut self) {
        let snapshot = Arc::clone(&self.snapshot);
        self.locals.set_owned(self.owned);
        self.adopt_ports(&snapshot);
        self.set_static_neighbours(&snapshot);
        self.watch_hops(&snapshot);
        self.adoption.epochs.fill(snapshot.epoch);
        for service in (0..snapshot.service_slots()).filter_map(|slot| snapshot.service(slot as u32)) {
            self.adopt_service(None, service);
        }
        self.adopt_rules(&snapshot);
        self.judge_security();
        self.stats.epoch.set(snapshot.epoch);
    }

    /// Puts a snapshot in force, and begins to take over what has changed since the one before; what is unchanged keeps
    /// its state. The one before has been adopted entirely.
    pub(super) fn adopt(&mut self, new: Arc<Snapshot>) {
        let old = std::mem::replace(&mut self.snapshot, Arc::clone(&new));
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
            self.forget_all_neighbours();
        }
        self.adopt_rules(&new);
        self.judge_security();
        self.adoption.reviews = new.settings.expire_nodest_conn
            || old.settings.timeouts != new.settings.timeouts
            || !Arc::ptr_eq(&old.snat, &new.snat);
        self.adoption.next = 0;
        self.adoption.spent += SNAPSHOT;
        self.adoption.old = Some(old);
        self.go_on_adopting();
    }

    /// Adopts as many more services as one turn may.
    pub(super) fn go_on_adopting(&mut self) {
        let Some(old) = self.adoption.old.take() else {
            return;
        };
        // One count up and down for each slice, not for each service.
        let new = Arc::clone(&self.snapshot);
        let slots = new.service_slots() as u32;
        while self.adoption.next < slots && self.adoption.spent < BUDGET {
            self.adopt_slot(self.adoption.next, &old, &new);
            self.adoption.next += 1;
        }
        if self.adoption.next < slots {
            self.adoption.old = Some(old);
            return;
        }
        if self.adoption.reviews {
            self.review_from = Some(0);
        }
        self.stats.epoch.set(new.epoch);
        self.give_back(Spent::Snapshot(old));
    }

    /// Makes sure that the service in that slot, if there is one, has been adopted, before what the worker keeps for it
    /// or its servers is asked for.
    #[inline]
    pub(super) fn catch_up(&mut self, slot: u32) {
        if self.adoption.is_under_way() {
            self.adopt_early(slot);
        }
    }

    #[cold]
    #[inline(never)]
    fn adopt_early(&mut self, slot: u32) {
        if let Some(old) = self.adoption.old.take() {
            let new = Arc::clone(&self.snapshot);
            self.adopt_slot(slot, &old, &new);
            self.adoption.old = Some(old);
        }
    }

    /// Adopts what is in that slot, unless that has been done.
    fn adopt_slot(&mut self, slot: u32, old: &Snapshot, new: &Snapshot) {
        self.adoption.spent += 1;
        match self.adoption.epochs.get_mut(slot as usize) {
            Some(epoch) if *epoch != new.epoch => *epoch = new.epoch,
            _ => return,
        }
        let (before, now) = (old.service(slot), new.service(slot));
        match (before, now) {
            (Some(before), Some(now)) if Arc::ptr_eq(before, now) => {}
            (before, Some(now)) => {
                let before = before.map(AsRef::as_ref);
                if let Some(before) = before {
                    let reviews = before.timeouts != now.timeouts;
                    self.adoption.reviews |= self.note_removed(before, Some(now), new) || reviews;
                }
                self.adopt_service(before, now);
                self.adoption.spent += SERVICE + SERVER * now.servers.len() as u32;
            }
            (Some(before), None) => {
                self.adoption.reviews |= self.note_removed(before, None, new);
                if let Some(state) = self.services[slot as usize].take() {
                    state.scheduler.retire(before, self.number);
                }
                self.adoption.spent += SERVICE + SERVER * before.servers.len() as u32;
            }
            (None, None) => {}
        }
    }

    /// What follows from addresses and routes is found out anew for each server, when it is asked for.
    pub(super) fn forget_server_neighbours(&mut self) {
        self.server_era = self.server_era.wrapping_add(1).max(1);
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
        let has_exception = snapshot.ports.iter().any(|port| port.exception_rate > 0);
        self.takes_from_kernel = has_exception && self.number == 0;
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
        let ranks = scheduler.ranks();
        self.services[now.slot as usize] = Some(ServiceState { scheduler });
        for (server, position) in now.servers.iter().zip(0..) {
            let others = self.others.load_of(server.slot);
            let state = &mut self.servers[server.slot as usize];
            let end = SocketAddr::new(server.address, server.port);
            if state.end != end {
                *state = ServerState {
                    end,
                    ..ServerState::default()
                };
            }
            (state.service, state.position) = (now.slot, position);
            let seen = std::mem::replace(&mut state.others, others);
            state.drain_until = None;
            state.marked_overloaded = server.overloaded;
            state.is_weighed = ranks || server.upper_threshold != 0;
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
            let loads = ServerLoads::new(&self.servers, &self.stats);
            state.scheduler.loads_changed(now, &loads);
        }
    }
}
