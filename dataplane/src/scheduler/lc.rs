//! Least connections: the server with the least to do, whatever its weight. An inactive connection counts as the
//! 256th part of an active one.

use super::Load;
use super::ranking::Key;

pub(super) fn key(load: Load) -> Key {
    load.overhead().into()
}

#[cfg(test)]
mod tests {
    use super::super::SchedulerKind::Lc;
    use super::super::testing::*;

    #[test]
    fn active_connections_count_256_times_and_the_head_of_the_list_wins_ties() {
        let mut rig = Rig::new(Lc, vec![server(3, 1), server(2, 9), server(1, 1)]);
        assert_eq!(rig.open(6), [3, 2, 1, 3, 2, 1]);
        rig.set_load(3, 2, 0);
        rig.set_load(2, 1, 256);
        rig.set_load(1, 1, 257);
        assert_eq!(rig.open(2), [3, 2]);
        rig.set_load(1, 0, 600);
        assert_eq!(rig.open(1), [1]);
    }

    #[test]
    fn weight_0_and_overload_are_passed_over() {
        let mut rig = Rig::new(Lc, vec![server(3, 0), server(2, 1), server(1, 1)]);
        rig.overload(2, true);
        assert_eq!(rig.open(2), [1, 1]);
        rig.overload(1, true);
        assert_eq!(rig.pick(), None);
        rig.overload(2, false);
        assert_eq!(rig.pick(), Some(2));
    }
}
