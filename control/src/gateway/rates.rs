//! Rates of servers, as IPVS estimates them: every two seconds the average moves a quarter of the way to what has been
//! counted since. Control reads workers' counters for it, a slice of the servers at a time; no packet waits. It goes by
//! the monotonic clock, which is an argument.

use super::totals::sum;
use super::{Gateway, ServerTotals, State};
use crate::model::VirtualService;
use dataplane::service::ServiceKey;
use std::collections::HashMap;
use std::ops::AddAssign;
use std::time::Duration;

/// After how long each server's turn comes again.
const PERIOD: Duration = Duration::from_secs(2);
/// In how many parts all servers are looked at.
const SLICES: usize = 20;
/// How often [`Gateway::estimate`] is to be called.
pub const ESTIMATE_EVERY: Duration = Duration::from_millis(PERIOD.as_millis() as u64 / SLICES as u64);
/// What is less than this counts as nothing, so that averages end.
const NOTHING: f64 = 1e-3;

/// What happens in a second, in IPVS's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Rates {
    /// Connections opened.
    pub cps: u64,
    /// Packets from clients.
    pub inpps: u64,
    /// Packets from servers.
    pub outpps: u64,
    /// Bytes from clients.
    pub inbps: u64,
    /// Bytes from servers.
    pub outbps: u64,
}

/// The counters that rates are of, in the order of [`Rates`].
type Counts = [u64; 5];

fn counts(totals: ServerTotals) -> Counts {
    [
        totals.connections,
        totals.inbound_packets,
        totals.outbound_packets,
        totals.inbound_bytes,
        totals.outbound_bytes,
    ]
}

/// Averages before they are rounded, so that those of servers add up.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Averages([f64; 5]);

impl AddAssign for Averages {
    fn add_assign(&mut self, other: Averages) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own += other;
        }
    }
}

impl From<Averages> for Rates {
    fn from(averages: Averages) -> Rates {
        let [cps, inpps, outpps, inbps, outbps] = averages.0.map(|average| average.round() as u64);
        Rates {
            cps,
            inpps,
            outpps,
            inbps,
            outbps,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    last: Counts,
    average: Averages,
}

/// The estimates of all slots.
#[derive(Debug, Default)]
pub(super) struct Estimator {
    slots: Vec<Estimate>,
    /// When each slice was looked at; before that, the start.
    looked: [Duration; SLICES],
    next: usize,
}

impl Estimator {
    /// Looks at the next slice of `span` slots, whose counters `read` tells, at `now`, the time since the start.
    fn tick(&mut self, now: Duration, span: usize, read: impl Fn(u32) -> Counts) {
        // Counters of a slot that nobody has had are zero.
        self.slots.resize(span.max(self.slots.len()), Estimate::default());
        let slice = self.next;
        self.next = (slice + 1) % SLICES;
        let passed = now.saturating_sub(self.looked[slice]).as_secs_f64();
        // No time has passed: what was counted is for the next look.
        if passed <= 0.0 {
            return;
        }
        self.looked[slice] = now;
        // A quarter after the period; a look that comes late counts for more.
        let weight = 1.0 - 0.75_f64.powf(passed / PERIOD.as_secs_f64());
        for (slot, estimate) in self.slots.iter_mut().enumerate().skip(slice).step_by(SLICES) {
            let counts = read(slot as u32);
            let counted = counts.iter().zip(estimate.last);
            for (average, (now, last)) in estimate.average.0.iter_mut().zip(counted) {
                let rate = now.saturating_sub(last) as f64 / passed;
                *average += (rate - *average) * weight;
                if *average < NOTHING {
                    *average = 0.0;
                }
            }
            estimate.last = counts;
        }
    }

    /// The slot gets another user, whose rates begin at zero.
    pub(super) fn forget(&mut self, slot: u32) {
        if let Some(estimate) = self.slots.get_mut(slot as usize) {
            estimate.average = Averages::default();
        }
    }

    fn of(&self, slot: u32) -> Averages {
        let estimate = self.slots.get(slot as usize).copied();
        estimate.unwrap_or_default().average
    }
}

impl Gateway {
    /// Brings the rates of a part of the servers up to date; to be called every [`ESTIMATE_EVERY`]. `now` is the time since the
    /// start. It may wait for a reload, and is not for an async task.
    pub fn estimate(&self, now: Duration) {
        let span = self.state.lock().model.server_span();
        let read = |slot| counts(sum(slot, &self.workers));
        self.rates.lock().tick(now, span as usize, read);
    }

    /// The rates of each service that is `wanted`, with those of servers that were removed, and of each of its servers.
    /// `state` is the locked state of this gateway.
    #[must_use]
    pub fn rates<'s>(
        &self,
        state: &'s State,
        wanted: impl Fn(&VirtualService) -> bool,
    ) -> Vec<(&'s VirtualService, Rates, Vec<Rates>)> {
        let estimator = self.rates.lock();
        let mut departed: HashMap<ServiceKey, Averages> = HashMap::new();
        for (server, slot) in state.model.departing_servers() {
            *departed.entry(server.service).or_default() += estimator.of(slot);
        }
        let services = state.model.services().filter(|entry| wanted(entry));
        let told = services.map(|entry| {
            let mut all = departed.get(&entry.service.key).copied().unwrap_or_default();
            let servers = entry.service.servers.iter();
            let servers = servers.map(|server| {
                let average = estimator.of(server.slot);
                all += average;
                Rates::from(average)
            });
            let servers = servers.collect();
            (entry, Rates::from(all), servers)
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All slices once, with these counts for every slot.
    fn look(estimator: &mut Estimator, at: Duration, span: usize, counts: Counts) {
        (0..SLICES).for_each(|_| estimator.tick(at, span, |_| counts));
    }

    #[test]
    fn an_average_moves_a_quarter_of_the_way_in_two_seconds() {
        let mut estimator = Estimator::default();
        look(&mut estimator, PERIOD, 1, [200, 2000, 0, 200_000, 4]);
        let rates = Rates::from(estimator.of(0));
        // 100, 1000, 0, 100,000 and 2 in a second.
        assert_eq!(
            (rates.cps, rates.inpps, rates.outpps, rates.inbps, rates.outbps),
            (25, 250, 0, 25_000, 1)
        );
        // Four seconds at once are two times two.
        look(&mut estimator, PERIOD * 3, 1, [200, 2000, 0, 200_000, 4]);
        let rates = Rates::from(estimator.of(0));
        assert_eq!((rates.cps, rates.inpps), (14, 141), "0.75 x 0.75 of it");
        // It ends.
        for round in 4..200 {
            look(&mut estimator, PERIOD * round, 1, [200, 2000, 0, 200_000, 4]);
        }
        assert_eq!(estimator.of(0), Averages::default());
    }

    /// TIME-02: two looks at one time, or at one before the last, divide by nothing and lose nothing.
    #[test]
    fn time_02_equal_times_give_no_rate() {
        let mut estimator = Estimator::default();
        look(&mut estimator, Duration::ZERO, 1, [100; 5]);
        assert_eq!(estimator.of(0), Averages::default());
        look(&mut estimator, PERIOD, 1, [200; 5]);
        let before = estimator.of(0);
        assert_eq!(Rates::from(before).cps, 25, "200 in two seconds");
        look(&mut estimator, PERIOD, 1, [900; 5]);
        look(&mut estimator, Duration::ZERO, 1, [900; 5]);
        assert_eq!(estimator.of(0), before);
        look(&mut estimator, PERIOD * 2, 1, [200; 5]);
        assert!(
            estimator
                .of(0)
                .0
                .iter()
                .all(|rate| rate.is_finite() && *rate >= 0.0)
        );
    }

    /// SCALE-01: no look is at more than its share of 50,000, and together they are at each once.
    #[test]
    fn scale_01_a_look_is_at_a_twentieth_of_the_servers() {
        const SERVERS: usize = 50_000;
        let mut estimator = Estimator::default();
        let looked = std::cell::RefCell::new(vec![0; SERVERS]);
        for slice in 1..=SLICES as u32 {
            estimator.tick(ESTIMATE_EVERY * slice, SERVERS, |slot| {
                looked.borrow_mut()[slot as usize] += 1;
                [0; 5]
            });
            let total: usize = looked.borrow().iter().sum();
            assert_eq!(total, SERVERS / SLICES * slice as usize);
        }
        assert!(looked.borrow().iter().all(|times| *times == 1));
    }

    #[test]
    fn the_next_user_of_a_slot_begins_at_zero() {
        let mut estimator = Estimator::default();
        look(&mut estimator, PERIOD, 2, [1000; 5]);
        estimator.forget(1);
        estimator.forget(7);
        assert_eq!(
            (Rates::from(estimator.of(0)).cps, estimator.of(1)),
            (125, Averages::default())
        );
        look(&mut estimator, PERIOD * 2, 2, [1000; 5]);
        assert_eq!(
            estimator.of(1),
            Averages::default(),
            "what the one before counted is not its own"
        );
    }
}
