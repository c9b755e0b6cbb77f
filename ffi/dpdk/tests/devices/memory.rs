//! Mempools and mbufs.

use std::sync::OnceLock;

use arrayvec::ArrayVec;
use dpdk::{Checksum, Mbuf, Mempool, mbuf};
use proptest::prelude::*;

use super::{eal, pool};

#[test]
fn a_pool_counts_and_runs_dry() {
    let pool = pool("dry", 63);
    assert_eq!((pool.available(), pool.in_use()), (63, 0));
    let mut all: ArrayVec<Mbuf, 64> = ArrayVec::new();
    assert!(pool.alloc_bulk(&mut all, 63));
    assert_eq!((pool.available(), pool.in_use()), (0, 63));
    assert!(pool.alloc().is_none() && !pool.alloc_bulk(&mut all, 1));
    drop(all.pop());
    assert!(
        !pool.alloc_bulk(&mut all, 2),
        "more than fit are refused, whatever the pool has"
    );
    assert_eq!(pool.available(), 1);
    mbuf::free_all(&mut all);
    assert_eq!((all.len(), pool.available()), (0, 63));
    assert!(pool.alloc_from(&[0; 2049]).is_none());
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn pools_that_cannot_be_made_say_why() {
    let first = pool("twice", 63);
    let make = |name: &str, count| {
        Mempool::new(first.eal(), name, count, 0, 2176, None)
            .unwrap_err()
            .to_string()
    };
    assert!(make("twice", 63).contains("unique"));
    assert!(make("a-name-that-is-much-too-long", 63).contains("at most 25"));
    assert!(make("huge", 4_000_000).contains("more memory"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Front and end move as on a plain vector with 128 bytes before and 2,048 after; what does not fit
    /// changes nothing.
    #[test]
    fn an_mbuf_grows_and_shrinks_like_a_vector(steps in prop::collection::vec((0..3u8, 0..2300usize), 1..40)) {
        static POOL: OnceLock<Mempool> = OnceLock::new();
        let pool = POOL.get_or_init(|| pool("model", 63));
        let mut mbuf = pool.alloc_from(&[7; 60]).unwrap();
        let (mut start, mut end) = (128, 188);
        for (step, len) in steps {
            let done = match step {
                0 => mbuf.prepend(len % 200),
                1 => mbuf.trim_front(len % 200),
                _ => mbuf.resize(len),
            };
            let (to_start, to_end) = match step {
                0 => (start - (len % 200) as i32, end),
                1 => (start + (len % 200) as i32, end),
                _ => (start, start + len as i32),
            };
            let fits = to_start >= 0 && to_start <= to_end && to_end <= 2176;
            prop_assert_eq!(done, fits);
            if fits {
                (start, end) = (to_start, to_end);
            }
            prop_assert_eq!(mbuf.bytes().len() as i32, end - start);
            prop_assert_eq!(mbuf.pkt_len() as i32, end - start);
            prop_assert_eq!(mbuf.headroom() as i32, start);
            mbuf.bytes_mut().fill(9);
        }
        prop_assert!(!mbuf.prepend(usize::MAX) && !mbuf.trim_front(usize::MAX) && !mbuf.resize(usize::MAX));
    }
}

#[test]
fn a_fresh_mbuf_has_headroom_and_no_device_verdicts() {
    let pool = pool("fresh", 63);
    let mut mbuf = pool.alloc_from(b"hello").unwrap();
    assert_eq!(
        (mbuf.bytes(), mbuf.segments(), mbuf.headroom()),
        (&b"hello"[..], 1, 128)
    );
    assert_eq!(
        (mbuf.ip_checksum(), mbuf.l4_checksum()),
        (Checksum::Unknown, Checksum::Unknown)
    );
    assert_eq!(mbuf.rss_hash(), None);
    assert!(mbuf.prepend(2));
    mbuf.bytes_mut()[..2].copy_from_slice(b"oh");
    assert_eq!(mbuf.bytes(), b"ohhello");
    assert!(mbuf.trim_front(7) && mbuf.bytes().is_empty());
}

#[test]
fn segments_become_one_when_they_fit() {
    let pool = pool("segments", 63);
    let mut short = pool.alloc_from(&[1; 1000]).unwrap();
    short.chain(pool.alloc_from(&[2; 1000]).unwrap()).unwrap();
    assert_eq!(
        (short.segments(), short.pkt_len(), short.bytes().len()),
        (2, 2000, 1000)
    );
    assert!(
        !short.resize(1500),
        "the end of a frame in segments is not in the first one"
    );
    assert!(short.linearize());
    assert_eq!(
        (short.segments(), short.bytes().len(), short.bytes()[1999]),
        (1, 2000, 2)
    );

    let mut long = pool.alloc_from(&[1; 2000]).unwrap();
    for n in 2..5 {
        long.chain(pool.alloc_from(&[n; 2000]).unwrap()).unwrap();
    }
    assert!(!long.linearize() && long.segments() == 4 && long.pkt_len() == 8000);
    assert!(long.copy(&pool).is_none());
    let jumbo = Mempool::new(eal(), "jumbo", 15, 0, 9728, None).unwrap();
    let copy = long.copy(&jumbo).unwrap();
    assert_eq!((copy.segments(), copy.bytes().len()), (1, 8000));
    assert!((0..8000).all(|at| usize::from(copy.bytes()[at]) == 1 + at / 2000));
    drop((short, long, copy));
    assert_eq!((pool.in_use(), jumbo.in_use()), (0, 0));
}
