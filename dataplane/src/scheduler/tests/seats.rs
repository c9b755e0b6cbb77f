//! Turns of several workers: each takes them from another server on, and each is as fair by itself as a lone one.

use super::*;
use std::collections::{HashMap, HashSet};

/// The state of each of so many workers.
fn team(service: &Service, workers: u8) -> Vec<SchedulerState> {
    let seats = (0..workers).map(|worker| Seat { worker, workers });
    seats
        .map(|seat| SchedulerState::adopt(None, service, seat))
        .collect()
}

fn first_picks(states: &mut [SchedulerState], service: &Service) -> Vec<u32> {
    let none = Overloaded(vec![]);
    states
        .iter_mut()
        .map(|state| picks(state, service, &none, 1)[0])
        .collect()
}

#[test]
fn workers_begin_at_servers_that_are_spread_over_the_list() {
    for kind in [SchedulerKind::Rr, SchedulerKind::Wrr] {
        for (servers, workers, expected) in [
            (8, 4, vec![0, 2, 4, 6]),
            (7, 3, vec![0, 2, 4]),
            (3, 4, vec![0, 0, 1, 2]),
            (5, 1, vec![0]),
        ] {
            let service = service(kind, (0..servers).map(|slot| server(slot, 2)).collect());
            let mut states = team(&service, workers);
            assert_eq!(first_picks(&mut states, &service), expected, "{}", kind.name());
        }
    }
}

/// As by `ipvsadm -A` and then `-a`: what counts is the list at the first pick.
#[test]
fn workers_are_spread_over_a_list_that_has_grown_from_nothing() {
    for kind in [SchedulerKind::Rr, SchedulerKind::Wrr] {
        let mut before = service(kind, vec![]);
        let mut states = team(&before, 4);
        for slot in 0..8 {
            let mut servers = before.servers.clone();
            servers.insert(0, server(slot, 1));
            let after = service(kind, servers);
            for state in &mut states {
                state.servers_changed(&before.servers, &after.servers);
            }
            before = after;
        }
        assert_eq!(first_picks(&mut states, &before), [7, 5, 3, 1], "{}", kind.name());
    }
}

proptest! {
    /// Wherever a worker begins, each cycle gives every server as many connections as it has weight.
    #[test]
    fn a_cycle_is_fair_wherever_it_begins(
        weights in proptest::collection::vec(0u32..7, 1..12), workers in 1u8..9, weighted: bool,
    ) {
        prop_assume!(weights.iter().any(|weight| *weight > 0));
        let kind = if weighted { SchedulerKind::Wrr } else { SchedulerKind::Rr };
        let servers = weights.iter().zip(0..).map(|(weight, slot)| server(slot, *weight)).collect();
        let service = service(kind, servers);
        let share = |weight: u32| if weighted { weight } else { weight.min(1) };
        let cycle: u32 = weights.iter().map(|weight| share(*weight)).sum();
        let mut begun = HashSet::new();
        for state in &mut team(&service, workers) {
            let seen = picks(state, &service, &Overloaded(vec![]), cycle as usize);
            begun.insert(seen[0]);
            let mut counts = HashMap::new();
            for slot in seen {
                *counts.entry(slot).or_insert(0) += 1;
            }
            for (weight, slot) in weights.iter().zip(0u32..) {
                prop_assert_eq!(counts.get(&slot).copied().unwrap_or(0), share(*weight));
            }
        }
        // A pass over servers of weight 0 ends at the same server from several places.
        if !weighted && weights.iter().all(|weight| *weight > 0) {
            prop_assert_eq!(begun.len(), weights.len().min(workers.into()));
        }
    }
}
