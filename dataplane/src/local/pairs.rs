//! Pairs and local addresses as they are kept, and how they are found. Called by [`super::LocalPorts`] only.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytemuck::{Pod, Zeroable};

use super::arena::{Ordered, Slot};
use super::{Pair, PortRange};
use crate::memory::Slab;
use crate::worker::shard::{Shard, ShardKey, ShardSet};

/// A pair that has ports in use, or remembers the order in which they came back: one cache line.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(super) struct PairSlot {
    /// Shards that can hand out a port, memory permitting, whether they have a set yet or not.
    free: u128,
    /// Shards that have a set.
    sets: u128,
    /// Both addresses when they are IPv4's; 0 and 0 when [`FarPairs`] has them.
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
    pub(super) fn new(pair: &Pair, address: u16, generation: u8, free: ShardSet) -> PairSlot {
        let (local, server) = near(pair);
        PairSlot {
            free: free.bits(),
            local,
            server,
            server_port: pair.server_port,
            protocol: pair.protocol,
            address,
            generation,
            ..PairSlot::zeroed()
        }
    }

    /// Whether [`FarPairs`] has the addresses.
    #[inline]
    pub(super) fn is_far(&self) -> bool {
        self.local == 0
    }

    /// Whether this is what is looked for, as far as the slot can tell: of a far pair, [`FarPairs`] knows more.
    #[inline]
    fn looks_like(&self, sought: &Sought) -> bool {
        (self.local, self.server) == (sought.local, sought.server)
            && (self.server_port, self.protocol) == (sought.pair.server_port, sought.pair.protocol)
    }

    /// The pair; `far` has its addresses when [`PairSlot::is_far`].
    #[inline]
    pub(super) fn pair(&self, far: impl FnOnce() -> (IpAddr, IpAddr)) -> Pair {
        let (local, server) = if self.is_far() {
            far()
        } else {
            let near = [self.local, self.server].map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
            (near[0], near[1])
        };
        Pair {
            local,
            server,
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

/// A pair that is looked for: made once for all that an opening or an end asks about it.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a> {
    pub(super) pair: &'a Pair,
    pub(super) hash: u64,
    /// Both addresses as slots hold them.
    local: u32,
    server: u32,
}

/// Both addresses of a pair as words; 0 and 0 when they do not fit: no local address is 0.0.0.0.
#[inline]
fn near(pair: &Pair) -> (u32, u32) {
    match (pair.local, pair.server) {
        (IpAddr::V4(local), IpAddr::V4(server)) if !local.is_unspecified() => {
            (local.to_bits(), server.to_bits())
        }
        _ => (0, 0),
    }
}

/// Both addresses of a pair, IPv4's as mapped ones (RFC 4291 2.5.5.2).
#[inline]
fn wide(pair: &Pair) -> [u128; 2] {
    [pair.local, pair.server].map(|address| match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    })
}

/// The addresses of pairs that are not IPv4's, beside the slots by their ids: local address and server. Ordinary memory
/// that is taken as it is first written, so that a gateway without IPv6 has none of it.
pub(super) struct FarPairs {
    lines: Slab<[u128; 2]>,
    /// The highest id that was ever written.
    touched: u32,
}

impl FarPairs {
    pub(super) fn new(pairs: u32) -> io::Result<FarPairs> {
        Ok(FarPairs {
            lines: Slab::sparse(pairs as usize + 1)?,
            touched: 0,
        })
    }

    pub(super) fn set(&mut self, id: u32, pair: &Pair) {
        self.lines[id as usize] = wide(pair);
        self.touched = self.touched.max(id);
    }

    /// Whether a slot is the pair that is looked for.
    #[inline]
    pub(super) fn is_pair(&self, id: u32, slot: &PairSlot, sought: &Sought) -> bool {
        slot.looks_like(sought) && (!slot.is_far() || self.lines[id as usize] == wide(sought.pair))
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> (IpAddr, IpAddr) {
        let [local, server] =
            self.lines[id as usize].map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)).to_canonical());
        (local, server)
    }

    pub(super) fn resident(&self) -> io::Result<usize> {
        self.lines.resident()
    }

    pub(super) fn reserved_bytes(&self) -> usize {
        self.lines.bytes()
    }

    pub(super) fn touched_bytes(&self) -> usize {
        self.touched as usize * size_of::<[u128; 2]>()
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
    pub(super) fn seek<'a>(&self, pair: &'a Pair) -> Sought<'a> {
        let rest = u64::from(pair.server_port) << 8 | u64::from(pair.protocol);
        let (local, server) = near(pair);
        let first = match local {
            0 => self.far(&wide(pair)),
            _ => self.first(u64::from(local) << 32 | u64::from(server)),
        };
        Sought {
            pair,
            hash: fold(first ^ rest, self.keys[1]),
            local,
            server,
        }
    }

    pub(super) fn pair(&self, pair: &Pair) -> u64 {
        self.seek(pair).hash
    }

    /// The hash of the set of a pair, whose hash is `pair`, in `shard`.
    #[inline]
    pub(super) fn set(&self, pair: u64, shard: Shard) -> u64 {
        fold(pair ^ (shard.index() as u64 + 1), self.keys[1])
    }

    /// The hash of one port of a pair, whose hash is `pair`.
    #[inline]
    pub(super) fn port(&self, pair: u64, port: u16) -> u64 {
        fold(pair ^ (u64::from(port) + 1), self.keys[1])
    }

    pub(super) fn address(&self, address: IpAddr) -> u64 {
        match address {
            IpAddr::V4(address) => fold(u64::from(address.to_bits()) ^ self.keys[0], self.keys[1]),
            IpAddr::V6(address) => fold(self.far(&[address.to_bits()]), self.keys[1]),
        }
    }

    #[inline]
    fn first(&self, word: u64) -> u64 {
        fold(word ^ self.keys[0], 0xd6e8_feb8_6659_fd93)
    }

    /// Long addresses, one half after the other.
    #[cold]
    fn far(&self, words: &[u128]) -> u64 {
        let halves = words.iter().flat_map(|bits| [(bits >> 64) as u64, *bits as u64]);
        halves.fold(self.keys[1], |hash, half| self.first(hash.rotate_left(32) ^ half))
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// Which shards have a port for `address` within `ports`.
pub(super) fn shards_in(key: &ShardKey, address: IpAddr, ports: PortRange) -> ShardSet {
    // 255 ports hold an aligned block of 128, and that holds every shard.
    if ports.count() >= 255 {
        return ShardSet::ALL;
    }
    let mut shards = ShardSet::EMPTY;
    for port in ports.first()..=ports.last() {
        shards.set(key.shard_of(address, port), true);
    }
    shards
}

/// How many ports within `ports` have a shard in `mine`.
pub(super) fn ports_in(key: &ShardKey, address: IpAddr, ports: PortRange, mine: ShardSet) -> u32 {
    mine.iter()
        .map(|shard| u32::from(super::sets::Span::new(key, address, shard, ports).count))
        .sum()
}
