//! The local ports of one worker: [`LocalPorts`].

use std::io;
use std::net::IpAddr;

use super::addresses::Addresses;
use super::arena::{Arena, Queue};
use super::chains::Chains;
use super::closing::Closing;
use super::counts::Counts;
use super::pairs::{FarPairs, PairHasher, PairSlot, Sought};
use super::pressure::is_high;
use super::sets::{Blocks, Growth, PortSet};
use super::shown::Shown;
use super::{Pair, PortPlace, PortRange, ReleaseHint, TakeError, Taken};
use crate::flow::RecordId;
use crate::worker::shard::{Shard, ShardKey, ShardSet};

/// Sizes of [`LocalPorts`], fixed at start.
#[derive(Clone, Debug)]
pub struct LocalPortsConfig {
    /// Bytes for the order in which released ports came back: about 2.3 for each port that was ever used, towards
    /// each server. When it is short, ports are reused earlier.
    pub port_memory: usize,
    /// Pairs that have ports in use or remember how they came back.
    pub pairs: u32,
    /// Port sets: one for each shard of each pair, from its first connection on.
    pub sets: u32,
    /// Local addresses (LIPs), at most 65535.
    pub addresses: u16,
    /// Capacity of the connection table: record ids are 1 to this.
    pub connections: u32,
    /// Seed of the hash keys, drawn at start.
    pub seed: u64,
    /// Use hugepages, when there are any, for what each connection may touch. The rest has room for far more than
    /// most gateways use, and hugepages are taken at start, touched or not.
    pub hugepages: bool,
}

impl LocalPortsConfig {
    /// A pair and a set for each connection, and for 400,000 idle pairs besides: 10,000 services of 10 servers with
    /// 4 local addresses. Room for 56 released ports beside each of them, which they share. Untouched at first.
    #[must_use]
    pub fn for_connections(connections: u32, seed: u64, hugepages: bool) -> LocalPortsConfig {
        const IDLE: u32 = 400_000;
        LocalPortsConfig {
            port_memory: 128 * (connections as usize + IDLE as usize),
            pairs: connections.saturating_add(IDLE),
            sets: connections.saturating_add(IDLE),
            addresses: 4096,
            connections,
            seed,
            hugepages,
        }
    }
}

/// The local ports of one worker. Each call about a connection takes constant time, or at most one step for each
/// of 128 shards where pairs run short or a port range has changed.
pub struct LocalPorts {
    pub(super) key: ShardKey,
    pub(super) hasher: PairHasher,
    pub(super) addresses: Addresses,
    pub(super) pairs: Arena<PairSlot>,
    /// Addresses of those pairs that are not IPv4's.
    pub(super) far: FarPairs,
    pub(super) pair_index: Chains,
    /// Pairs without a port in use, the longest idle first.
    pub(super) idle_pairs: Queue,
    pub(super) sets: Arena<PortSet>,
    pub(super) set_index: Chains,
    /// Sets without a port in use, the longest idle first.
    pub(super) idle_sets: Queue,
    pub(super) blocks: Blocks,
    pub(super) closing: Closing,
    pub(super) shown: Shown,
    /// The pair that a take is about; it is in no list, and stays whatever has to be forgotten.
    pub(super) held: u32,
    /// What pairs count beyond their ports in use.
    pub(super) counts: Counts,
    /// The shards of the worker.
    pub(super) mine: ShardSet,
    /// Whether a take since the last question says that ports may run low.
    pub(super) may_run_low: bool,
    /// Where the next new set begins among its ports.
    pub(super) start: u32,
}

/// Why an attempt at one pair failed.
pub(super) enum Miss {
    /// No port in the shards that were allowed.
    Dry {
        /// The shards that do have one.
        free: ShardSet,
        /// The record that has been closing for the longest.
        closing: Option<RecordId>,
    },
    /// No memory.
    Memory,
}

impl LocalPorts {
    /// Reserves all memory; none is touched before it is used, or [`LocalPorts::touch`] asks for it. `key` is the key that steering uses.
    ///
    /// # Errors
    /// The system refuses the memory.
    pub fn new(config: &LocalPortsConfig, key: &ShardKey) -> io::Result<LocalPorts> {
        let hasher = PairHasher::new(config.seed);
        Ok(LocalPorts {
            key: key.clone(),
            hasher,
            addresses: Addresses::new(config.addresses, hasher)?,
            pairs: Arena::new(config.pairs)?,
            far: FarPairs::new(config.pairs)?,
            pair_index: Chains::new(config.pairs)?,
            idle_pairs: Queue::default(),
            sets: Arena::new(config.sets)?,
            set_index: Chains::new(config.sets)?,
            idle_sets: Queue::default(),
            blocks: Blocks::new(config.port_memory)?,
            closing: Closing::new(config.connections, config.hugepages)?,
            shown: Shown::new(config.connections, config.hugepages)?,
            counts: Counts::new(config.pairs)?,
            mine: ShardSet::ALL,
            may_run_low: false,
            held: 0,
            start: (config.seed >> 40) as u32,
        })
    }

    /// Takes the memory that each connection may touch from the system now: it is in large pages, which the system takes
    /// long to clear. The rest is in small ones, and touched as it is used.
    pub fn touch(&mut self) {
        self.closing.touch();
        self.shown.touch();
    }

    /// Takes a port of `pair` from `ports`, the range of its local address: in the shard `wanted`, which is one of
    /// the caller's; else borrowed from another of `mine`, the shards that the caller owns. A changed range takes
    /// effect shard by shard, where no port of the old one is in use.
    ///
    /// # Errors
    /// [`TakeError::Exhausted`] when all are in use; then it names the connection to end, if one is closing.
    /// [`TakeError::Memory`] when the account cannot be kept.
    pub fn take(
        &mut self,
        pair: &Pair,
        ports: PortRange,
        wanted: Shard,
        mine: ShardSet,
    ) -> Result<Taken, TakeError> {
        self.attempt(pair, ports, wanted, mine)
            .map_err(|miss| match miss {
                Miss::Dry { closing, .. } => self.refuse([*pair], closing, false),
                Miss::Memory => self.refuse([*pair], None, true),
            })
    }

    /// Gives `port` of `pair`, which the connection `record` had, back. Also takes the record from the list of
    /// closing connections when it is there. False when the port was not in use: the caller's books are wrong.
    pub fn release(&mut self, pair: &Pair, port: u16, record: RecordId) -> bool {
        self.release_sought(&self.hasher.seek(pair), port, record)
    }

    pub(super) fn release_sought(&mut self, sought: &Sought, port: u16, record: RecordId) -> bool {
        self.closing.unlist(&mut self.pairs, record.0);
        let shard = self.key.shard_of(sought.pair.local, port);
        let Some(set) = self.find_set(sought, shard) else {
            return false;
        };
        let slot = &mut self.sets[set];
        let (id, was_dry) = (slot.pair, !slot.has_free());
        if !self.blocks.push(slot, port) {
            return false;
        }
        let idle = slot.used() == 0;
        if was_dry {
            self.pairs[id].set_free(shard, true);
        }
        if idle {
            self.rest(set);
        }
        let pair = &mut self.pairs[id];
        pair.used -= 1;
        self.addresses[pair.address].used -= 1;
        if pair.used == 0 {
            self.settle(id);
        }
        true
    }

    /// Notes that the connection `record`, which has a port of `pair`, has entered TIME_WAIT or CLOSE. A record
    /// that was noted before keeps its place. False when it did, or the pair is unknown.
    pub fn closing(&mut self, pair: &Pair, record: RecordId) -> bool {
        let Some(id) = self.find_pair(&self.hasher.seek(pair)) else {
            return false;
        };
        self.closing.list(&mut self.pairs, id, record.0)
    }

    /// Notes that the connection `record` has left TIME_WAIT or CLOSE for a live state. False when it was not
    /// noted as closing.
    pub fn reopened(&mut self, record: RecordId) -> bool {
        self.closing.unlist(&mut self.pairs, record.0)
    }

    /// Takes a port in `wanted`, or else in one of `allowed`.
    #[inline(never)]
    pub(super) fn attempt(
        &mut self,
        pair: &Pair,
        ports: PortRange,
        wanted: Shard,
        allowed: ShardSet,
    ) -> Result<Taken, Miss> {
        self.attempt_here(pair, ports, wanted, allowed)
    }

    /// As [`LocalPorts::attempt`], within the caller: for the one that nearly every connection takes.
    #[inline(always)]
    pub(super) fn attempt_here(
        &mut self,
        pair: &Pair,
        ports: PortRange,
        wanted: Shard,
        allowed: ShardSet,
    ) -> Result<Taken, Miss> {
        let sought = self.hasher.seek(pair);
        let mut set = self.find_set(&sought, wanted);
        let known = match set {
            Some(set) => Some(self.sets[set].pair),
            None => self.find_pair(&sought),
        };
        let id = match known {
            Some(id) => id,
            None => self.add_pair(&sought, ports).ok_or(Miss::Memory)?,
        };
        self.hold(id);
        if self.addresses.follow(self.pairs[id].address, ports) != self.pairs[id].generation {
            self.follow_range(&sought, id);
            set = self.find_set(&sought, wanted);
        }
        let drawn = self.draw_from_pair(&sought, id, wanted, set, allowed);
        match &drawn {
            Ok(taken) => {
                self.held = 0;
                let slot = &mut self.pairs[id];
                slot.used += 1;
                let address = &mut self.addresses[slot.address];
                address.count_taken(slot.used, taken.borrowed);
                self.may_run_low |= is_high(slot.used, address.capacity);
                if taken.borrowed {
                    self.counts.of_mut(id).borrowed += 1;
                }
            }
            Err(_) => {
                self.may_run_low = true;
                self.settle(id);
            }
        }
        drawn
    }

    /// Counts a refusal of these pairs and says why it was.
    pub(super) fn refuse(
        &mut self,
        pairs: impl IntoIterator<Item = Pair>,
        recyclable: Option<RecordId>,
        memory: bool,
    ) -> TakeError {
        if let Some(record) = recyclable {
            return TakeError::Exhausted {
                recyclable: Some(record),
            };
        }
        for pair in pairs {
            if !memory {
                self.count(&pair, |counts| &mut counts.exhausted);
            }
            self.addresses.count(pair.local, |address| match memory {
                true => &mut address.out_of_memory,
                false => &mut address.exhausted,
            });
        }
        if memory {
            TakeError::Memory
        } else {
            TakeError::Exhausted { recyclable: None }
        }
    }

    /// Hands out a port of the held pair `id`, whose set in `wanted` is `set`.
    #[inline]
    fn draw_from_pair(
        &mut self,
        sought: &Sought,
        id: u32,
        wanted: Shard,
        set: Option<u32>,
        allowed: ShardSet,
    ) -> Result<Taken, Miss> {
        let slot = &self.pairs[id];
        let free = slot.free();
        let borrowed = !free.contains(wanted);
        let (shard, set) = if borrowed {
            let Some(shard) = free.and(allowed).next_from(wanted) else {
                let closing = (slot.closing_first != 0).then_some(RecordId(slot.closing_first));
                return Err(Miss::Dry { free, closing });
            };
            (shard, None)
        } else {
            (wanted, set)
        };
        let port = self.draw_in(sought, id, shard, set);
        port.map(|port| Taken {
            local: sought.pair.local,
            port,
            borrowed,
            place: PortPlace(self.hasher.port(sought.hash, port)),
        })
        .ok_or(Miss::Memory)
    }

    /// Hands out a port of the held pair `id` in `shard`, whose set is `set` if that was looked up already.
    #[inline]
    fn draw_in(&mut self, sought: &Sought, id: u32, shard: Shard, set: Option<u32>) -> Option<u16> {
        let set = match set.or_else(|| self.find_set(sought, shard)) {
            Some(set) => set,
            None => self.add_set(sought.hash, id, shard)?,
        };
        if self.sets[set].is_idle() {
            // It will not stay idle: what is idle has at least its released ports.
            self.idle_sets.unlink(&mut self.sets, set);
        }
        let port = self.draw(set, sought.pair.local, shard);
        let slot = &self.sets[set];
        if !slot.has_free() {
            self.pairs[id].set_free(shard, false);
        }
        if slot.is_new() {
            self.drop_set(set);
        }
        port
    }

    /// A never-used port of `set` first; then the one that was released first.
    #[inline]
    fn draw(&mut self, set: u32, local: IpAddr, shard: Shard) -> Option<u16> {
        let key = &self.key;
        let slot = &mut self.sets[set];
        self.blocks
            .issue(slot, Growth::Modest, |block| key.port_for(local, shard, block))
            .or_else(|| self.blocks.pop(slot))
            .or_else(|| self.draw_last(set, local, shard))
    }

    /// As [`LocalPorts::draw`], of a set that has none left but by the last memory, or that of others.
    #[cold]
    fn draw_last(&mut self, set: u32, local: IpAddr, shard: Shard) -> Option<u16> {
        let issue = |ports: &mut LocalPorts| {
            let key = &ports.key;
            let port_of = |block| key.port_for(local, shard, block);
            ports.blocks.issue(&mut ports.sets[set], Growth::Urgent, port_of)
        };
        if let Some(port) = issue(self) {
            return Some(port);
        }
        // `free` said that there is a port, so only a block is missing: an idle set holds at least one.
        self.forget_idle_set(self.idle_sets.first()?);
        issue(self)
    }

    /// The pair that a slot is about.
    #[inline]
    pub(super) fn pair(&self, id: u32) -> Pair {
        self.pairs[id].pair(|| self.far.get(id))
    }

    #[inline]
    fn is_pair(&self, id: u32, sought: &Sought) -> bool {
        self.far.is_pair(id, &self.pairs[id], sought)
    }

    #[inline]
    pub(super) fn find_pair(&self, sought: &Sought) -> Option<u32> {
        self.pair_index.find(sought.hash, |id| self.is_pair(id, sought))
    }

    #[inline(always)]
    pub(super) fn find_set(&self, sought: &Sought, shard: Shard) -> Option<u32> {
        self.set_index.find(self.hasher.set(sought.hash, shard), |id| {
            let set = &self.sets[id];
            if set.shard() != shard {
                return false;
            }
            // On its way while the pair is compared.
            self.blocks.prefetch(set);
            self.is_pair(set.pair, sought)
        })
    }

    /// Asks the cache for what [`LocalPorts::release_shown`] and [`LocalPorts::release`] look at first; `closing` says that
    /// the record was noted as closing. A hint for [`LocalPorts::announce_queue`].
    #[inline]
    pub fn announce_release(&self, pair: &Pair, port: u16, record: RecordId, closing: bool) -> ReleaseHint {
        let hash = self.hasher.pair(pair);
        self.announce_shown(PortPlace(self.hasher.port(hash, port)));
        let shard = self.key.shard_of(pair.local, port);
        let set = self.set_index.first(self.hasher.set(hash, shard));
        self.sets.prefetch(set);
        if closing {
            self.closing.prefetch(record.0);
        }
        ReleaseHint(set)
    }

    /// Some time after [`LocalPorts::announce_release`]: asks the cache for where the port will be put.
    #[inline]
    pub fn announce_queue(&self, hint: ReleaseHint) {
        // Memory of ports that nobody has used is not even read: it would have to be there.
        if hint.0 != 0 {
            self.blocks.prefetch(&self.sets[hint.0]);
        }
    }
}
