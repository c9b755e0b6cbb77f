//! Weighted overflow: the server of the greatest weight that has no more active connections than its weight. So one
//! of weight 3 takes 4.

use super::Load;
use super::ranking::{Key, NEVER};

pub(super) fn key(weight: u32, load: Load) -> Key {
    if load.active > weight {
        NEVER
    } else {
        super::fo::key(weight)
    }
}

#[cfg(test)]
mod tests {
    use super::super::SchedulerKind::Ovf;
    use super::super::testing::*;

    /// SCH-13.
    #[test]
    fn what_a_server_cannot_take_flows_over_to_the_next() {
        let mut rig = Rig::new(Ovf, vec![server(2, 2), server(1, 3)]);
        assert_eq!(rig.open(7), [1, 1, 1, 1, 2, 2, 2]);
        assert_eq!(rig.pick(), None, "all are full");
        rig.set_load(2, 2, 50);
        assert_eq!(rig.pick(), Some(2));
    }
}
