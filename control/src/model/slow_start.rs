//! Slow start: a server that joins a service, or is no longer quiesced, gets its share of new connections little by
//! little. The model keeps the weights that were configured; what workers get is lower while a server rises. A service
//! whose servers all come at once starts at full weight: there is nobody to take its place.

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

/// The schedulers that go by weights in proportion.
pub(crate) const SCHEDULERS: [SchedulerKind; 4] = [
    SchedulerKind::Wlc,
    SchedulerKind::Wrr,
    SchedulerKind::Sed,
    SchedulerKind::Twos,
];

/// Who served in the last snapshot, by service with slow start: since when a server rises, if it does.
#[derive(Clone, Debug, Default)]
pub(super) struct SlowStart(BTreeMap<ServiceKey, HashMap<SocketAddr, Option<Duration>>>);

impl SlowStart {
    /// The service as workers get it in a snapshot at `now`, the time since the start; it is the `epoch`th.
    pub(super) fn apply(&mut self, service: &Arc<Service>, now: Duration, epoch: u64) -> Arc<Service> {
        let before = self.0.remove(&service.key);
        let takes =
            Duration::from_millis(u64::from(service.policy.slow_start) * 1000 / u64::from(TICKS_PER_SECOND));
        if takes.is_zero() || !SCHEDULERS.contains(&service.scheduler) {
            return Arc::clone(service);
        }
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
            lower(&mut shown, &serving, now, takes);
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

fn lower(
    shown: &mut Arc<Service>,
    serving: &HashMap<SocketAddr, Option<Duration>>,
    now: Duration,
    takes: Duration,
) {
    let service = Service::edit(shown);
    let heaviest = service.servers.iter().map(|server| server.weight).max();
    let steps = if heaviest.is_some_and(|weight| weight <= HEAVIEST) {
        STEPS
    } else {
        1
    };
    for server in service.servers.iter_mut().filter(|server| server.weight > 0) {
        let full = server.weight * steps;
        let since = serving.get(&SocketAddr::new(server.address, server.port));
        server.weight = match since.copied().flatten() {
            None => full,
            Some(since) => {
                let passed = now.saturating_sub(since).as_millis() as u64;
                let share = u64::from(full) * passed / takes.as_millis() as u64;
                (share as u32).clamp(1, full)
            }
        };
    }
}
