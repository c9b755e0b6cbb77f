//! Pools of mbufs. `control` makes them at start; drivers and workers take from them. Never grows.

use std::ptr::NonNull;

use arrayvec::ArrayVec;
use dpdk_sys as sys;
use thiserror::Error;

use crate::mbuf::{Mbuf, append};
use crate::{Eal, c_string, errno_text};

/// Why a pool cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum MempoolError {
    /// DPDK has no memory for it.
    #[error(
        "mempool {name}: {mb} MB of buffers do not fit: give DPDK more memory, or configure fewer buffers ({reason})"
    )]
    Memory {
        /// The pool.
        name: String,
        /// What its buffers need, MB.
        mb: u64,
        /// DPDK's reason.
        reason: String,
    },
    /// DPDK refuses.
    #[error(
        "mempool {name}: {reason}: names are unique and at most 25 characters, the cache is at most 512 and two thirds of the count"
    )]
    Refused {
        /// The pool.
        name: String,
        /// DPDK's reason.
        reason: String,
    },
}

/// A pool of mbufs. Cheap to clone; clones are the same pool. Its memory is given back when EAL ends, not before:
/// mbufs may be anywhere by then.
#[derive(Clone, Debug)]
pub struct Mempool {
    raw: NonNull<sys::tg_pool>,
    data_room: u16,
    eal: Eal,
}

// SAFETY: a pktmbuf pool made with default flags may be used by any number of threads at once: its caches are
// per lcore, its ring is for several producers and consumers. `Eal` keeps it until the last handle is gone.
unsafe impl Send for Mempool {}
// SAFETY: as above.
unsafe impl Sync for Mempool {}

const ENOMEM: i32 = 12;

impl Mempool {
    /// The room before a frame in a fresh or received mbuf, bytes.
    pub const HEADROOM: u16 = sys::TG_MBUF_HEADROOM as u16;
    /// A buffer for frames of up to 2,048 bytes.
    pub const DEFAULT_DATA_ROOM: u16 = 2048 + Self::HEADROOM;

    /// A pool of `count` mbufs (best one less than a power of two), of which each registered thread caches up to
    /// `cache`. `data_room` is a buffer's size, headroom included. `socket` is a NUMA node, None for any.
    ///
    /// # Errors
    /// Too little memory, or a name or sizes that DPDK refuses.
    pub fn new(
        eal: &Eal,
        name: &str,
        count: u32,
        cache: u32,
        data_room: u16,
        socket: Option<u32>,
    ) -> Result<Mempool, MempoolError> {
        let text = c_string(name);
        let mut code = 0;
        // SAFETY: EAL runs, as `eal` exists; the name is terminated and copied by DPDK.
        let raw = unsafe {
            sys::tg_pool_create(
                text.as_ptr(),
                count,
                cache,
                data_room,
                node(socket),
                &raw mut code,
            )
        };
        let Some(raw) = NonNull::new(raw) else {
            let (name, reason) = (name.to_owned(), errno_text(code));
            return Err(if code == -ENOMEM {
                let mb = u64::from(count) * (u64::from(data_room) + 256) / (1 << 20);
                MempoolError::Memory { name, mb, reason }
            } else {
                MempoolError::Refused { name, reason }
            });
        };
        eal.keep_pool(raw);
        Ok(Mempool {
            raw,
            data_room,
            eal: eal.clone(),
        })
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::tg_pool {
        self.raw.as_ptr()
    }

    /// A buffer's size, headroom included.
    #[must_use]
    pub fn data_room(&self) -> u16 {
        self.data_room
    }

    /// The handle of EAL that this pool holds.
    #[must_use]
    pub fn eal(&self) -> &Eal {
        &self.eal
    }

    /// How many mbufs are in the pool, its caches included. Exact only while nobody uses it.
    #[must_use]
    pub fn available(&self) -> u32 {
        // SAFETY: the pool is valid as long as `self`.
        unsafe { sys::tg_pool_available(self.as_ptr()) }
    }

    /// How many mbufs are out: with drivers, workers or rings. Exact only while nobody uses it.
    #[must_use]
    pub fn in_use(&self) -> u32 {
        // SAFETY: the pool is valid as long as `self`.
        unsafe { sys::tg_pool_in_use(self.as_ptr()) }
    }

    /// An empty mbuf with [`Mempool::HEADROOM`]. None when the pool is empty.
    #[must_use]
    pub fn alloc(&self) -> Option<Mbuf> {
        // SAFETY: the pool is valid; a fresh mbuf has one reference, which is ours.
        unsafe { NonNull::new(sys::tg_mbuf_alloc(self.as_ptr())).map(|raw| Mbuf::from_raw(raw)) }
    }

    /// Appends `count` empty mbufs, all or none: false when they do not fit or the pool has too few.
    #[must_use]
    pub fn alloc_bulk<const N: usize>(&self, mbufs: &mut ArrayVec<Mbuf, N>, count: usize) -> bool {
        if count > mbufs.remaining_capacity() {
            return false;
        }
        // It fits, so it is no more than a vector on the stack can hold.
        let count = u32::try_from(count).unwrap_or(0);
        append(mbufs, |raw, _| {
            // SAFETY: the pool is valid and there is room for `count` pointers; all are set or none is.
            let code = unsafe { sys::tg_mbuf_alloc_bulk(self.as_ptr(), raw, count) };
            if code == 0 { count } else { 0 }
        }) == count as usize
    }

    /// An mbuf that holds a copy of `frame`. None when the pool is empty or the frame longer than a buffer.
    #[must_use]
    pub fn alloc_from(&self, frame: &[u8]) -> Option<Mbuf> {
        let mut mbuf = self.alloc()?;
        if !mbuf.resize(frame.len()) {
            return None;
        }
        mbuf.bytes_mut().copy_from_slice(frame);
        Some(mbuf)
    }
}

/// DPDK's number for a NUMA node; -1 is any.
pub(crate) fn node(socket: Option<u32>) -> i32 {
    socket.and_then(|s| i32::try_from(s).ok()).unwrap_or(-1)
}
