//! The digest of an IPv6 packet's addresses: what stands for them in a [`FlowKey`](super::FlowKey), so that one
//! index, one lookup and one record serve both families. It is keyed, so that nobody outside can make two pairs of
//! addresses meet; whoever acts on a hit compares the addresses themselves all the same.

/// A keyed function from a pair of IPv6 addresses to 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AddressDigest {
    keys: [u64; 5],
}

impl AddressDigest {
    /// The function for this seed, which should be random and secret.
    #[must_use]
    pub const fn from_seed(seed: u64) -> AddressDigest {
        let mut state = seed ^ 0x6970_7636_6469_6765;
        let mut keys = [0; 5];
        let mut at = 0;
        while at < keys.len() {
            keys[at] = mix(state);
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            at += 1;
        }
        AddressDigest { keys }
    }

    /// The digest of source and destination address as they stand in an IPv6 header (its bytes 8 to 39). Its
    /// value depends on the machine's byte order, so it is never stored or sent.
    #[inline]
    #[must_use]
    pub fn of(&self, addresses: &[u8; 32]) -> u64 {
        let [k0, k1, k2, k3, k4] = self.keys;
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&addresses[at..at + 8]);
            u64::from_ne_bytes(bytes)
        };
        // Each half is folded by itself, with the other's result in between: exchanging them changes the digest.
        let source = fold(word(0) ^ k0, word(8) ^ k1);
        let destination = fold(word(16) ^ k2, word(24) ^ k3);
        fold(source ^ k4, destination.rotate_left(29) ^ k0)
    }
}

/// Spreads a key of poor quality (such as 0 or 1 in a test) over 64 bits; a permutation.
pub(crate) const fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Both halves of the product, added without carry.
#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn digests_differ_by_address_direction_and_key() {
        let (one, other) = (AddressDigest::from_seed(1), AddressDigest::from_seed(2));
        let mut seen = HashSet::new();
        for host in 0..50_000u32 {
            let mut addresses = [0; 32];
            addresses[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
            addresses[12..16].copy_from_slice(&host.to_be_bytes());
            addresses[16] = 0xfd;
            addresses[31] = 1;
            assert!(seen.insert(one.of(&addresses)));
            assert!(seen.insert(other.of(&addresses)));
            addresses.rotate_left(16);
            assert!(seen.insert(one.of(&addresses)));
        }
    }
}
