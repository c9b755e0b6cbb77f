//! A map from 64-bit hashes to 32-bit ids: the index of the connection table, and of any other map whose keys
//! are stored elsewhere. It holds tags, not keys: a find proposes ids, the caller says which one it meant.
//!
//! Two-choice buckets of one cache line. An entry lives in its first bucket (*home*) while that has room, else
//! in its second; when both are full, entries make room by moving to their other bucket, and what still finds
//! none goes to a small stash, so that inserts succeed up to the number of entries it was made for. A bucket
//! counts the entries whose home it is and that live elsewhere: while that is zero, which it nearly always is,
//! one line answers for hit and miss alike.
//!
//! The second bucket follows from the first and the tag alone, and the first from the second, so moving an
//! entry never needs its key. Nothing is allocated after [`TagIndex::new`].

use std::io;

use arrayvec::ArrayVec;

use super::bucket::{Bucket, SLOTS};
use crate::arch::prefetch;
use crate::memory::{Pages, Slab};

/// The share of slots, in percent, that are taken when the index holds the entries it was made for. Two
/// entries then cost 16 bytes; 93 % of them are at home in a full arena, 96 % in one that is full to nine tenths.
/// What a fuller index saves in memory it pays in second bucket lines.
const FILL_PERCENT: usize = 80;
/// Room for entries that found no bucket. Also what makes the smallest indices safe.
const STASH: usize = 64;
/// Entries that may wait for their bucket at once; see [`TagIndex::insert_later`].
const WAITING: usize = 8;
/// How many buckets a search for room looks at before it gives up: both of the entry's own, the 20 that
/// their entries could move to, and 128 beyond.
const SEARCH: usize = 150;

/// Neither bucket, nor any that could be freed, nor the stash has room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// What the first look at an entry's home says; see [`TagIndex::probe`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    /// Nothing under this hash.
    Absent,
    /// This id has the right tag: most likely it is the one.
    Candidate(u32),
    /// Not at home, but it may live elsewhere; the second bucket is being fetched.
    Elsewhere,
}

/// The index. Ids may be anything but `u32::MAX`; the same hash may occur more than once (up to 20 times for
/// certain).
pub struct TagIndex {
    buckets: Slab<Bucket>,
    stash: ArrayVec<(u64, u32), STASH>,
    /// Entries on their way into their buckets, the oldest first.
    waiting: ArrayVec<(u64, u32), WAITING>,
    /// Every entry, those that wait too.
    len: usize,
    /// The entries that fit for certain.
    made_for: usize,
}

impl TagIndex {
    /// An empty index for this many entries.
    ///
    /// # Errors
    /// The system refuses the memory, or the index would have more than 2^32 buckets.
    pub fn new(entries: usize, hugepages: bool) -> io::Result<TagIndex> {
        Self::with_fill(entries, FILL_PERCENT, hugepages)
    }

    /// As [`TagIndex::new`], in memory that is not touched before it is used, see [`Slab::sparse`].
    ///
    /// # Errors
    /// As [`TagIndex::new`].
    pub fn sparse(entries: usize) -> io::Result<TagIndex> {
        let count = buckets_for(entries, FILL_PERCENT)?;
        Ok(TagIndex::over(Slab::sparse(count)?, entries))
    }

    /// As [`TagIndex::new`], with this percentage of slots taken once all entries are in. Above 90 inserts may
    /// fail before that.
    ///
    /// # Errors
    /// As [`TagIndex::new`].
    pub fn with_fill(entries: usize, percent: usize, hugepages: bool) -> io::Result<TagIndex> {
        let count = buckets_for(entries, percent)?;
        Ok(TagIndex::over(Slab::new(count, hugepages)?, entries))
    }

    fn over(buckets: Slab<Bucket>, entries: usize) -> TagIndex {
        TagIndex {
            buckets,
            stash: ArrayVec::new(),
            waiting: ArrayVec::new(),
            len: 0,
            made_for: entries,
        }
    }

    /// Takes all its memory from the system now instead of at first use.
    pub fn touch(&mut self) {
        self.buckets.touch();
    }

    /// How many entries it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory in bytes, and what kind it is.
    #[must_use]
    pub fn memory(&self) -> (usize, Pages) {
        (self.buckets.bytes(), self.buckets.pages())
    }

    /// How many entries are not in their first bucket, and how many of these are in the stash. Walks the
    /// whole index: for reports and tests.
    #[must_use]
    pub fn displaced(&self) -> (usize, usize) {
        let away = self.buckets.iter().map(|b| b.overflow() as usize).sum();
        (away, self.stash.len())
    }

    /// Asks the cache for the line that [`TagIndex::probe`] and [`TagIndex::find`] will look at.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&self.buckets, self.home(hash));
    }

    /// The first pass of a burst lookup: looks at the first bucket only. Entries that wait are not seen.
    #[inline]
    #[must_use]
    pub fn probe(&self, hash: u64) -> Probe {
        let home = self.home(hash);
        let bucket = &self.buckets[home];
        let mask = bucket.matches(tag_of(hash));
        if mask != 0 {
            return Probe::Candidate(bucket.ids[mask.trailing_zeros() as usize]);
        }
        if !bucket.overflows() {
            return Probe::Absent;
        }
        prefetch(&self.buckets, self.other(home, tag_of(hash)));
        Probe::Elsewhere
    }

    /// The second pass for what was [`Probe::Elsewhere`]: a candidate from the second bucket. None does not
    /// mean absent: only [`TagIndex::find`] sees the stash.
    #[inline]
    #[must_use]
    pub fn probe_second(&self, hash: u64) -> Option<u32> {
        let tag = tag_of(hash);
        self.buckets[self.other(self.home(hash), tag)].find(tag, &mut |_| true)
    }

    /// The id under this hash that `accept` says is the one.
    #[inline(always)]
    #[must_use]
    pub fn find(&self, hash: u64, mut accept: impl FnMut(u32) -> bool) -> Option<u32> {
        let found = self.find_settled(hash, &mut accept);
        if found.is_some() || self.waiting.is_empty() {
            return found;
        }
        among(&self.waiting, hash, accept)
    }

    #[inline]
    fn find_settled(&self, hash: u64, mut accept: impl FnMut(u32) -> bool) -> Option<u32> {
        let tag = tag_of(hash);
        let home = self.home(hash);
        let bucket = &self.buckets[home];
        let found = bucket.find(tag, &mut accept);
        if found.is_some() || !bucket.overflows() {
            return found;
        }
        self.buckets[self.other(home, tag)]
            .find(tag, &mut accept)
            .or_else(|| among(&self.stash, hash, accept))
    }

    /// Adds an entry. It does not look for an equal one.
    ///
    /// # Errors
    /// [`Full`], and nothing has changed. Not before the number of entries that the index was made for.
    #[inline]
    pub fn insert(&mut self, hash: u64, id: u32) -> Result<(), Full> {
        let tag = tag_of(hash);
        let home = self.home(hash);
        if let Some(slot) = self.buckets[home].free_slot() {
            self.buckets[home].put(slot, tag, id, false);
            self.len += 1;
            return Ok(());
        }
        self.insert_with_force(home, tag, hash, id)
    }

    /// As [`TagIndex::insert`], where the entry's home is full.
    #[cold]
    fn insert_with_force(&mut self, home: usize, tag: u16, hash: u64, id: u32) -> Result<(), Full> {
        if let Some(slot) = self.send_a_guest_home(home) {
            self.buckets[home].put(slot, tag, id, false);
        } else if let Some((bucket, slot)) = self.make_room(home, tag) {
            let away = bucket != home;
            self.buckets[bucket].put(slot, tag, id, away);
            if away {
                self.buckets[home].send_away();
            }
        } else {
            self.stash.try_push((hash, id)).map_err(|_| Full)?;
            self.buckets[home].send_away();
        }
        self.len += 1;
        Ok(())
    }

    /// As [`TagIndex::insert`], but the entry may wait until its bucket has come from memory, while the caller does
    /// something else. Only [`TagIndex::find`] sees it before it is settled.
    ///
    /// # Errors
    /// As [`TagIndex::insert`].
    pub fn insert_later(&mut self, hash: u64, id: u32) -> Result<(), Full> {
        if self.len >= self.made_for {
            // It might not fit, which has to be said now.
            return self.insert(hash, id);
        }
        if self.waiting.is_full() {
            self.settle();
        }
        self.prefetch(hash);
        self.waiting.push((hash, id));
        self.len += 1;
        Ok(())
    }

    /// Puts the entries that wait into their buckets.
    #[inline]
    pub fn settle(&mut self) {
        if !self.waiting.is_empty() {
            self.settle_all();
        }
    }

    #[inline(never)]
    fn settle_all(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.len -= waiting.len();
        for (hash, id) in waiting {
            let fits = self.insert(hash, id);
            debug_assert!(fits.is_ok(), "an entry waited that does not fit");
        }
    }

    /// Removes the entry with this hash and id; false when there is none.
    pub fn remove(&mut self, hash: u64, id: u32) -> bool {
        self.settle();
        let tag = tag_of(hash);
        let home = self.home(hash);
        if let Some(slot) = self.buckets[home].slot_of(tag, id, false) {
            self.buckets[home].put(slot, 0, 0, false);
        } else if !self.buckets[home].overflows() || !self.remove_away(hash, home, id) {
            return false;
        }
        self.len -= 1;
        if let Some((hash, id)) = self.stash.pop() {
            // A place became free, perhaps the one it needs; if not, it goes back to where it was.
            self.len -= 1;
            let stashed_home = self.home(hash);
            self.buckets[stashed_home].take_home();
            let _fits = self.insert(hash, id);
        }
        true
    }

    fn remove_away(&mut self, hash: u64, home: usize, id: u32) -> bool {
        let tag = tag_of(hash);
        let second = self.other(home, tag);
        if let Some(slot) = self.buckets[second].slot_of(tag, id, true) {
            self.buckets[second].put(slot, 0, 0, false);
        } else if let Some(place) = self.stash.iter().position(|&entry| entry == (hash, id)) {
            self.stash.swap_remove(place);
        } else {
            return false;
        }
        self.buckets[home].take_home();
        true
    }

    /// Frees a slot of this full bucket by moving one of its guests to that guest's own home.
    fn send_a_guest_home(&mut self, bucket: usize) -> Option<usize> {
        let mut guests = self.buckets[bucket].guests();
        while guests != 0 {
            let slot = guests.trailing_zeros() as usize;
            let home = self.other(bucket, self.buckets[bucket].tags[slot]);
            if let Some(free) = self.buckets[home].free_slot() {
                self.relocate((bucket, slot), (home, free));
                return Some(slot);
            }
            guests &= guests - 1;
        }
        None
    }

    /// A free slot in the first or second bucket of an entry, made by moving others if it has to be: a search
    /// in breadth for the nearest bucket with room, so the fewest moves are made.
    fn make_room(&mut self, home: usize, tag: u16) -> Option<(usize, usize)> {
        let second = self.other(home, tag);
        // Each step: a bucket, and the step and slot that an entry would come from.
        let mut steps: ArrayVec<(usize, usize, usize), SEARCH> = ArrayVec::new();
        steps.push((second, usize::MAX, 0));
        if home != second {
            steps.push((home, usize::MAX, 0));
        }
        let mut at = 0;
        while let Some(&(bucket, ..)) = steps.get(at) {
            if let Some(slot) = self.buckets[bucket].free_slot() {
                return Some(self.shift_along(&steps, at, slot));
            }
            for slot in 0..SLOTS {
                let next = self.other(bucket, self.buckets[bucket].tags[slot]);
                if next != bucket && !steps.is_full() {
                    steps.push((next, at, slot));
                }
            }
            at += 1;
        }
        None
    }

    /// Moves entries along the path that ends in the free slot of step `at`; returns the slot freed at its
    /// beginning. A shortest path never meets a bucket twice, so the moves do not disturb each other.
    fn shift_along(&mut self, steps: &[(usize, usize, usize)], at: usize, slot: usize) -> (usize, usize) {
        let (mut at, mut free) = (at, slot);
        loop {
            let (bucket, from, from_slot) = steps[at];
            if from == usize::MAX {
                return (bucket, free);
            }
            self.relocate((steps[from].0, from_slot), (bucket, free));
            (at, free) = (from, from_slot);
        }
    }

    /// Moves an entry to its other bucket: from home to away or the other way round.
    fn relocate(&mut self, (bucket, slot): (usize, usize), (to, free): (usize, usize)) {
        let source = &mut self.buckets[bucket];
        let (tag, id, was_away) = (source.tags[slot], source.ids[slot], source.is_away(slot));
        source.put(slot, 0, 0, false);
        self.buckets[to].put(free, tag, id, !was_away);
        if was_away {
            self.buckets[to].take_home();
        } else {
            self.buckets[bucket].send_away();
        }
    }

    /// The first bucket: the upper half of the hash, scaled to the number of buckets, which may be any.
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    /// An entry's other bucket, from either one: (spread(tag) - bucket) modulo the number of buckets.
    #[inline(always)]
    fn other(&self, bucket: usize, tag: u16) -> usize {
        let count = self.buckets.len();
        let spread = u64::from(u32::from(tag).wrapping_mul(0x9e37_79b1));
        let sum = ((spread * count as u64) >> 32) as usize + count - bucket;
        if sum >= count { sum - count } else { sum }
    }
}

/// The id under this hash that `accept` says is the one.
fn among(entries: &[(u64, u32)], hash: u64, mut accept: impl FnMut(u32) -> bool) -> Option<u32> {
    let found = entries.iter().find(|&&(other, id)| other == hash && accept(id));
    found.map(|&(_, id)| id)
}

/// The tag of a hash: its lowest bits, which the choice of the bucket does not use. Never 0.
#[inline(always)]
fn tag_of(hash: u64) -> u16 {
    (hash as u16).max(1)
}

/// How many buckets so many entries take, when this percentage of slots is taken then.
fn buckets_for(entries: usize, percent: usize) -> io::Result<usize> {
    let count = entries
        .saturating_mul(100)
        .div_ceil(SLOTS * percent.clamp(1, 100))
        .max(1);
    if u32::try_from(count).is_err() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "an index of more than 2^32 buckets",
        ));
    }
    Ok(count)
}

#[cfg(test)]
mod tests;
