//! The table against a map, filled, emptied and replaced at any capacity.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::flow::record::Mode;

fn table(capacity: usize, seed: u64) -> ConnectionTable {
    ConnectionTable::new(capacity, FlowHasher::new(seed, !seed), false).unwrap()
}

fn address(prefix: u8, n: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(prefix) << 24 | n)
}

/// The `n`-th FULLNAT connection: unlike any other in both keys.
fn connection(n: u32) -> Record {
    let inbound = FlowKey::new(address(10, n / 50_000), (n % 50_000) as u16, address(192, 1), 80);
    let outbound = FlowKey::new(
        address(172, n % 7),
        8080,
        address(100, n / 60_000),
        (n % 60_000) as u16,
    );
    Record {
        server: n,
        ..Record::new(6, Mode::Fullnat, inbound, outbound)
    }
}

fn hits(table: &mut ConnectionTable, keys: &[FlowKey]) -> Vec<Option<Hit>> {
    let queries: Vec<_> = keys.iter().map(|&key| table.query(key, 6)).collect();
    let mut hits = vec![None; queries.len()];
    table.lookup_burst(&queries, &mut hits);
    for (query, hit) in queries.iter().zip(&hits) {
        assert_eq!(table.lookup(query), *hit);
    }
    hits
}

#[test]
fn it_fills_to_the_last_record_at_any_capacity() {
    for (capacity, seed) in (1..200)
        .map(|c| (c, c as u64))
        .chain([(1000, 1), (99_991, 2), (1_000_000, 3)])
    {
        let mut table = table(capacity, seed);
        for n in 0..capacity as u32 {
            assert!(table.insert(&connection(n)).is_ok(), "{n} of {capacity}");
        }
        assert_eq!(table.insert(&connection(u32::MAX)), Err(InsertError::TableFull));
        assert_eq!(table.len(), capacity);
        let step = (capacity / 1000).max(1);
        for n in (0..capacity as u32).step_by(step) {
            let record = connection(n);
            let found = hits(
                &mut table,
                &[record.inbound, record.outbound, record.inbound.reversed()],
            );
            let [Some(inbound), Some(outbound), None] = found[..] else {
                panic!("{n} of {capacity}: {found:?}");
            };
            assert_eq!(
                (inbound.direction, outbound.direction),
                (Direction::Inbound, Direction::Outbound)
            );
            assert_eq!(table.get(inbound.id).server, n);
            assert_eq!(inbound.id, outbound.id);
        }
        if capacity >= 1000 {
            let (bytes, _) = table.memory();
            assert!(
                bytes / capacity <= 100,
                "{} bytes a connection",
                bytes as f64 / capacity as f64
            );
        }
    }
}

#[test]
fn a_full_table_takes_connections_again_once_some_are_gone() {
    let mut table = table(5_000, 9);
    let ids: Vec<_> = (0..5_000)
        .map(|n| table.insert(&connection(n)).unwrap())
        .collect();
    for n in 5_000..60_000u32 {
        let victim = ids[n as usize * 31 % ids.len()];
        assert!(table.insert(&connection(n)).is_err());
        assert!(table.remove(victim).is_some());
        assert_eq!(table.insert(&connection(n)), Ok(victim));
    }
    assert_eq!(table.len(), 5_000);
    ids.iter().for_each(|&id| assert!(table.remove(id).is_some()));
    assert!(table.is_empty() && table.index().is_empty());
    assert_eq!(table.index().displaced(), (0, 0));
    assert!(table.remove(ids[0]).is_none());
}

#[test]
fn beyond_the_limit_new_ones_are_refused_and_old_ones_are_not_touched() {
    let mut table = table(1_000, 5);
    table.touch();
    let ids: Vec<_> = (0..1_000)
        .map(|n| table.insert(&connection(n)).unwrap())
        .collect();
    for n in 1_000..3_000 {
        assert_eq!(table.insert(&connection(n)), Err(InsertError::TableFull));
    }
    for n in 0..1_000 {
        let record = connection(n);
        let found = hits(&mut table, &[record.inbound, record.outbound]);
        assert!(
            found
                .iter()
                .all(|hit| hit.is_some_and(|hit| hit.id == ids[n as usize]))
        );
    }
    ids[..10]
        .iter()
        .for_each(|&id| assert!(table.remove(id).is_some()));
    assert_eq!(
        (1_000..1_020)
            .filter(|&n| table.insert(&connection(n)).is_ok())
            .count(),
        10
    );
}

#[test]
fn the_shorter_slice_bounds_a_burst_of_any_length() {
    let mut table = table(200, 6);
    (0..100).for_each(|n| assert!(table.insert(&connection(n)).is_ok()));
    let queries: Vec<_> = (0..100)
        .map(|n| table.query(connection(n * 2).inbound, 6))
        .collect();
    for len in [0, 1, 31, 32, 33, 64, 99, 100, 150] {
        let mut hits = vec![None; len];
        table.lookup_burst(&queries, &mut hits);
        for (n, hit) in hits.iter().enumerate() {
            assert_eq!(
                hit.map(|hit| table.get(hit.id).server),
                (n < 50).then_some(n as u32 * 2)
            );
        }
    }
    let mut hits = [None; 100];
    table.lookup_burst(&queries[..40], &mut hits);
    assert_eq!(hits.iter().flatten().count(), 40);
}

#[test]
fn two_connections_may_share_the_key_of_their_replies() {
    // NAT: one client port speaks to two VIPs that have the same server.
    let mut table = table(10, 7);
    let other = Record {
        inbound: connection(2).inbound,
        ..connection(1)
    };
    let (first, second) = (
        table.insert(&connection(1)).unwrap(),
        table.insert(&other).unwrap(),
    );
    let reply = [connection(1).outbound];
    assert!(hits(&mut table, &reply)[0].is_some());
    assert!(table.remove(first).is_some());
    assert_eq!(hits(&mut table, &reply)[0].map(|hit| hit.id), Some(second));
    assert!(table.remove(second).is_some());
    assert_eq!(hits(&mut table, &reply)[0], None);
}

#[test]
fn a_scan_in_slices_shows_each_connection_once() {
    let mut table = table(1_000, 4);
    let ids: Vec<_> = (0..900).map(|n| table.insert(&connection(n)).unwrap()).collect();
    let mut seen = Vec::new();
    let (mut cursor, mut slices) = (Some(0), 0u32);
    while let Some(at) = cursor {
        cursor = table.scan(at, 64, |id, record| seen.push((id, record.server)));
        // Between slices, old ones go and new ones come.
        table.remove(ids[slices as usize * 60]);
        table.insert(&connection(10_000 + slices)).unwrap();
        slices += 1;
    }
    let mut servers: Vec<_> = seen.iter().map(|&(_, server)| server).collect();
    servers.sort_unstable();
    servers.dedup();
    assert_eq!(servers.len(), seen.len());
    let removed = |n: u32| n.is_multiple_of(60) && n / 60 < slices;
    assert!(
        (0..900)
            .filter(|&n| !removed(n))
            .all(|n| servers.binary_search(&n).is_ok())
    );
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u32),
    Remove(u32),
    Lookup(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..120u32).prop_map(Step::Insert),
        2 => (0..120u32).prop_map(Step::Remove),
        1 => (0..120u32).prop_map(Step::Lookup),
    ];
    prop::collection::vec(step, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn it_behaves_like_a_map(capacity in 1..100usize, seed: u64, steps in steps(), one_way: bool) {
        let mut table = table(capacity, seed);
        let mut model: HashMap<u32, RecordId> = HashMap::new();
        let connection = |n| match one_way {
            true => Record { outbound: FlowKey::default(), ..connection(n) },
            false => connection(n),
        };
        for step in steps {
            match step {
                Step::Insert(n) if !model.contains_key(&n) => {
                    let inserted = table.insert(&connection(n));
                    prop_assert_eq!(inserted.is_ok(), model.len() < capacity);
                    if let Ok(id) = inserted {
                        prop_assert_ne!(id, RecordId::NONE);
                        model.insert(n, id);
                    }
                }
                Step::Remove(n) => {
                    if let Some(id) = model.remove(&n) {
                        prop_assert_eq!(table.remove(id).map(|record| record.server), Some(n));
                    }
                }
                Step::Insert(n) | Step::Lookup(n) => {
                    let record = connection(n);
                    let hit = |direction| model.get(&n).map(|&id| Hit { id, direction });
                    let outbound = hit(Direction::Outbound).filter(|_| !one_way);
                    let found = hits(&mut table, &[record.inbound, record.outbound]);
                    prop_assert_eq!(found, [hit(Direction::Inbound), outbound]);
                }
            }
            prop_assert_eq!(table.len(), model.len());
        }
        let everything: Vec<_> = (0..120).map(|n| connection(n).inbound).collect();
        for (n, hit) in hits(&mut table, &everything).into_iter().enumerate() {
            prop_assert_eq!(hit.map(|hit| hit.id), model.get(&(n as u32)).copied());
        }
    }
}
