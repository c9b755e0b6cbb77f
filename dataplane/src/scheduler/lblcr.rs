//! Locality-based least connections with replication: a destination has a set of servers, of which the least loaded
//! serves. When that one is crowded, the server that [`super::wlc`] chooses joins the set; a set that has not changed
//! for a day gives up its most loaded server.

use super::destinations::{Entry, Member, SET};
use super::lblc::is_crowded;
use super::ranked::Rank;
use super::ranking::{Key, NEVER};
use super::tables::WorkerMemory;
use super::{Arrival, Loads};
use crate::service::Service;
use crate::time::seconds;

/// LVS's `lblcr_expiration`: how long a set stays as it is before it shrinks.
const SHRINKS: u32 = seconds(86_400);

pub(super) fn pick(
    memory: Option<&mut WorkerMemory>,
    service: &Service,
    loads: &impl Loads,
    arrival: &Arrival,
) -> Option<usize> {
    let Some((ranking, destinations)) = memory.and_then(WorkerMemory::parts) else {
        return Rank::Wlc.first(None, service, loads);
    };
    let Some(entry) = destinations.find(arrival.destination, arrival.now) else {
        let position = Rank::Wlc.first(Some(ranking), service, loads)?;
        if let Some(member) = Member::at(service, position) {
            destinations.set(arrival.destination, member, arrival.now);
        }
        return Some(position);
    };
    let least = least_of(entry, service, loads);
    if entry.members.len() > 1 && arrival.now.since(entry.changed) > SHRINKS {
        remove_most_loaded(entry, service, loads);
        entry.changed = arrival.now;
    }
    if let Some(position) = least.filter(|position| !is_crowded(service, loads, *position)) {
        return Some(position);
    }
    let position = Rank::Wlc.first(Some(ranking), service, loads)?;
    if let Some(member) = Member::at(service, position)
        && !entry
            .members
            .iter_mut()
            .any(|known| known.find(&service.servers) == Some(position))
    {
        if entry.members.len() == SET {
            remove_most_loaded(entry, service, loads);
        }
        entry.members.push(member);
        entry.changed = arrival.now;
    }
    Some(position)
}

/// The rank of a member, and where it is in the list; those that are gone come first.
fn rank(member: &mut Member, service: &Service, loads: &impl Loads) -> (Option<usize>, Key) {
    let position = member.find(&service.servers);
    let key = position.map_or(NEVER, |position| {
        let server = &service.servers[position];
        Rank::Wlc.key(server.weight, loads.load(server), loads.overloaded(server))
    });
    (position, key)
}

/// The least loaded usable server of a set; among equals the one that joined last.
fn least_of(entry: &mut Entry, service: &Service, loads: &impl Loads) -> Option<usize> {
    let ranks = entry
        .members
        .iter_mut()
        .rev()
        .map(|member| rank(member, service, loads));
    let usable = ranks.filter(|(_, key)| *key != NEVER);
    usable.min_by_key(|(_, key)| *key)?.0
}

/// Takes the server with the most to do out of a set of several: first one that is not usable at all.
fn remove_most_loaded(entry: &mut Entry, service: &Service, loads: &impl Loads) {
    let ranks = entry
        .members
        .iter_mut()
        .map(|member| rank(member, service, loads).1);
    if let Some((most, _)) = ranks.enumerate().max_by_key(|(at, key)| (*key, *at)) {
        entry.members.remove(most);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Arrival;
    use super::super::SchedulerKind::Lblcr;
    use super::super::testing::*;
    use super::*;
    use crate::time::Tick;
    use std::net::IpAddr;

    fn at(now: u32) -> Arrival {
        Arrival {
            destination: IpAddr::V4(0x0a09_0001.into()),
            now: Tick(now),
            ..Arrival::default()
        }
    }

    #[test]
    fn a_crowded_destination_gets_more_servers_and_uses_them_all() {
        let mut rig = Rig::new(Lblcr, vec![server(3, 2), server(2, 2), server(1, 2)]);
        let seen: Vec<_> = (0..9).filter_map(|_| rig.open_for(&at(0))).collect();
        assert_eq!(seen, [3, 3, 3, 2, 2, 2, 1, 1, 1]);
        rig.set_load(3, 0, 0);
        assert_eq!(rig.open_for(&at(0)), Some(3), "it still belongs to the set");
        rig.overload(3, true);
        assert_eq!(
            rig.open_for(&at(0)),
            Some(1),
            "the one that joined last of two equals"
        );
    }

    #[test]
    fn a_set_that_rests_gives_up_its_most_loaded_server() {
        let mut rig = Rig::new(Lblcr, vec![server(3, 1), server(2, 4)]);
        assert_eq!([0; 3].map(|_| rig.open_for(&at(0))), [Some(3), Some(3), Some(2)]);
        rig.set_load(3, 1, 0);
        rig.set_load(2, 1, 0);
        // 3 has more to do for its weight; it leaves the set, so that 2 serves even when 3 is idle.
        assert_eq!(rig.open_for(&at(SHRINKS)), Some(2));
        assert_eq!(rig.open_for(&at(SHRINKS + 1)), Some(2));
        rig.set_load(3, 0, 0);
        assert_eq!(rig.open_for(&at(SHRINKS + 2)), Some(2));
    }

    /// More servers than a set holds: the most loaded one gives way.
    #[test]
    fn a_full_set_takes_a_new_server_for_its_most_loaded_one() {
        let mut rig = Rig::new(Lblcr, (0..20).map(|slot| server(slot, 1)).collect());
        let seen: Vec<_> = (0..40).filter_map(|_| rig.open_for(&at(0))).collect();
        for slot in 0..20 {
            assert_eq!(
                seen.iter().filter(|seen| **seen == slot).count(),
                2,
                "server {slot} in {seen:?}"
            );
        }
        assert_eq!(seen.len(), 40);
    }
}
