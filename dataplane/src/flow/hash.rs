//! The keyed hash of flow keys. The table and the index use it, once per packet; it never knows its own key's
//! origin: that is drawn at start and given.
//!
//! Two rounds of a 64 by 64 bit multiplication whose halves are folded together. It is not linear, unlike
//! CRC32c, under which keys that collide for one seed collide for every seed: whoever can choose addresses and
//! ports could fill a bucket of any gateway. It is not cryptographic either; it has to resist someone who
//! sees neither the key nor the hashes.

use crate::packet::FlowKey;
use crate::packet::digest::{fold, mix};

/// A hash function out of a family, chosen by 128 bits of key.
#[derive(Clone, Copy, Debug)]
pub struct FlowHasher {
    keys: [u64; 4],
}

impl FlowHasher {
    /// The function for this key, which should be random and secret: whoever knows it can make keys collide.
    #[must_use]
    pub fn new(k0: u64, k1: u64) -> FlowHasher {
        let (a, b) = (mix(k0), mix(k1 ^ 0x5851_f42d_4c95_7f2d));
        // A multiplier must not become zero whatever the packet: the word that holds ports and protocol has 40
        // bits, so the top bit of its key is the top bit of the multiplier.
        FlowHasher {
            keys: [a, b | 1 << 63, mix(a ^ k1), mix(b ^ k0) | 1 << 63],
        }
    }

    /// The hash of a flow. All 64 bits are usable; its value depends on the machine's byte order, so it is
    /// never stored or sent.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: &FlowKey, protocol: u8) -> u64 {
        let [source, destination, ports] = key.words();
        self.hash_words(
            u64::from(source) | u64::from(destination) << 32,
            u64::from(ports) | u64::from(protocol) << 32,
        )
    }

    /// The hash of any two words, for maps of other things than flows; the top bit of `b` must be clear.
    #[inline]
    #[must_use]
    pub fn hash_words(&self, a: u64, b: u64) -> u64 {
        let [k0, k1, k2, k3] = self.keys;
        fold(fold(a ^ k0, b ^ k1) ^ k2, b ^ k3)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::flow::TagIndex;

    const KEYS: usize = 100_000;

    fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!seed, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| {
                (crc >> 1) ^ ((crc & 1) * 0x82f6_3b78)
            })
        })
    }

    /// The key whose source address, source port and destination port are these 64 bits.
    fn key(bits: u64) -> FlowKey {
        let source = Ipv4Addr::from(bits as u32);
        FlowKey::new(
            source,
            (bits >> 32) as u16,
            Ipv4Addr::new(203, 0, 113, 100),
            (bits >> 48) as u16,
        )
    }

    /// Differences between keys that CRC32c does not see: the kernel of a linear map from 64 bits to 32.
    fn invisible_differences() -> Vec<u64> {
        let crc = |bits| crc32c(0, bytemuck::bytes_of(&key(bits)));
        let mut reduced: Vec<(u32, u64)> = Vec::new();
        let mut kernel = Vec::new();
        for bit in 0..64 {
            let (mut image, mut bits) = (crc(1 << bit) ^ crc(0), 1u64 << bit);
            for &(other, combination) in &reduced {
                if image & (1 << other.ilog2()) != 0 {
                    image ^= other;
                    bits ^= combination;
                }
            }
            match image {
                0 => kernel.push(bits),
                _ => reduced.push((image, bits)),
            }
        }
        kernel
    }

    fn colliding_keys() -> Vec<FlowKey> {
        let kernel = invisible_differences();
        let combine = |n: usize| {
            (0..17)
                .filter(|i| n >> i & 1 == 1)
                .fold(0, |bits, i| bits ^ kernel[i])
        };
        (0..KEYS).map(|n| key(combine(n))).collect()
    }

    fn random_keys() -> Vec<FlowKey> {
        (0..KEYS as u64).map(|n| key(mix(n))).collect()
    }

    /// How far the counts are from even, in standard deviations of what chance does.
    fn unevenness(cells: usize, picks: impl Iterator<Item = usize>) -> f64 {
        let mut counts = vec![0u32; cells];
        picks.for_each(|cell| counts[cell] += 1);
        let expected = KEYS as f64 / cells as f64;
        let chi_square: f64 = counts
            .iter()
            .map(|&n| (f64::from(n) - expected).powi(2) / expected)
            .sum();
        let freedom = cells as f64 - 1.0;
        (chi_square - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn keys_that_collide_under_crc32c_do_so_for_every_seed() {
        let keys = colliding_keys();
        assert_eq!(keys.iter().collect::<std::collections::HashSet<_>>().len(), KEYS);
        for seed in [0, 1, 0xdead_beef] {
            let first = crc32c(seed, bytemuck::bytes_of(&keys[0]));
            assert!(
                keys.iter()
                    .all(|key| crc32c(seed, bytemuck::bytes_of(key)) == first)
            );
        }
        // RFC 3720, appendix B.4: 32 bytes of zeroes.
        assert_eq!(crc32c(0, &[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn keys_that_collide_under_crc32c_spread_like_random_ones() {
        let sequential: Vec<_> = (0..KEYS as u64)
            .map(|n| key((n % 250) | ((n / 250) << 32)))
            .collect();
        for (what, keys) in [
            ("random", random_keys()),
            ("colliding", colliding_keys()),
            ("sequential", sequential),
        ] {
            for seed in [0, 1, 0x0123_4567_89ab_cdef] {
                let hasher = FlowHasher::new(seed, seed.rotate_left(9));
                let hashes: Vec<_> = keys.iter().map(|key| hasher.hash(key, 6)).collect();
                let scaled = |cells: u64| move |&h: &u64| (((h >> 32) * cells) >> 32) as usize;
                for (part, off) in [
                    ("buckets", unevenness(20_833, hashes.iter().map(scaled(20_833)))),
                    (
                        "tags",
                        unevenness(1 << 16, hashes.iter().map(|h| *h as u16 as usize)),
                    ),
                    (
                        "bits 7 to 13",
                        unevenness(128, hashes.iter().map(|h| (h >> 7) as usize % 128)),
                    ),
                ] {
                    assert!(off.abs() < 5.0, "{what}, seed {seed}, {part}: {off}");
                }
                let mut index = TagIndex::new(KEYS, false).unwrap();
                for (id, &hash) in hashes.iter().enumerate() {
                    assert!(index.insert(hash, id as u32).is_ok());
                }
                let (displaced, stashed) = index.displaced();
                assert!(
                    displaced < KEYS * 8 / 100 && stashed == 0,
                    "{what}, seed {seed}: {displaced}, {stashed}"
                );
            }
        }
    }

    #[test]
    fn every_input_bit_moves_every_output_bit_half_the_time() {
        let hasher = FlowHasher::new(7, 8);
        let samples = 2_000;
        for bit in 0..72 {
            let mut flips = [0u32; 64];
            for n in 0..samples {
                let bits = mix(n);
                let changed = match bit {
                    0..64 => hasher.hash(&key(bits ^ 1 << bit), 6),
                    _ => hasher.hash(&key(bits), 6 ^ 1 << (bit - 64)),
                };
                let difference = hasher.hash(&key(bits), 6) ^ changed;
                (0..64).for_each(|out| flips[out] += (difference >> out & 1) as u32);
            }
            // Seven standard deviations of 2,000 throws of a coin are 157.
            assert!(
                flips.iter().all(|&n| (843..=1_157).contains(&n)),
                "bit {bit}: {flips:?}"
            );
        }
    }

    #[test]
    fn the_key_of_the_hash_and_the_protocol_matter() {
        let key = key(42);
        let hash = |k0, k1, protocol| FlowHasher::new(k0, k1).hash(&key, protocol);
        let hashes = [hash(0, 0, 6), hash(0, 1, 6), hash(1, 0, 6), hash(0, 0, 17)];
        assert!((0..4).all(|i| (0..i).all(|j| hashes[i] != hashes[j])));
    }
}
