//! The memory of schedulers. Control makes it when it compiles a snapshot: tables that all workers read, and for
//! each worker what it alone writes. A worker takes its own when it adopts the service, and puts it back when another
//! snapshot replaces the service, so that control frees it.

use super::destinations::Destinations;
use super::ranking::Ranking;
use super::{hash, twos};
use crate::service::Service;
use crossbeam::queue::ArrayQueue;
use std::fmt;
use std::sync::OnceLock;

/// What one worker writes for one service.
#[derive(Clone, Debug)]
pub(super) struct WorkerMemory {
    pub(super) ranking: Ranking,
    pub(super) destinations: Option<Destinations>,
}

impl WorkerMemory {
    /// Both parts, if there are both.
    pub(super) fn parts(&mut self) -> Option<(&Ranking, &mut Destinations)> {
        Some((&self.ranking, self.destinations.as_mut()?))
    }
}

/// The tables of one service; empty until [`SchedulerTables::prepare`]. A clone is empty too, since a service is
/// cloned to be edited.
#[derive(Default)]
pub struct SchedulerTables(OnceLock<Made>);

struct Made {
    lookup: Box<[u32]>,
    /// By position: the weights up to there; for `twos`.
    sums: Box<[u64]>,
    /// Whether anything depends on the servers' connections.
    goes_by_loads: bool,
    /// By worker; none when the algorithm needs none. Each holds at most one.
    workers: Box<[ArrayQueue<Box<WorkerMemory>>]>,
}

impl SchedulerTables {
    /// Makes the tables of `service`, whose own these are, for that many workers. For control only: it allocates.
    /// What has been made stays.
    pub(crate) fn prepare(&self, service: &Service, workers: usize) {
        self.0.get_or_init(|| {
            let kind = service.scheduler;
            let workers = if kind.rank().is_some() { workers } else { 0 };
            let memory = |_| {
                let queue = ArrayQueue::new(1);
                let memory = WorkerMemory {
                    ranking: Ranking::new(&service.servers),
                    destinations: kind.remembers_destinations().then(Destinations::new),
                };
                // There is room: the queue is new.
                let _ = queue.push(Box::new(memory));
                queue
            };
            Made {
                goes_by_loads: goes_by_loads(service),
                lookup: hash::table(kind, service),
                sums: twos::sums(kind, &service.servers),
                workers: (0..workers).map(memory).collect(),
            }
        });
    }

    /// Whether anything depends on how many connections the servers have: picks, thresholds or a bound.
    pub(crate) fn goes_by_loads(&self) -> bool {
        self.0.get().is_some_and(|made| made.goes_by_loads)
    }

    /// By hash: the position of a server. Empty for algorithms that do not hash, and without servers.
    #[must_use]
    pub fn lookup(&self) -> &[u32] {
        self.0.get().map_or(&[], |made| &made.lookup)
    }

    /// By position: the sum of the weights of all servers up to there. Empty but for `twos`.
    pub(super) fn sums(&self) -> &[u64] {
        self.0.get().map_or(&[], |made| &made.sums)
    }

    /// Takes the memory of a worker.
    pub(super) fn take(&self, worker: u8) -> Option<Box<WorkerMemory>> {
        self.0.get()?.workers.get(usize::from(worker))?.pop()
    }

    /// Puts the memory of a worker back. There is room where it has been taken from.
    pub(super) fn put_back(&self, worker: u8, memory: Box<WorkerMemory>) {
        let queue = self
            .0
            .get()
            .and_then(|made| made.workers.get(usize::from(worker)));
        let returned = queue.map(|queue| queue.push(memory));
        debug_assert!(
            matches!(returned, Some(Ok(()))),
            "a worker frees a scheduler's memory"
        );
    }

    /// Bytes of the tables that all workers share.
    #[must_use]
    pub fn shared_bytes(&self) -> usize {
        size_of_val(self.lookup()) + size_of_val(self.sums())
    }
}

fn goes_by_loads(service: &Service) -> bool {
    service.scheduler.goes_by_load()
        || service.policy.bound != 0
        || service
            .persistence
            .is_some_and(|persistence| persistence.bound != 0)
        || service.servers.iter().any(|server| server.upper_threshold != 0)
}

impl Clone for SchedulerTables {
    fn clone(&self) -> SchedulerTables {
        SchedulerTables::default()
    }
}

impl fmt::Debug for SchedulerTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchedulerTables")
            .field("places", &self.lookup().len())
            .finish_non_exhaustive()
    }
}
