//! The algorithms that take the first server by a rank: `lc wlc sed nq fo ovf`. Each says in its own file what a
//! server's rank is; who is first is known at any time, see [`super::ranking`].

use super::ranking::{Key, NEVER, Ranking};
use super::{Load, Loads, fo, lc, nq, ovf, sed, wlc};
use crate::service::Service;

/// What servers are ranked by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rank {
    Lc,
    Wlc,
    Sed,
    Nq,
    Fo,
    Ovf,
}

impl Rank {
    /// The key of a server of this weight.
    #[inline]
    pub(super) fn key(self, weight: u32, load: Load, overloaded: bool) -> Key {
        if weight == 0 || overloaded {
            return NEVER;
        }
        match self {
            Rank::Lc => lc::key(load),
            Rank::Wlc => wlc::key(weight, load),
            Rank::Sed => sed::key(weight, load),
            Rank::Nq => nq::key(weight, load),
            Rank::Fo => fo::key(weight),
            Rank::Ovf => ovf::key(weight, load),
        }
    }

    /// The first server by rank: as the tournament says or, without one, by looking at all servers.
    pub(super) fn first(
        self,
        ranking: Option<&Ranking>,
        service: &Service,
        loads: &impl Loads,
    ) -> Option<usize> {
        if let Some(ranking) = ranking {
            return ranking.first();
        }
        let key = |at: usize| {
            let server = &service.servers[at];
            self.key(server.weight, loads.load(server), loads.overloaded(server))
        };
        let keys = (0..service.servers.len()).map(|at| (key(at), at));
        keys.filter(|(key, _)| *key != NEVER).min().map(|(_, at)| at)
    }
}

/// `value / weight` as a key that compares as the fractions themselves do: equal when they are equal, and less when
/// less. Two different fractions whose denominators are below 2^31 are at least 2^-62 apart, so that 64 bits behind
/// the point tell them apart. `value` is below 2^63, `weight` is not 0.
#[inline]
pub(super) fn fraction(value: u64, weight: u32) -> Key {
    // Steps of 32 bits: a rest is below 2^31, so that nothing overflows and no 128-bit division is needed.
    let weight = u64::from(weight);
    let (whole, rest) = if value >> 32 == 0 {
        (0, value)
    } else {
        (value / weight, value % weight)
    };
    let (high, rest) = ((rest << 32) / weight, (rest << 32) % weight);
    let low = if rest == 0 { 0 } else { (rest << 32) / weight };
    (Key::from(whole) << 64) + (Key::from(high) << 32) + Key::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_fraction_is_rounded_down_after_64_bits() {
        assert_eq!(fraction(7, 1), 7 << 64);
        assert_eq!(fraction(1, 2), 1 << 63);
        assert_eq!(fraction(4, 3), (1 << 64) + 0x5555_5555_5555_5555);
        assert_eq!(fraction(1, i32::MAX as u32), (1 << 64) / 0x7fff_ffff);
    }

    proptest! {
        #[test]
        fn fractions_compare_by_cross_multiplication(
            a in 0u64..1 << 41, b in 1u32..1 << 31, c in 0u64..1 << 41, d in 1u32..1 << 31, near: bool,
        ) {
            // Half of the cases are neighbours or equal.
            let (c, d) = if near { (a + c % 2, b - (d % 2).min(b - 1)) } else { (c, d) };
            let exact = (u128::from(a) * u128::from(d)).cmp(&(u128::from(c) * u128::from(b)));
            prop_assert_eq!(fraction(a, b).cmp(&fraction(c, d)), exact);
        }
    }
}
