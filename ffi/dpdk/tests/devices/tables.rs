//! Rings and the hash.

use std::thread;

use arrayvec::ArrayVec;
use dpdk::hash::{Hash, HashError, MISS};
use dpdk::ring::ring;
use dpdk::{Burst, Mbuf, mbuf};

use super::{eal, frames, pool};

#[test]
fn a_ring_keeps_order_is_bounded_and_frees_what_is_left() {
    let pool = pool("ring-one", 255);
    let (mut ends, mut consumer) = ring(eal(), "one", 40, 1, None).unwrap();
    let producer = &mut ends[0];
    assert_eq!(producer.enqueue(&mut frames(&pool, 32)), 32);
    let mut more = frames(&pool, 32);
    assert_eq!(
        (producer.enqueue(&mut more), more.len(), more[0].bytes()[0]),
        (8, 24, 8)
    );
    assert_eq!(
        (producer.len(), consumer.len(), consumer.is_empty()),
        (40, 40, false)
    );
    let mut burst = Burst::new();
    assert_eq!(consumer.dequeue(&mut burst), 32);
    assert!(
        burst
            .iter()
            .enumerate()
            .all(|(n, m)| usize::from(m.bytes()[0]) == n)
    );
    drop((burst, more));
    assert_eq!(pool.in_use(), 8);
    drop((ends, consumer));
    assert_eq!(pool.in_use(), 0);
    assert!(ring(eal(), "one", 40, 1, None).is_ok(), "its name is free again");
}

#[test]
fn a_ring_takes_from_many_threads() {
    const EACH: usize = 5_000;
    let pool = pool("ring-many", 1023);
    let (ends, mut consumer) = ring(eal(), "many", 256, 3, None).unwrap();
    thread::scope(|scope| {
        for mut producer in ends {
            let pool = pool.clone();
            scope.spawn(move || {
                let _guard = pool.eal().register_thread().unwrap();
                let mut waiting: ArrayVec<Mbuf, 8> = ArrayVec::new();
                let mut sent = 0;
                while sent < EACH {
                    let missing = waiting.remaining_capacity().min(EACH - sent - waiting.len());
                    waiting.extend((0..missing).map_while(|_| pool.alloc_from(b"x")));
                    sent += producer.enqueue(&mut waiting);
                    thread::yield_now();
                }
            });
        }
        let mut burst = Burst::new();
        let mut received = 0;
        while received < 3 * EACH {
            received += consumer.dequeue(&mut burst);
            mbuf::free_all(&mut burst);
        }
    });
    assert_eq!(pool.in_use(), 0);
}

fn key(n: u32) -> [u8; 16] {
    let mut key = [0; 16];
    key[4..8].copy_from_slice(&n.to_be_bytes());
    key
}

#[test]
fn the_hash_fills_and_answers_in_bulk() {
    const ENTRIES: u32 = 20_000;
    let mut hash = Hash::new(eal(), "full", ENTRIES, true, None).unwrap();
    for n in 0..ENTRIES {
        hash.add(&key(n), n).unwrap();
    }
    assert_eq!(hash.len(), ENTRIES as usize);
    assert_eq!(hash.add(&key(0), MISS), Err(HashError::Value));
    let keys: Vec<_> = (0..32).map(|n| key(ENTRIES - 16 + n)).collect();
    let mut values = [0; 32];
    assert_eq!(hash.lookup_bulk(&keys, &mut values), 32);
    assert!((0..32).all(|n| values[n as usize] == if n < 16 { ENTRIES - 16 + n } else { MISS }));
    assert_eq!(hash.lookup_bulk(&keys[..3], &mut values), 3);
    assert_eq!(hash.lookup_bulk(&[], &mut values), 0);
    assert!(hash.remove(&key(5)) && !hash.remove(&key(5)));
    assert_eq!((hash.lookup(&key(5)), hash.lookup(&key(6))), (None, Some(6)));
    hash.add(&key(6), 66).unwrap();
    assert_eq!(hash.lookup(&key(6)), Some(66));
    let refused = (ENTRIES..ENTRIES + 100)
        .filter(|&n| hash.add(&key(n), n).is_err())
        .count();
    assert!(refused > 0, "a full table refuses");
}
