//! How long single turns of a worker take. What counts is the longest, so that a machine with other work to do shows. So
//! each measurement is repeated: every round does the same turn by turn, and of each turn the best round counts. What is
//! left is what the worker itself takes long for.

use super::measure::{Cost, cost_of, cpu_time};
use std::fmt;

const NS_IN_US: f64 = 1000.0;

/// The turns of all rounds so far.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// ns of each.
    all: Vec<u64>,
    /// By number within a round: the best of all rounds that are over, ns.
    best: Vec<u64>,
    /// The longest of each round that is over, ns.
    longest: Vec<f64>,
    /// Where the present round began in `all`.
    round: usize,
}

impl Turns {
    /// Measures one turn: CPU time of the thread, so that other programs do not count.
    pub(super) fn time<T>(&mut self, turn: impl FnOnce() -> T) -> T {
        let before = cpu_time();
        let result = turn();
        self.all.push(cpu_time() - before);
        result
    }

    /// A round is over.
    pub(super) fn end_round(&mut self) {
        let round = &self.all[self.round..];
        if self.longest.is_empty() {
            self.best = round.to_vec();
        }
        // A round that takes a turn more than another says nothing of that turn.
        self.best.truncate(round.len());
        for (best, ns) in self.best.iter_mut().zip(round) {
            *best = (*best).min(*ns);
        }
        let longest = round.iter().max();
        self.longest.extend(longest.map(|ns| *ns as f64));
        self.round = self.all.len();
    }

    /// What they took.
    pub(super) fn spread(mut self) -> Spread {
        let rounds = self.longest.len().max(1);
        let count = self.all.len() / rounds;
        self.all.sort_unstable();
        let at = |share: f64| {
            let place = (self.all.len() as f64 * share) as usize;
            let ns = self.all.get(place.min(self.all.len().saturating_sub(1)));
            ns.map_or(f64::NAN, |ns| *ns as f64 / NS_IN_US)
        };
        Spread {
            turns: count,
            median: at(0.5),
            p999: at(0.999),
            longest: self
                .best
                .iter()
                .max()
                .map_or(f64::NAN, |ns| *ns as f64 / NS_IN_US),
            longest_of_round: cost_of(self.longest.iter().map(|ns| ns / NS_IN_US).collect()),
        }
    }
}

/// What turns took, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub(super) struct Spread {
    /// Turns of a round.
    turns: usize,
    median: f64,
    /// What one of a thousand turns exceeds.
    p999: f64,
    /// The longest turn, each taken from its best round.
    longest: f64,
    /// The longest turn of a round as it was.
    longest_of_round: Cost,
}

impl Spread {
    /// The heading of its part of a line.
    pub(super) const HEADING: &'static str = "  turns  median, us    p99.9  longest   of a round   median";
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>7}  {:>10.1}  {:>7.1}  {:>7.1}  {:>11.1}  {:>7.1}",
            self.turns,
            self.median,
            self.p999,
            self.longest,
            self.longest_of_round.best,
            self.longest_of_round.median
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_told_by_round() {
        let mut turns = Turns::default();
        for round in [[1000, 2000, 9000], [1000, 3000, 5000], [2000, 2000, 7000]] {
            turns.all.extend(round);
            turns.end_round();
        }
        let spread = turns.spread();
        assert_eq!((spread.turns, spread.median, spread.p999), (3, 2.0, 9.0));
        let of_round = spread.longest_of_round;
        assert_eq!((of_round.best, of_round.median), (5.0, 7.0));
        // 1, 2 and 5: the first turn was best in the first two, the third in the second.
        assert_eq!(spread.longest, 5.0);
    }

    #[test]
    fn a_turn_that_was_long_once_only_is_not_the_worker_s() {
        let mut turns = Turns::default();
        for round in [
            &[9000, 1000, 3000][..],
            &[1000, 8000, 3000, 7000],
            &[2000, 2000, 4000],
        ] {
            turns.all.extend(round);
            turns.end_round();
        }
        assert_eq!(turns.best, [1000, 1000, 3000]);
        assert_eq!(turns.spread().longest, 3.0);
    }

    #[test]
    fn time_is_that_of_the_turn() {
        let mut turns = Turns::default();
        let sum = turns.time(|| (0..200_000u64).map(std::hint::black_box).sum::<u64>());
        turns.time(|| ());
        turns.end_round();
        assert_eq!(sum, 199_999 * 100_000);
        assert!(turns.all[0] > turns.all[1], "{turns:?}");
    }
}
