//! The index against a bag of entries, with its counts checked bucket by bucket.

use proptest::prelude::*;

use super::*;

/// A sequence of hashes that looks random.
fn hash(n: u64) -> u64 {
    let x = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 29)
}

fn check_counts(index: &TagIndex) {
    let mut overflow = vec![0; index.buckets.len()];
    let mut entries = 0;
    for (at, bucket) in index.buckets.iter().enumerate() {
        for slot in (0..SLOTS).filter(|&slot| bucket.tags[slot] != 0) {
            entries += 1;
            if bucket.is_away(slot) {
                overflow[index.other(at, bucket.tags[slot])] += 1;
            }
        }
    }
    index
        .stash
        .iter()
        .for_each(|&(hash, _)| overflow[index.home(hash)] += 1);
    assert_eq!(entries + index.stash.len() + index.waiting.len(), index.len());
    assert!(index.buckets.iter().map(Bucket::overflow).eq(overflow));
}

#[test]
fn the_other_bucket_of_the_other_bucket_is_the_first() {
    for count in [1, 2, 3, 7, 100, 1_000] {
        let index = TagIndex::with_fill(count * SLOTS, 100, false).unwrap();
        assert_eq!(index.buckets.len(), count);
        for (bucket, tag) in (0..count).flat_map(|b| (1..2_000).map(move |t| (b, t))) {
            assert_eq!(index.other(index.other(bucket, tag), tag), bucket);
        }
    }
}

#[test]
fn at_ninety_percent_every_entry_finds_room_and_is_found() {
    for count in [1_000, 20_011, 100_003] {
        let mut index = TagIndex::with_fill(count, 90, false).unwrap();
        for n in 0..count {
            assert_eq!(index.insert(hash(n as u64), n as u32), Ok(()), "{n} of {count}");
        }
        check_counts(&index);
        for n in 0..count as u32 {
            assert_eq!(index.find(hash(u64::from(n)), |id| id == n), Some(n));
        }
        for n in (0..count).rev() {
            assert!(index.remove(hash(n as u64), n as u32));
        }
        check_counts(&index);
        assert_eq!((index.len(), index.displaced()), (0, (0, 0)));
    }
}

#[test]
fn the_same_hash_many_times_fills_two_buckets_and_the_stash_then_says_so() {
    let mut index = TagIndex::new(100_000, false).unwrap();
    let hash = hash(1);
    for id in 0..84 {
        assert_eq!(index.insert(hash, id), Ok(()));
    }
    assert_eq!(index.displaced(), (74, 64));
    assert_eq!(index.insert(hash, 84), Err(Full));
    check_counts(&index);
    assert!((0..84).all(|id| index.find(hash, |other| other == id) == Some(id)));
    assert_eq!(index.find(hash, |id| id == 84), None);
    assert!(!index.remove(hash, 84));
    // A place in a bucket goes to one from the stash.
    assert!(index.remove(hash, 3));
    assert_eq!(index.displaced(), (73, 63));
    assert!((0..84).filter(|&id| id != 3).all(|id| index.remove(hash, id)));
    check_counts(&index);
    assert_eq!((index.len(), index.displaced()), (0, (0, 0)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Few buckets and few hashes: everything collides, moves, and meets itself again.
    #[test]
    fn it_behaves_like_a_bag(
        entries in 1..80usize,
        hashes in 1..40u64,
        steps in prop::collection::vec((0..4, 0..40u64, 0..4u32), 1..500),
    ) {
        let mut index = TagIndex::with_fill(entries, 100, false).unwrap();
        let mut model: Vec<(u64, u32)> = Vec::new();
        for (step, n, id) in steps {
            let entry = (hash(n % hashes), id);
            if step < 2 {
                // Here so many have one hash that what comes after these may not fit: then it may not wait.
                let certain = model.len() < STASH;
                if !certain {
                    index.settle();
                }
                let inserted = match step == 0 && certain {
                    true => index.insert_later(entry.0, id),
                    false => index.insert(entry.0, id),
                };
                match inserted {
                    Ok(()) => model.push(entry),
                    Err(Full) => prop_assert!(model.len() >= STASH),
                }
            } else {
                let place = model.iter().position(|&other| other == entry);
                prop_assert_eq!(index.remove(entry.0, id), place.is_some());
                place.map(|place| model.swap_remove(place));
            }
            prop_assert_eq!(index.len(), model.len());
        }
        check_counts(&index);
        for settle in [false, true] {
            if settle {
                index.settle();
                check_counts(&index);
                prop_assert!(index.waiting.is_empty());
            }
            for (n, wanted) in (0..hashes).flat_map(|n| (0..4).map(move |id| (n, id))) {
                let found = index.find(hash(n), |id| id == wanted);
                prop_assert_eq!(found.is_some(), model.contains(&(hash(n), wanted)));
            }
        }
    }
}
