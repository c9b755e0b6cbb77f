//! Sums over workers, less what earlier users of a slot have counted.

use super::zero::Zeroes;
use super::{Gateway, WorkerHandle};
use crate::model::SlotOwner;
use dataplane::service::ServiceKey;
use dataplane::worker::{ServerStats, WorkerStats};
use std::collections::HashMap;
use std::ops::{AddAssign, Sub};

/// Traffic and connections of one server or rule of SNAT, summed over workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct ServerTotals {
    /// Connections ever opened.
    pub connections: u64,
    /// Packets from clients, forwarded.
    pub inbound_packets: u64,
    /// Bytes of these, counted from the IP header on.
    pub inbound_bytes: u64,
    /// Packets from the server, forwarded.
    pub outbound_packets: u64,
    /// Bytes of these, counted from the IP header on.
    pub outbound_bytes: u64,
    /// Active connections now.
    pub active: u64,
    /// Inactive connections now.
    pub inactive: u64,
    /// Connections that a rule of SNAT has refused by its limit; only its view tells.
    #[serde(skip)]
    pub refused: u64,
}

impl ServerTotals {
    /// Without what exists now: of a server that no longer counts among its service's.
    fn past(self) -> ServerTotals {
        ServerTotals {
            active: 0,
            inactive: 0,
            ..self
        }
    }
}

impl From<&ServerStats> for ServerTotals {
    fn from(stats: &ServerStats) -> ServerTotals {
        ServerTotals {
            connections: stats.connections.get(),
            inbound_packets: stats.inbound_packets.get(),
            inbound_bytes: stats.inbound_bytes.get(),
            outbound_packets: stats.outbound_packets.get(),
            outbound_bytes: stats.outbound_bytes.get(),
            active: stats.active.get().into(),
            inactive: stats.inactive.get().into(),
            refused: stats.refused.get(),
        }
    }
}

impl AddAssign for ServerTotals {
    fn add_assign(&mut self, other: ServerTotals) {
        self.connections += other.connections;
        self.inbound_packets += other.inbound_packets;
        self.inbound_bytes += other.inbound_bytes;
        self.outbound_packets += other.outbound_packets;
        self.outbound_bytes += other.outbound_bytes;
        self.active += other.active;
        self.inactive += other.inactive;
        self.refused += other.refused;
    }
}

/// Subtracts what has been counted; what exists now stays.
impl Sub for ServerTotals {
    type Output = ServerTotals;

    fn sub(self, base: ServerTotals) -> ServerTotals {
        ServerTotals {
            connections: self.connections.saturating_sub(base.connections),
            inbound_packets: self.inbound_packets.saturating_sub(base.inbound_packets),
            inbound_bytes: self.inbound_bytes.saturating_sub(base.inbound_bytes),
            outbound_packets: self.outbound_packets.saturating_sub(base.outbound_packets),
            outbound_bytes: self.outbound_bytes.saturating_sub(base.outbound_bytes),
            refused: self.refused.saturating_sub(base.refused),
            ..self
        }
    }
}

/// What a worker does, as numbers at one moment.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct WorkerTotals {
    /// Packets received from the ports.
    pub received: u64,
    /// Packets taken over from other workers.
    pub taken_over: u64,
    /// Packets that the gateway made itself.
    pub made: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets handed over to other workers.
    pub handed_over: u64,
    /// Packets dropped, all reasons together.
    pub dropped: u64,
    /// Packets that ended here on purpose.
    pub consumed: u64,
    /// Packets that wait now.
    pub held: u64,
    /// Connections in the table now.
    pub connections: u64,
    /// Connections ever opened.
    pub opened: u64,
    /// Turns of the loop.
    pub turns: u64,
    /// Share of its time that it spent in turns that found packets, 0 to 1, since the start.
    pub busy: f64,
    /// The epoch of the snapshot in use.
    pub epoch: u64,
}

impl From<&WorkerStats> for WorkerTotals {
    fn from(stats: &WorkerStats) -> WorkerTotals {
        let total_cycles = stats.total_cycles.get().max(1);
        WorkerTotals {
            received: stats.received.get(),
            taken_over: stats.taken_over.get(),
            made: stats.made.get(),
            sent: stats.sent.get(),
            handed_over: stats.handed_over.get(),
            dropped: stats.dropped(),
            consumed: stats.consumed.get(),
            held: stats.held.get(),
            connections: stats.connections.get(),
            opened: stats.opened.get(),
            turns: stats.turns.get(),
            busy: stats.busy_cycles.get() as f64 / total_cycles as f64,
            epoch: stats.epoch.get(),
        }
    }
}

/// From when on counters are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// From the start, or since their server is there: what metrics tell, which never go back.
    Ever,
    /// Since they were set to zero, if they were: what operators are shown.
    SinceZero,
}

/// What the counters of slots do not say by themselves: where those of a slot stood when its present user got it,
/// and what servers that are gone have counted for services that are still there.
#[derive(Debug, Default)]
pub(crate) struct Baselines {
    slots: HashMap<u32, ServerTotals>,
    departed: HashMap<ServiceKey, ServerTotals>,
    pub(super) zeroes: Zeroes,
}

impl Baselines {
    /// The next user of `slot` counts from here; what a server counted there stays with its service.
    pub(crate) fn restart(&mut self, owner: &SlotOwner, slot: u32, workers: &[WorkerHandle]) {
        let counted = sum(slot, workers);
        if let SlotOwner::Server(server) = owner {
            let served = (counted - self.of(slot)).past();
            *self.departed.entry(server.service).or_default() += served;
        }
        self.zeroes.restart(owner, slot);
        self.slots.insert(slot, counted);
    }

    /// Forgets services that are gone.
    pub(crate) fn keep_services(&mut self, exists: impl Fn(&ServiceKey) -> bool) {
        self.departed.retain(|key, _| exists(key));
        self.zeroes.keep_services(exists);
    }

    /// What servers that are gone, and whose slots have other users, have counted for that service.
    pub(super) fn departed_of(&self, service: &ServiceKey) -> ServerTotals {
        self.departed.get(service).copied().unwrap_or_default()
    }

    fn of(&self, slot: u32) -> ServerTotals {
        self.slots.get(&slot).copied().unwrap_or_default()
    }
}

pub(super) fn sum(slot: u32, workers: &[WorkerHandle]) -> ServerTotals {
    let mut total = ServerTotals::default();
    for worker in workers {
        total += ServerTotals::from(&worker.stats.servers[slot as usize]);
    }
    total
}

impl Gateway {
    /// Traffic and connections of the server, or rule of SNAT, in that slot. `state` is the locked state of this gateway.
    #[must_use]
    pub fn server_totals(&self, state: &super::State, slot: u32, counted: Counted) -> ServerTotals {
        let ever = sum(slot, &self.workers) - state.baselines.of(slot);
        match counted {
            Counted::Ever => ever,
            Counted::SinceZero => ever - state.baselines.zeroes.of(slot),
        }
    }

    /// Connections that deleted servers still have, by service. `state` is the locked state of this gateway.
    #[must_use]
    pub fn departing_connections(&self, state: &super::State) -> HashMap<ServiceKey, u64> {
        let mut departing = HashMap::new();
        for (server, slot) in state.model.departing_servers() {
            let totals = self.server_totals(state, slot, Counted::Ever);
            *departing.entry(server.service).or_default() += totals.active + totals.inactive;
        }
        departing
    }

    /// What deleted servers have counted, by service, so that a service's own counters never go back. `state` is
    /// the locked state of this gateway.
    #[must_use]
    pub fn departed_totals(
        &self,
        state: &super::State,
        counted: Counted,
    ) -> HashMap<ServiceKey, ServerTotals> {
        let mut departed = state.baselines.departed.clone();
        if counted == Counted::SinceZero {
            for (key, totals) in &mut departed {
                *totals = *totals - state.baselines.zeroes.departed_of(key);
            }
        }
        for (server, slot) in state.model.departing_servers() {
            *departed.entry(server.service).or_default() += self.server_totals(state, slot, counted).past();
        }
        departed
    }
}
