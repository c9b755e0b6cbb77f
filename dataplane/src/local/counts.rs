//! What a pair counts beyond its ports in use. Called by [`super::LocalPorts`] only.

use std::io;

use bytemuck::{Pod, Zeroable};

use super::{LocalPorts, Pair};
use crate::memory::Slab;

/// Since the pair was first used. Beside the pairs, since most takes and releases have no need of it.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct PairCounts {
    /// Ports handed out of another shard than the client's.
    pub(super) borrowed: u64,
    /// How often a closing connection had to give up its port.
    pub(super) recycled: u64,
    /// How often no port was free and none could be recycled.
    pub(super) exhausted: u64,
}

impl PairCounts {
    /// Whether there is anything to tell.
    pub(super) fn is_used(&self) -> bool {
        self.borrowed | self.recycled | self.exhausted != 0
    }
}

/// The counts of all pairs, by the pairs' ids.
pub(super) struct Counts(Slab<PairCounts>);

impl Counts {
    /// For pairs with ids 1 to `pairs`.
    pub(super) fn new(pairs: u32) -> io::Result<Counts> {
        Ok(Counts(Slab::sparse(pairs as usize + 1)?))
    }

    pub(super) fn of(&self, id: u32) -> &PairCounts {
        &self.0[id as usize]
    }

    pub(super) fn of_mut(&mut self, id: u32) -> &mut PairCounts {
        &mut self.0[id as usize]
    }

    /// The pair is forgotten. Most have nothing to forget, and memory that is not written to costs nothing.
    pub(super) fn forget(&mut self, id: u32) {
        if self.of(id).is_used() {
            *self.of_mut(id) = PairCounts::zeroed();
        }
    }

    pub(super) fn resident(&self) -> io::Result<usize> {
        self.0.resident()
    }

    pub(super) fn reserved_bytes(&self) -> usize {
        self.0.bytes()
    }
}

impl LocalPorts {
    /// Counts that a closing connection has given up its port of this pair to another.
    pub fn count_recycled(&mut self, pair: &Pair) {
        self.count(pair, |counts| &mut counts.recycled);
        self.addresses.count(pair.local, |address| &mut address.recycled);
    }

    /// Adds one to a counter of `pair`, if that is remembered.
    pub(super) fn count(&mut self, pair: &Pair, counter: impl Fn(&mut PairCounts) -> &mut u64) {
        if let Some(id) = self.find_pair(&self.hasher.seek(pair)) {
            *counter(self.counts.of_mut(id)) += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::super::PairUse;
    use super::super::tests::{LIP, LIP6, ports_of, range, small};
    use super::*;
    use crate::flow::RecordId;
    use crate::worker::shard::{Shard, ShardSet};

    const PAIR: Pair = Pair {
        local: LIP,
        server: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 11)),
        server_port: 8080,
        protocol: 6,
    };
    const PAIR6: Pair = Pair {
        local: LIP6,
        server: IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0x11)),
        ..PAIR
    };

    #[test]
    fn a_pair_counts_what_it_borrows_recycles_and_refuses() {
        counts_of(PAIR);
        counts_of(PAIR6);
    }

    fn counts_of(pair: Pair) {
        let mut ports = ports_of(&small());
        let (few, wanted) = (range(1024, 1025), Shard::from_low_bits(3));
        let other = Pair {
            server_port: 81,
            ..pair
        };
        let mut held = vec![];
        for pair in [&pair, &other] {
            for _ in 0..2 {
                held.push((*pair, ports.take(pair, few, wanted, ShardSet::ALL).unwrap()));
            }
        }
        let borrowed = held.iter().filter(|(_, taken)| taken.borrowed).count() as u64 / 2;
        assert!(borrowed > 0, "one port at most is of the client's shard");
        ports.count_recycled(&pair);
        for _ in 0..3 {
            assert!(ports.take(&other, few, wanted, ShardSet::ALL).is_err());
        }
        let of = |ports: &LocalPorts, pair: &Pair| {
            let PairUse {
                used,
                borrowed,
                recycled,
                exhausted,
                ..
            } = ports.usage(pair, ShardSet::ALL).unwrap();
            (used, borrowed, recycled, exhausted)
        };
        assert_eq!(of(&ports, &pair), (2, borrowed, 1, 0));
        assert_eq!(of(&ports, &other), (2, borrowed, 0, 3));
        // One without a port in use is still shown, because it has counted something.
        for (pair, taken) in held.drain(..2) {
            assert!(ports.release(&pair, taken.port, RecordId(1)));
        }
        let mut shown = vec![];
        let next = ports.scan_pairs(0, 100, ShardSet::ALL, |pair, usage| {
            shown.push((*pair, usage.used))
        });
        assert_eq!((next, shown), (None, vec![(pair, 0), (other, 2)]));
    }

    #[test]
    fn a_forgotten_pair_leaves_no_counts_to_the_next() {
        let mut ports = ports_of(&super::super::LocalPortsConfig { pairs: 1, ..small() });
        let (one, wanted) = (range(4000, 4000), Shard::from_low_bits(3));
        let taken = ports.take(&PAIR, one, wanted, ShardSet::ALL).unwrap();
        assert!(ports.take(&PAIR, one, wanted, ShardSet::ALL).is_err());
        assert!(ports.release(&PAIR, taken.port, RecordId(1)));
        let other = Pair {
            server_port: 81,
            ..PAIR
        };
        let taken = ports
            .take(&other, range(5000, 5999), wanted, ShardSet::ALL)
            .unwrap();
        assert!(!taken.borrowed);
        let usage = ports.usage(&other, ShardSet::ALL).unwrap();
        assert_eq!((usage.used, usage.borrowed, usage.exhausted), (1, 0, 0));
        assert_eq!(ports.usage(&PAIR, ShardSet::ALL), None);
    }
}
