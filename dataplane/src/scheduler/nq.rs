//! Never queue: the first server without an active connection; when there is none, as [`super::sed`].

use super::ranking::Key;
use super::{Load, sed};

pub(super) fn key(weight: u32, load: Load) -> Key {
    match load.active {
        0 => 0,
        _ => sed::key(weight, load),
    }
}

#[cfg(test)]
mod tests {
    use super::super::SchedulerKind::Nq;
    use super::super::testing::*;

    #[test]
    fn idle_servers_come_first_in_list_order() {
        let mut rig = Rig::new(Nq, vec![server(3, 1), server(2, 1), server(1, 100)]);
        assert_eq!(rig.open(5), [3, 2, 1, 1, 1]);
        rig.set_load(2, 0, 77);
        assert_eq!(rig.pick(), Some(2), "it is idle, whatever lingers there");
    }
}
