//! The IPv4 addresses of the table: two-choice buckets at half load. A lookup compares the eight addresses of two
//! buckets without a branch, whether it hits or misses: it runs for every packet.

use super::Facts;
use std::net::Ipv4Addr;

/// The multiplier that is tried first: any odd number whose bits are well mixed will do.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Four addresses in half a cache line. Addresses and facts stand apart, so that a compare is one vector
/// instruction of any x86-64 or ARM. A slot whose facts are 0 is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(align(32))]
struct Bucket {
    addresses: [u32; 4],
    facts: [u32; 4],
}

/// Addresses with their facts. Equal buckets come of equal addresses in the same order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Buckets {
    buckets: Box<[Bucket]>,
    mask: usize,
    multiplier: u64,
}

/// No address at all.
impl Default for Buckets {
    fn default() -> Buckets {
        Buckets {
            buckets: Box::new([Bucket::default()]),
            mask: 0,
            multiplier: MULTIPLIER,
        }
    }
}

impl Buckets {
    /// Places every entry in the emptier of its two buckets; tries other multipliers, then more buckets. `None`
    /// when there are too many for the two 16-bit hashes.
    pub(super) fn place(entries: &[(Ipv4Addr, Facts)]) -> Option<Buckets> {
        let mut count = entries.len().div_ceil(2).next_power_of_two();
        while count <= 1 << 16 {
            let mut multiplier = MULTIPLIER;
            for _ in 0..8 {
                if let Some(buckets) = try_place(entries, count, multiplier) {
                    return Some(Buckets {
                        mask: buckets.len() - 1,
                        buckets: buckets.into_boxed_slice(),
                        multiplier,
                    });
                }
                // Walks through others of the kind.
                multiplier = multiplier.wrapping_mul(0xd134_2543_de82_ef95) | 1;
            }
            count *= 2;
        }
        None
    }

    /// The facts of an address, 0 when it is not here.
    #[inline(always)]
    pub(super) fn lookup(&self, address: Ipv4Addr) -> Facts {
        let bits = address.to_bits();
        let (first, second) = places(bits, self.multiplier, self.mask);
        // Not short-circuited, and both may be the same bucket.
        self.buckets[first].facts_of(bits) | self.buckets[second].facts_of(bits)
    }
}

impl Bucket {
    fn taken(&self) -> usize {
        self.facts.iter().filter(|f| **f != 0).count()
    }

    /// The facts of an address, 0 when it is not here. A free slot may match 0.0.0.0: its facts are 0.
    #[inline]
    fn facts_of(&self, bits: u32) -> Facts {
        let kept = |i: usize| {
            if self.addresses[i] == bits {
                self.facts[i]
            } else {
                0
            }
        };
        (kept(0) | kept(2)) | (kept(1) | kept(3))
    }
}

/// The two buckets of an address. Bits from 32 up of the product depend on every bit of the address.
#[inline]
fn places(bits: u32, multiplier: u64, mask: usize) -> (usize, usize) {
    let product = u64::from(bits).wrapping_mul(multiplier);
    (
        (product >> 48) as usize & mask,
        (product >> 32) as usize & 0xffff & mask,
    )
}

fn try_place(entries: &[(Ipv4Addr, Facts)], count: usize, multiplier: u64) -> Option<Vec<Bucket>> {
    let mut buckets = vec![Bucket::default(); count];
    for &(address, facts) in entries {
        let bits = address.to_bits();
        let (first, second) = places(bits, multiplier, count - 1);
        let emptier = if buckets[second].taken() < buckets[first].taken() {
            second
        } else {
            first
        };
        let bucket = &mut buckets[emptier];
        let slot = bucket.facts.iter().position(|f| *f == 0)?;
        (bucket.addresses[slot], bucket.facts[slot]) = (bits, facts);
    }
    Some(buckets)
}
