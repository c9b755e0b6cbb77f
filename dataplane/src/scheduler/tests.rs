//! Every algorithm against a simple model that looks at all servers, over random servers, edits and loads.

mod lvs;
mod rising;
mod seats;

use super::testing::*;
use super::*;
use proptest::prelude::*;
use std::net::IpAddr;

/// What happens to a service.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The server of that slot is added at the head, or removed when it is there.
    Toggle(u32),
    Weigh(u32, u32),
    Load(u32, u32, u32),
    Overload(u32, bool),
    Open(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let slot = || 0u32..24;
    let weight = prop_oneof![0u32..6, Just(i32::MAX as u32), 1000u32..2000];
    let number = || prop_oneof![4 => 0u32..6, 1 => Just(u32::MAX)];
    let step = prop_oneof![
        1 => slot().prop_map(Step::Toggle),
        1 => (slot(), weight).prop_map(|(slot, weight)| Step::Weigh(slot, weight)),
        3 => (slot(), number(), number()).prop_map(|(slot, active, inactive)| Step::Load(slot, active, inactive)),
        1 => (slot(), any::<bool>()).prop_map(|(slot, overloaded)| Step::Overload(slot, overloaded)),
        3 => any::<u8>().prop_map(Step::Open),
    ];
    proptest::collection::vec(step, 1..120)
}

fn arrival(number: u8) -> Arrival {
    Arrival {
        source: IpAddr::V4((0x0a00_0000 + u32::from(number) * 65_537).into()),
        source_port: 1024 + u16::from(number),
        destination: IpAddr::V4((0x0a09_0000 + u32::from(number % 8)).into()),
        random: u64::from(number) << 56 | u64::from(number),
        ..Arrival::default()
    }
}

/// Whether the first load and weight are strictly better than the second, in whole numbers.
fn is_better(kind: SchedulerKind, (load, weight): (Load, u32), (other, than): (Load, u32)) -> bool {
    let times = |value: u64, weight: u32| u128::from(value) * u128::from(weight);
    let coming = |load: Load| u64::from(load.active) + 1;
    match kind {
        SchedulerKind::Lc => load.overhead() < other.overhead(),
        SchedulerKind::Sed => times(coming(load), than) < times(coming(other), weight),
        SchedulerKind::Fo | SchedulerKind::Ovf => weight > than,
        _ => times(load.overhead(), than) < times(other.overhead(), weight),
    }
}

/// The first of the best, from the head of the list on.
fn naive(kind: SchedulerKind, rig: &Rig) -> Option<u32> {
    let mut best: Option<(&Server, Load)> = None;
    for server in rig
        .service
        .servers
        .iter()
        .filter(|server| rig.loads.usable(server))
    {
        let load = rig.loads.load(server);
        if kind == SchedulerKind::Nq && load.active == 0 {
            return Some(server.slot);
        }
        if kind == SchedulerKind::Ovf && load.active > server.weight {
            continue;
        }
        let rank = if kind == SchedulerKind::Nq {
            SchedulerKind::Sed
        } else {
            kind
        };
        if best.is_none_or(|(known, its)| is_better(rank, (load, server.weight), (its, known.weight))) {
            best = Some((server, load));
        }
    }
    best.map(|(server, _)| server.slot)
}

fn apply(rig: &mut Rig, step: Step) {
    match step {
        Step::Toggle(slot) => rig.edit(|servers| {
            let before = servers.len();
            servers.retain(|server| server.slot != slot);
            if servers.len() == before {
                servers.insert(0, server(slot, slot % 4));
            }
        }),
        Step::Weigh(slot, weight) => rig.edit(|servers| {
            for server in servers.iter_mut().filter(|server| server.slot == slot) {
                server.weight = weight;
            }
        }),
        Step::Load(slot, active, inactive) => rig.set_load(slot, active, inactive),
        Step::Overload(slot, overloaded) => rig.overload(slot, overloaded),
        Step::Open(_) => {}
    }
}

const RANKED: [SchedulerKind; 6] = [
    SchedulerKind::Lc,
    SchedulerKind::Wlc,
    SchedulerKind::Sed,
    SchedulerKind::Nq,
    SchedulerKind::Fo,
    SchedulerKind::Ovf,
];

proptest! {
    #[test]
    fn ranked_algorithms_pick_what_a_look_at_all_servers_picks(
        which in 0usize..6, first in 0u32..20, steps in steps(),
    ) {
        let kind = RANKED[which];
        let mut rig = Rig::new(kind, (0..first).map(|slot| server(slot, 1 + slot % 3)).collect());
        for step in steps {
            apply(&mut rig, step);
            let expected = naive(kind, &rig);
            prop_assert_eq!(rig.pick(), expected, "{} after {:?}", kind.name(), step);
            // A worker without a tournament of its own comes to the same.
            let alone = kind.rank().and_then(|rank| rank.first(None, &rig.service, &rig.loads));
            prop_assert_eq!(alone.map(|at| rig.service.servers[at].slot), expected);
            if let Step::Open(_) = step && expected.is_some_and(|slot| rig.load_of(slot) < u32::MAX) {
                prop_assert_eq!(rig.open(1), [expected.unwrap()]);
            }
        }
    }

    /// SCH-04: nobody but a usable server is picked, by any algorithm (`lblc` alone looks at thresholds only when it
    /// chooses anew, as LVS); and those that look at all servers find one when there is one.
    #[test]
    fn sch_04_only_usable_servers_are_picked(which in 0usize..14, flags in 0u8..8, steps in steps()) {
        let kind = SchedulerKind::ALL[which];
        let flags = SchedulerFlags::from_bits(flags);
        let mut rig = Rig::with_flags(kind, flags, (0..4).map(|slot| server(slot, 1)).collect());
        for step in steps {
            apply(&mut rig, step);
            let number = if let Step::Open(number) = step { number } else { 7 };
            let picked = rig.pick_for(&arrival(number));
            let usable = rig.service.servers.iter().filter(|server| rig.loads.usable(server));
            let usable: Vec<u32> = usable.map(|server| server.slot).collect();
            if let Some(slot) = picked {
                let known = rig.service.servers.iter().find(|server| server.slot == slot);
                let kept = kind == SchedulerKind::Lblc && known.is_some_and(|server| server.weight > 0);
                prop_assert!(kept || usable.contains(&slot), "{} picks {slot} of {usable:?}", kind.name());
            } else {
                let may_refuse = match kind {
                    SchedulerKind::Dh | SchedulerKind::Ovf => true,
                    // The other offsets need not meet every place.
                    SchedulerKind::Sh | SchedulerKind::Mh => true,
                    _ => false,
                };
                prop_assert!(usable.is_empty() || may_refuse, "{} refuses", kind.name());
            }
        }
    }

    /// SCH-07: after any edits, hashing maps as a fresh service with the same weights does.
    #[test]
    fn sch_07_edits_leave_no_trace_in_a_hash(
        which in 0usize..3, edits in proptest::collection::vec((0u32..6, 1u32..200), 1..50),
    ) {
        let kind = [SchedulerKind::Sh, SchedulerKind::Dh, SchedulerKind::Mh][which];
        let mut rig = Rig::new(kind, (0..6).map(|slot| server(slot, 100)).collect());
        for (slot, weight) in edits {
            rig.edit(|servers| servers[slot as usize] = server(slot, weight));
        }
        let mut fresh = Rig::new(kind, rig.service.servers.clone());
        for number in 0..=255 {
            prop_assert_eq!(rig.pick_for(&arrival(number)), fresh.pick_for(&arrival(number)));
        }
    }
}

/// Memory made by control for a worker goes back there whatever replaces what.
#[test]
fn memory_goes_back_when_the_algorithm_or_the_service_changes() {
    let wlc = service(SchedulerKind::Wlc, vec![server(1, 1)]);
    let lblc = service(SchedulerKind::Lblc, vec![server(1, 1)]);
    let state = state(&wlc);
    assert!(wlc.tables.take(0).is_none(), "the worker has it");
    let state = SchedulerState::adopt(Some((state, &wlc)), &lblc, Seat::ALONE);
    assert!(wlc.tables.take(0).is_some());
    state.retire(&lblc, 0);
    assert!(lblc.tables.take(0).is_some() && lblc.tables.take(1).is_none());
}

/// What a destination had is known after an edit of the service.
#[test]
fn destinations_outlive_an_edit() {
    for kind in [SchedulerKind::Lblc, SchedulerKind::Lblcr] {
        let mut rig = Rig::new(kind, vec![server(2, 5), server(1, 5)]);
        assert_eq!(rig.open_for(&arrival(1)), Some(2));
        rig.edit(|servers| servers.insert(0, server(3, 5)));
        assert_eq!(rig.open_for(&arrival(1)), Some(2), "{}", kind.name());
        assert_eq!(rig.open_for(&arrival(2)), Some(3), "{}", kind.name());
    }
}
