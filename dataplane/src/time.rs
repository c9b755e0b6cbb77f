//! Time as the packet path knows it: a monotonic count of ticks, given by the caller.

use std::time::Duration;

/// Ticks in a second: one tick is 10 milliseconds.
pub const TICKS_PER_SECOND: u32 = 100;

/// A monotonic instant in ticks of 10 ms since the worker started. It wraps after 497 days, so instants are
/// only ever compared through [`Tick::since`], which is right for distances below 248 days.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(transparent)]
pub struct Tick(pub u32);

impl Tick {
    /// The instant `ticks` later.
    #[must_use]
    pub fn after(self, ticks: u32) -> Tick {
        Tick(self.0.wrapping_add(ticks))
    }

    /// Ticks from `earlier` to `self`; 0 when `earlier` is in fact later.
    #[must_use]
    pub fn since(self, earlier: Tick) -> u32 {
        let distance = self.0.wrapping_sub(earlier.0);
        if distance > u32::MAX / 2 { 0 } else { distance }
    }

    /// Whether `self` is at or after `other`.
    #[must_use]
    pub fn reached(self, other: Tick) -> bool {
        self.0.wrapping_sub(other.0) <= u32::MAX / 2
    }
}

/// Whole seconds as ticks, saturating at 248 days.
#[must_use]
pub const fn seconds(seconds: u32) -> u32 {
    match seconds.checked_mul(TICKS_PER_SECOND) {
        Some(ticks) if ticks <= u32::MAX / 2 => ticks,
        _ => u32::MAX / 2,
    }
}

/// A time since start, rounded down to ticks; the caller's monotonic clock becomes a [`Tick`] by this.
#[must_use]
pub fn tick_of(since_start: Duration) -> Tick {
    Tick((since_start.as_millis() / 10) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_compare_across_the_wrap() {
        let before = Tick(u32::MAX - 5);
        let after = before.after(10);
        assert_eq!(after.since(before), 10);
        assert_eq!(before.since(after), 0);
        assert!(after.reached(before));
        assert!(!before.reached(after));
    }

    #[test]
    fn seconds_saturate_instead_of_wrapping() {
        assert_eq!(seconds(900), 90_000);
        assert_eq!(seconds(u32::MAX), u32::MAX / 2);
    }
}
