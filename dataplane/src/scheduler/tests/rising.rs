//! Servers whose share of the clients that are hashed to them rises.

use super::*;

const KINDS: [(SchedulerKind, SchedulerFlags); 6] = [
    (SchedulerKind::Sh, SchedulerFlags::NONE),
    (SchedulerKind::Sh, SchedulerFlags::PORT),
    (SchedulerKind::Sh, SchedulerFlags::FALLBACK),
    (SchedulerKind::Mh, SchedulerFlags::NONE),
    (SchedulerKind::Mh, SchedulerFlags::PORT),
    (SchedulerKind::Mh, SchedulerFlags::FALLBACK),
];
/// The slot of the server that rises.
const NEW: u32 = 3;

/// Where 4000 clients go while the new server takes so many percent of its own.
fn mapping(kind: SchedulerKind, flags: SchedulerFlags, share: u8, away: &[u32]) -> Vec<u32> {
    let mut rig = Rig::with_flags(kind, flags, (0..5).map(|slot| server(slot, 2)).collect());
    rig.edit(|servers| servers[NEW as usize].hash_share = share);
    for slot in away {
        rig.overload(*slot, true);
    }
    let client = |number: u32| Arrival {
        source: IpAddr::V4((0x0a00_0000 + number * 7919).into()),
        source_port: 1024 + number as u16,
        ..Arrival::default()
    };
    (0..4000)
        .filter_map(|number| rig.pick_for(&client(number)))
        .collect()
}

#[test]
fn clients_come_to_a_rising_server_once_each_and_nobody_else_moves() {
    for (kind, flags) in KINDS {
        let full = mapping(kind, flags, 100, &[]);
        let own = full.iter().filter(|slot| **slot == NEW).count();
        assert!((600..1000).contains(&own), "{own} of 4000");
        let mut before = mapping(kind, flags, 1, &[]);
        for share in [10, 35, 50, 80, 99, 100] {
            let now = mapping(kind, flags, share, &[]);
            assert_eq!(now.len(), 4000, "nobody is refused");
            for ((before, now), full) in before.iter().zip(&now).zip(&full) {
                if *full != NEW {
                    assert_eq!((before, now), (full, full), "{} {share}", kind.name());
                } else if before != now {
                    assert_eq!(*now, NEW, "{} {share}", kind.name());
                }
            }
            let come = now.iter().filter(|slot| **slot == NEW).count();
            let expected = own * usize::from(share) / 100;
            assert!(come.abs_diff(expected) < 60, "{} {share}: {come}", kind.name());
            before = now;
        }
        assert_eq!(before, full);
    }
}

/// Who waits for the rising server is where it would be without that server.
#[test]
fn those_that_wait_are_where_the_flag_would_send_them() {
    for (kind, flags) in KINDS {
        let (full, now) = (mapping(kind, flags, 100, &[]), mapping(kind, flags, 1, &[]));
        let without = mapping(kind, flags.with(SchedulerFlags::FALLBACK), 100, &[NEW]);
        let mut waiting = 0;
        for ((full, now), without) in full.iter().zip(&now).zip(&without) {
            if *full == NEW && *now != NEW {
                assert_eq!(now, without, "{}", kind.name());
                waiting += 1;
            }
        }
        assert!(waiting > 600, "{} {waiting}", kind.name());
    }
}

/// When nobody else is usable, a rising server takes all of its own; the clients of others need the flag, as ever.
#[test]
fn a_rising_server_that_is_alone_takes_everybody() {
    for (kind, flags) in KINDS {
        let now = mapping(kind, flags, 1, &[0, 1, 2, 4]);
        let full = mapping(kind, flags, 100, &[0, 1, 2, 4]);
        assert_eq!(now, full, "{}", kind.name());
        assert!(!now.is_empty() && now.iter().all(|slot| *slot == NEW));
        if flags == SchedulerFlags::FALLBACK {
            assert_eq!(now.len(), 4000);
        }
    }
}
