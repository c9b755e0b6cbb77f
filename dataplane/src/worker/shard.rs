//! Shards: which worker owns an endpoint. Steering, RSS configuration and the choice of local ports all call
//! this; nothing here depends on a service, so that no edit of the configuration moves a connection.
//!
//! `shard(address, port)` is the low 7 bits of an ordinary Toeplitz hash (the hash of RSS) whose key has bits
//! only where the chosen end of the 4-tuple meets them. A second key, with the same pattern moved by 32 bits for
//! the address and by 16 bits for the port, sees the same endpoint when it stands as destination. A device that
//! is given these two keys delivers packets at home by itself; correctness never depends on it.
//!
//! The hash is linear: `shard = A(address) xor P(port)`. The key is there for spread, not for secrecy: flooding
//! one shard takes no more than one address that repeats one port, whatever the key.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// How many shards there are; a device's RSS redirection table of 128 entries maps them one to one.
pub const SHARDS: usize = 128;

/// A shard: 0 to 127.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Shard(u8);

impl Shard {
    /// The shard of the low 7 bits of `bits`, such as those of a device's RSS hash.
    #[inline]
    #[must_use]
    pub const fn from_low_bits(bits: u32) -> Shard {
        Shard((bits & 127) as u8)
    }

    /// 0 to 127.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of shards, such as those that one worker owns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct ShardSet(u128);

impl ShardSet {
    /// No shard.
    pub const EMPTY: ShardSet = ShardSet(0);
    /// Every shard: what a lone worker owns.
    pub const ALL: ShardSet = ShardSet(u128::MAX);

    /// The set whose bit `i` stands for shard `i`.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u128) -> ShardSet {
        ShardSet(bits)
    }

    /// Bit `i` stands for shard `i`.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// Whether `shard` is in the set.
    #[inline]
    #[must_use]
    pub const fn contains(self, shard: Shard) -> bool {
        self.0 >> shard.0 & 1 != 0
    }

    /// Puts `shard` in the set, or takes it out.
    #[inline]
    pub fn set(&mut self, shard: Shard, member: bool) {
        self.0 = self.0 & !(1 << shard.0) | u128::from(member) << shard.0;
    }

    /// What is in both sets.
    #[inline]
    #[must_use]
    pub const fn and(self, other: ShardSet) -> ShardSet {
        ShardSet(self.0 & other.0)
    }

    /// How many shards are in the set.
    #[inline]
    #[must_use]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether every shard is in the set.
    #[inline]
    #[must_use]
    pub const fn is_all(self) -> bool {
        self.0 == u128::MAX
    }

    /// Whether no shard is in the set.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The first member at or after `shard`, going round.
    #[inline]
    #[must_use]
    pub const fn next_from(self, shard: Shard) -> Option<Shard> {
        if self.0 == 0 {
            return None;
        }
        let distance = self.0.rotate_right(shard.0 as u32).trailing_zeros();
        Some(Shard::from_low_bits(shard.0 as u32 + distance))
    }

    /// The members in ascending order.
    pub fn iter(self) -> impl Iterator<Item = Shard> {
        (0..SHARDS as u8)
            .map(Shard)
            .filter(move |shard| self.contains(*shard))
    }
}

/// Where a key has free bits, counted from the key's first bit, for an endpoint that is the source.
const ADDRESS_BITS: std::ops::RangeInclusive<usize> = 31..=56;
const PORT_BITS: std::ops::RangeInclusive<usize> = 95..=104;
/// How far the same pattern moves when the endpoint is the destination.
const ADDRESS_MOVE: usize = 32;
const PORT_MOVE: usize = 16;

/// The key of the shard function: the same on every worker, drawn once at start.
#[derive(Clone, PartialEq, Eq)]
pub struct ShardKey {
    address: [[u8; 256]; 4],
    port: [[u8; 256]; 2],
    /// From 7 bits of shard to the low 7 bits of a port: the inverse of the port map on a block of 128.
    low_port: [u8; SHARDS],
    client_facing: [u8; 40],
    server_facing: [u8; 40],
}

impl ShardKey {
    /// Draws a key. Any 7 neighbouring bits of the address, and any 7 of the port, meet all 128 shards evenly:
    /// so does each aligned run of 128 ports, and so do clients that count in steps of a power of two (Linux
    /// takes its ephemeral ports by twos).
    #[must_use]
    pub fn from_seed(seed: u64) -> ShardKey {
        let mut random = SplitMix(seed);
        let address = Pattern::draw(&mut random, ADDRESS_BITS.count(), 32);
        let port = Pattern::draw(&mut random, PORT_BITS.count(), 16);
        let (mut client_facing, mut server_facing) = ([0; 40], [0; 40]);
        address.write(&mut client_facing, *ADDRESS_BITS.start());
        port.write(&mut client_facing, *PORT_BITS.start());
        address.write(&mut server_facing, ADDRESS_BITS.start() + ADDRESS_MOVE);
        port.write(&mut server_facing, PORT_BITS.start() + PORT_MOVE);
        let mut key = ShardKey {
            address: std::array::from_fn(|byte| address.table(8 * byte)),
            port: std::array::from_fn(|byte| port.table(8 * byte)),
            low_port: [0; SHARDS],
            client_facing,
            server_facing,
        };
        for low in 0..SHARDS as u8 {
            key.low_port[key.port_part(u16::from(low)) as usize] = low;
        }
        key
    }

    /// The 40-byte RSS keys for client-facing and for server-facing ports (Ethernet ports), in this order.
    #[must_use]
    pub fn rss_keys(&self) -> ([u8; 40], [u8; 40]) {
        (self.client_facing, self.server_facing)
    }

    /// The shard of an endpoint; `port` in host order. For an echo, `port` is the identifier; for an address
    /// alone, 0.
    #[inline]
    #[must_use]
    pub fn shard(&self, address: Ipv4Addr, port: u16) -> Shard {
        Shard(self.address_part(address) ^ self.port_part(port))
    }

    /// The one port of `shard` for `address` among the 128 ports `128 * block` to `128 * block + 127`. The block
    /// is below 512.
    #[inline]
    #[must_use]
    pub fn port_of(&self, address: Ipv4Addr, shard: Shard, block: u16) -> u16 {
        let start = block << 7;
        let wanted = self.address_part(address) ^ shard.0 ^ self.port_part(start);
        start | u16::from(self.low_port[usize::from(wanted & 127)])
    }

    /// As [`ShardKey::shard`], for an address of either family.
    #[inline]
    #[must_use]
    pub fn shard_of(&self, address: IpAddr, port: u16) -> Shard {
        self.shard(folded(address), port)
    }

    /// As [`ShardKey::port_of`], for an address of either family.
    #[inline]
    #[must_use]
    pub fn port_for(&self, address: IpAddr, shard: Shard, block: u16) -> u16 {
        self.port_of(folded(address), shard, block)
    }

    #[inline]
    fn address_part(&self, address: Ipv4Addr) -> u8 {
        let [a, b, c, d] = address.octets().map(usize::from);
        self.address[0][a] ^ self.address[1][b] ^ self.address[2][c] ^ self.address[3][d]
    }

    #[inline]
    fn port_part(&self, port: u16) -> u8 {
        let [high, low] = port.to_be_bytes().map(usize::from);
        self.port[0][high] ^ self.port[1][low]
    }
}

/// An IPv6 address as 32 bits, linear in its bits and without loss between addresses that differ in one of their
/// four words only.
#[inline]
fn folded(address: IpAddr) -> Ipv4Addr {
    match address {
        IpAddr::V4(address) => address,
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            let word = |shift: u32| (bits >> shift) as u32;
            Ipv4Addr::from_bits(
                word(0) ^ word(32).rotate_left(8) ^ word(64).rotate_left(16) ^ word(96).rotate_left(24),
            )
        }
    }
}

impl fmt::Debug for ShardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardKey")
            .field("client_facing", &self.client_facing)
            .finish_non_exhaustive()
    }
}

/// Which worker owns each shard. Part of the snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardMap([u8; SHARDS]);

impl ShardMap {
    /// The shards in runs of neighbours for `workers` workers (1 to 128; anything else is taken as the nearest). The top
    /// bits of a shard are those that the low bits of addresses and ports change, in which neighbouring clients, and a
    /// client's ports, differ: so these are spread over all workers.
    #[must_use]
    pub fn even(workers: u8) -> ShardMap {
        let workers = usize::from(workers).clamp(1, SHARDS);
        ShardMap(std::array::from_fn(|shard| (shard * workers / SHARDS) as u8))
    }

    /// The worker that owns `shard`, by its index.
    #[inline]
    #[must_use]
    pub fn owner(&self, shard: Shard) -> u8 {
        self.0[shard.index()]
    }

    /// How many workers there are: one more than the highest that owns a shard.
    #[must_use]
    pub fn workers(&self) -> u8 {
        self.0.iter().max().map_or(1, |highest| highest.saturating_add(1))
    }

    /// What `worker` owns.
    #[must_use]
    pub fn owned_by(&self, worker: u8) -> ShardSet {
        let owns = |shard: &usize| self.0[*shard] == worker;
        ShardSet((0..SHARDS).filter(owns).map(|shard| 1 << shard).sum())
    }
}

/// The free bits of a key over one field, and the linear map from that field to 7 bits which they make.
#[derive(Clone, Copy)]
struct Pattern {
    /// Bit `i` is the `i`th free key bit.
    bits: u64,
    len: usize,
}

impl Pattern {
    /// Draws until every window of 7 neighbouring input bits has full rank; the last such window alone makes
    /// each aligned block of 128 a permutation. One draw in 12 will do for ports, one in 2,000 for addresses; if
    /// luck should fail, the key with the longest run of good windows from the low end.
    fn draw(random: &mut SplitMix, len: usize, width: usize) -> Pattern {
        const DRAWS: usize = 40_000;
        // The outermost bits are always set: with them the first and the last window are triangular.
        let ends = 1 | 1 << (len - 1);
        let mut best = (0, Pattern { bits: ends, len });
        for _ in 0..DRAWS {
            let pattern = Pattern {
                bits: random.next() & ((1 << len) - 1) | ends,
                len,
            };
            let windows = width - 6;
            let good = (0..windows)
                .rev()
                .take_while(|first| pattern.full_rank(*first))
                .count();
            if good > best.0 {
                best = (good, pattern);
            }
            if good == windows {
                break;
            }
        }
        best.1
    }

    /// The 7 bits that input bit `input` (0 is the most significant) adds to the hash: the key bits under the
    /// last 7 of the 32-bit window that starts at this input bit.
    fn column(self, input: usize) -> u8 {
        let bit = |at: usize| {
            at.checked_sub(6)
                .filter(|i| *i < self.len)
                .map_or(0, |i| self.bits >> i & 1)
        };
        (0..7).fold(0, |column, at| column << 1 | bit(input + at) as u8)
    }

    fn full_rank(self, first: usize) -> bool {
        let mut columns: [u8; 7] = std::array::from_fn(|i| self.column(first + i));
        for done in 0..7 {
            let Some(pivot) = (done..7).find(|i| columns[*i] != 0) else {
                return false;
            };
            columns.swap(done, pivot);
            let (leading, low) = (columns[done], columns[done] & columns[done].wrapping_neg());
            for column in &mut columns[done + 1..] {
                if *column & low != 0 {
                    *column ^= leading;
                }
            }
        }
        true
    }

    /// The map over the byte whose most significant bit is input bit `first`.
    fn table(self, first: usize) -> [u8; 256] {
        std::array::from_fn(|byte| {
            let set = (0..8).filter(|bit| byte >> (7 - bit) & 1 != 0);
            set.fold(0, |sum, bit| sum ^ self.column(first + bit))
        })
    }

    fn write(self, key: &mut [u8; 40], first: usize) {
        for bit in (0..self.len).filter(|bit| self.bits >> bit & 1 != 0) {
            key[(first + bit) / 8] |= 0x80 >> ((first + bit) % 8);
        }
    }
}

/// A stream of random numbers from a seed, for the draw only.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The Toeplitz hash bit by bit, as the RSS specification words it.
    fn toeplitz(key: &[u8; 40], input: &[u8]) -> u32 {
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
        (0..input.len() * 8)
            .filter(|at| bit(input, *at) != 0)
            .map(|at| (0..32).fold(0, |window, i| window << 1 | u32::from(bit(key, at + i))))
            .fold(0, |hash, window| hash ^ window)
    }

    fn tuple(source: (Ipv4Addr, u16), destination: (Ipv4Addr, u16)) -> Vec<u8> {
        let mut input = source.0.octets().to_vec();
        input.extend(destination.0.octets());
        input.extend(source.1.to_be_bytes());
        input.extend(destination.1.to_be_bytes());
        input
    }

    /// The verification suite of the RSS specification: source, destination, hash with ports.
    #[test]
    fn the_reference_toeplitz_agrees_with_the_published_vectors() {
        const KEY: [u8; 40] = [
            0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
            0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
            0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
        ];
        let ip = |text: &str| text.parse::<Ipv4Addr>().unwrap();
        for (source, source_port, destination, destination_port, hash) in [
            ("66.9.149.187", 2794, "161.142.100.80", 1766, 0x51cc_c178_u32),
            ("199.92.111.2", 14230, "65.69.140.83", 4739, 0xc626_b0ea),
            ("24.19.198.95", 12898, "12.22.207.184", 38024, 0x5c2b_394a),
            ("38.27.205.30", 48228, "209.142.163.6", 2217, 0xafc7_327f),
            ("153.39.163.191", 44251, "202.188.127.2", 1303, 0x10e8_28a2),
        ] {
            let input = tuple((ip(source), source_port), (ip(destination), destination_port));
            assert_eq!(toeplitz(&KEY, &input), hash);
        }
    }

    #[test]
    fn every_window_of_seven_bits_has_full_rank() {
        for seed in 0..20 {
            let mut random = SplitMix(seed);
            let address = Pattern::draw(&mut random, 26, 32);
            assert!((0..26).all(|first| address.full_rank(first)));
            let port = Pattern::draw(&mut random, 10, 16);
            assert!((0..10).all(|first| port.full_rank(first)));
        }
    }

    #[test]
    fn keys_have_bits_only_where_the_far_end_is_not() {
        let set = |key: &[u8; 40]| {
            (0..320)
                .filter(|i| key[i / 8] << (i % 8) & 0x80 != 0)
                .collect::<Vec<_>>()
        };
        let (client, server) = ShardKey::from_seed(7).rss_keys();
        assert!(
            set(&client)
                .iter()
                .all(|i| (31..=56).contains(i) || (95..=104).contains(i))
        );
        assert!(
            set(&server)
                .iter()
                .all(|i| (63..=88).contains(i) || (111..=120).contains(i))
        );
        assert_ne!(ShardKey::from_seed(7), ShardKey::from_seed(8));
    }

    #[test]
    fn clients_spread_evenly() {
        let key = ShardKey::from_seed(1);
        let spread = |endpoints: &mut dyn Iterator<Item = (u32, u16)>| {
            let mut counts = [0; SHARDS];
            endpoints.for_each(|(ip, port)| counts[key.shard(ip.into(), port).index()] += 1);
            (
                counts.iter().min().copied().unwrap(),
                counts.iter().max().copied().unwrap(),
            )
        };
        let home = 0x0a01_0000;
        assert_eq!(
            spread(&mut (0..65536).map(|ip| (home + ip, 40_000))),
            (512, 512),
            "one port, a /16"
        );
        assert_eq!(
            spread(&mut (0..=u16::MAX).map(|port| (home, port))),
            (512, 512),
            "one client"
        );
        let even = (16_384..24_576).map(|half| (home, half * 2));
        assert_eq!(spread(&mut { even }), (64, 64), "one Linux client, even ports");
        // Addresses and ports that move together must not cancel out.
        let (low, high) = spread(&mut (0..65536u32).map(|i| (home + i, 1024 + (i * 7 % 60_000) as u16)));
        assert!(low > 256 && high < 1024, "{low}..{high}");
    }

    #[test]
    fn a_map_deals_all_shards_evenly() {
        for workers in [1, 2, 3, 7, 128] {
            let map = ShardMap::even(workers);
            let sizes: Vec<u32> = (0..workers).map(|worker| map.owned_by(worker).len()).collect();
            assert_eq!(sizes.iter().sum::<u32>(), 128);
            assert_eq!(map.workers(), workers);
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
            for shard in ShardSet::ALL.iter() {
                assert!(map.owned_by(map.owner(shard)).contains(shard));
            }
        }
        assert_eq!(ShardMap::even(0), ShardMap::even(1));
    }

    /// Dealt out in turn, sixteen neighbours with one port were all of one worker of two, or of four.
    #[test]
    fn neighbouring_clients_and_a_clients_ports_are_of_all_workers() {
        for (seed, workers) in (0..20).flat_map(|seed| [2u8, 3, 4, 8].map(|workers| (seed, workers))) {
            let (key, map) = (ShardKey::from_seed(seed % 4), ShardMap::even(workers));
            let spread = |shard_of: &dyn Fn(u16) -> Shard| {
                let mut counts = vec![0; usize::from(workers)];
                (0..16).for_each(|n| counts[usize::from(map.owner(shard_of(n)))] += 1);
                counts
            };
            let start = 16 * seed as u16;
            let address = |n: u16| Ipv4Addr::from(0x0a01_0000 + u32::from(start + n));
            for counts in [
                spread(&|n| key.shard(address(n), 40_000)),
                spread(&|n| key.shard(address(0), 40_000 + n)),
            ] {
                let fair = 16 / usize::from(workers);
                assert!(
                    counts.iter().all(|count| fair.abs_diff(*count) <= 1),
                    "{counts:?}"
                );
            }
        }
    }

    #[test]
    fn a_set_goes_round() {
        let mut set = ShardSet::EMPTY;
        assert_eq!(set.next_from(Shard(5)), None);
        set.set(Shard(3), true);
        set.set(Shard(127), true);
        assert_eq!(set.next_from(Shard(3)), Some(Shard(3)));
        assert_eq!(set.next_from(Shard(4)), Some(Shard(127)));
        set.set(Shard(127), false);
        assert_eq!(set.next_from(Shard(4)), Some(Shard(3)));
    }

    proptest! {
        #[test]
        fn both_keys_see_the_endpoint_and_only_it(
            seed: u64, ours: (u32, u16), other: (u32, u16),
        ) {
            let key = ShardKey::from_seed(seed % 4);
            let (client_facing, server_facing) = key.rss_keys();
            let (endpoint, other) = ((Ipv4Addr::from(ours.0), ours.1), (Ipv4Addr::from(other.0), other.1));
            let shard = key.shard(endpoint.0, endpoint.1);
            let arriving = toeplitz(&client_facing, &tuple(endpoint, other));
            prop_assert_eq!(Shard::from_low_bits(arriving), shard);
            let returning = toeplitz(&server_facing, &tuple(other, endpoint));
            prop_assert_eq!(Shard::from_low_bits(returning), shard);
        }

        #[test]
        fn a_block_holds_one_port_of_each_shard(seed: u64, ip: u32, shard in 0u8..128, block in 0u16..512) {
            let key = ShardKey::from_seed(seed % 4);
            let port = key.port_of(ip.into(), Shard(shard), block);
            prop_assert_eq!(port >> 7, block);
            prop_assert_eq!(key.shard(ip.into(), port), Shard(shard));
        }
    }
}
