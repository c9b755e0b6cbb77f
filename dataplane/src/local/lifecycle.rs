//! How pairs and port sets come, go idle and make room for others.
//!
//! A pair exists as long as it has a set, and a set as long as it has ports in use or remembers their order.
//! When arenas or blocks run short, what has been idle for the longest is forgotten: only the order of reuse is
//! lost by it.

use super::pairs::{PairSlot, Sought, shards_in};
use super::sets::{PortSet, Span};
use super::{LocalPorts, PortRange};
use crate::worker::shard::{Shard, ShardSet};

impl LocalPorts {
    /// A new pair without a set; the caller holds it before anything else. None when there is no memory.
    pub(super) fn add_pair(&mut self, sought: &Sought, ports: PortRange) -> Option<u32> {
        let pair = sought.pair;
        let address = self.addresses.find_or_add(pair.local, ports)?;
        let free = shards_in(&self.key, pair.local, ports);
        let slot = PairSlot::new(pair, address, self.addresses.follow(address, ports), free);
        let id = match self.pairs.insert(slot) {
            Some(id) => id,
            None => {
                self.forget_idle_pair()?;
                self.pairs.insert(slot)?
            }
        };
        let (hasher, pairs, far) = (&self.hasher, &self.pairs, &self.far);
        let hash_of = |id| hasher.pair(&pairs[id].pair(|| far.get(id)));
        self.pair_index.insert(sought.hash, id, hash_of);
        if slot.is_far() {
            self.far.set(id, pair);
        }
        self.addresses[address].pairs += 1;
        Some(id)
    }

    /// A new set of the held pair `id`, without a port in use; the caller draws from it or drops it.
    pub(super) fn add_set(&mut self, hash: u64, id: u32, shard: Shard) -> Option<u32> {
        let address = &self.addresses[self.pairs[id].address];
        let span = Span::new(&self.key, address.address, shard, address.ports);
        self.start = self.start.wrapping_add(197);
        let slot = PortSet::new(id, shard, span, self.start);
        let set = match self.sets.insert(slot) {
            Some(set) => set,
            None => {
                let longest_idle = self.idle_sets.first()?;
                self.forget_idle_set(longest_idle);
                self.sets.insert(slot)?
            }
        };
        let (hasher, pairs, far, sets) = (&self.hasher, &self.pairs, &self.far, &self.sets);
        let hash_of = |set| {
            let slot: &PortSet = &sets[set];
            let pair = pairs[slot.pair].pair(|| far.get(slot.pair));
            hasher.set(hasher.pair(&pair), slot.shard())
        };
        self.set_index.insert(self.hasher.set(hash, shard), set, hash_of);
        self.pairs[id].set_sets(shard, true);
        Some(set)
    }

    /// Takes the pair in hand for a take, until [`LocalPorts::settle`].
    pub(super) fn hold(&mut self, id: u32) {
        self.held = id;
        let pair = &self.pairs[id];
        if pair.used == 0 && !pair.sets().is_empty() {
            self.idle_pairs.unlink(&mut self.pairs, id);
        }
    }

    /// Puts a pair, which is in no list, where it belongs: without a port in use it is idle, without a set gone.
    pub(super) fn settle(&mut self, id: u32) {
        self.held = 0;
        let pair = &self.pairs[id];
        if pair.sets().is_empty() {
            self.drop_pair(id);
        } else if pair.used == 0 {
            self.idle_pairs.push(&mut self.pairs, id);
        }
    }

    /// The last port of `set` came back.
    pub(super) fn rest(&mut self, set: u32) {
        let slot = &self.sets[set];
        let pair = &self.pairs[slot.pair];
        let address = &self.addresses[pair.address];
        if slot.span() == Span::new(&self.key, address.address, slot.shard(), address.ports) {
            self.idle_sets.push(&mut self.sets, set);
        } else {
            // The port range has changed meanwhile.
            self.drop_set(set);
        }
    }

    /// Forgets an idle set, and its pair when that was its last.
    pub(super) fn forget_idle_set(&mut self, set: u32) {
        let id = self.sets[set].pair;
        self.idle_sets.unlink(&mut self.sets, set);
        self.drop_set(set);
        let pair = &self.pairs[id];
        if id != self.held && pair.sets().is_empty() {
            self.idle_pairs.unlink(&mut self.pairs, id);
            self.drop_pair(id);
        }
    }

    /// Forgets the pair that has been idle for the longest, with all its sets.
    fn forget_idle_pair(&mut self) -> Option<()> {
        let id = self.idle_pairs.first()?;
        let pair = self.pair(id);
        let sought = self.hasher.seek(&pair);
        for shard in self.pairs[id].sets().iter() {
            if let Some(set) = self.find_set(&sought, shard) {
                self.forget_idle_set(set);
            }
        }
        Some(())
    }

    /// Brings the held pair `id` to its address's present port range, as far as no port is in use.
    #[cold]
    pub(super) fn follow_range(&mut self, sought: &Sought, id: u32) {
        let pair = sought.pair;
        let address = &self.addresses[self.pairs[id].address];
        let (ports, generation) = (address.ports, address.generation);
        self.pairs[id].generation = generation;
        let in_range = shards_in(&self.key, pair.local, ports);
        for shard in ShardSet::ALL.iter() {
            let Some(set) = self.find_set(sought, shard) else {
                self.pairs[id].set_free(shard, in_range.contains(shard));
                continue;
            };
            let slot = &self.sets[set];
            if slot.is_idle() && slot.span() != Span::new(&self.key, pair.local, shard, ports) {
                self.idle_sets.unlink(&mut self.sets, set);
                self.drop_set(set);
            }
        }
    }

    /// Takes an empty or idle set out of everything but the list of idle sets.
    pub(super) fn drop_set(&mut self, set: u32) {
        let slot = &mut self.sets[set];
        let (id, shard) = (slot.pair, slot.shard());
        self.blocks.forget(slot);
        let pair = self.pair(id);
        let hash = self.hasher.set(self.hasher.pair(&pair), shard);
        self.set_index.remove(hash, set);
        self.sets.remove(set);
        let ports = self.addresses[self.pairs[id].address].ports;
        let has_port = Span::new(&self.key, pair.local, shard, ports).count > 0;
        self.pairs[id].set_sets(shard, false);
        self.pairs[id].set_free(shard, has_port);
    }

    fn drop_pair(&mut self, id: u32) {
        let hash = self.hasher.pair(&self.pair(id));
        self.pair_index.remove(hash, id);
        self.counts.forget(id);
        let slot = &self.pairs[id];
        self.addresses[slot.address].pairs -= 1;
        self.pairs.remove(id);
    }
}
