//! Pairs and local addresses as they are kept, and how they are found. Called by [`super::LocalPorts`] only.

use std::net::Ipv4Addr;

use bytemuck::{Pod, Zeroable};

use super::arena::{Ordered, Slot};
use super::{Pair, PortRange};
use crate::worker::shard::{Shard, ShardKey, ShardSet};

/// A pair that has ports in use, or remembers the order in which they came back: one cache line.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(super) struct PairSlot {
    /// Shards that can hand out a port, memory permitting, whether they have a set yet or not.
    free: u128,
    /// Shards that have a set.
    sets: u128,
    local: u32,
    server: u32,
    pub(super) closing_first: u32,
    pub(super) closing_last: u32,
    previous: u32,
    next: u32,
    pub(super) used: u16,
    pub(super) address: u16,
    server_port: u16,
    protocol: u8,
    /// The address's port range that `free` was made from.
    pub(super) generation: u8,
}

const _: () = assert!(size_of::<PairSlot>() == 64);

impl Slot for PairSlot {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl Ordered for PairSlot {
    fn previous(&mut self) -> &mut u32 {
        &mut self.previous
    }
}

impl PairSlot {
    pub(super) fn new(pair: Pair, address: u16, generation: u8, free: ShardSet) -> PairSlot {
        PairSlot {
            free: free.bits(),
            local: pair.local.to_bits(),
            server: pair.server.to_bits(),
            server_port: pair.server_port,
            protocol: pair.protocol,
            address,
            generation,
            ..PairSlot::zeroed()
        }
    }

    #[inline]
    pub(super) fn is(&self, pair: &Pair) -> bool {
        self.pair() == *pair
    }

    #[inline]
    pub(super) fn pair(&self) -> Pair {
        Pair {
            local: Ipv4Addr::from_bits(self.local),
            server: Ipv4Addr::from_bits(self.server),
            server_port: self.server_port,
            protocol: self.protocol,
        }
    }

    pub(super) fn free(&self) -> ShardSet {
        ShardSet::from_bits(self.free)
    }

    pub(super) fn set_free(&mut self, shard: Shard, free: bool) {
        let mut shards = self.free();
        shards.set(shard, free);
        self.free = shards.bits();
    }

    pub(super) fn sets(&self) -> ShardSet {
        ShardSet::from_bits(self.sets)
    }

    pub(super) fn set_sets(&mut self, shard: Shard, has: bool) {
        let mut shards = self.sets();
        shards.set(shard, has);
        self.sets = shards.bits();
    }
}

/// The keyed hash of pairs and port sets: not linear, so that servers' addresses cannot be chosen to collide.
#[derive(Clone, Copy)]
pub(super) struct PairHasher {
    keys: [u64; 2],
}

impl PairHasher {
    pub(super) fn new(seed: u64) -> PairHasher {
        let first = fold(seed ^ 0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93);
        PairHasher {
            keys: [
                first,
                fold(first ^ 0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db) | 1,
            ],
        }
    }

    #[inline]
    pub(super) fn pair(&self, pair: &Pair) -> u64 {
        let addresses = u64::from(pair.local.to_bits()) << 32 | u64::from(pair.server.to_bits());
        let rest = u64::from(pair.server_port) << 8 | u64::from(pair.protocol);
        let first = fold(addresses ^ self.keys[0], 0xd6e8_feb8_6659_fd93);
        fold(first ^ rest, self.keys[1])
    }

    /// The hash of the set of a pair, whose hash is `pair`, in `shard`.
    #[inline]
    pub(super) fn set(&self, pair: u64, shard: Shard) -> u64 {
        fold(pair ^ (shard.index() as u64 + 1), self.keys[1])
    }

    pub(super) fn address(&self, address: Ipv4Addr) -> u64 {
        fold(u64::from(address.to_bits()) ^ self.keys[0], self.keys[1])
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// Which shards have a port for `address` within `ports`.
pub(super) fn shards_in(key: &ShardKey, address: Ipv4Addr, ports: PortRange) -> ShardSet {
    // 255 ports hold an aligned block of 128, and that holds every shard.
    if ports.count() >= 255 {
        return ShardSet::ALL;
    }
    let mut shards = ShardSet::EMPTY;
    for port in ports.first()..=ports.last() {
        shards.set(key.shard(address, port), true);
    }
    shards
}

/// How many ports within `ports` have a shard in `mine`.
pub(super) fn ports_in(key: &ShardKey, address: Ipv4Addr, ports: PortRange, mine: ShardSet) -> u32 {
    mine.iter()
        .map(|shard| u32::from(super::sets::Span::new(key, address, shard, ports).count))
        .sum()
}
