//! The neighbour table's index: (port, address) to id, a fixed open-addressing hash that stores ids only.
//! Linear probing at half load, deletion by shifting back, so there are no tombstones and it never degrades.

use super::words::NeighbourId;
use crate::packet::PortId;
use std::net::IpAddr;

/// The index. The caller holds the keys and answers for an id's hash.
pub(super) struct Map {
    slots: Box<[u16]>,
    mask: usize,
    keys: [u64; 2],
}

impl Map {
    /// Room for `capacity` ids at half load or less. The seed keeps a host on the link from choosing addresses
    /// that collide.
    pub(super) fn new(capacity: u16, seed: u64) -> Map {
        let slots = (usize::from(capacity) * 2).next_power_of_two().max(8);
        Map {
            slots: vec![0; slots].into_boxed_slice(),
            mask: slots - 1,
            // Not the seed itself: were it 0, so would be the factor of every IPv4 address.
            keys: [
                seed ^ 0x9e37_79b9_7f4a_7c15,
                seed.rotate_left(29) ^ 0xd134_2543_de82_ef95,
            ],
        }
    }

    /// The hash of an address on a port; what the other functions take.
    pub(super) fn hash(&self, port: PortId, address: IpAddr) -> usize {
        let bits = match address {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits(),
        };
        let high = (bits >> 64) as u64 ^ self.keys[0] ^ u64::from(port.0);
        // A host on the link chooses the low half; the factor that it meets is secret.
        let product = u128::from(bits as u64 ^ self.keys[1]) * u128::from(high);
        // Both halves: the low one alone would leave the key's high bits unmixed.
        ((product >> 64) as u64 ^ product as u64) as usize
    }

    /// The id of that hash that `is` accepts.
    pub(super) fn find(&self, hash: usize, is: impl Fn(NeighbourId) -> bool) -> Option<NeighbourId> {
        let mut at = hash & self.mask;
        loop {
            match NeighbourId(self.slots[at]) {
                NeighbourId::NONE => return None,
                id if is(id) => return Some(id),
                _ => at = (at + 1) & self.mask,
            }
        }
    }

    /// Enters an id that is not in the map. The caller keeps to the capacity.
    pub(super) fn insert(&mut self, hash: usize, id: NeighbourId) {
        let mut at = hash & self.mask;
        while self.slots[at] != 0 {
            at = (at + 1) & self.mask;
        }
        self.slots[at] = id.0;
    }

    /// Removes an id; `hash_of` gives the hash of any id in the map.
    pub(super) fn remove(&mut self, id: NeighbourId, hash_of: impl Fn(&Map, NeighbourId) -> usize) {
        let mut hole = hash_of(self, id) & self.mask;
        while self.slots[hole] != id.0 {
            if self.slots[hole] == 0 {
                return;
            }
            hole = (hole + 1) & self.mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let next = self.slots[at];
            if next == 0 {
                break;
            }
            // An id moves into the hole unless its home lies behind the hole, within (hole, at].
            let home = hash_of(self, NeighbourId(next)) & self.mask;
            if at.wrapping_sub(home) & self.mask >= at.wrapping_sub(hole) & self.mask {
                self.slots[hole] = next;
                hole = at;
            }
        }
        self.slots[hole] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;
    use std::net::{Ipv4Addr, Ipv6Addr};

    // Whole networks, a few ports: no slot is anywhere near full of them, whatever the seed.
    #[test]
    fn addresses_in_a_row_spread() {
        for seed in [0, 1, u64::MAX, 0x9e37_79b9_7f4a_7c15] {
            let map = Map::new(4096, seed);
            let network = 0x2001_0db8_u128 << 96;
            let four = (0..1024).map(|i| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + i)));
            let six = (0..1024).map(|i| IpAddr::V6(Ipv6Addr::from_bits(network + i)));
            let wide = (0..1024).map(|i| IpAddr::V6(Ipv6Addr::from_bits(network + (i << 64) + 1)));
            let mut taken = vec![0; map.slots.len()];
            for address in four.chain(six).chain(wide) {
                taken[map.hash(PortId(1), address) & map.mask] += 1;
            }
            let most = taken.iter().max().copied().unwrap_or(0);
            assert!(most <= 8, "{most} of 3072 in one slot of 8192, seed {seed}");
            // One address is another neighbour on each port.
            let router = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
            let places: HashSet<usize> = (0..64)
                .map(|port| map.hash(PortId(port), router) & map.mask)
                .collect();
            assert!(places.len() > 56, "{} places of 64", places.len());
        }
    }

    proptest! {
        // Few distinct hashes at the table's end: long runs that wrap.
        #[test]
        fn agrees_with_a_set(ops in prop::collection::vec((any::<bool>(), 1u16..9), 0..200)) {
            let mut map = Map::new(8, 0);
            let hash_of = |_: &Map, id: NeighbourId| 12 + usize::from(id.0) % 4;
            let mut model = HashSet::new();
            for (add, id) in ops {
                let id = NeighbourId(id);
                if add && model.insert(id) {
                    map.insert(hash_of(&map, id), id);
                } else if !add {
                    model.remove(&id);
                    map.remove(id, hash_of);
                }
                for i in (1..9).map(NeighbourId) {
                    prop_assert_eq!(map.find(hash_of(&map, i), |x| x == i).is_some(), model.contains(&i));
                }
            }
        }
    }
}
