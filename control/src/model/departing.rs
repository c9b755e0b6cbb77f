//! Servers that have been removed while connections may still have them.

use super::{Model, ServerKey, SlotOwner};
use dataplane::service::{OnRemove, Policy};
use dataplane::time::TICKS_PER_SECOND;
use std::collections::HashSet;
use std::time::Duration;

/// How a server departs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// What becomes of its connections: what its service said when it went.
    pub on_remove: OnRemove,
    /// How long those that drain may go on, if that has an end.
    pub may_last: Option<Duration>,
    /// The time since the start at which workers were told; none before the next snapshot.
    pub since: Option<Duration>,
}

impl Model {
    /// Deleted servers that still hold their slots, with these.
    pub fn departing_servers(&self) -> impl Iterator<Item = (&ServerKey, u32)> {
        self.server_slots
            .retired()
            .filter_map(|(owner, slot)| match owner {
                SlotOwner::Server(server) => Some((server, slot)),
                SlotOwner::Snat(_) => None,
            })
    }

    /// How a deleted server departs that still holds its slot.
    #[must_use]
    pub fn departure(&self, server: &ServerKey) -> Option<&Departure> {
        self.departures.get(server)
    }

    /// A server goes, whose service has that policy.
    pub(super) fn depart(&mut self, server: ServerKey, policy: &Policy) {
        self.server_slots.retire(&SlotOwner::Server(server));
        let deadline = Some(policy.drain_deadline)
            .filter(|ticks| *ticks > 0 && policy.on_remove == OnRemove::Drain)
            .map(|ticks| Duration::from_millis(u64::from(ticks) * 1000 / u64::from(TICKS_PER_SECOND)));
        self.departures.insert(
            server,
            Departure {
                on_remove: policy.on_remove,
                may_last: deadline,
                since: None,
            },
        );
    }

    /// Notes for all that has left since the last snapshot that it does so now; forgets what has come back or is gone.
    pub(super) fn date_departures(&mut self) {
        if !self.departures.is_empty() {
            let departing: HashSet<ServerKey> = self.departing_servers().map(|(server, _)| *server).collect();
            self.departures.retain(|server, _| departing.contains(server));
        }
        for departure in self.departures.values_mut() {
            departure.since.get_or_insert(self.time);
        }
        for draining in &mut self.draining {
            draining.since.get_or_insert(self.time);
        }
    }
}
