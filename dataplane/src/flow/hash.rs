//! The keyed hash of flow keys. The table and the index use it, once per packet; it never knows its own key's
//! origin: that is drawn at start and given.
//!
//! Two rounds of a 64 by 64 bit multiplication whose halves are folded together. It is not linear, unlike
//! CRC32c, under which keys that collide for one seed collide for every seed: whoever can choose addresses and
//! ports could fill a bucket of any gateway. It is not cryptographic either; it has to resist someone who
//! sees neither the key nor the hashes.

use crate::packet::FlowKey;

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

/// Both halves of the product, added without carry.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Spreads a key of poor quality (such as 0 or 1 in a test) over 64 bits; a permutation.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
