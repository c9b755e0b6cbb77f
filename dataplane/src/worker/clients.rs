//! How many connections each client has to each service that limits them, and each host inside under each rule of SNAT.
//! Every connection under a rule is counted, limit or not: a limit that a reload brings holds at once, for the connections
//! that are there. Those of a service are counted while it limits its clients, since nearly all services do not.

use super::rate::RateLimit;
use crate::flow::TagIndex;
use crate::memory::Slab;
use crate::packet::AddressDigest;
use crate::time::Tick;
use bytemuck::{Pod, Zeroable};
use std::io;
use std::net::IpAddr;

/// What clients are counted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Group {
    /// A rule of SNAT, by its slot among those of servers.
    Rule(u32),
    /// A service, by its slot.
    Service(u32),
}

impl Group {
    /// One number for both kinds; slots do not come near the top bit.
    fn number(self) -> u32 {
        match self {
            Group::Rule(slot) => slot,
            Group::Service(slot) => slot | 1 << 31,
        }
    }
}

/// A host under a rule, or a client of a service. Zeroed, it is none.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Client {
    /// Its address; of IPv4, mapped into IPv6.
    address: [u8; 16],
    /// [`Group::number`].
    group: u32,
    /// Its connections, never 0; of a free place, the next free one.
    count: u32,
    /// What it has opened in this second.
    rate: RateLimit,
}

/// The counts of one worker. There is a place for each connection, so that they never run out.
pub(super) struct Clients {
    places: Slab<Client>,
    index: TagIndex,
    digest: AddressDigest,
    /// First of the free places that have been used before.
    free: u32,
    /// The highest place ever used; 0 is none.
    highest: u32,
}

impl Clients {
    /// No host. The memory is touched only as it is used.
    pub(super) fn new(connections: u32, seed: u64) -> io::Result<Clients> {
        Ok(Clients {
            places: Slab::sparse(connections as usize + 1)?,
            index: TagIndex::sparse(connections as usize)?,
            digest: AddressDigest::from_seed(seed),
            free: 0,
            highest: 0,
        })
    }

    /// The connections of `host`.
    pub(super) fn count(&self, group: Group, host: IpAddr) -> u32 {
        self.find(group, octets(host))
            .map_or(0, |at| self.places[at as usize].count)
    }

    /// One more connection. False when there is no place, which cannot be while there is one for a connection.
    pub(super) fn add(&mut self, group: Group, host: IpAddr, now: Tick) -> bool {
        let address = octets(host);
        if let Some(at) = self.find(group, address) {
            self.places[at as usize].count += 1;
            return true;
        }
        let at = match self.free {
            0 => self.highest + 1,
            free => free,
        };
        let hash = self.hash(group, &address);
        let Some(place) = self.places.get_mut(at as usize) else {
            return false;
        };
        if self.index.insert(hash, at).is_err() {
            return false;
        }
        if at == self.free {
            self.free = place.count;
        } else {
            self.highest = at;
        }
        *place = Client {
            address,
            group: group.number(),
            count: 1,
            rate: RateLimit::default(),
        };
        // The connection that has made it known is the first of its second.
        place.rate.allows(now, 1);
        true
    }

    /// What `host` has opened in this second, if it has any connection.
    pub(super) fn rate(&mut self, group: Group, host: IpAddr) -> Option<&mut RateLimit> {
        let at = self.find(group, octets(host))?;
        Some(&mut self.places[at as usize].rate)
    }

    /// One connection less. False when it had none.
    pub(super) fn remove(&mut self, group: Group, host: IpAddr) -> bool {
        let address = octets(host);
        let Some(at) = self.find(group, address) else {
            return false;
        };
        let place = &mut self.places[at as usize];
        if place.count > 1 {
            place.count -= 1;
            return true;
        }
        *place = Client {
            count: self.free,
            ..Client::zeroed()
        };
        self.free = at;
        let hash = self.hash(group, &address);
        self.index.remove(hash, at);
        true
    }

    /// Whether no host has any.
    pub(super) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// How many hosts have connections.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    fn find(&self, group: Group, address: [u8; 16]) -> Option<u32> {
        let is = |at| {
            let place: &Client = &self.places[at as usize];
            (place.group, place.address) == (group.number(), address)
        };
        self.index.find(self.hash(group, &address), is)
    }

    fn hash(&self, group: Group, address: &[u8; 16]) -> u64 {
        let mut both = [0; 32];
        both[..16].copy_from_slice(address);
        both[16..20].copy_from_slice(&group.number().to_ne_bytes());
        self.digest.of(&both)
    }
}

fn octets(host: IpAddr) -> [u8; 16] {
    match host {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Groups of both kinds, of the same slots.
    fn group(n: u32) -> Group {
        match n % 2 {
            0 => Group::Rule(n / 2),
            _ => Group::Service(n / 2),
        }
    }

    fn host(n: u8) -> IpAddr {
        match n % 2 {
            0 => [10, 1, 0, n].into(),
            _ => std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n.into()).into(),
        }
    }

    proptest! {
        /// Against a map; and it is empty when all connections are gone.
        #[test]
        fn counts_are_those_of_a_map(steps in proptest::collection::vec((any::<bool>(), 0u8..20, 0u32..3), 0..300)) {
            let mut clients = Clients::new(40, 1).unwrap();
            let mut model = HashMap::<(u32, u8), u32>::new();
            for (more, n, rule) in steps {
                if more && model.values().sum::<u32>() < 40 {
                    prop_assert!(clients.add(group(rule), host(n), Tick(0)));
                    *model.entry((rule, n)).or_default() += 1;
                } else if *model.entry((rule, n)).or_default() > 0 {
                    prop_assert!(clients.remove(group(rule), host(n)));
                    *model.entry((rule, n)).or_default() -= 1;
                }
                for (&(rule, n), &count) in &model {
                    prop_assert_eq!(clients.count(group(rule), host(n)), count);
                }
                prop_assert_eq!(clients.len(), model.values().filter(|count| **count > 0).count());
            }
            for ((rule, n), count) in model {
                (0..count).for_each(|_| assert!(clients.remove(group(rule), host(n))));
            }
            prop_assert!(clients.is_empty() && !clients.remove(group(0), host(0)));
        }
    }
}
