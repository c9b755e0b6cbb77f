//! Fixed arenas of slots named by `u32`, with intrusive lists through them. The parts of local ports live in
//! these; nothing here allocates after construction, and a slot that was never handed out was never touched.
//!
//! Id 0 is never handed out, so that 0 can end lists.

use std::io;
use std::ops::{Index, IndexMut};

use bytemuck::Pod;

use crate::arch::prefetch;
use crate::memory::Slab;

/// What a slot has to offer to an arena: a link for the free list, used as the slot pleases while it is live.
pub(super) trait Slot: Pod {
    /// The link to the next slot.
    fn next(&mut self) -> &mut u32;
}

/// A slot that can stand in a [`Queue`].
pub(super) trait Ordered: Slot {
    /// The link to the slot before.
    fn previous(&mut self) -> &mut u32;
}

/// A fixed number of slots.
pub(super) struct Arena<T: Slot> {
    slots: Slab<T>,
    /// Head of the list of slots that were given back.
    free: u32,
    /// The highest id that was ever handed out.
    touched: u32,
    live: u32,
}

impl<T: Slot> Arena<T> {
    pub(super) fn new(capacity: u32) -> io::Result<Arena<T>> {
        let slots = Slab::sparse(capacity as usize + 1)?;
        Ok(Arena {
            slots,
            free: 0,
            touched: 0,
            live: 0,
        })
    }

    /// Stores `value`; none when the arena is full.
    pub(super) fn insert(&mut self, value: T) -> Option<u32> {
        let id = if self.free != 0 {
            let id = self.free;
            self.free = *self[id].next();
            id
        } else if (self.touched as usize) + 1 < self.slots.len() {
            self.touched += 1;
            self.touched
        } else {
            return None;
        };
        self[id] = value;
        self.live += 1;
        Some(id)
    }

    pub(super) fn remove(&mut self, id: u32) {
        let free = self.free;
        *self[id].next() = free;
        self.free = id;
        self.live -= 1;
    }

    /// Gives back `count` slots that are linked from `first` to `last`.
    pub(super) fn remove_chain(&mut self, first: u32, last: u32, count: u32) {
        let free = self.free;
        *self[last].next() = free;
        self.free = first;
        self.live -= count;
    }

    pub(super) fn capacity(&self) -> u32 {
        (self.slots.len() - 1) as u32
    }

    pub(super) fn live(&self) -> u32 {
        self.live
    }

    /// Asks the cache for a slot; 0 asks for nothing of use.
    #[inline]
    pub(super) fn prefetch(&self, id: u32) {
        prefetch(&self.slots, id as usize);
    }

    /// The highest id that was ever handed out.
    pub(super) fn touched(&self) -> u32 {
        self.touched
    }

    pub(super) fn touched_bytes(&self) -> usize {
        self.touched as usize * size_of::<T>()
    }

    pub(super) fn resident(&self) -> io::Result<usize> {
        self.slots.resident()
    }

    pub(super) fn reserved_bytes(&self) -> usize {
        self.slots.bytes()
    }
}

impl<T: Slot> Index<u32> for Arena<T> {
    type Output = T;

    #[inline]
    fn index(&self, id: u32) -> &T {
        &self.slots[id as usize]
    }
}

impl<T: Slot> IndexMut<u32> for Arena<T> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.slots[id as usize]
    }
}

/// A doubly linked queue through the slots of an arena: in at the back, out anywhere, each O(1).
#[derive(Clone, Copy, Default)]
pub(super) struct Queue {
    first: u32,
    last: u32,
}

impl Queue {
    /// The slot that has been in the queue the longest.
    pub(super) fn first(&self) -> Option<u32> {
        (self.first != 0).then_some(self.first)
    }

    pub(super) fn push<T: Ordered>(&mut self, arena: &mut Arena<T>, id: u32) {
        *arena[id].previous() = self.last;
        *arena[id].next() = 0;
        match self.last {
            0 => self.first = id,
            last => *arena[last].next() = id,
        }
        self.last = id;
    }

    /// All ids, the longest queued first.
    #[cfg(test)]
    pub(super) fn ids<T: Ordered>(&self, arena: &mut Arena<T>) -> Vec<u32> {
        let mut ids = vec![];
        let mut at = self.first;
        while at != 0 {
            ids.push(at);
            at = *arena[at].next();
        }
        ids
    }

    /// Takes out `id`, which is in this queue.
    pub(super) fn unlink<T: Ordered>(&mut self, arena: &mut Arena<T>, id: u32) {
        let (previous, next) = (*arena[id].previous(), *arena[id].next());
        match previous {
            0 => self.first = next,
            previous => *arena[previous].next() = next,
        }
        match next {
            0 => self.last = previous,
            next => *arena[next].previous() = previous,
        }
    }
}
