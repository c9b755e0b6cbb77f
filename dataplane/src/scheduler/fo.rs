//! Weighted failover: the server of the greatest weight, until it is quiesced or overloaded.

use super::ranking::Key;

pub(super) fn key(weight: u32) -> Key {
    Key::from(u32::MAX - weight)
}

#[cfg(test)]
mod tests {
    use super::super::SchedulerKind::Fo;
    use super::super::testing::*;

    /// SCH-13.
    #[test]
    fn the_heaviest_serves_until_it_cannot() {
        let mut rig = Rig::new(
            Fo,
            vec![server(3, 100), server(2, 200), server(1, 300), server(4, 300)],
        );
        assert_eq!(rig.open(3), [1, 1, 1], "the first in the list of two equals");
        rig.overload(1, true);
        assert_eq!(rig.open(1), [4]);
        rig.overload(4, true);
        assert_eq!(rig.open(2), [2, 2]);
        rig.overload(1, false);
        assert_eq!(rig.open(1), [1]);
    }
}
