//! Shortest expected delay: the server with the fewest active connections for its weight, the one to come counted in.

use super::Load;
use super::ranked::fraction;
use super::ranking::Key;

pub(super) fn key(weight: u32, load: Load) -> Key {
    fraction(u64::from(load.active) + 1, weight)
}

#[cfg(test)]
mod tests {
    use super::super::SchedulerKind::Sed;
    use super::super::testing::*;

    #[test]
    fn the_connection_to_come_counts_and_inactive_ones_do_not() {
        let mut rig = Rig::new(Sed, vec![server(3, 1), server(2, 2), server(1, 3)]);
        assert_eq!(rig.open(6), [1, 2, 1, 3, 2, 1]);
        rig.set_load(3, 0, 1000);
        assert_eq!(rig.pick(), Some(3));
        rig.set_load(3, u32::MAX, 0);
        assert_eq!(rig.pick(), Some(1));
    }

    /// SCH-03: the greatest weight, and products that do not fit 32 bits.
    #[test]
    fn sch_03_huge_weights_do_not_overflow() {
        let mut rig = Rig::new(Sed, vec![server(2, 1), server(1, i32::MAX as u32)]);
        assert_eq!(rig.open(1000), [1; 1000]);
        rig.set_load(2, u32::MAX, 0);
        rig.set_load(1, u32::MAX, 0);
        assert_eq!(rig.pick(), Some(1));
    }
}
