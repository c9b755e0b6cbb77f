//! Bounded lock-free rings that carry mbufs from worker to worker. `control` makes them at start; nobody waits
//! on one: a full ring leaves the mbufs with the sender.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use arrayvec::ArrayVec;
use dpdk_sys as sys;
use thiserror::Error;

use crate::mbuf::{Mbuf, append, free_all, take_front};
use crate::mempool::node;
use crate::{Eal, c_string, errno_text};

/// Why a ring cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("ring {name}: {reason}: names are unique and at most 28 characters; or give DPDK more memory")]
pub struct RingError {
    /// The ring.
    pub name: String,
    /// DPDK's reason.
    pub reason: String,
}

#[derive(Debug)]
struct Inner {
    raw: NonNull<sys::tg_ring>,
    _eal: Eal,
}

// SAFETY: the ring is made for as many producers as there are `Producer`s and for one consumer; each end is used
// by one thread at a time, as neither is `Sync` nor `Clone`. The length may be read from anywhere.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// An end that puts in. One thread at a time.
#[derive(Debug)]
pub struct Producer {
    ring: Arc<Inner>,
    _one_thread: PhantomData<Cell<()>>,
}

/// The end that takes out. One thread at a time.
#[derive(Debug)]
pub struct Consumer {
    ring: Arc<Inner>,
    _one_thread: PhantomData<Cell<()>>,
}

/// A ring that holds up to `capacity` mbufs, with `producers` ends to put in (at least 1) and one to take out.
/// With a single producer it needs no atomic read-modify-write. `socket` is a NUMA node, None for any.
///
/// # Errors
/// Too little memory, or a name that is taken or too long.
pub fn ring(
    eal: &Eal,
    name: &str,
    capacity: u32,
    producers: usize,
    socket: Option<u32>,
) -> Result<(Vec<Producer>, Consumer), RingError> {
    let text = c_string(name);
    let single = i32::from(producers <= 1);
    let mut code = 0;
    // SAFETY: EAL runs, as `eal` exists; the name is terminated and copied by DPDK.
    let raw = unsafe { sys::tg_ring_create(text.as_ptr(), capacity, node(socket), single, &raw mut code) };
    let raw = NonNull::new(raw).ok_or_else(|| RingError {
        name: name.to_owned(),
        reason: errno_text(code),
    })?;
    let ring = Arc::new(Inner {
        raw,
        _eal: eal.clone(),
    });
    let producer = || Producer {
        ring: Arc::clone(&ring),
        _one_thread: PhantomData,
    };
    let ends = (0..producers.max(1)).map(|_| producer()).collect();
    Ok((
        ends,
        Consumer {
            ring,
            _one_thread: PhantomData,
        },
    ))
}

impl Producer {
    /// Puts in as many of the first mbufs as there is room for; the others stay in `mbufs`. Returns how many.
    #[inline]
    pub fn enqueue<const N: usize>(&mut self, mbufs: &mut ArrayVec<Mbuf, N>) -> usize {
        let ring = self.ring.raw.as_ptr();
        // SAFETY: the ring is valid; `raw` holds `count` owned mbufs, and the ring owns what it took.
        take_front(mbufs, |raw, count| unsafe {
            sys::tg_ring_enqueue(ring, raw, count)
        })
    }

    /// How many mbufs are in the ring, a moment ago.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether the ring was empty a moment ago.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Consumer {
    /// Appends to `mbufs` what the ring has, as far as there is room. Returns how many.
    #[inline]
    pub fn dequeue<const N: usize>(&mut self, mbufs: &mut ArrayVec<Mbuf, N>) -> usize {
        self.ring.take(mbufs)
    }

    /// How many mbufs are in the ring, a moment ago.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether the ring was empty a moment ago.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Inner {
    fn len(&self) -> usize {
        // SAFETY: the ring is valid as long as `self`.
        unsafe { sys::tg_ring_count(self.raw.as_ptr()) as usize }
    }

    /// Only the consumer calls this, and `drop`, when there is no consumer left.
    #[inline]
    fn take<const N: usize>(&self, mbufs: &mut ArrayVec<Mbuf, N>) -> usize {
        // SAFETY: the ring is valid; it holds owned mbufs only, and gives up those that it returns.
        append(mbufs, |raw, room| unsafe {
            sys::tg_ring_dequeue(self.raw.as_ptr(), raw, room)
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut left: ArrayVec<Mbuf, 32> = ArrayVec::new();
        while self.take(&mut left) > 0 {
            free_all(&mut left);
        }
        // SAFETY: both ends are gone, and the ring is empty.
        unsafe { sys::tg_ring_free(self.raw.as_ptr()) }
    }
}
