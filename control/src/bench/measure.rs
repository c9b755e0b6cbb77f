//! Windows of work in turn: each contender runs for some milliseconds, then the next one, round after round, so that
//! whatever else the machine does meets all of them alike.

use nix::time::{ClockId, clock_gettime};

/// One thing that is measured: moves up to that many packets, and returns how many it has moved.
pub(super) type Contender<'a> = &'a mut dyn FnMut(u64) -> u64;

/// What the windows of one contender took.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub(super) struct Cost {
    /// The best window, ns for each packet.
    pub(super) best: f64,
    /// The median window, ns for each packet.
    pub(super) median: f64,
}

/// Runs `rounds` windows of each contender, of `packets` each and an eighth more before the clock runs, which
/// brings its memory back into the caches.
pub(super) fn interleave<const N: usize>(
    rounds: usize,
    packets: u64,
    contenders: [Contender<'_>; N],
) -> [Cost; N] {
    let mut windows = [const { Vec::new() }; N];
    let mut contenders = contenders;
    for _ in 0..rounds {
        for (contender, windows) in contenders.iter_mut().zip(&mut windows) {
            contender(packets / 8);
            windows.push(timed(|| contender(packets)));
        }
    }
    windows.map(cost_of)
}

/// CPU time of the calling thread that `work` takes for each of the packets that it returns, in ns: what other
/// programs take from the core in between does not count.
pub(super) fn timed(work: impl FnOnce() -> u64) -> f64 {
    let before = cpu_time();
    let packets = work();
    (cpu_time() - before) as f64 / packets.max(1) as f64
}

/// CPU time of the calling thread, in ns.
pub(super) fn cpu_time() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.map_or(0, |now| {
        now.tv_sec().unsigned_abs() * 1_000_000_000 + now.tv_nsec().unsigned_abs()
    })
}

/// Best and median of windows.
pub(super) fn cost_of(mut windows: Vec<f64>) -> Cost {
    windows.sort_unstable_by(f64::total_cmp);
    Cost {
        best: windows.first().copied().unwrap_or(f64::NAN),
        median: windows.get(windows.len() / 2).copied().unwrap_or(f64::NAN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_and_median_are_of_the_sorted_windows() {
        let cost = cost_of(vec![3.0, 1.0, 2.0, 9.0, 4.0]);
        assert_eq!((cost.best, cost.median), (1.0, 3.0));
    }

    #[test]
    fn contenders_take_turns() {
        let order = std::cell::RefCell::new(Vec::new());
        let (mut a, mut b) = (
            |n| {
                order.borrow_mut().push('a');
                n
            },
            |n| {
                order.borrow_mut().push('b');
                n
            },
        );
        interleave(2, 8, [&mut a, &mut b]);
        assert_eq!(order.borrow().iter().collect::<String>(), "aabbaabb");
    }
}
