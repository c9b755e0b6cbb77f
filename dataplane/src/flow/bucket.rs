//! One bucket of the tag index: a cache line of eight tagged ids. Only the index uses it; it knows nothing of
//! where it lies.

use bytemuck::{Pod, Zeroable};

use crate::arch::equal_lanes;

/// Entries in a bucket.
pub(super) const SLOTS: usize = 8;

/// A bucket; zeroed, it is empty.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    /// 0 = free.
    pub(super) tags: [u16; SLOTS],
    pub(super) ids: [u32; SLOTS],
    /// Entries whose home this is and that live elsewhere.
    pub(super) overflow: u32,
    /// Bit per slot: the entry there is not at home.
    pub(super) away: u32,
    spare: [u32; 2],
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    /// Bit per slot whose tag this is.
    #[inline(always)]
    pub(super) fn matches(&self, tag: u16) -> u32 {
        equal_lanes(&self.tags, tag)
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
            let id = self.ids[mask.trailing_zeros() as usize % SLOTS];
            if accept(id) {
                return Some(id);
            }
            mask &= mask - 1;
        }
        None
    }

    /// The slot that holds exactly this entry, at home here or away.
    pub(super) fn slot_of(&self, tag: u16, id: u32, away: bool) -> Option<usize> {
        let there = if away { self.away } else { !self.away };
        let mask = self.matches(tag) & there;
        (0..SLOTS).find(|slot| mask >> slot & 1 == 1 && self.ids[*slot] == id)
    }

    pub(super) fn put(&mut self, slot: usize, tag: u16, id: u32, away: bool) {
        self.tags[slot] = tag;
        self.ids[slot] = id;
        self.away = self.away & !(1 << slot) | u32::from(away) << slot;
    }

    pub(super) fn is_away(&self, slot: usize) -> bool {
        self.away >> slot & 1 == 1
    }
}
