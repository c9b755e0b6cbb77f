//! The workers' clock: the TSC, read once per turn, as ticks. Never the wall clock.

use dataplane::time::{TICKS_PER_SECOND, Tick};
use dpdk::{Eal, clock};

/// Ticks out of the time stamp counter.
pub(crate) struct TickClock {
    /// The counter where the next tick begins.
    next: u64,
    /// Counts in a tick.
    step: u64,
    now: Tick,
}

impl TickClock {
    /// A clock that starts at tick 0.
    pub(crate) fn start(eal: &Eal) -> TickClock {
        let step = (clock::hz(eal) / u64::from(TICKS_PER_SECOND)).max(1);
        TickClock {
            next: clock::now() + step,
            step,
            now: Tick(0),
        }
    }

    /// The tick of a reading of the counter. A gap, as after a stopped machine, is crossed at once.
    #[inline]
    pub(crate) fn at(&mut self, counter: u64) -> Tick {
        if counter >= self.next {
            let ticks = (counter - self.next) / self.step + 1;
            self.next += ticks * self.step;
            self.now = self.now.after(ticks as u32);
        }
        self.now
    }
}
