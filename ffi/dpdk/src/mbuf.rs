//! One packet in DPDK's memory. Workers receive, rewrite and send these; `control` wraps it into the data
//! plane's packet trait, whose methods these match one to one.
//!
//! Fields are read and written in place, at offsets that the C compiler stated, so that no call is made per
//! packet. It never parses what it holds.

use std::fmt;
use std::ptr::NonNull;

use arrayvec::ArrayVec;
use dpdk_sys as sys;

use crate::Mempool;

/// What a worker receives at once.
pub type Burst = ArrayVec<Mbuf, 32>;

/// What the device said of a checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checksum {
    /// The device did not look: verify in software.
    #[default]
    Unknown,
    /// The device found it right.
    Good,
    /// The device found it wrong.
    Bad,
}

/// A packet, owned: goes back to its pool when dropped. Bytes are those of the first segment, which is the whole
/// frame unless [`Mbuf::segments`] says otherwise.
#[repr(transparent)]
pub struct Mbuf(NonNull<sys::tg_mbuf>);

// SAFETY: an mbuf may be used and freed by any thread, one at a time; `Mbuf` is its only owner, and its pool
// stays mapped as long as it is out (see `Eal`).
unsafe impl Send for Mbuf {}

impl Mbuf {
    /// # Safety
    /// `raw` is a valid mbuf with reference count 1, owned by the caller, who gives it up.
    pub(crate) unsafe fn from_raw(raw: NonNull<sys::tg_mbuf>) -> Mbuf {
        Mbuf(raw)
    }

    pub(crate) fn into_raw(self) -> *mut sys::tg_mbuf {
        let raw = self.0.as_ptr();
        std::mem::forget(self);
        raw
    }

    #[inline]
    fn get<T: Copy>(&self, offset: sys::tg_mbuf_layout) -> T {
        // SAFETY: each caller passes the offset and type of one field, as the C compiler laid it out; the mbuf
        // is valid as long as `self`, and nobody else writes it.
        unsafe { self.0.cast::<u8>().add(offset as usize).cast::<T>().read() }
    }

    #[inline]
    fn set<T: Copy>(&mut self, offset: sys::tg_mbuf_layout, value: T) {
        // SAFETY: as in `get`; `&mut self` makes this the only access.
        unsafe { self.0.cast::<u8>().add(offset as usize).cast::<T>().write(value) }
    }

    /// Where the frame starts in its buffer; the space before it is headroom.
    #[inline]
    fn data_off(&self) -> u16 {
        self.get(sys::TG_MBUF_DATA_OFF)
    }

    #[inline]
    fn data_len(&self) -> u16 {
        self.get(sys::TG_MBUF_DATA_LEN)
    }

    #[inline]
    fn buf_len(&self) -> u16 {
        self.get(sys::TG_MBUF_BUF_LEN)
    }

    #[inline]
    fn data(&self) -> *mut u8 {
        let buffer: *mut u8 = self.get(sys::TG_MBUF_BUF_ADDR);
        // SAFETY: data_off never exceeds buf_len: drivers set it so, and every method here keeps it so.
        unsafe { buffer.add(usize::from(self.data_off())) }
    }

    /// The bytes of the first segment, from the Ethernet header on.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: data_off + data_len <= buf_len, kept by drivers and by every method here; the buffer is
        // mapped, initialised when its memory was, and ours as long as `self` is.
        unsafe { std::slice::from_raw_parts(self.data(), usize::from(self.data_len())) }
    }

    /// The bytes of the first segment, to be rewritten in place.
    #[inline]
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.data(), usize::from(self.data_len())) }
    }

    /// The length of the whole frame, all segments together.
    #[inline]
    #[must_use]
    pub fn pkt_len(&self) -> u32 {
        self.get(sys::TG_MBUF_PKT_LEN)
    }

    /// How many segments hold the frame. At least 1.
    #[inline]
    #[must_use]
    pub fn segments(&self) -> u16 {
        self.get(sys::TG_MBUF_NB_SEGS)
    }

    /// By how much [`Mbuf::prepend`] can grow the frame.
    #[inline]
    #[must_use]
    pub fn headroom(&self) -> usize {
        usize::from(self.data_off())
    }

    /// Grows the frame by `len` bytes of unspecified content at its front. False when there is no headroom;
    /// then nothing has changed.
    #[inline]
    #[must_use]
    pub fn prepend(&mut self, len: usize) -> bool {
        let Ok(by) = u16::try_from(len) else {
            return false;
        };
        let Some(start) = self.data_off().checked_sub(by) else {
            return false;
        };
        // No overflow: start + grown is the old data_off + data_len, which the buffer holds.
        let grown = self.data_len() + by;
        self.set(sys::TG_MBUF_DATA_OFF, start);
        self.set(sys::TG_MBUF_DATA_LEN, grown);
        let total = self.pkt_len();
        self.set(sys::TG_MBUF_PKT_LEN, total + u32::from(by));
        true
    }

    /// Cuts `len` bytes off the front. False when the first segment is shorter than that; then nothing has
    /// changed.
    #[inline]
    #[must_use]
    pub fn trim_front(&mut self, len: usize) -> bool {
        let Ok(by) = u16::try_from(len) else {
            return false;
        };
        let Some(rest) = self.data_len().checked_sub(by) else {
            return false;
        };
        let start = self.data_off();
        self.set(sys::TG_MBUF_DATA_OFF, start + by);
        self.set(sys::TG_MBUF_DATA_LEN, rest);
        let total = self.pkt_len();
        self.set(sys::TG_MBUF_PKT_LEN, total - u32::from(by));
        true
    }

    /// Sets the frame's length by growing (unspecified content) or cutting its end. False when there is no room
    /// or the frame is in several segments; then nothing has changed.
    #[inline]
    #[must_use]
    pub fn resize(&mut self, len: usize) -> bool {
        let room = usize::from(self.buf_len() - self.data_off());
        let Ok(new) = u16::try_from(len) else {
            return false;
        };
        if len > room || self.segments() != 1 {
            return false;
        }
        self.set(sys::TG_MBUF_DATA_LEN, new);
        self.set(sys::TG_MBUF_PKT_LEN, u32::from(new));
        true
    }

    /// What the device said of the IPv4 header checksum.
    #[inline]
    #[must_use]
    pub fn ip_checksum(&self) -> Checksum {
        self.checksum(sys::TG_RX_IP_MASK, sys::TG_RX_IP_GOOD, sys::TG_RX_IP_BAD)
    }

    /// What the device said of the TCP or UDP checksum.
    #[inline]
    #[must_use]
    pub fn l4_checksum(&self) -> Checksum {
        self.checksum(sys::TG_RX_L4_MASK, sys::TG_RX_L4_GOOD, sys::TG_RX_L4_BAD)
    }

    /// Both bits together mean "none": the checksum in the frame is not to be looked at, but the data is known
    /// to be good. That is no statement about what we would send on, so it counts as unknown.
    #[inline]
    fn checksum(&self, mask: u32, good: u32, bad: u32) -> Checksum {
        let flags: u64 = self.get(sys::TG_MBUF_OL_FLAGS);
        match flags & u64::from(mask) {
            bits if bits == u64::from(good) => Checksum::Good,
            bits if bits == u64::from(bad) => Checksum::Bad,
            _ => Checksum::Unknown,
        }
    }

    /// The device's RSS hash of the frame, when it computed one.
    #[inline]
    #[must_use]
    pub fn rss_hash(&self) -> Option<u32> {
        let flags: u64 = self.get(sys::TG_MBUF_OL_FLAGS);
        (flags & u64::from(sys::TG_RX_RSS_HASH) != 0).then(|| self.get(sys::TG_MBUF_RSS_HASH))
    }

    /// The number of the device that received it, as [`crate::DeviceId::number`].
    #[inline]
    #[must_use]
    pub fn port(&self) -> u16 {
        self.get(sys::TG_MBUF_PORT)
    }

    /// Asks for the frame's first cache line ahead of its use.
    #[inline]
    pub fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch has no effect on memory and faults on no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.data().cast()) }
        }
    }

    /// Moves all segments into the first one. False when they do not fit there; then nothing has changed, and
    /// [`Mbuf::copy`] into a pool of larger buffers is what is left.
    #[must_use]
    pub fn linearize(&mut self) -> bool {
        // SAFETY: the mbuf is valid and ours alone; DPDK keeps its lengths consistent.
        self.segments() == 1 || unsafe { sys::tg_mbuf_linearize(self.0.as_ptr()) } == 0
    }

    /// A copy in one segment, with what the device said of the original. None when the pool is empty or its
    /// buffers are too small.
    #[must_use]
    pub fn copy(&self, pool: &Mempool) -> Option<Mbuf> {
        // SAFETY: both are valid and the original is only read; the copy is new, hence ours alone.
        unsafe {
            let raw = sys::tg_mbuf_copy(self.0.as_ptr(), pool.as_ptr());
            NonNull::new(raw).map(|raw| Mbuf::from_raw(raw))
        }
    }

    /// Appends `tail` as further segments of this frame.
    ///
    /// # Errors
    /// Gives `tail` back when there would be too many segments.
    pub fn chain(&mut self, tail: Mbuf) -> Result<(), Mbuf> {
        // SAFETY: both are valid and ours alone; on success the head owns the tail, which is then forgotten.
        if unsafe { sys::tg_mbuf_chain(self.0.as_ptr(), tail.0.as_ptr()) } != 0 {
            return Err(tail);
        }
        let _ = tail.into_raw();
        Ok(())
    }
}

impl Drop for Mbuf {
    fn drop(&mut self) {
        // SAFETY: valid, and owned by nobody but `self`.
        unsafe { sys::tg_mbuf_free(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mbuf")
            .field("port", &self.port())
            .field("pkt_len", &self.pkt_len())
            .field("segments", &self.segments())
            .finish_non_exhaustive()
    }
}

/// Frees all of them by one call, which is cheaper than dropping each.
pub fn free_all<const N: usize>(mbufs: &mut ArrayVec<Mbuf, N>) {
    take_front(mbufs, |raw, count| {
        // SAFETY: `count` valid mbufs that are ours alone; they are forgotten right after.
        unsafe { sys::tg_mbuf_free_bulk(raw, count) }
        count
    });
}

/// Appends to `mbufs` what `fill` writes: it gets a place for raw pointers and how many fit, and returns how
/// many it wrote. Those must be valid mbufs that belong to nobody else.
#[inline]
pub(crate) fn append<const N: usize>(
    mbufs: &mut ArrayVec<Mbuf, N>,
    fill: impl FnOnce(*mut *mut sys::tg_mbuf, u32) -> u32,
) -> usize {
    let len = mbufs.len();
    let room = N - len;
    // SAFETY: `Mbuf` is a transparent pointer, so the free tail of the vector is a place for `room` raw pointers.
    // `fill` wrote `got` of them, and by its contract they are owned mbufs; more than `room` is cut.
    unsafe {
        let got = fill(
            mbufs.as_mut_ptr().add(len).cast(),
            u32::try_from(room).unwrap_or(u32::MAX),
        );
        let got = (got as usize).min(room);
        mbufs.set_len(len + got);
        got
    }
}

/// Hands the mbufs to `take`, which becomes the owner of as many of the first ones as it returns. The others move
/// to the front and stay.
#[inline]
pub(crate) fn take_front<const N: usize>(
    mbufs: &mut ArrayVec<Mbuf, N>,
    take: impl FnOnce(*mut *mut sys::tg_mbuf, u32) -> u32,
) -> usize {
    let len = mbufs.len();
    let taken = take(mbufs.as_mut_ptr().cast(), u32::try_from(len).unwrap_or(u32::MAX)) as usize;
    let taken = taken.min(len);
    // SAFETY: `Mbuf` is a transparent pointer. The first `taken` belong to someone else now, so they are
    // overwritten without being dropped; the rest moves down by plain copy, which is how Rust moves values.
    unsafe {
        let start = mbufs.as_mut_ptr();
        std::ptr::copy(start.add(taken), start, len - taken);
        mbufs.set_len(len - taken);
    }
    taken
}
