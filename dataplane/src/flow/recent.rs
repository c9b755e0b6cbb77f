//! Which hashes have been entered lately, as far as one line of bits can tell: a burst that opens connections asks for
//! each of its other packets whether one of those is meant, and hardly ever one is.

/// Bits, a power of two: a burst's connections with both their keys set an eighth of them.
const BITS: u64 = 512;

/// A set of hashes that may say yes for one that is not in it, and never no for one that is.
#[derive(Clone, Default)]
#[repr(align(64))]
pub(super) struct Recent([u64; BITS as usize / 64]);

impl Recent {
    #[inline]
    pub(super) fn clear(&mut self) {
        *self = Recent::default();
    }

    #[inline]
    pub(super) fn add(&mut self, hash: u64) {
        let (word, bit) = place(hash);
        self.0[word] |= bit;
    }

    #[inline]
    pub(super) fn may_have(&self, hash: u64) -> bool {
        let (word, bit) = place(hash);
        self.0[word] & bit != 0
    }
}

/// By bits of the hash that choose neither an index' bucket nor a tag in it.
#[inline]
fn place(hash: u64) -> (usize, u64) {
    let bit = hash >> 16 & (BITS - 1);
    (bit as usize / 64, 1 << (bit % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_there_and_hardly_anything_else() {
        let hash = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut recent = Recent::default();
        for n in 0..64 {
            recent.add(hash(n));
            assert!((0..=n).all(|n| recent.may_have(hash(n))));
        }
        let others = (1000..2000).filter(|n| recent.may_have(hash(*n))).count();
        assert!((1..200).contains(&others), "{others}");
        recent.clear();
        assert!((0..2000).all(|n| !recent.may_have(hash(n))));
    }
}
