//! Queues: what a worker receives from and sends to, one call per burst.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use arrayvec::ArrayVec;
use dpdk_sys as sys;

use super::Shared;
use crate::DeviceId;
use crate::mbuf::{Mbuf, append, take_front};

/// A receive queue. One thread at a time: it can be sent to a worker, and neither shared nor cloned.
#[derive(Debug)]
pub struct RxQueue {
    port: u16,
    queue: u16,
    _shared: Arc<Shared>,
    _one_thread: PhantomData<Cell<()>>,
}

/// A transmit queue. One thread at a time: it can be sent to a worker, and neither shared nor cloned.
#[derive(Debug)]
pub struct TxQueue {
    port: u16,
    queue: u16,
    _shared: Arc<Shared>,
    _one_thread: PhantomData<Cell<()>>,
}

impl RxQueue {
    pub(super) fn new(shared: &Arc<Shared>, queue: u16) -> RxQueue {
        RxQueue {
            port: shared.id.0,
            queue,
            _shared: Arc::clone(shared),
            _one_thread: PhantomData,
        }
    }

    /// The device that it belongs to.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        DeviceId(self.port)
    }

    /// Appends received frames to `mbufs`, as far as there is room. Returns how many. Does not wait. Some drivers
    /// deliver in steps of 4 or 8 and nothing at all into less room than that: receive into an empty `mbufs`.
    #[inline]
    pub fn burst<const N: usize>(&mut self, mbufs: &mut ArrayVec<Mbuf, N>) -> usize {
        // SAFETY: the port is started as long as a queue exists, and this is the queue's only handle. DPDK writes
        // at most `room` mbufs, each with one reference, which it gives up.
        append(mbufs, |raw, room| unsafe {
            u32::from(sys::tg_rx_burst(
                self.port,
                self.queue,
                raw,
                u16::try_from(room).unwrap_or(u16::MAX),
            ))
        })
    }
}

impl TxQueue {
    pub(super) fn new(shared: &Arc<Shared>, queue: u16) -> TxQueue {
        TxQueue {
            port: shared.id.0,
            queue,
            _shared: Arc::clone(shared),
            _one_thread: PhantomData,
        }
    }

    /// The device that it belongs to.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        DeviceId(self.port)
    }

    /// Sends the first ones of `mbufs`, as many as the queue takes; the others stay in `mbufs`, to be sent again
    /// or freed. Returns how many were taken. Does not wait.
    #[inline]
    pub fn burst<const N: usize>(&mut self, mbufs: &mut ArrayVec<Mbuf, N>) -> usize {
        // SAFETY: the port is started as long as a queue exists, and this is the queue's only handle. DPDK owns
        // the mbufs that it took.
        take_front(mbufs, |raw, count| unsafe {
            u32::from(sys::tg_tx_burst(
                self.port,
                self.queue,
                raw,
                u16::try_from(count).unwrap_or(u16::MAX),
            ))
        })
    }

    /// Has the driver free what it has sent already. False when it cannot; it does so when it needs the space.
    pub fn reclaim(&mut self) -> bool {
        // SAFETY: as in `burst`.
        unsafe { sys::tg_tx_reclaim(self.port, self.queue) >= 0 }
    }
}
