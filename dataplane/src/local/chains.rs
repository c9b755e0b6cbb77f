//! How pairs and port sets are found: a hash index of arena ids that grows with what it holds, since a gateway may have
//! thousands of sets or millions, and knows at its start only what would be the most. Called by [`super::LocalPorts`] only.
//!
//! Linear hashing: with each entry two more chains come into use, and each new one takes its entries from one old one.
//! So an insert takes constant time, and nothing of the memory is touched before that many entries have been there. The
//! index holds ids and no keys: a find proposes ids, the caller says which one it meant.

use std::io;

use crate::arch::prefetch;
use crate::memory::Slab;

/// Chains in use at the start, a power of two: a page of heads.
const FIRST: u32 = 1024;
/// Chains for each entry: few are longer than one entry, whose comparison costs a line of memory.
const PER_ENTRY: u32 = 2;

/// Chains of ids by the hashes of what these name.
pub(super) struct Chains {
    /// The first id of each chain; 0 = empty.
    heads: Slab<u32>,
    /// The next id of the same chain, by id; 0 = none.
    links: Slab<u32>,
    /// Chains in use.
    count: u32,
    /// The least power of two that is no less than that, less one.
    mask: u32,
    len: u32,
}

impl Chains {
    /// For ids from 1 to `ids`.
    pub(super) fn new(ids: u32) -> io::Result<Chains> {
        let most = ids.saturating_mul(PER_ENTRY).max(FIRST);
        Ok(Chains {
            heads: Slab::sparse(most as usize)?,
            links: Slab::sparse(ids as usize + 1)?,
            count: FIRST,
            mask: FIRST - 1,
            len: 0,
        })
    }

    /// The chain of a hash: by as many of its low bits as the chains in use need.
    #[inline(always)]
    fn chain_of(&self, hash: u64) -> usize {
        let low = hash as u32 & self.mask;
        let chain = if low < self.count {
            low
        } else {
            low & (self.mask >> 1)
        };
        chain as usize
    }

    /// The id under this hash that `accept` says is the one.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, mut accept: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut id = self.heads[self.chain_of(hash)];
        while id != 0 {
            if accept(id) {
                return Some(id);
            }
            id = self.links[id as usize];
        }
        None
    }

    /// The first id that [`Chains::find`] will propose; 0 = none.
    #[inline(always)]
    pub(super) fn first(&self, hash: u64) -> u32 {
        self.heads[self.chain_of(hash)]
    }

    /// Adds an id that is not in it. `hash_of` knows the hashes of those that are.
    pub(super) fn insert(&mut self, hash: u64, id: u32, hash_of: impl Fn(u32) -> u64) {
        self.len += 1;
        for _ in 0..PER_ENTRY {
            if self.count < self.len.saturating_mul(PER_ENTRY) && (self.count as usize) < self.heads.len() {
                self.split(&hash_of);
            }
        }
        self.link(hash, id);
    }

    fn link(&mut self, hash: u64, id: u32) {
        let chain = self.chain_of(hash);
        self.links[id as usize] = self.heads[chain];
        self.heads[chain] = id;
    }

    /// Takes one more chain into use.
    fn split(&mut self, hash_of: &impl Fn(u32) -> u64) {
        if self.count > self.mask {
            self.mask = self.mask << 1 | 1;
        }
        let old = self.count & (self.mask >> 1);
        self.count += 1;
        prefetch(&self.heads, self.count as usize);
        let mut id = std::mem::take(&mut self.heads[old as usize]);
        while id != 0 {
            let next = self.links[id as usize];
            self.link(hash_of(id), id);
            id = next;
        }
    }

    /// Takes out an id; false when it is not there.
    pub(super) fn remove(&mut self, hash: u64, id: u32) -> bool {
        let chain = self.chain_of(hash);
        let next = self.links[id as usize];
        if self.heads[chain] == id {
            self.heads[chain] = next;
        } else {
            let mut before = self.heads[chain];
            while before != 0 && self.links[before as usize] != id {
                before = self.links[before as usize];
            }
            if before == 0 {
                return false;
            }
            self.links[before as usize] = next;
        }
        self.links[id as usize] = 0;
        self.len -= 1;
        true
    }

    pub(super) fn resident(&self) -> io::Result<usize> {
        Ok(self.heads.resident()? + self.links.resident()?)
    }

    pub(super) fn reserved_bytes(&self) -> usize {
        self.heads.bytes() + self.links.bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A hash that looks random, of few bits where `bits` says so, so that many collide.
    fn hash(id: u32, bits: u32) -> u64 {
        let x = (u64::from(id) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ x >> 29) & (u64::MAX >> (64 - bits))
    }

    fn find(chains: &Chains, id: u32, bits: u32) -> Option<u32> {
        chains.find(hash(id, bits), |other| other == id)
    }

    #[test]
    fn all_are_found_however_far_it_has_grown() {
        const IDS: u32 = 5_000;
        let mut chains = Chains::new(IDS).unwrap();
        for id in 1..=IDS {
            chains.insert(hash(id, 64), id, |id| hash(id, 64));
            if id % 97 == 0 || id < 600 {
                assert!((1..=id).all(|id| find(&chains, id, 64) == Some(id)), "{id}");
                assert_eq!(find(&chains, id + 1, 64), None);
            }
        }
        assert_eq!(chains.count, 2 * IDS);
        let longest = (0..u64::from(chains.count)).map(|chain| {
            let mut ids = 0;
            chains.find(chain, |_| {
                ids += 1;
                false
            });
            ids
        });
        assert!(longest.max() < Some(8), "chains are not split evenly");
    }

    /// What is there for the most that may come is not touched before it comes.
    #[test]
    fn it_takes_memory_as_it_grows() {
        let mut chains = Chains::new(4_000_000).unwrap();
        for id in 1..=8_192 {
            chains.insert(hash(id, 64), id, |id| hash(id, 64));
        }
        let touched = chains.resident().unwrap();
        assert!((12 * 8_192..13 * 8_192).contains(&touched), "{touched}");
        assert!(chains.reserved_bytes() >= 48_000_000);
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_set(
            bits in 1..=64u32,
            steps in prop::collection::vec((any::<bool>(), 1..=3_000u32), 1..200),
            crowd in 0..3_000u32,
        ) {
            let mut chains = Chains::new(3_000).unwrap();
            let mut there = std::collections::BTreeSet::new();
            let crowd = (1..=crowd).map(|id| (true, id));
            for (add, id) in crowd.chain(steps) {
                if add && there.insert(id) {
                    chains.insert(hash(id, bits.max(6)), id, |id| hash(id, bits.max(6)));
                } else if !add {
                    prop_assert_eq!(chains.remove(hash(id, bits.max(6)), id), there.remove(&id));
                }
            }
            for id in 1..=3_000 {
                let found = find(&chains, id, bits.max(6));
                prop_assert_eq!(found, there.contains(&id).then_some(id));
            }
            prop_assert_eq!(chains.len as usize, there.len());
        }
    }
}
