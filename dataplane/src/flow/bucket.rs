//! One bucket of the tag index: a cache line of ten tagged ids. Only the index uses it; it knows nothing of
//! where it lies.

use bytemuck::{Pod, Zeroable};

use crate::arch::equal_ten;

/// Entries in a bucket.
pub(super) const SLOTS: usize = 10;
/// The bits of [`Bucket::state`] that are about single slots.
const AWAY: u32 = (1 << SLOTS) - 1;

/// A bucket; zeroed, it is empty.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    pub(super) ids: [u32; SLOTS],
    /// 0 = free.
    pub(super) tags: [u16; SLOTS],
    /// Bit per slot, from the lowest on: the entry there is not at home. Above: how many entries whose home this is live
    /// elsewhere, which is no more than another bucket and the stash hold.
    state: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    /// Bit per slot whose tag this is.
    #[inline(always)]
    pub(super) fn matches(&self, tag: u16) -> u32 {
        equal_ten(&self.tags, tag)
    }

    #[inline]
    pub(super) fn free_slot(&self) -> Option<usize> {
        let free = self.matches(0);
        (free != 0).then(|| free.trailing_zeros() as usize)
    }

    /// The first id under this tag that the caller accepts.
    #[inline(always)]
    pub(super) fn find(&self, tag: u16, accept: &mut impl FnMut(u32) -> bool) -> Option<u32> {
        let mut mask = self.matches(tag);
        while mask != 0 {
            let id = self.ids[mask.trailing_zeros() as usize];
            if accept(id) {
                return Some(id);
            }
            mask &= mask - 1;
        }
        None
    }

    /// The slot that holds exactly this entry, at home here or away.
    #[inline]
    pub(super) fn slot_of(&self, tag: u16, id: u32, away: bool) -> Option<usize> {
        let there = if away { self.state } else { !self.state };
        let mut mask = self.matches(tag) & there;
        while mask != 0 {
            let slot = mask.trailing_zeros() as usize;
            if self.ids[slot] == id {
                return Some(slot);
            }
            mask &= mask - 1;
        }
        None
    }

    #[inline]
    pub(super) fn put(&mut self, slot: usize, tag: u16, id: u32, away: bool) {
        self.tags[slot] = tag;
        self.ids[slot] = id;
        self.state = self.state & !(1 << slot) | u32::from(away) << slot;
    }

    pub(super) fn is_away(&self, slot: usize) -> bool {
        self.state >> slot & 1 == 1
    }

    /// Bit per slot: the entry there is not at home.
    pub(super) fn guests(&self) -> u32 {
        self.state & AWAY
    }

    /// Whether entries whose home this is live elsewhere.
    #[inline(always)]
    pub(super) fn overflows(&self) -> bool {
        self.state > AWAY
    }

    /// How many entries whose home this is live elsewhere.
    pub(super) fn overflow(&self) -> u32 {
        self.state >> SLOTS
    }

    /// One more entry whose home this is lives elsewhere.
    pub(super) fn send_away(&mut self) {
        self.state += AWAY + 1;
    }

    /// One less.
    pub(super) fn take_home(&mut self) {
        self.state -= AWAY + 1;
    }
}
