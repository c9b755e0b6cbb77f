//! Power of two choices: two servers are drawn by weight, and the one with less to do for its weight is picked.
//! (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 1996.)

use super::ranked::Rank;
use super::ranking::Key;
use super::{Arrival, Loads, Scheduler, SchedulerKind};
use crate::service::{Server, Service};

/// Draws that may meet a server which is not usable, before all servers are looked at.
const TRIES: usize = 16;

/// The algorithm, which has no state: random numbers come with the packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Twos;

/// By position: the sum of the weights up to there.
pub(super) fn sums(kind: SchedulerKind, servers: &[Server]) -> Box<[u64]> {
    if kind != SchedulerKind::Twos {
        return Box::default();
    }
    let weights = servers.iter().map(|server| u64::from(server.weight));
    weights
        .scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect()
}

impl Scheduler for Twos {
    fn pick(&mut self, service: &Service, loads: &impl Loads, arrival: &Arrival) -> Option<usize> {
        let mut random = arrival.random;
        let (first, second) = (
            draw(service, loads, &mut random)?,
            draw(service, loads, &mut random)?,
        );
        let key = |position: usize| -> Key {
            let server = &service.servers[position];
            Rank::Wlc.key(server.weight, loads.load(server), false)
        };
        Some(if key(second) < key(first) { second } else { first })
    }
}

/// The position of a usable server, by weight. A draw of one that is not usable is drawn again, which leaves the
/// others their shares.
fn draw(service: &Service, loads: &impl Loads, random: &mut u64) -> Option<usize> {
    let sums = service.tables.sums();
    let total = *sums.last()?;
    for _ in 0..TRIES {
        *random = mixed(*random);
        let ticket = below(total, *random);
        let position = sums.partition_point(|sum| *sum <= ticket);
        let drawn = service.servers.get(position);
        if drawn.is_some_and(|server| loads.usable(server)) {
            return Some(position);
        }
    }
    draw_of_usable(service, loads, *random)
}

/// As [`draw`], when few are usable: by looking at all servers.
fn draw_of_usable(service: &Service, loads: &impl Loads, random: u64) -> Option<usize> {
    let usable = || {
        let servers = service.servers.iter().enumerate();
        servers.filter(|(_, server)| loads.usable(server))
    };
    let total = usable().map(|(_, server)| u64::from(server.weight)).sum();
    let ticket = below(total, mixed(random));
    let mut passed = 0;
    let mut found = usable().skip_while(|(_, server)| {
        passed += u64::from(server.weight);
        passed <= ticket
    });
    found.next().map(|(position, _)| position)
}

/// A number below `total`, or 0 when that is 0, evenly from 64 random bits.
fn below(total: u64, random: u64) -> u64 {
    ((u128::from(total) * u128::from(random)) >> 64) as u64
}

/// Other bits than `random`, that look independent of it (the finaliser of SplitMix64).
pub(super) fn mixed(random: u64) -> u64 {
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

    /// One of 100 servers is left: no draw need find it.
    #[test]
    fn the_last_usable_server_is_always_found() {
        let mut rig = Rig::new(Twos, (0..100).map(|slot| server(slot, 1)).collect());
        for slot in (0..100).filter(|slot| ![7, 70].contains(slot)) {
            rig.overload(slot, true);
        }
        let halves = shares(&mut rig, 2000, false);
        assert!(
            halves[&7].abs_diff(1000) < 150 && halves[&7] + halves[&70] == 2000,
            "{halves:?}"
        );
        rig.overload(70, true);
        assert_eq!(shares(&mut rig, 200, false)[&7], 200);
    }

    #[test]
    fn nobody_usable_is_nobody_picked() {
        let mut rig = Rig::new(Twos, vec![server(2, 0), server(1, i32::MAX as u32)]);
        assert_eq!(rig.pick(), Some(1));
        rig.overload(1, true);
        assert_eq!(rig.pick(), None);
    }
}
