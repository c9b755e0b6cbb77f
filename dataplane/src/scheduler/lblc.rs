//! Locality-based least connections: a destination keeps its server until that is quiesced, gone, or has more active
//! connections than its weight while another has less than half of its own. Then, and for a new destination, the
//! server is chosen as by [`super::wlc`]. As in LVS a threshold keeps new destinations away from a server, and not
//! the ones that it has.

use super::destinations::Member;
use super::tables::WorkerMemory;
use super::{Arrival, Loads, ranked::Rank};
use crate::service::Service;

pub(super) fn pick(
    memory: Option<&mut WorkerMemory>,
    service: &Service,
    loads: &impl Loads,
    arrival: &Arrival,
) -> Option<usize> {
    let Some((ranking, destinations)) = memory.and_then(WorkerMemory::parts) else {
        return Rank::Wlc.first(None, service, loads);
    };
    let known = destinations.find(arrival.destination, arrival.now);
    let known = known.and_then(|entry| entry.members.first_mut()?.find(&service.servers));
    if let Some(position) = known
        && service.servers[position].weight > 0
        && !is_crowded(service, loads, position)
    {
        return Some(position);
    }
    let position = Rank::Wlc.first(Some(ranking), service, loads)?;
    if let Some(member) = Member::at(service, position) {
        destinations.set(arrival.destination, member, arrival.now);
    }
    Some(position)
}

/// Whether a server has more to do than its share, and another less than half of its own.
pub(super) fn is_crowded(service: &Service, loads: &impl Loads, position: usize) -> bool {
    let server = &service.servers[position];
    loads.load(server).active > server.weight
        && service
            .servers
            .iter()
            .any(|other| u64::from(loads.load(other).active) * 2 < u64::from(other.weight))
}

#[cfg(test)]
mod tests {
    use super::super::Arrival;
    use super::super::SchedulerKind::Lblc;
    use super::super::testing::*;
    use std::net::IpAddr;

    fn to(number: u32) -> Arrival {
        Arrival {
            destination: IpAddr::V4((0x0a09_0000 + number).into()),
            ..Arrival::default()
        }
    }

    #[test]
    fn a_destination_keeps_its_server_until_that_is_crowded() {
        let mut rig = Rig::new(Lblc, vec![server(3, 2), server(2, 2), server(1, 2)]);
        let seen: Vec<_> = (0..8).filter_map(|_| rig.open_for(&to(1))).collect();
        assert_eq!(seen, [3, 3, 3, 2, 2, 2, 1, 1]);
        assert_eq!(rig.open_for(&to(2)), Some(1), "the least loaded");
        assert_eq!(rig.open_for(&to(1)), Some(1), "nobody has room: it stays");
    }

    #[test]
    fn a_destination_leaves_a_server_that_is_not_usable() {
        let mut rig = Rig::new(Lblc, vec![server(3, 9), server(2, 9)]);
        assert_eq!(rig.open_for(&to(1)), Some(3));
        rig.edit(|servers| servers[0].weight = 0);
        assert_eq!(rig.open_for(&to(1)), Some(2));
        rig.edit(|servers| servers[0].weight = 9);
        assert_eq!(rig.open_for(&to(1)), Some(2), "it has another one now");
        rig.overload(2, true);
        assert_eq!(rig.open_for(&to(1)), Some(2), "a threshold takes nothing away");
        assert_eq!(rig.open_for(&to(2)), Some(3), "but gives nothing new");
        rig.edit(|servers| servers.clear());
        assert_eq!(rig.open_for(&to(1)), None);
    }
}
