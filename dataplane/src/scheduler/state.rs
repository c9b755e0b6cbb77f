//! What a worker keeps for one service: the algorithm's own state, and the memory that control has made for it.

use super::hash::Hashed;
use super::ranked::Rank;
use super::tables::WorkerMemory;
use super::twos::Twos;
use super::{
    Arrival, Load, Loads, RoundRobin, Scheduler, SchedulerKind, Seat, WeightedRoundRobin, lblc, lblcr,
};
use crate::service::{Server, Service};

/// The state of whichever algorithm a service uses.
#[derive(Clone, Debug)]
pub struct SchedulerState {
    algorithm: Algorithm,
    memory: Option<Box<WorkerMemory>>,
}

#[derive(Clone, Debug)]
enum Algorithm {
    Rr(RoundRobin),
    Wrr(WeightedRoundRobin),
    Ranked(Rank),
    Lblc,
    Lblcr,
    Hashed(Hashed),
    Twos(Twos),
}

impl Algorithm {
    fn new(kind: SchedulerKind, seat: Seat) -> Algorithm {
        match (kind, kind.rank()) {
            (SchedulerKind::Wrr, _) => Algorithm::Wrr(WeightedRoundRobin::new(seat)),
            (SchedulerKind::Lblc, _) => Algorithm::Lblc,
            (SchedulerKind::Lblcr, _) => Algorithm::Lblcr,
            (SchedulerKind::Sh | SchedulerKind::Dh | SchedulerKind::Mh, _) => Algorithm::Hashed(Hashed(kind)),
            (SchedulerKind::Twos, _) => Algorithm::Twos(Twos),
            (_, Some(rank)) => Algorithm::Ranked(rank),
            (_, None) => Algorithm::Rr(RoundRobin::new(seat)),
        }
    }
}

impl SchedulerState {
    /// The state for a service that the worker in `seat` takes into use. `before` is what the worker had in its place, if
    /// anything: the state of the same algorithm of the same service goes on, and memory goes back to its owner. The
    /// loads have still to be told, see [`SchedulerState::loads_changed`].
    #[must_use]
    pub fn adopt(before: Option<(SchedulerState, &Service)>, now: &Service, seat: Seat) -> SchedulerState {
        let mut memory = now.tables.take(seat.worker);
        let Some((mut state, old)) = before else {
            return SchedulerState::fresh(now, seat, memory);
        };
        let goes_on = old.key == now.key && old.scheduler == now.scheduler;
        if let Some(mut given) = state.memory.take() {
            if let Some(memory) = memory.as_mut().filter(|_| goes_on) {
                std::mem::swap(&mut memory.destinations, &mut given.destinations);
            }
            old.tables.put_back(seat.worker, given);
        }
        if !goes_on {
            return SchedulerState::fresh(now, seat, memory);
        }
        if old.revision != now.revision {
            state.servers_changed(&old.servers, &now.servers);
        }
        state.memory = memory;
        state
    }

    fn fresh(service: &Service, seat: Seat, memory: Option<Box<WorkerMemory>>) -> SchedulerState {
        let mut state = SchedulerState {
            algorithm: Algorithm::new(service.scheduler, seat),
            memory,
        };
        state.servers_changed(&[], &service.servers);
        state
    }

    /// The service is gone: its memory goes back to it.
    pub fn retire(self, service: &Service, worker: u8) {
        if let Some(memory) = self.memory {
            service.tables.put_back(worker, memory);
        }
    }

    /// Ranks all servers of the service by what they have to do now.
    pub fn loads_changed(&mut self, service: &Service, loads: &impl Loads) {
        let Some((memory, rank)) = self.memory.as_mut().zip(service.scheduler.rank()) else {
            return;
        };
        memory.ranking.fill(|position| {
            let server = &service.servers[position];
            rank.key(server.weight, loads.load(server), loads.overloaded(server))
        });
    }

    /// Whether it heeds [`Arrival::random`].
    #[inline]
    #[must_use]
    pub fn draws(&self) -> bool {
        matches!(self.algorithm, Algorithm::Twos(_))
    }

    /// Whether it has to be told of loads.
    #[must_use]
    pub fn ranks(&self) -> bool {
        matches!(
            self.algorithm,
            Algorithm::Ranked(_) | Algorithm::Lblc | Algorithm::Lblcr
        )
    }

    /// Tells that the load of one server has changed: the one of that slot, which was at `position` when the service
    /// was adopted. It may have left the service since.
    #[inline]
    pub fn load_changed(&mut self, position: u32, slot: u32, load: Load, overloaded: bool) {
        let rank = match self.algorithm {
            Algorithm::Ranked(rank) => rank,
            Algorithm::Lblc | Algorithm::Lblcr => Rank::Wlc,
            _ => return,
        };
        let (Some(memory), position) = (self.memory.as_mut(), position as usize) else {
            return;
        };
        if let Some(entrant) = memory
            .ranking
            .entrant(position)
            .filter(|entrant| entrant.slot == slot)
        {
            let key = rank.key(entrant.weight, load, overloaded);
            memory.ranking.set(position, key);
        }
    }
}

impl Scheduler for SchedulerState {
    fn pick(&mut self, service: &Service, loads: &impl Loads, arrival: &Arrival) -> Option<usize> {
        let memory = self.memory.as_deref_mut();
        match &mut self.algorithm {
            Algorithm::Rr(state) => state.pick(service, loads, arrival),
            Algorithm::Wrr(state) => state.pick(service, loads, arrival),
            Algorithm::Ranked(rank) => rank.first(memory.map(|memory| &memory.ranking), service, loads),
            Algorithm::Lblc => lblc::pick(memory, service, loads, arrival),
            Algorithm::Lblcr => lblcr::pick(memory, service, loads, arrival),
            Algorithm::Hashed(state) => state.pick(service, loads, arrival),
            Algorithm::Twos(state) => state.pick(service, loads, arrival),
        }
    }

    fn servers_changed(&mut self, old: &[Server], new: &[Server]) {
        match &mut self.algorithm {
            Algorithm::Rr(state) => state.servers_changed(old, new),
            Algorithm::Wrr(state) => state.servers_changed(old, new),
            _ => {}
        }
    }
}
