//! Dropped packets, by reason.

use crate::gateway::Gateway;
use dataplane::drops::DropReason;
use serde::{Deserialize, Serialize};

/// What was dropped for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Drop {
    /// The reason's label, as in the metrics.
    pub reason: String,
    /// Packets, all workers together.
    pub total: u64,
    /// Packets, by worker.
    pub workers: Vec<u64>,
    /// What the reason means.
    pub text: String,
}

/// Every reason, or only those that have occurred, in the order of the documentation.
#[must_use]
pub fn drops(gateway: &Gateway, all: bool) -> Vec<Drop> {
    let count = |&reason: &DropReason| {
        let counters = gateway
            .workers()
            .iter()
            .map(|worker| worker.stats.drops[reason as usize].get());
        let workers: Vec<u64> = counters.collect();
        Drop {
            reason: reason.label().to_owned(),
            total: workers.iter().sum(),
            workers,
            text: reason.text().to_owned(),
        }
    };
    DropReason::ALL
        .iter()
        .map(count)
        .filter(|drop| all || drop.total > 0)
        .collect()
}
