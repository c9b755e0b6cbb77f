//! Several next hops for one prefix (ECMP): which of them a flow takes.
//!
//! Rendezvous hashing: each next hop draws a number for the flow, and the best one wins. A hop that is left therefore
//! gives up its own flows only, which spread over the others as their weights say; no other flow moves, and when
//! it is back, exactly these come back to it. The same holds when a hop is added to the route or taken out.

use super::NextHop;
use crate::packet::PortId;
use crate::packet::digest::{fold, mix};
use std::net::IpAddr;

/// One of several next hops.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct WeightedHop {
    /// Port and address.
    pub hop: NextHop,
    /// Its share of the flows, against the weights of the others; 0 counts as 1.
    pub weight: u16,
}

/// The ways to a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hops<'r> {
    /// The only one.
    One(NextHop),
    /// Two or more.
    Several(Several<'r>),
}

impl Hops<'_> {
    /// The only one, or the first of several.
    #[must_use]
    pub fn first(self) -> Option<NextHop> {
        match self {
            Hops::One(hop) => Some(hop),
            Hops::Several(Several(hops)) => hops.first().map(|first| first.hop),
        }
    }
}

/// Two or more next hops, in a fixed order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Several<'r>(pub(super) &'r [WeightedHop]);

impl Several<'_> {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = WeightedHop> + '_ {
        self.0.iter().copied()
    }

    /// The one that the flow with this hash takes: of those that are `usable`, or of all when none is. None only of an
    /// empty list. The hash should be keyed: who can choose it decides on the way.
    #[must_use]
    pub fn choose(self, flow: u64, mut usable: impl FnMut(NextHop) -> bool) -> Option<NextHop> {
        let mut best: Option<(bool, f64, NextHop)> = None;
        for &WeightedHop { hop, weight } in self.0 {
            let drawn = (usable(hop), draw(flow, hop, weight), hop);
            if best.is_none_or(|best| (best.0, best.1) < (drawn.0, drawn.1)) {
                best = Some(drawn);
            }
        }
        best.map(|(_, _, hop)| hop)
    }
}

/// A number below 0 that the hop draws for the flow: that of each of several is the highest in proportion to its weight
/// (the logarithm of an even number, over the weight, is distributed exponentially).
fn draw(flow: u64, hop: NextHop, weight: u16) -> f64 {
    let NextHop { port, address } = hop;
    let random = fold(
        mix(flow ^ name(port, address)) | 1,
        0x9e37_79b9_7f4a_7c15 | 1 << 63,
    );
    // 53 bits, and never 0.
    let even = ((mix(random) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    even.ln() / f64::from(weight.max(1))
}

/// A number that stands for the hop, whatever its place among others.
fn name(port: PortId, address: IpAddr) -> u64 {
    let bits = match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    };
    mix(mix(bits as u64 ^ u64::from(port.0) << 56) ^ (bits >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::net::Ipv4Addr;

    const FLOWS: u64 = 10_000;

    fn hop(host: u8, weight: u16) -> WeightedHop {
        let address = Ipv4Addr::new(192, 0, 2, host).into();
        let port = PortId(host % 2);
        WeightedHop {
            hop: NextHop { port, address },
            weight,
        }
    }

    /// The way of each flow, less the hops in `dead`.
    fn ways(hops: &[WeightedHop], dead: &[WeightedHop]) -> Vec<NextHop> {
        let usable = |hop: NextHop| dead.iter().all(|dead| dead.hop != hop);
        let way = |flow| Several(hops).choose(mix(flow), usable).unwrap();
        (0..FLOWS).map(way).collect()
    }

    fn counts(ways: &[NextHop]) -> HashMap<NextHop, u64> {
        let mut counts = HashMap::new();
        ways.iter().for_each(|way| *counts.entry(*way).or_default() += 1);
        counts
    }

    /// Every hop has its share, to within 5 standard deviations of what chance does.
    fn shares_are_fair(hops: &[WeightedHop], ways: &[NextHop]) {
        let total: f64 = hops.iter().map(|hop| f64::from(hop.weight)).sum();
        let counts = counts(ways);
        for hop in hops {
            let share = f64::from(hop.weight) / total;
            let (expected, count) = (share * ways.len() as f64, counts[&hop.hop] as f64);
            let deviation = (ways.len() as f64 * share * (1.0 - share)).sqrt();
            assert!(
                (count - expected).abs() <= 5.0 * deviation,
                "{hop:?}: {count} of {expected}"
            );
        }
    }

    #[test]
    fn flows_spread_by_weight_over_two_to_four_hops() {
        for count in 2..=4 {
            let hops: Vec<_> = (1..=count).map(|host| hop(host, 1)).collect();
            shares_are_fair(&hops, &ways(&hops, &[]));
            let hops: Vec<_> = (1..=count).map(|host| hop(host, u16::from(host))).collect();
            shares_are_fair(&hops, &ways(&hops, &[]));
        }
        // The largest weight that the kernel knows.
        let hops = [hop(1, 256), hop(2, 1)];
        shares_are_fair(&hops, &ways(&hops, &[]));
    }

    #[test]
    fn only_the_flows_of_a_dead_hop_move_and_they_spread_over_the_others() {
        for count in 2..=4 {
            let hops: Vec<_> = (1..=count).map(|host| hop(host, u16::from(host))).collect();
            let before = ways(&hops, &[]);
            for dead in &hops {
                let during = ways(&hops, &[*dead]);
                let rest: Vec<_> = hops.iter().filter(|hop| *hop != dead).copied().collect();
                let pairs = || before.iter().zip(&during);
                assert!(pairs().all(|(before, during)| before == during || *before == dead.hop));
                let moved: Vec<_> = pairs()
                    .filter(|(before, _)| **before == dead.hop)
                    .map(|(_, during)| *during)
                    .collect();
                assert!(!moved.is_empty() && !moved.contains(&dead.hop));
                shares_are_fair(&rest, &moved);
                // One that is out of the route is as one that is dead, and the order does not matter.
                assert_eq!(ways(&rest, &[]), during);
            }
            let mut turned = hops.clone();
            turned.reverse();
            assert_eq!(ways(&turned, &[]), before);
        }
    }

    #[test]
    fn when_all_are_dead_flows_stay_where_they_were() {
        let hops = [hop(1, 1), hop(2, 3)];
        assert_eq!(ways(&hops, &hops), ways(&hops, &[]));
        assert_eq!(Several(&[]).choose(1, |_| true), None);
    }
}
