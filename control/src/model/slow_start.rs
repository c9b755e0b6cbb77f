//! Slow start: a server that joins a service, or is no longer quiesced, gets its share of new connections little by
//! little. The model keeps the weights that were configured; what workers get is lower while a server rises. A service
//! whose servers all come at once starts at full weight: there is nobody to take its place.
//!
//! What rises is the weight, but for schedulers that deal clients out by it over a table: another weight there means
//! other servers for many clients. Their tables are those of the full weights, and the share of its own clients that a
//! server takes rises.

use dataplane::scheduler::SchedulerKind;
use dataplane::service::{Service, ServiceKey};
use dataplane::time::TICKS_PER_SECOND;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// What weights are multiplied by while a server rises, so that a weight of 1 has steps below it.
const STEPS: u32 = 100;
/// The heaviest weight that is multiplied.
const HEAVIEST: u32 = 1_000_000;

/// What of a server rises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rises {
    /// Its weight, which is compared with other weights only: in steps finer than 1.
    Weight,
    /// Its weight, which is compared with numbers of connections as well.
    WholeWeight,
    /// How many of the clients that are hashed to it it takes.
    HashShare,
}

/// What slow start is with a scheduler; none with those that do not go by weight.
const fn rises(kind: SchedulerKind) -> Option<Rises> {
    match kind {
        SchedulerKind::Rr | SchedulerKind::Lc | SchedulerKind::Dh => None,
        SchedulerKind::Ovf | SchedulerKind::Lblc | SchedulerKind::Lblcr => Some(Rises::WholeWeight),
        SchedulerKind::Sh | SchedulerKind::Mh => Some(Rises::HashShare),
        SchedulerKind::Wrr
        | SchedulerKind::Wlc
        | SchedulerKind::Sed
        | SchedulerKind::Nq
        | SchedulerKind::Fo
        | SchedulerKind::Twos => Some(Rises::Weight),
    }
}

/// Whether services with that scheduler may have slow start.
pub(crate) const fn is_possible(kind: SchedulerKind) -> bool {
    rises(kind).is_some()
}

/// Who served in the last snapshot, by service with slow start: since when a server rises, if it does.
#[derive(Clone, Debug, Default)]
pub(super) struct SlowStart(BTreeMap<ServiceKey, HashMap<SocketAddr, Option<Duration>>>);

impl SlowStart {
    /// The service as workers get it in a snapshot at `now`, the time since the start; it is the `epoch`th.
    pub(super) fn apply(&mut self, service: &Arc<Service>, now: Duration, epoch: u64) -> Arc<Service> {
        let before = self.0.remove(&service.key);
        let takes =
            Duration::from_millis(u64::from(service.policy.slow_start) * 1000 / u64::from(TICKS_PER_SECOND));
        let Some(rises) = rises(service.scheduler).filter(|_| !takes.is_zero()) else {
            return Arc::clone(service);
        };
        let before = before.unwrap_or_default();
        let serving: HashMap<SocketAddr, Option<Duration>> = service
            .servers
            .iter()
            .filter(|server| server.weight > 0)
            .map(|server| {
                let end = SocketAddr::new(server.address, server.port);
                let since = match before.get(&end) {
                    Some(since) => since.filter(|since| now.saturating_sub(*since) < takes),
                    None => Some(now).filter(|_| !before.is_empty()),
                };
                (end, since)
            })
            .collect();
        let mut shown = Arc::clone(service);
        if serving.values().any(Option::is_some) {
            lower(&mut shown, rises, |end| {
                let since = serving.get(&end).copied().flatten()?;
                Some((now.saturating_sub(since).as_millis(), takes.as_millis()))
            });
            // Other weights than in any snapshot before.
            Service::edit(&mut shown).revision = service.revision | epoch << 32;
        }
        self.0.insert(service.key, serving);
        shown
    }

    /// Whether any server rises.
    pub(super) fn is_rising(&self) -> bool {
        self.0.values().flat_map(HashMap::values).any(Option::is_some)
    }

    /// Forgets services that are gone.
    pub(super) fn retain(&mut self, exists: impl Fn(&ServiceKey) -> bool) {
        self.0.retain(|key, _| exists(key));
    }
}

/// Lowers what rises of each server: to the part that `passed` gives, of the time that it takes, where it rises.
fn lower(shown: &mut Arc<Service>, rises: Rises, passed: impl Fn(SocketAddr) -> Option<(u128, u128)>) {
    let service = Service::edit(shown);
    let heaviest = service.servers.iter().map(|server| server.weight).max();
    let steps = match rises {
        Rises::Weight if heaviest.is_some_and(|weight| weight <= HEAVIEST) => STEPS,
        _ => 1,
    };
    for server in service.servers.iter_mut().filter(|server| server.weight > 0) {
        server.weight *= steps;
        let Some((passed, takes)) = passed(SocketAddr::new(server.address, server.port)) else {
            continue;
        };
        let part = |full: u32| ((u128::from(full) * passed / takes) as u32).clamp(1, full);
        match rises {
            Rises::Weight | Rises::WholeWeight => server.weight = part(server.weight),
            Rises::HashShare => server.hash_share = part(100) as u8,
        }
    }
}
