//! The wheel against a list of deadlines, from every phase and over gaps of days.

use bytemuck::Zeroable;
use proptest::prelude::*;

use super::*;
use crate::time::seconds;

fn arena(len: usize) -> Vec<Record> {
    vec![Record::zeroed(); len + 1]
}

/// Turns the wheel until nothing is due, asking by the deadlines given; returns what expired.
fn turn(wheel: &mut Wheel, records: &mut [Record], deadlines: &[Tick], now: Tick) -> Vec<u32> {
    let mut expired = Vec::new();
    let mut ask = |_: &mut [Record], id: RecordId| {
        let verdict = Verdict::at(deadlines[id.index()], now);
        expired.extend((verdict == Verdict::Expired).then_some(id.0));
        verdict
    };
    while wheel.advance(records, now, 7, &mut ask) == 7 {}
    expired.sort_unstable();
    expired
}

#[test]
fn any_timeout_from_any_phase_is_exact_to_a_slot_and_never_early() {
    let timeouts = [
        1,
        2,
        10,
        60,
        120,
        163,
        164,
        165,
        600,
        900,
        1048,
        7_200,
        86_400,
        31 * 86_400,
        40 * 86_400,
        240 * 86_400,
    ];
    for phase in [
        0,
        1,
        7,
        8,
        16_383,
        16_384,
        99_999,
        1 << 24,
        (1 << 23) - 3,
        u32::MAX - 70_000,
        u32::MAX,
    ] {
        for timeout in timeouts.map(seconds) {
            let (start, mut records) = (Tick(phase), arena(1));
            let mut wheel = Wheel::new(start);
            let deadline = start.after(timeout);
            wheel.insert(&mut records, RecordId(1), deadline);
            // Driven exactly when it asks to be, it must have expired by the end of the deadline's slot.
            let mut now = start;
            while !wheel.is_empty() {
                now = wheel.next_due().unwrap();
                let expired = turn(&mut wheel, &mut records, &[start, deadline], now);
                assert!(
                    expired.is_empty() || now.reached(deadline),
                    "early: {phase} {timeout}"
                );
                assert!(now.since(deadline) < SLOT_TICKS, "late: {phase} {timeout}");
            }
            assert!(now.reached(deadline));
        }
    }
}

/// The question about a connection in TIME_WAIT is one wait for memory, whenever it began.
#[test]
fn what_ends_within_164_seconds_is_asked_about_once() {
    for start in (0..40_000).step_by(97).map(Tick) {
        for timeout in [2, 60, 120, 163].map(seconds) {
            let (mut wheel, mut records) = (Wheel::new(start), arena(1));
            wheel.insert(&mut records, RecordId(1), start.after(timeout));
            let now = wheel.next_due().unwrap();
            assert!(now.reached(start.after(timeout)), "{start:?} {timeout}");
        }
    }
}

#[test]
fn days_without_a_turn_cost_nothing_and_lose_nothing() {
    let mut records = arena(1_000);
    let mut wheel = Wheel::new(Tick(5));
    let deadlines: Vec<_> = (0..=1_000u32).map(|n| Tick(5 + n * 60_000)).collect();
    for id in 1..=1_000 {
        wheel.insert(&mut records, RecordId(id), deadlines[id as usize]);
    }
    assert_eq!(
        turn(&mut wheel, &mut records, &deadlines, Tick(30_000_003)).len(),
        499
    );
    assert_eq!(wheel.len(), 501);
    assert_eq!(
        turn(&mut wheel, &mut records, &deadlines, Tick(2_000_000_000)).len(),
        501
    );
    assert!(wheel.is_empty() && wheel.next_due().is_none());
    assert!(records.iter().all(|r| r.next == 0 && r.previous == 0));
}

#[test]
fn many_expiries_at_once_are_worked_off_by_the_budget() {
    let mut records = arena(10_000);
    let mut wheel = Wheel::new(Tick(0));
    (1..=10_000).for_each(|id| wheel.insert(&mut records, RecordId(id), Tick(80)));
    for left in (0..10_000).rev().step_by(100) {
        assert_eq!(
            wheel.advance(&mut records, Tick(80), 100, |_, _| Verdict::Expired),
            100
        );
        assert_eq!(wheel.len(), left - 99);
    }
    assert_eq!(
        wheel.advance(&mut records, Tick(80), 100, |_, _| Verdict::Expired),
        0
    );
}

#[test]
fn an_answer_in_the_past_does_not_hold_up_the_turn() {
    let mut records = arena(1);
    let mut wheel = Wheel::new(Tick(0));
    wheel.insert(&mut records, RecordId(1), Tick(100));
    let asked = wheel.advance(&mut records, Tick(1_000), 50, |_, _| Verdict::Rearm(Tick(1)));
    assert_eq!((asked, wheel.len()), (50, 1));
}

#[derive(Debug, Clone)]
enum Step {
    Arm(u32, u32),
    Shorten(u32, u32),
    Extend(u32, u32),
    Remove(u32),
    Turn(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ticks = || prop_oneof![0..40u32, 0..5_000u32, 0..3_000_000u32, 0..300_000_000u32];
    let id = || 1..=20u32;
    let step = prop_oneof![
        3 => (id(), ticks()).prop_map(|(id, t)| Step::Arm(id, t)),
        1 => (id(), ticks()).prop_map(|(id, t)| Step::Shorten(id, t)),
        1 => (id(), ticks()).prop_map(|(id, t)| Step::Extend(id, t)),
        1 => id().prop_map(Step::Remove),
        3 => ticks().prop_map(Step::Turn),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn it_behaves_like_a_sorted_list(start: u32, steps in steps()) {
        let mut now = Tick(start);
        let mut records = arena(20);
        let mut wheel = Wheel::new(now);
        let mut deadlines = [Tick(0); 21];
        let mut armed = [false; 21];
        for step in steps {
            match step {
                Step::Arm(id, ticks) => {
                    deadlines[id as usize] = now.after(ticks);
                    armed[id as usize] = true;
                    wheel.insert(&mut records, RecordId(id), deadlines[id as usize]);
                }
                Step::Shorten(id, ticks) if armed[id as usize] => {
                    let left = deadlines[id as usize].since(now);
                    deadlines[id as usize] = now.after(ticks.min(left));
                    wheel.insert(&mut records, RecordId(id), deadlines[id as usize]);
                }
                // As a packet does it: the wheel hears nothing of it.
                Step::Extend(id, ticks) if armed[id as usize] && !now.reached(deadlines[id as usize]) => {
                    deadlines[id as usize] = deadlines[id as usize].after(ticks);
                }
                Step::Remove(id) => {
                    prop_assert_eq!(wheel.remove(&mut records, RecordId(id)), armed[id as usize]);
                    armed[id as usize] = false;
                }
                Step::Turn(ticks) => {
                    now = now.after(ticks);
                    for id in turn(&mut wheel, &mut records, &deadlines, now) {
                        prop_assert!(armed[id as usize], "{} expired twice", id);
                        armed[id as usize] = false;
                    }
                    for id in (1..=20).filter(|&id| armed[id]) {
                        prop_assert!(now.since(deadlines[id]) < SLOT_TICKS, "{} is late", id);
                    }
                }
                _ => {}
            }
            prop_assert_eq!(wheel.len(), armed.iter().filter(|&&a| a).count());
        }
    }
}
