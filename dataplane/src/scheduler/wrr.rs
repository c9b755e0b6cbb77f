//! Weighted round robin, interleaved: passes over the list at falling weight levels. In each pass every usable
//! server of at least the level's weight is picked once, so heavy servers come more often, spread out.

use super::{Arrival, Loads, Scheduler, Seat};
use crate::service::{Server, Service};

/// State of weighted round robin.
#[derive(Clone, Debug)]
pub struct WeightedRoundRobin {
    /// Position after the server picked last in the current pass; 0 at the start of a pass. The worker's seat says where
    /// the first pass after an edit begins.
    next: usize,
    /// The weight a server needs in the current pass.
    level: i64,
    /// The level of the first pass; 0 when no server has weight.
    top: i64,
    /// How far the level falls from pass to pass: the greatest common divisor of the weights.
    step: i64,
    seat: Seat,
}

impl WeightedRoundRobin {
    /// Before the first pick of the worker in that seat: a lone one begins at the head of the list and at the greatest
    /// weight, as LVS does.
    pub(super) fn new(seat: Seat) -> WeightedRoundRobin {
        WeightedRoundRobin {
            next: 0,
            level: 0,
            top: 0,
            step: 1,
            seat,
        }
    }

    /// The level at which this worker begins: its part of the way down the ladder.
    fn first_level(&self) -> i64 {
        let levels = (self.top + self.step - 1) / self.step;
        self.top - self.step * self.seat.first(levels as usize) as i64
    }

    fn in_this_pass(&self, service: &Service, loads: &impl Loads) -> Option<usize> {
        (self.next..service.servers.len()).find(|&at| {
            let server = &service.servers[at];
            i64::from(server.weight) >= self.level && loads.usable(server)
        })
    }

    /// The next pass; passes in which nobody could be picked are skipped at once, since weights go to 2^31.
    fn next_level(&self, heaviest: i64) -> i64 {
        let below = self.level - self.step;
        let level = if below <= 0 { self.top } else { below };
        if level <= heaviest {
            level
        } else {
            level - (level - heaviest + self.step - 1) / self.step * self.step
        }
    }
}

impl Scheduler for WeightedRoundRobin {
    fn pick(&mut self, service: &Service, loads: &impl Loads, _: &Arrival) -> Option<usize> {
        let mut found = self.in_this_pass(service, loads);
        if found.is_none() {
            let usable = service.servers.iter().filter(|server| loads.usable(server));
            let heaviest = usable.map(|server| i64::from(server.weight)).max()?;
            self.level = self.next_level(heaviest);
            self.next = 0;
            found = self.in_this_pass(service, loads);
        }
        self.next = found? + 1;
        found
    }

    fn servers_changed(&mut self, _old: &[Server], new: &[Server]) {
        let weights = || {
            new.iter()
                .map(|server| i64::from(server.weight))
                .filter(|&weight| weight > 0)
        };
        self.step = weights().reduce(gcd).unwrap_or(1);
        self.top = weights().max().map_or(0, |heaviest| heaviest - (self.step - 1));
        self.next = self.seat.first(new.len());
        if self.level > self.top || self.level == 0 {
            self.level = self.first_level();
        } else if self.step > 1 {
            // Onto the ladder of levels, which ends at 1; never above the top, since the top is on it.
            self.level = self.level / self.step * self.step + 1;
        }
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::super::SchedulerKind::Wrr;
    use super::super::testing::*;
    use super::*;

    #[test]
    fn a_cycle_follows_the_weights_interleaved() {
        let service = service(Wrr, vec![server(3, 2), server(2, 3), server(1, 4)]);
        let mut state = state(&service);
        assert_eq!(
            picks(&mut state, &service, &Overloaded(vec![]), 9),
            [1, 2, 1, 3, 2, 1, 3, 2, 1]
        );
    }

    /// SCH-03.
    #[test]
    fn huge_weights_neither_overflow_nor_loop() {
        let service = service(Wrr, vec![server(2, 1), server(1, i32::MAX as u32)]);
        let mut state = state(&service);
        let seen = picks(&mut state, &service, &Overloaded(vec![]), 1000);
        assert!(seen.iter().filter(|&&slot| slot == 1).count() >= 999);
        assert_eq!(picks(&mut state, &service, &Overloaded(vec![1]), 3), [2, 2, 2]);
        assert_eq!(
            state.pick(&service, &Overloaded(vec![1, 2]), &Arrival::default()),
            None
        );
    }

    /// SCH-14.
    #[test]
    fn all_weights_0_refuse_and_edits_take_effect_within_a_cycle() {
        let none = Overloaded(vec![]);
        let before = service(Wrr, vec![server(2, 1), server(1, 3)]);
        let mut state = state(&before);
        let mut servers = before.servers.clone();
        for (weights, share_of_1) in [([1, 1], 50), ([1, 0], 0), ([5, 5], 50), ([1, 3], 75)] {
            let edited = service(Wrr, vec![server(2, weights[0]), server(1, weights[1])]);
            state.servers_changed(&servers, &edited.servers);
            let seen = picks(&mut state, &edited, &none, 100);
            let ones = seen.iter().filter(|&&slot| slot == 1).count();
            assert!(ones.abs_diff(share_of_1) <= 1, "{weights:?}: {ones}");
            servers = edited.servers;
        }
        let idle = service(Wrr, vec![server(2, 0), server(1, 0)]);
        state.servers_changed(&servers, &idle.servers);
        assert_eq!(state.pick(&idle, &none, &Arrival::default()), None);
    }
}
