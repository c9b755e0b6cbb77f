//! What control asks about local ports: for metrics, `show` and the warning before they run out.

use std::io;

use super::pairs::ports_in;
use super::{AddressUse, LocalPorts, Pair};
use crate::worker::shard::ShardSet;

/// How much of a pair is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairUse {
    /// Ports in use.
    pub used: u32,
    /// Ports of this worker's shards that the address's range has: in use and free.
    pub capacity: u32,
    /// Ports handed out of another shard than the client's, as far as the pair is remembered; so the two below.
    pub borrowed: u64,
    /// How often a closing connection had to give up its port.
    pub recycled: u64,
    /// How often no port was free and none could be recycled.
    pub exhausted: u64,
}

/// What control is told of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairReport {
    /// The pair.
    pub pair: Pair,
    /// How much of it is used.
    pub usage: PairUse,
}

/// Memory of local ports, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryUse {
    /// Address space that was reserved at start.
    pub reserved: usize,
    /// What pairs, port sets and queues have written to so far, look-up tables aside.
    pub touched: usize,
    /// Pairs that are remembered now.
    pub pairs: u32,
    /// Port sets that are remembered now.
    pub sets: u32,
}

/// The memory that the system has given for local ports, in bytes: whole pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResidentMemory {
    /// Which connections are closing.
    pub closing: usize,
    /// What servers were shown last.
    pub shown: usize,
    /// Pairs, port sets, and the order in which ports came back.
    pub pairs: usize,
    /// How pairs and port sets are found.
    pub indices: usize,
}

impl LocalPorts {
    /// How much of `pair` is used; none when it never was, or was forgotten while idle. `mine` are the shards
    /// that the caller owns.
    #[must_use]
    pub fn usage(&self, pair: &Pair, mine: ShardSet) -> Option<PairUse> {
        let id = self.find_pair(&self.hasher.seek(pair))?;
        Some(self.pair_use(id, mine))
    }

    /// Shows the next pairs that have ports in use or have borrowed, recycled or run dry, at most about `at_most` of
    /// them, from `cursor` on, which begins as 0. The cursor for the next call; none when all have been shown. A pair
    /// that stays is shown once.
    pub fn scan_pairs(
        &self,
        cursor: u32,
        at_most: u32,
        mine: ShardSet,
        mut show: impl FnMut(&Pair, PairUse),
    ) -> Option<u32> {
        let end = self.pairs.touched().min(cursor.saturating_add(at_most));
        for id in cursor + 1..=end {
            // Only a pair that is remembered has ports in use, or has counted anything.
            if self.pairs[id].used > 0 || self.counts.of(id).is_used() {
                show(&self.pair(id), self.pair_use(id, mine));
            }
        }
        (end < self.pairs.touched()).then_some(end)
    }

    /// Every local address that has been used, with its counters.
    pub fn addresses(&self) -> impl Iterator<Item = &AddressUse> {
        self.addresses.iter()
    }

    /// Starts the peaks of all addresses afresh: after each reading, for a warning that goes away.
    pub fn reset_peaks(&mut self) {
        self.addresses.reset_peaks();
    }

    /// Memory reserved and touched.
    #[must_use]
    pub fn memory(&self) -> MemoryUse {
        let indices = self.pair_index.reserved_bytes() + self.set_index.reserved_bytes();
        let arenas = self.pairs.reserved_bytes() + self.sets.reserved_bytes();
        MemoryUse {
            reserved: indices
                + arenas
                + self.far.reserved_bytes()
                + self.blocks.reserved_bytes()
                + self.closing.reserved_bytes()
                + self.shown.reserved_bytes()
                + self.counts.reserved_bytes(),
            touched: self.pairs.touched_bytes()
                + self.far.touched_bytes()
                + self.sets.touched_bytes()
                + self.blocks.touched_bytes(),
            pairs: self.pairs.live(),
            sets: self.sets.live(),
        }
    }

    /// The memory that the system has given so far.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn resident(&self) -> io::Result<ResidentMemory> {
        Ok(ResidentMemory {
            closing: self.closing.resident()?,
            shown: self.shown.resident()?,
            pairs: self.pairs.resident()?
                + self.far.resident()?
                + self.counts.resident()?
                + self.sets.resident()?
                + self.blocks.resident()?,
            indices: self.pair_index.resident()? + self.set_index.resident()?,
        })
    }

    fn pair_use(&self, id: u32, mine: ShardSet) -> PairUse {
        let pair = &self.pairs[id];
        let address = &self.addresses[pair.address];
        let counts = self.counts.of(id);
        let capacity = match address.capacity {
            known @ 1.. if mine == self.mine => known,
            _ => ports_in(&self.key, address.address, address.ports, mine),
        };
        PairUse {
            used: u32::from(pair.used),
            capacity,
            borrowed: counts.borrowed,
            recycled: counts.recycled,
            exhausted: counts.exhausted,
        }
    }
}
