//! How much each server may have, where that is bounded: by `mh` for all clients, by persistence for those that have
//! many connections. (Mirrokni, Thorup and Zadimoghaddam, "Consistent Hashing with Bounded Loads", 2018.)

use super::Loads;
use crate::service::{Server, Service};

/// A server's share, by weight, of the connections that all usable servers have, times the bound.
#[derive(Clone, Copy)]
pub(crate) struct Bound {
    /// Connections of all usable servers, the new one counted in, times the bound in percent.
    connections: u128,
    /// The weights of all of these, in percent.
    weights: u128,
}

impl Bound {
    /// That of a service now. It looks at every server: only services that ask for it pay for that.
    pub(crate) fn of(percent: u32, service: &Service, loads: &impl Loads) -> Bound {
        let (mut connections, mut weights) = (1, 0);
        for server in service.servers.iter().filter(|server| loads.usable(server)) {
            connections += loads.load(server).connections();
            weights += weight_of(server);
        }
        Bound {
            connections: u128::from(connections) * u128::from(percent),
            weights: u128::from(weights),
        }
    }

    /// Whether the server has room for one more: with it, no more than its share of all times the bound, rounded up.
    pub(crate) fn has_room(self, server: &Server, loads: &impl Loads) -> bool {
        let share = (self.connections * u128::from(weight_of(server))).div_ceil(self.weights.max(1) * 100);
        u128::from(loads.load(server).connections()) < share
    }
}

/// A server's weight, in percent.
fn weight_of(server: &Server) -> u64 {
    u64::from(server.weight) * u64::from(server.hash_share)
}

#[cfg(test)]
mod tests {
    use super::super::SchedulerKind::Wlc;
    use super::super::testing::*;
    use super::*;

    #[test]
    fn a_server_has_room_up_to_its_share_times_the_bound() {
        let mut rig = Rig::new(Wlc, vec![server(1, 1), server(2, 3), server(3, 0)]);
        // 15 and the new one: shares of 4 and 12, by 1.25 of 5 and 15.
        for (first, second, room) in [
            (4, 11, (true, true)),
            (5, 10, (false, true)),
            (0, 15, (true, false)),
        ] {
            rig.set_load(1, first, 0);
            rig.set_load(2, 0, second);
            let bound = Bound::of(125, &rig.service, &rig.loads);
            let has_room = |at: usize| bound.has_room(&rig.service.servers[at], &rig.loads);
            assert_eq!((has_room(0), has_room(1)), room);
            assert!(!has_room(2), "a share of nothing");
        }
    }
}
