//! Port sets: the local ports of one pair in one shard, and the blocks in which a set remembers the order in
//! which they came back. Called by [`super::LocalPorts`] only.
//!
//! A set never lists the ports that it has not handed out yet: the shard function gives each aligned block of 128
//! ports exactly one port of each shard, so the k-th port of a set is arithmetic. Released ports queue up in a
//! chain of small blocks. Blocks are set aside when a port is handed out for the first time, so that its release,
//! which may not fail, always finds room.

use std::io;
use std::net::IpAddr;

use bytemuck::{Pod, Zeroable};

use super::PortRange;
use super::arena::{Arena, Ordered, Slot};
use crate::worker::shard::{Shard, ShardKey};

/// The ports of one pair in one shard: half a cache line.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct PortSet {
    pub(super) pair: u32,
    previous: u32,
    next: u32,
    /// First and last block of the queue of released ports; meaningless while that is empty.
    head: u32,
    tail: u32,
    queued: u16,
    /// How many ports have been handed out at least once: in use or queued.
    issued: u16,
    /// The ports lie one each in the 128-port blocks `base` to `base + count - 1`.
    base: u16,
    count: u16,
    /// The block of the next port that was never handed out.
    fresh: u16,
    /// Where the queue's first port stands in the block `head`.
    offset: u8,
    shard: u8,
}

const _: () = assert!(size_of::<PortSet>() == 32);

impl Slot for PortSet {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl Ordered for PortSet {
    fn previous(&mut self) -> &mut u32 {
        &mut self.previous
    }
}

impl PortSet {
    /// A set of which no port has been handed out. `start` says where to begin, so that a set made anew (after a
    /// restart, or when its memory had to go) does not repeat the order that the server has just seen.
    pub(super) fn new(pair: u32, shard: Shard, span: Span, start: u32) -> PortSet {
        let fresh = span.base + (start % u32::from(span.count.max(1))) as u16;
        PortSet {
            pair,
            base: span.base,
            count: span.count,
            fresh,
            shard: shard.index() as u8,
            ..PortSet::zeroed()
        }
    }

    pub(super) fn shard(&self) -> Shard {
        Shard::from_low_bits(u32::from(self.shard))
    }

    pub(super) fn span(&self) -> Span {
        Span {
            base: self.base,
            count: self.count,
        }
    }

    /// Ports in use.
    pub(super) fn used(&self) -> u16 {
        self.issued - self.queued
    }

    /// Whether no port has been handed out yet.
    pub(super) fn is_new(&self) -> bool {
        self.issued == 0
    }

    /// Whether all ports that were handed out are back.
    pub(super) fn is_idle(&self) -> bool {
        self.issued > 0 && self.used() == 0
    }

    /// Whether a port can be handed out, memory permitting.
    pub(super) fn has_free(&self) -> bool {
        self.queued > 0 || self.issued < self.count
    }
}

/// Where the ports of a shard lie: one in each of `count` 128-port blocks from `base` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    base: u16,
    pub(super) count: u16,
}

impl Span {
    /// The ports of `shard` for `address` within `ports`: only in the first and the last block of the range does
    /// the shard's port possibly lie outside, and
    /// only if the range begins or ends within it.
    pub(super) fn new(key: &ShardKey, address: IpAddr, shard: Shard, ports: PortRange) -> Span {
        let (mut base, mut end) = (ports.first() >> 7, (ports.last() >> 7) + 1);
        if !ports.first().is_multiple_of(128) && key.port_for(address, shard, base) < ports.first() {
            base += 1;
        }
        if ports.last() % 128 != 127 && key.port_for(address, shard, end - 1) > ports.last() {
            end -= 1;
        }
        Span {
            base,
            count: end.saturating_sub(base),
        }
    }
}

const PORTS_PER_BLOCK: usize = 14;

/// Half a cache line of released ports, oldest first.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    next: u32,
    ports: [u16; PORTS_PER_BLOCK],
}

const _: () = assert!(size_of::<Block>() == 32);

impl Slot for Block {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// The most blocks that a queue of `ports` ports can lie across: its first port may be the last of its block.
fn blocks_for(ports: u16) -> u32 {
    match usize::from(ports) {
        0 => 0,
        ports => (ports + 2 * PORTS_PER_BLOCK - 2) as u32 / PORTS_PER_BLOCK as u32,
    }
}

/// Whether one port more than `ports` takes one block more.
fn takes_a_block(ports: u16) -> bool {
    ports == 0 || usize::from(ports) % PORTS_PER_BLOCK == 1
}

/// The memory of all queues of released ports.
pub(super) struct Blocks {
    blocks: Arena<Block>,
    /// The sum of `blocks_for(issued)` over all sets: never more than there are, never less than are in use.
    promised: u32,
}

/// How hard a set tries for a port that was never handed out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// Leave the last eighth of the memory to sets that are still small.
    Modest,
    /// Take the last block.
    Urgent,
}

impl Blocks {
    /// Up to this many ports a set may always grow.
    const SMALL: u16 = 30;

    pub(super) fn new(bytes: usize) -> io::Result<Blocks> {
        let capacity = (bytes / size_of::<Block>()).min(u32::MAX as usize - 1);
        Ok(Blocks {
            blocks: Arena::new(capacity as u32)?,
            promised: 0,
        })
    }

    /// Hands out the next port of `set` that was never used, when there is one and memory for its return.
    #[inline]
    pub(super) fn issue(
        &mut self,
        set: &mut PortSet,
        growth: Growth,
        port_of: impl FnOnce(u16) -> u16,
    ) -> Option<u16> {
        if set.issued >= set.count {
            return None;
        }
        let more = u32::from(takes_a_block(set.issued));
        let spare = self.blocks.capacity() - self.promised;
        let modest = growth == Growth::Modest && set.issued >= Self::SMALL;
        if more > spare || modest && spare <= self.blocks.capacity() / 8 {
            return None;
        }
        self.promised += more;
        set.issued += 1;
        let port = port_of(set.fresh);
        set.fresh += 1;
        if set.fresh == set.base + set.count {
            set.fresh = set.base;
        }
        Some(port)
    }

    /// Asks the cache for the blocks where `set` takes out and puts in.
    #[inline]
    pub(super) fn prefetch(&self, set: &PortSet) {
        self.blocks.prefetch(set.head);
        self.blocks.prefetch(set.tail);
    }

    /// Takes the port of `set` that was released first.
    #[inline]
    pub(super) fn pop(&mut self, set: &mut PortSet) -> Option<u16> {
        if set.queued == 0 {
            return None;
        }
        let block = self.blocks[set.head];
        let port = block.ports[usize::from(set.offset)];
        set.offset += 1;
        set.queued -= 1;
        if set.queued == 0 || usize::from(set.offset) == PORTS_PER_BLOCK {
            self.blocks.remove(set.head);
            (set.head, set.offset) = (block.next, 0);
        }
        Some(port)
    }

    /// Queues `port`, which `set` handed out. False when all of the set's ports are there already.
    pub(super) fn push(&mut self, set: &mut PortSet, port: u16) -> bool {
        if set.queued >= set.issued {
            return false;
        }
        let at = (usize::from(set.offset) + usize::from(set.queued)) % PORTS_PER_BLOCK;
        if set.queued == 0 || at == 0 {
            // Promised when the port was handed out, so the arena cannot be full.
            let Some(block) = self.blocks.insert(Block::zeroed()) else {
                return false;
            };
            match set.queued {
                0 => (set.head, set.offset) = (block, 0),
                _ => self.blocks[set.tail].next = block,
            }
            set.tail = block;
        }
        let at = if set.queued == 0 { 0 } else { at };
        self.blocks[set.tail].ports[at] = port;
        set.queued += 1;
        true
    }

    /// Gives back all that `set` holds, which has no port in use.
    pub(super) fn forget(&mut self, set: &mut PortSet) {
        self.promised -= blocks_for(set.issued);
        if set.queued > 0 {
            let blocks = (usize::from(set.offset) + usize::from(set.queued)).div_ceil(PORTS_PER_BLOCK);
            self.blocks.remove_chain(set.head, set.tail, blocks as u32);
        }
        (set.issued, set.queued, set.offset) = (0, 0, 0);
    }

    pub(super) fn touched_bytes(&self) -> usize {
        self.blocks.touched_bytes()
    }

    pub(super) fn resident(&self) -> io::Result<usize> {
        self.blocks.resident()
    }

    pub(super) fn reserved_bytes(&self) -> usize {
        self.blocks.reserved_bytes()
    }

    /// Blocks in use and blocks promised, to be compared with the sum over all sets.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> (u32, u32) {
        (self.blocks.live(), self.promised)
    }
}

#[cfg(test)]
impl PortSet {
    /// What this set adds to [`Blocks::in_use`].
    pub(super) fn blocks(&self) -> (u32, u32) {
        let entries = if self.queued == 0 {
            0
        } else {
            usize::from(self.offset) + usize::from(self.queued)
        };
        (entries.div_ceil(PORTS_PER_BLOCK) as u32, blocks_for(self.issued))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_promised_with_the_port_that_may_need_it() {
        for ports in 0..512 {
            let more = blocks_for(ports + 1) - blocks_for(ports);
            assert_eq!(more, u32::from(takes_a_block(ports)), "{ports}");
        }
    }
}
