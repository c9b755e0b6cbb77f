//! The closing connections of each pair, in the order in which they began to close: what can be recycled when a
//! pair has no free port. Called by [`super::LocalPorts`] only.

use std::io;

use super::arena::Arena;
use super::pairs::PairSlot;
use crate::arch::prefetch;
use crate::memory::Slab;

/// Marks a link as the end of a list; the other bits are the pair. So a record in the middle of nowhere finds its
/// pair by its links, and none needs a field for it.
const END: u32 = 1 << 31;

/// Links beside the connection table, indexed by record id.
pub(super) struct Closing {
    links: Slab<Links>,
}

/// The neighbours in the list, or ends; zero when the record is in no list.
#[derive(Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Links {
    previous: u32,
    next: u32,
}

const UNLISTED: Links = Links { previous: 0, next: 0 };

impl Closing {
    /// For records with ids 1 to `connections`.
    pub(super) fn new(connections: u32, hugepages: bool) -> io::Result<Closing> {
        Ok(Closing {
            links: Slab::new(connections as usize + 1, hugepages)?,
        })
    }

    /// Takes all memory from the system now.
    pub(super) fn touch(&mut self) {
        self.links.touch();
    }

    /// Puts `record` at the end of `pair`'s list. False when it is in a list already, or out of range.
    pub(super) fn list(&mut self, pairs: &mut Arena<PairSlot>, pair: u32, record: u32) -> bool {
        if self.links.get(record as usize) != Some(&UNLISTED) {
            return false;
        }
        let slot = &mut pairs[pair];
        let previous = match slot.closing_last {
            0 => {
                slot.closing_first = record;
                END | pair
            }
            last => {
                self.links[last as usize].next = record;
                last
            }
        };
        slot.closing_last = record;
        self.links[record as usize] = Links {
            previous,
            next: END | pair,
        };
        true
    }

    /// Takes `record` out of its list; false when it is in none.
    pub(super) fn unlist(&mut self, pairs: &mut Arena<PairSlot>, record: u32) -> bool {
        let Some(links) = self.links.get_mut(record as usize) else {
            return false;
        };
        let Links { previous, next } = std::mem::replace(links, UNLISTED);
        if previous == 0 {
            return false;
        }
        let neighbour = |link: u32| if link & END == 0 { link } else { 0 };
        match previous & END {
            0 => self.links[previous as usize].next = next,
            _ => pairs[previous & !END].closing_first = neighbour(next),
        }
        match next & END {
            0 => self.links[next as usize].previous = previous,
            _ => pairs[next & !END].closing_last = neighbour(previous),
        }
        true
    }

    /// Asks the cache for what taking `record` out looks at.
    #[inline]
    pub(super) fn prefetch(&self, record: u32) {
        prefetch(&self.links, record as usize);
    }

    pub(super) fn resident(&self) -> io::Result<usize> {
        self.links.resident()
    }

    pub(super) fn reserved_bytes(&self) -> usize {
        self.links.bytes()
    }
}
