//! The rings by which workers hand packets to each other: one for each ordered pair, so that each has one end that
//! puts in and one that takes out. `tidegate bench` measures a hop over the same rings.

use super::io::Frame;
use arrayvec::ArrayVec;
use crossbeam::queue::ArrayQueue;
use dataplane::worker::{Arrival, BURST};
use std::sync::Arc;

/// Packets that may wait for one worker, in the rings from all others: some milliseconds in which its CPU is busy
/// elsewhere.
const ROOM: usize = 8192;
/// The least and the most of it in one ring.
const LEAST: usize = 512;
const MOST: usize = 2048;

type Ring<P> = Arc<ArrayQueue<(Arrival, P)>>;

/// The ends that one worker has. Tests have packets of their own.
pub(crate) struct Rings<P = Frame> {
    /// By the number of the other worker; none to itself.
    to: Vec<Option<Ring<P>>>,
    from: Vec<Ring<P>>,
    /// Whose turn it is.
    next: usize,
}

/// Packets that may wait in one ring among so many workers.
pub(crate) fn room(workers: usize) -> usize {
    (ROOM / workers.max(1)).clamp(LEAST, MOST)
}

/// The rings of so many workers, by their numbers.
pub(crate) fn mesh<P>(workers: usize) -> Vec<Rings<P>> {
    let room = room(workers);
    let none = |_| Rings {
        to: Vec::new(),
        from: Vec::new(),
        next: 0,
    };
    let mut all: Vec<Rings<P>> = (0..workers).map(none).collect();
    for from in 0..workers {
        for to in 0..workers {
            let ring = (from != to).then(|| Arc::new(ArrayQueue::new(room)));
            all[from].to.push(ring.clone());
            all[to].from.extend(ring);
        }
    }
    all
}

impl<P> Rings<P> {
    /// Hands a packet to a worker; gives it back when that has no room.
    #[inline]
    pub(crate) fn hand_over(&self, worker: u8, arrival: Arrival, packet: P) -> Result<(), P> {
        match self.to.get(usize::from(worker)) {
            Some(Some(ring)) => ring.push((arrival, packet)).map_err(|(_, packet)| packet),
            _ => Err(packet),
        }
    }

    /// Appends what the others have handed over, as far as there is room. Each of them comes first in turn, so that
    /// one that hands over much does not shut out the rest.
    #[inline]
    pub(crate) fn take_over(&mut self, burst: &mut ArrayVec<(Arrival, P), BURST>) {
        let count = self.from.len();
        if count == 0 {
            return;
        }
        self.next = (self.next + 1) % count;
        let (first, rest) = self.from.split_at(self.next);
        for ring in rest.iter().chain(first) {
            while !burst.is_full() {
                match ring.pop() {
                    Some(handed) => burst.push(handed),
                    None => break,
                }
            }
        }
    }
}
