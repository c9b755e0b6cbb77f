//! Packets that wait for a MAC: a fixed arena of packets, threaded into one first-in-first-out queue per
//! neighbour. Used by the neighbour table only.

const END: u16 = u16::MAX;

/// One neighbour's queue: indices into the arena.
#[derive(Clone, Copy)]
pub(super) struct Queue {
    head: u16,
    tail: u16,
    len: u8,
}

impl Queue {
    pub(super) const EMPTY: Queue = Queue {
        head: END,
        tail: END,
        len: 0,
    };

    pub(super) fn len(self) -> u8 {
        self.len
    }
}

struct Slot<P> {
    packet: Option<P>,
    /// The next in the same queue, or the next free one.
    next: u16,
    /// The neighbour whose queue it is in.
    owner: u16,
}

/// The arena of all queues.
pub(super) struct Waiting<P> {
    slots: Box<[Slot<P>]>,
    free: u16,
    held: usize,
    /// Where to look for the next packet that gives way when the arena is full.
    hand: usize,
}

impl<P> Waiting<P> {
    /// Room for `capacity` packets in all (at least 1, at most 65,534).
    pub(super) fn new(capacity: u16) -> Waiting<P> {
        let capacity = capacity.clamp(1, END - 1);
        let slot = |i| Slot {
            packet: None,
            next: if i + 1 < capacity { i + 1 } else { END },
            owner: 0,
        };
        Waiting {
            slots: (0..capacity).map(slot).collect(),
            free: 0,
            held: 0,
            hand: 0,
        }
    }

    /// Packets in all queues.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn full(&self) -> bool {
        self.free == END
    }

    /// The neighbour whose oldest packet gives way when the arena is full. The hand goes round the arena, so
    /// that neighbours pay in proportion to what they hold, and a newcomer always finds room.
    pub(super) fn victim(&mut self) -> u16 {
        self.hand = (self.hand + 1) % self.slots.len();
        self.slots[self.hand].owner
    }

    /// Appends a packet. Gives it back when the arena is full.
    pub(super) fn push(&mut self, queue: &mut Queue, owner: u16, packet: P) -> Result<(), P> {
        let index = self.free;
        let Some(slot) = self.slots.get_mut(usize::from(index)) else {
            return Err(packet);
        };
        self.free = slot.next;
        *slot = Slot {
            packet: Some(packet),
            next: END,
            owner,
        };
        if let Some(last) = self.slots.get_mut(usize::from(queue.tail)) {
            last.next = index;
        } else {
            queue.head = index;
        }
        queue.tail = index;
        queue.len += 1;
        self.held += 1;
        Ok(())
    }

    /// Takes the oldest packet of a queue.
    pub(super) fn pop(&mut self, queue: &mut Queue) -> Option<P> {
        let index = queue.head;
        let slot = self.slots.get_mut(usize::from(index))?;
        queue.head = slot.next;
        if queue.head == END {
            queue.tail = END;
        }
        queue.len -= 1;
        slot.next = self.free;
        self.free = index;
        self.held -= 1;
        slot.packet.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_share_the_arena_and_keep_their_order() {
        let mut waiting = Waiting::new(3);
        let (mut a, mut b) = (Queue::EMPTY, Queue::EMPTY);
        waiting.push(&mut a, 1, 10).unwrap();
        waiting.push(&mut b, 2, 20).unwrap();
        waiting.push(&mut a, 1, 11).unwrap();
        assert!(waiting.full());
        assert_eq!(waiting.push(&mut b, 2, 21), Err(21));
        assert_eq!(waiting.pop(&mut a), Some(10));
        waiting.push(&mut b, 2, 21).unwrap();
        assert_eq!((a.len(), b.len(), waiting.held()), (1, 2, 3));
        assert_eq!(waiting.pop(&mut a), Some(11));
        assert_eq!(waiting.pop(&mut a), None);
        assert_eq!(waiting.pop(&mut b), Some(20));
        assert_eq!(waiting.pop(&mut b), Some(21));
        assert_eq!(waiting.pop(&mut b), None);
        assert_eq!(waiting.held(), 0);
    }

    #[test]
    fn every_owner_is_a_victim_in_turn() {
        let mut waiting = Waiting::new(2);
        let (mut a, mut b) = (Queue::EMPTY, Queue::EMPTY);
        waiting.push(&mut a, 1, ()).unwrap();
        waiting.push(&mut b, 2, ()).unwrap();
        let mut victims = [waiting.victim(), waiting.victim()];
        victims.sort_unstable();
        assert_eq!(victims, [1, 2]);
    }
}
