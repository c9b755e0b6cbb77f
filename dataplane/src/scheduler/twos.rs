//! Power of two choices: two servers are drawn by weight, and the one with less to do for its weight is picked.
//! (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 1996.)

use super::ranked::Rank;
use super::{Arrival, Loads, Scheduler};
use crate::service::Service;

/// The algorithm, which has no state: random numbers come with the packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Twos;

impl Scheduler for Twos {
    fn pick(&mut self, service: &Service, loads: &impl Loads, arrival: &Arrival) -> Option<usize> {
        let usable = || {
            let servers = service.servers.iter().enumerate();
            servers.filter(|(_, server)| loads.usable(server))
        };
        let total: u64 = usable().map(|(_, server)| u64::from(server.weight)).sum();
        let first = below(total, arrival.random);
        let second = below(total, mixed(arrival.random));
        let (mut passed, mut drawn) = (0, [None, None]);
        for (position, server) in usable() {
            passed += u64::from(server.weight);
            for (choice, ticket) in drawn.iter_mut().zip([first, second]) {
                if choice.is_none() && ticket < passed {
                    let key = Rank::Wlc.key(server.weight, loads.load(server), false);
                    *choice = Some((key, position));
                }
            }
            if drawn.iter().all(Option::is_some) {
                break;
            }
        }
        let [first, second] = drawn;
        match (first, second) {
            (Some(first), Some(second)) if second.0 < first.0 => Some(second.1),
            _ => first.map(|(_, position)| position),
        }
    }
}

/// A number below `total`, or 0 when that is 0, evenly from 64 random bits.
fn below(total: u64, random: u64) -> u64 {
    ((u128::from(total) * u128::from(random)) >> 64) as u64
}

/// Other bits than `random`, that look independent of it (the finaliser of SplitMix64).
fn mixed(random: u64) -> u64 {
    let mixed = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::super::Arrival;
    use super::super::SchedulerKind::Twos;
    use super::super::testing::*;
    use super::mixed;
    use std::collections::HashMap;

    /// So many picks with random numbers in a row, counts by slot.
    fn shares(rig: &mut Rig, picks: u64, opening: bool) -> HashMap<u32, u64> {
        let mut shares = HashMap::new();
        for n in 0..picks {
            let arrival = Arrival {
                random: mixed(mixed(n) ^ 0x5555),
                ..Arrival::default()
            };
            let picked = if opening {
                rig.open_for(&arrival)
            } else {
                rig.pick_for(&arrival)
            };
            *shares.entry(picked.unwrap()).or_default() += 1;
        }
        shares
    }

    #[test]
    fn idle_servers_are_drawn_by_weight() {
        let mut rig = Rig::new(Twos, vec![server(4, 1), server(3, 0), server(2, 2), server(1, 5)]);
        let shares = shares(&mut rig, 80_000, false);
        for (slot, expected) in [(4, 10_000), (2, 20_000), (1, 50_000)] {
            assert!(shares[&slot].abs_diff(expected) < 600, "{shares:?}");
        }
        assert_eq!(shares.get(&3), None);
    }

    /// Of 10 servers one is busy: it is picked only when both draws meet it.
    #[test]
    fn the_less_loaded_of_two_is_picked() {
        let mut rig = Rig::new(Twos, (0..10).map(|slot| server(slot, 1)).collect());
        rig.set_load(5, 7, 0);
        let shares = shares(&mut rig, 100_000, false);
        assert!(shares[&5].abs_diff(1000) < 150, "{shares:?}");
        assert!(
            (0..10)
                .filter(|slot| *slot != 5)
                .all(|slot| shares[&slot].abs_diff(11_000) < 500)
        );
    }

    /// The power of two choices: the fullest of 100 servers stays near the mean.
    #[test]
    fn loads_stay_together() {
        let mut rig = Rig::new(Twos, (0..100).map(|slot| server(slot, 1)).collect());
        let shares = shares(&mut rig, 10_000, true);
        assert!(
            shares.values().all(|share| share.abs_diff(100) <= 5),
            "{shares:?}"
        );
    }

    #[test]
    fn nobody_usable_is_nobody_picked() {
        let mut rig = Rig::new(Twos, vec![server(2, 0), server(1, i32::MAX as u32)]);
        assert_eq!(rig.pick(), Some(1));
        rig.overload(1, true);
        assert_eq!(rig.pick(), None);
    }
}
