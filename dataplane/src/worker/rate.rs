//! A budget that refills every second: for what the gateway sends unasked, and for what it reports.

use crate::time::{TICKS_PER_SECOND, Tick};
use bytemuck::{Pod, Zeroable};

/// So many events a second, all of them at once if need be.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct RateLimit {
    second: u32,
    spent: u32,
}

impl RateLimit {
    /// Whether one more event fits into this second's `budget`; if so, it is spent.
    pub(super) fn allows(&mut self, now: Tick, budget: u32) -> bool {
        let second = now.0 / TICKS_PER_SECOND;
        if second != self.second {
            *self = RateLimit { second, spent: 0 };
        }
        let fits = self.spent < budget;
        self.spent += u32::from(fits);
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_allows_its_budget_and_no_more() {
        let mut limit = RateLimit::default();
        let allowed = (0..10).filter(|_| limit.allows(Tick(5), 3)).count();
        assert_eq!(allowed, 3);
        assert!(limit.allows(Tick(105), 3));
        assert!(!limit.allows(Tick(105), 0));
    }
}
