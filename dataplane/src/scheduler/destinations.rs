//! What `lblc` and `lblcr` remember: which servers a destination had. A table of fixed size; the destination that
//! has not been asked for longest gives way to a new one.

use super::hash::{byte, folded};
use crate::service::{Server, Service};
use crate::time::{Tick, seconds};
use arrayvec::ArrayVec;
use std::net::IpAddr;

/// Servers that one destination may have. LVS has no limit; here the most loaded gives way.
pub(super) const SET: usize = 16;
/// LVS's `lblc_expiration`: a destination is forgotten when nobody has asked for it in a day.
const FORGOTTEN: u32 = seconds(86_400);
const BUCKETS: usize = 64;
const WAYS: usize = 8;

/// A server of a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Member {
    slot: u32,
    /// Where it was in the list when it was looked for last.
    position: u32,
}

impl Member {
    /// The server at that position.
    pub(super) fn at(service: &Service, position: usize) -> Option<Member> {
        Some(Member {
            slot: service.servers.get(position)?.slot,
            position: position as u32,
        })
    }

    /// Its position in the list now; none while the service does not have it.
    pub(super) fn find(&mut self, servers: &[Server]) -> Option<usize> {
        let here = |server: &Server| server.slot == self.slot;
        if !servers.get(self.position as usize).is_some_and(here) {
            self.position = servers.iter().position(here)? as u32;
        }
        Some(self.position as usize)
    }
}

/// A destination and its servers.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    address: IpAddr,
    used: Tick,
    /// When a server was added to the set, or removed from it.
    pub(super) changed: Tick,
    /// Its servers, the one added last at the end. Never empty.
    pub(super) members: ArrayVec<Member, SET>,
}

/// The destinations of one service on one worker.
#[derive(Clone, Debug)]
pub(super) struct Destinations {
    entries: Box<[Option<Entry>]>,
}

impl Destinations {
    /// An empty table.
    pub(super) fn new() -> Destinations {
        Destinations {
            entries: vec![None; BUCKETS * WAYS].into(),
        }
    }

    fn bucket(&mut self, address: IpAddr) -> &mut [Option<Entry>] {
        let bucket = usize::from(byte(folded(address))) % BUCKETS;
        &mut self.entries[bucket * WAYS..][..WAYS]
    }

    /// What is known of a destination, which counts as asked for now.
    pub(super) fn find(&mut self, address: IpAddr, now: Tick) -> Option<&mut Entry> {
        let is_it = |entry: &Entry| entry.address == address;
        let mut bucket = self.bucket(address).iter_mut();
        let place = bucket.find(|place| place.as_ref().is_some_and(is_it))?;
        if place
            .as_ref()
            .is_some_and(|entry| now.since(entry.used) > FORGOTTEN)
        {
            *place = None;
        }
        let entry = place.as_mut()?;
        entry.used = now;
        Some(entry)
    }

    /// Gives a destination this server alone.
    pub(super) fn set(&mut self, address: IpAddr, member: Member, now: Tick) {
        let bucket = self.bucket(address);
        let known = |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| entry.address == address);
        let at = bucket.iter().position(known).unwrap_or_else(|| {
            // Free ones first, then the one that has rested longest.
            let rested = |at: &usize| {
                bucket[*at]
                    .as_ref()
                    .map_or(u32::MAX, |entry| now.since(entry.used))
            };
            (0..WAYS).max_by_key(rested).unwrap_or(0)
        });
        bucket[at] = Some(Entry {
            address,
            used: now,
            changed: now,
            members: ArrayVec::from_iter([member]),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::SchedulerKind::Lblc;
    use super::super::testing::*;
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4((0x0a09_0000 + number).into())
    }

    #[test]
    fn a_member_is_found_wherever_it_has_gone() {
        let before = service(Lblc, vec![server(3, 1), server(2, 1)]);
        let mut member = Member::at(&before, 1).unwrap();
        assert_eq!(member.find(&before.servers), Some(1));
        assert_eq!(member.find(&[server(4, 1), server(3, 1), server(2, 1)]), Some(2));
        assert_eq!(member.find(&[server(4, 1)]), None);
        assert_eq!(member.find(&before.servers), Some(1));
        assert_eq!(Member::at(&before, 2), None);
    }

    #[test]
    fn the_longest_rested_gives_way_and_a_day_forgets() {
        let member = Member { slot: 1, position: 0 };
        let mut table = Destinations::new();
        let beside: Vec<_> = (0..100_000)
            .map(address)
            .filter(|other| usize::from(byte(folded(*other))) % BUCKETS == 5)
            .take(WAYS + 1)
            .collect();
        for (at, address) in beside[..WAYS].iter().enumerate() {
            table.set(*address, member, Tick(at as u32));
        }
        assert!(table.find(beside[0], Tick(100)).is_some());
        table.set(beside[WAYS], member, Tick(101));
        assert!(
            table.find(beside[1], Tick(102)).is_none(),
            "it had rested longest"
        );
        assert!(table.find(beside[0], Tick(102)).is_some());
        assert!(table.find(beside[WAYS], Tick(102)).is_some());
        let later = Tick(102).after(seconds(86_400));
        assert!(table.find(beside[0], later).is_some());
        assert!(table.find(beside[WAYS], later.after(1)).is_none());
        assert!(table.find(beside[WAYS], later).is_none(), "and stays forgotten");
    }
}
