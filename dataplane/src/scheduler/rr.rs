//! Round robin: the next usable server of the list after the one picked last.

use super::{Arrival, Loads, Scheduler, Seat};
use crate::service::{Server, Service};

/// State of round robin: where in the list the next search begins.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    /// Position after the server picked last; none before the first pick, when the worker's seat says where.
    next: Option<usize>,
    seat: Seat,
}

impl RoundRobin {
    /// Before the first pick of the worker in that seat: a lone one begins at the head of the list, as LVS does.
    pub(super) fn new(seat: Seat) -> RoundRobin {
        RoundRobin { next: None, seat }
    }
}

impl Scheduler for RoundRobin {
    fn pick(&mut self, service: &Service, loads: &impl Loads, _: &Arrival) -> Option<usize> {
        let servers = &service.servers;
        let start = self.next.unwrap_or_else(|| self.seat.first(servers.len()));
        let start = start.min(servers.len());
        let found = (start..servers.len())
            .chain(0..start)
            .find(|&at| loads.usable(&servers[at]))?;
        self.next = Some(found + 1);
        Some(found)
    }

    fn servers_changed(&mut self, old: &[Server], new: &[Server]) {
        // The search goes on after the last pick, or after its nearest predecessor that is still there.
        let passed = self.next.map_or(&[][..], |next| &old[..next.min(old.len())]);
        let place = |server: &Server| new.iter().position(|other| other.slot == server.slot);
        self.next = passed.iter().rev().find_map(place).map(|at| at + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::SchedulerKind::Rr;
    use super::super::testing::*;
    use super::*;

    #[test]
    fn goes_round_and_passes_over_weight_0_and_overload() {
        let service = service(Rr, vec![server(3, 1), server(2, 0), server(1, 5), server(4, 1)]);
        let mut state = state(&service);
        assert_eq!(picks(&mut state, &service, &Overloaded(vec![4]), 4), [3, 1, 3, 1]);
        assert_eq!(
            state.pick(&service, &Overloaded(vec![1, 3, 4]), &Arrival::default()),
            None
        );
    }

    #[test]
    fn a_new_head_waits_for_its_turn_and_a_lost_last_pick_hands_over_to_its_predecessor() {
        let three = service(Rr, vec![server(3, 1), server(2, 1), server(1, 1)]);
        let none = Overloaded(vec![]);
        let mut state = state(&three);
        assert_eq!(picks(&mut state, &three, &none, 2), [3, 2]);

        let four = service(Rr, vec![server(4, 1), server(3, 1), server(2, 1), server(1, 1)]);
        state.servers_changed(&three.servers, &four.servers);
        assert_eq!(picks(&mut state, &four, &none, 3), [1, 4, 3]);

        let without_last = service(Rr, vec![server(4, 1), server(2, 1), server(1, 1)]);
        state.servers_changed(&four.servers, &without_last.servers);
        assert_eq!(picks(&mut state, &without_last, &none, 3), [2, 1, 4]);
    }
}
