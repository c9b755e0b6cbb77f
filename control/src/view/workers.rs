//! Workers.

use crate::gateway::{Gateway, WorkerTotals};
use dataplane::worker::WorkerStats;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Worker {
    /// Its number.
    pub number: usize,
    /// The CPU that it is pinned to.
    pub cpu: u16,
    /// What it counts.
    #[serde(flatten)]
    pub totals: WorkerTotals,
    /// What it has handed over, by the worker that owns it; empty with a worker that is alone.
    pub steered: Vec<Steered>,
    /// Packets that came in or were made, less those of which it is known what became; 0 unless packets are lost
    /// or counted wrongly.
    pub unaccounted: i64,
}

/// What one worker has handed over to another one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Steered {
    /// The number of the other one.
    pub to: usize,
    /// Packets handed over.
    pub handed_over: u64,
    /// Packets dropped, because the ring to it was full.
    pub full: u64,
}

/// Every worker. Takes milliseconds; not for an async task.
#[must_use]
pub fn workers(gateway: &Gateway) -> Vec<Worker> {
    let handles = gateway.workers().iter().enumerate();
    handles
        .map(|(number, handle)| Worker {
            number,
            cpu: handle.cpu,
            totals: WorkerTotals::from(&*handle.stats),
            steered: steered(number, &handle.stats),
            unaccounted: unaccounted(&handle.stats),
        })
        .collect()
}

fn steered(from: usize, stats: &WorkerStats) -> Vec<Steered> {
    let others = stats.steered.iter().enumerate().filter(|(to, _)| *to != from);
    others
        .map(|(to, counts)| Steered {
            to,
            handed_over: counts.handed_over.get(),
            full: counts.full.get(),
        })
        .collect()
}

/// The counters add up between turns, and are read at any moment of one: the best of some readings, over long
/// enough for a worker that was interrupted amid a turn to go on. What is really lost shows in all of them.
fn unaccounted(stats: &WorkerStats) -> i64 {
    const ROUNDS: usize = 20;
    const READINGS: usize = 100;
    let mut best = i64::MAX;
    for _ in 0..ROUNDS {
        for _ in 0..READINGS {
            let difference = difference(&WorkerTotals::from(stats));
            if difference == 0 {
                return 0;
            }
            if difference.unsigned_abs() < best.unsigned_abs() {
                best = difference;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    best
}

fn difference(now: &WorkerTotals) -> i64 {
    let came = now.received + now.taken_over + now.made;
    let went = now.sent + now.dropped + now.consumed + now.handed_over + now.held;
    came.wrapping_sub(went) as i64
}
