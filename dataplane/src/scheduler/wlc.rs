//! Weighted least connections: the server with the least to do for its weight, weighed as by [`super::lc`]. Also
//! what `lblc` and `lblcr` choose by.

use super::Load;
use super::ranked::fraction;
use super::ranking::Key;

pub(super) fn key(weight: u32, load: Load) -> Key {
    fraction(load.overhead(), weight)
}

#[cfg(test)]
mod tests {
    use super::super::SchedulerKind::Wlc;
    use super::super::testing::*;

    #[test]
    fn connections_follow_the_weights() {
        let mut rig = Rig::new(Wlc, vec![server(3, 2), server(2, 3), server(1, 4)]);
        assert_eq!(rig.open(9), [3, 2, 1, 1, 2, 3, 1, 2, 1]);
    }

    /// SCH-03: the greatest weight, and sums that do not fit 32 bits.
    #[test]
    fn huge_weights_do_not_overflow() {
        let mut rig = Rig::new(Wlc, vec![server(2, 1), server(1, i32::MAX as u32)]);
        let seen = rig.open(1000);
        assert_eq!(seen.iter().filter(|&&slot| slot == 1).count(), 999);
        rig.set_load(2, u32::MAX, u32::MAX);
        rig.set_load(1, u32::MAX, u32::MAX);
        assert_eq!(rig.pick(), Some(1));
    }

    /// SCH-14: a server of weight 0 is never chosen, also when it is first and has no connections.
    #[test]
    fn weight_0_is_never_chosen() {
        let mut rig = Rig::new(Wlc, vec![server(2, 0), server(1, 1)]);
        assert_eq!(rig.open(20), [1; 20]);
    }
}
