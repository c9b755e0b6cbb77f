//! The timing wheel of a worker: when to look at a connection again. Its lists run through the records, so it
//! holds no memory per connection, and unlinking takes constant time.
//!
//! It does not store deadlines: those follow from a record's `last_seen` and its timeout, and every packet
//! moves them. The wheel promises to ask about an entry no later than one slot (80 ms) after the deadline it
//! was armed with, provided it is driven, and may ask before: an entry far in the future waits in a coarse
//! slot, is asked about when that slot begins, and is armed again with whatever its deadline then is. So a
//! busy connection costs a question in a long while, and each expiry is as exact as the finest slot, whatever
//! the phase it was started at. Whether time is up is always the owner's answer, never the wheel's guess.
//!
//! The finest slots reach 164 s ahead, beyond the two minutes of TIME_WAIT: a question about a record that nobody has
//! looked at for that long is a wait for memory, and a connection that has closed is to cost one of them.

use super::record::{Record, RecordId};
use crate::time::Tick;

/// Ticks in a finest slot, as a power of two: 8 ticks, 80 ms.
const SLOT_BITS: u32 = 3;
/// Slot numbers wrap where ticks wrap.
const RING: u32 = u32::MAX >> SLOT_BITS;
const LEVELS: usize = 3;
/// Slots in each level, as powers of two, the finest first.
const LEVEL_BITS: [u32; LEVELS] = [11, 9, 9];
/// What a slot of each level counts in finest slots, as powers of two.
const SHIFTS: [u32; LEVELS] = [0, LEVEL_BITS[0], LEVEL_BITS[0] + LEVEL_BITS[1]];
/// Where the slots of each level begin.
const BASES: [usize; LEVELS] = [0, 1 << LEVEL_BITS[0], (1 << LEVEL_BITS[0]) + (1 << LEVEL_BITS[1])];
const SLOTS: usize = BASES[2] + (1 << LEVEL_BITS[2]);
const _: () = assert!(
    RING >> SHIFTS[2] == (1 << LEVEL_BITS[2]) - 1,
    "the levels are the whole ring"
);
/// A link to a list head instead of a record.
const HEAD: u32 = 1 << 31;

/// Ticks in the finest slot: the greatest delay of an expiry beyond its deadline.
pub const SLOT_TICKS: u32 = 1 << SLOT_BITS;

/// The owner's answer to what is to become of an entry that the wheel asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Its time is up. It is off the wheel already; the owner removes it.
    Expired,
    /// It has until then.
    Rearm(Tick),
}

impl Verdict {
    /// Expired if the deadline has been reached.
    #[inline]
    #[must_use]
    pub fn at(deadline: Tick, now: Tick) -> Verdict {
        if now.reached(deadline) {
            Verdict::Expired
        } else {
            Verdict::Rearm(deadline)
        }
    }
}

/// The wheel. All its methods take the arena whose records it links; an id is its index there, and never 0.
pub struct Wheel {
    /// First entry of each slot's list, level by level; 0 = empty.
    heads: [u32; SLOTS],
    /// Bit per slot: its list is not empty.
    occupied: [u64; SLOTS / 64],
    /// The slot that is due next: everything before it has been handled.
    current: u32,
    len: usize,
}

impl Wheel {
    /// An empty wheel that starts turning now.
    #[must_use]
    pub fn new(now: Tick) -> Wheel {
        Wheel {
            heads: [0; SLOTS],
            occupied: [0; SLOTS / 64],
            current: now.0 >> SLOT_BITS,
            len: 0,
        }
    }

    /// How many entries are on it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Arms an entry, or moves it if it is armed already. One whose deadline has passed is asked about at the
    /// next turn. Deadlines lie up to 248 days ahead, as far as ticks compare.
    pub fn insert(&mut self, records: &mut [Record], id: RecordId, deadline: Tick) {
        if records[id.index()].previous != 0 {
            self.remove(records, id);
        }
        // Rounded up, so that a slot never begins before the deadlines in it.
        let mut slot = deadline.0.wrapping_add(SLOT_TICKS - 1) >> SLOT_BITS;
        let mut ahead = slot.wrapping_sub(self.current) & RING;
        if ahead > RING / 4 * 3 {
            (slot, ahead) = (self.current, 0);
        }
        let place = match ahead {
            _ if ahead >> SHIFTS[1] == 0 => place_of(0, slot),
            _ if ahead >> SHIFTS[2] == 0 => place_of(1, slot),
            _ => place_of(2, slot),
        };
        let first = self.heads[place];
        let record = &mut records[id.index()];
        record.next = first;
        record.previous = HEAD | place as u32;
        if first != 0 {
            records[first as usize].previous = id.0;
        }
        self.heads[place] = id.0;
        self.occupied[place / 64] |= 1 << (place % 64);
        self.len += 1;
    }

    /// Takes an entry off the wheel; false when it is not on it.
    pub fn remove(&mut self, records: &mut [Record], id: RecordId) -> bool {
        let record = &mut records[id.index()];
        let (next, previous) = (record.next, record.previous);
        if previous == 0 {
            return false;
        }
        (record.next, record.previous) = (0, 0);
        if next != 0 {
            records[next as usize].previous = previous;
        }
        if previous & HEAD == 0 {
            records[previous as usize].next = next;
        } else {
            let place = (previous & !HEAD) as usize;
            self.heads[place] = next;
            if next == 0 {
                self.occupied[place / 64] &= !(1 << (place % 64));
            }
        }
        self.len -= 1;
        true
    }

    /// Asks about up to `budget` entries that are due, and goes on at the next call where it stopped, so that
    /// a million expiries at once delay no packet. Returns how many it asked about: fewer than `budget` means
    /// that nothing is due any more. Whatever time has passed since the last call, empty slots cost nothing.
    pub fn advance(
        &mut self,
        records: &mut [Record],
        now: Tick,
        budget: usize,
        mut ask: impl FnMut(&mut [Record], RecordId) -> Verdict,
    ) -> usize {
        for asked in 0..budget {
            let Some(id) = self.pop_due(records, now) else {
                return asked;
            };
            if let Verdict::Rearm(deadline) = ask(records, id) {
                self.insert(records, id, deadline);
            }
        }
        budget
    }

    /// Takes the next entry off the wheel whose slot has begun, for owners that remove records from the table
    /// as they go: they decide on the deadline as in [`Verdict`], and arm the entry again if it has time left.
    pub fn pop_due(&mut self, records: &mut [Record], now: Tick) -> Option<RecordId> {
        let target = now.0 >> SLOT_BITS;
        let ahead = target.wrapping_sub(self.current) & RING;
        if ahead > RING / 4 * 3 {
            return None;
        }
        match self.next_occupied() {
            Some(distance) if distance <= ahead => {
                self.current = self.current.wrapping_add(distance) & RING;
                let id = RecordId(self.first_due());
                self.remove(records, id);
                Some(id)
            }
            _ => {
                self.current = target.wrapping_add(1) & RING;
                None
            }
        }
    }

    /// When the wheel next has something to ask, so that an idle owner can sleep until then; None when it is
    /// empty.
    #[must_use]
    pub fn next_due(&self) -> Option<Tick> {
        let slot = self.current.wrapping_add(self.next_occupied()?) & RING;
        Some(Tick(slot << SLOT_BITS))
    }

    /// Whether the current slot is the first of a slot of this level, which is when that one is due.
    fn begins(&self, level: usize) -> bool {
        self.current & ((1 << SHIFTS[level]) - 1) == 0
    }

    /// The first entry that is due in the current slot, at whatever level; 0 when there is none.
    fn first_due(&self) -> u32 {
        (0..LEVELS)
            .filter(|&level| self.begins(level))
            .map(|level| self.heads[place_of(level, self.current)])
            .find(|&first| first != 0)
            .unwrap_or(0)
    }

    /// How many slots lie between the current one and the next that has entries due, at whatever level.
    fn next_occupied(&self) -> Option<u32> {
        if self.first_due() != 0 {
            return Some(0);
        }
        let distance = |level: usize| {
            let (shift, slots) = (SHIFTS[level], 1 << LEVEL_BITS[level]);
            let at = self.current >> shift;
            // The current slot of a coarse level has been handled when it began: what is in it now is a full
            // turn away.
            let skip = u32::from(!self.begins(level));
            let words = &self.occupied[BASES[level] / 64..][..slots as usize / 64];
            let found = next_set_bit(words, (at + skip) % slots)?;
            Some(((at + skip + found) << shift).wrapping_sub(self.current) & RING)
        };
        (0..LEVELS).filter_map(distance).min()
    }
}

/// Where the list of a slot, by its number, stands in a level.
#[inline]
const fn place_of(level: usize, slot: u32) -> usize {
    BASES[level] + ((slot >> SHIFTS[level]) & ((1 << LEVEL_BITS[level]) - 1)) as usize
}

/// The distance from bit `from` to the next set bit, going round at the end.
fn next_set_bit(words: &[u64], from: u32) -> Option<u32> {
    let masked = |word: usize, keep: u64| {
        let bits = words[word] & keep;
        (bits != 0).then(|| word as u32 * 64 + bits.trailing_zeros())
    };
    let first = from as usize / 64;
    let count = words.len() as u32 * 64;
    masked(first, u64::MAX << (from % 64))
        .or_else(|| (first + 1..words.len()).find_map(|word| masked(word, u64::MAX)))
        .or_else(|| (0..=first).find_map(|word| masked(word, u64::MAX)))
        .map(|bit| (bit + count - from) % count)
}

#[cfg(test)]
mod tests;
