//! Windows of several workers at once, given by the time stamp counter, so that threads of one process and processes of
//! their own begin and end alike; and what they cost.

use super::super::measure::{Cost, cost_of};

/// When to measure, in counts of the time stamp counter, which is the same on all CPUs. What is before `from` warms up.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Window {
    /// Which of the orders of packets.
    pub(super) order: usize,
    pub(super) from: u64,
    pub(super) until: u64,
}

/// What one worker did in a window.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Sample {
    /// Packets that it sent.
    pub(super) sent: u64,
    /// Packets that it handed over.
    pub(super) handed_over: u64,
    /// CPU time of its thread, ns.
    pub(super) cpu: u64,
    /// What turns without packets took of that, ns.
    pub(super) idle: u64,
    /// How long it took by the clock, ns.
    pub(super) wall: u64,
}

impl Sample {
    /// CPU time of turns with packets, ns.
    fn work(&self) -> f64 {
        self.cpu.saturating_sub(self.idle) as f64
    }
}

/// What all workers did in a window, by their numbers.
pub(super) type Samples = Vec<Sample>;

/// CPU time for each packet sent, without idle turns, ns; none where nothing was sent.
pub(super) fn ns(samples: &[Sample]) -> Option<f64> {
    let sent: u64 = samples.iter().map(|sample| sample.sent).sum();
    let work: f64 = samples.iter().map(Sample::work).sum();
    (sent > 0).then(|| work / sent as f64)
}

/// Packets in a microsecond by the clock.
fn mpps(samples: &[Sample]) -> f64 {
    let rate = |sample: &Sample| 1000.0 * sample.sent as f64 / sample.wall.max(1) as f64;
    samples.iter().map(rate).sum()
}

/// The windows of one contender, in the order in which they were.
#[derive(Debug, Default)]
pub(super) struct Windows(pub(super) Vec<Samples>);

impl Windows {
    /// What a packet costs one worker, or all of them together.
    pub(super) fn cost(&self, worker: Option<usize>) -> Cost {
        cost_of(self.0.iter().filter_map(|all| ns(of(all, worker))).collect())
    }

    /// Packets in a microsecond, in the best window.
    pub(super) fn mpps(&self, worker: Option<usize>) -> f64 {
        let rates = self.0.iter().map(|all| mpps(of(all, worker)));
        rates.fold(0.0, f64::max)
    }

    /// Which part of the CPU time went into turns with packets, on average over workers and windows.
    pub(super) fn busy(&self, worker: Option<usize>) -> f64 {
        self.mean(worker, Sample::work, |sample| sample.cpu as f64)
    }

    /// How often a packet is handed over, on average.
    pub(super) fn hops(&self, worker: Option<usize>) -> f64 {
        self.mean(
            worker,
            |sample| sample.handed_over as f64,
            |sample| sample.sent as f64,
        )
    }

    fn mean(
        &self,
        worker: Option<usize>,
        what: impl Fn(&Sample) -> f64,
        of_what: impl Fn(&Sample) -> f64,
    ) -> f64 {
        let samples = || self.0.iter().flat_map(|all| of(all, worker));
        samples().map(what).sum::<f64>() / samples().map(of_what).sum::<f64>()
    }
}

/// One worker's sample, or all.
fn of(samples: &[Sample], worker: Option<usize>) -> &[Sample] {
    match worker {
        None => samples,
        Some(worker) => samples.get(worker..=worker).unwrap_or_default(),
    }
}

/// What of the second one's rate the first one has, packet for packet of CPU time: of best windows, and the median of
/// windows that followed each other.
pub(super) fn ratio(one: &Windows, other: &Windows) -> Ratio {
    let pairs = one.0.iter().zip(&other.0);
    let ratios = pairs.filter_map(|(one, other)| Some(ns(other)? / ns(one)?));
    Ratio {
        best: other.cost(None).best / one.cost(None).best,
        median: cost_of(ratios.collect()).median,
        mpps: one.mpps(None) / other.mpps(None),
    }
}

/// How two contenders compare; 1 is alike, and above it the first is faster.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub(super) struct Ratio {
    /// Of their best windows, by CPU time.
    pub(super) best: f64,
    /// The median of pairs of windows, by CPU time.
    pub(super) median: f64,
    /// Of packets by the clock, best windows.
    pub(super) mpps: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(sent: u64, cpu: u64, idle: u64) -> Sample {
        Sample {
            sent,
            handed_over: sent / 4,
            cpu,
            idle,
            wall: 1000,
        }
    }

    #[test]
    fn idle_turns_cost_nothing_and_workers_add_up() {
        let windows = Windows(vec![
            vec![sample(10, 1000, 0), sample(30, 2000, 1000)],
            vec![sample(10, 2000, 0), sample(0, 2000, 2000)],
        ]);
        let first = windows.cost(Some(0));
        assert_eq!((first.best, first.median), (100.0, 200.0));
        assert_eq!(windows.cost(Some(1)).best, 1000.0 / 30.0);
        assert_eq!(windows.cost(None).best, 2000.0 / 40.0);
        assert_eq!((windows.mpps(None), windows.mpps(Some(1))), (40.0, 30.0));
        assert_eq!(windows.hops(Some(0)), 0.2);
        assert_eq!(windows.busy(Some(1)), 0.25);
    }

    #[test]
    fn a_ratio_above_one_is_the_first_one_s_advantage() {
        let of = |cpu: [u64; 3]| Windows(cpu.map(|cpu| vec![sample(10, cpu, 0)]).into());
        let ratio = ratio(&of([100, 200, 300]), &of([110, 210, 600]));
        assert_eq!(ratio.best, 1.1);
        assert_eq!(ratio.median, 1.1);
        assert_eq!(ratio.mpps, 1.0);
    }
}
