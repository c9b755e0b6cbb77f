//! The resolved entries as all workers read them: one atomic word per neighbour.
//!
//! The table's owner is the only one that writes a word. A reader needs nothing but the word itself, so relaxed
//! loads and stores are enough: there is no second memory location that has to be seen in order with it.

use crate::packet::{MacAddr, PortId};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Names a neighbour entry, as connection records cache it. 0 names none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(transparent)]
pub struct NeighbourId(pub u16);

impl NeighbourId {
    /// No neighbour: what a fresh record holds.
    pub const NONE: NeighbourId = NeighbourId(0);

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What is known of a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum NeighbourState {
    /// The id is not in use.
    Free = 0,
    /// Asked for by broadcast or multicast, no answer yet; packets wait.
    Incomplete = 1,
    /// Does not answer; packets are refused but for one a second, which asks again.
    Failed = 2,
    /// Removed; the id stays taken while records may still hold it.
    Retired = 3,
    /// Retired, and the records are being swept for it.
    Sweeping = 4,
    /// Configured; never asked for, never overwritten.
    Static = 0x80,
    /// Confirmed by an answer within the reachable time.
    Reachable = 0x81,
    /// The MAC is known but not lately confirmed; used as it is, and confirmed once it is used.
    Stale = 0x82,
    /// As stale, and being asked.
    Probing = 0x83,
}

impl NeighbourState {
    /// Bit 7 is set in exactly the states whose MAC may be used, so that a reader tests one bit.
    const USABLE: u8 = 0x80;

    /// Whether packets may be sent to the entry's MAC.
    #[must_use]
    pub const fn usable(self) -> bool {
        self as u8 & Self::USABLE != 0
    }

    /// The name that `show neighbours` prints.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            NeighbourState::Free => "free",
            NeighbourState::Incomplete => "incomplete",
            NeighbourState::Failed => "failed",
            NeighbourState::Retired | NeighbourState::Sweeping => "retired",
            NeighbourState::Static => "static",
            NeighbourState::Reachable => "reachable",
            NeighbourState::Stale => "stale",
            NeighbourState::Probing => "probing",
        }
    }
}

/// The use mark stands beside the word: a reader that sets it has the line already, and sets it only when it is
/// clear, so the line is written once per refresh interval and not once per packet.
#[derive(Default)]
#[repr(align(16))]
struct Slot {
    /// MAC in bits 0-47 (first byte lowest), port in 48-55, state in 56-63.
    word: AtomicU64,
    used: AtomicU8,
}

/// The words of one table; shared by an `Arc`, written by the table's owner, read by all workers.
pub struct NeighbourWords {
    slots: Box<[Slot]>,
}

impl NeighbourWords {
    pub(super) fn new(capacity: u16) -> NeighbourWords {
        NeighbourWords {
            slots: (0..=capacity).map(|_| Slot::default()).collect(),
        }
    }

    /// The Ethernet port and MAC to send to; `None` when unresolved, when the id is [`NeighbourId::NONE`], or
    /// when it names no entry. Marks the neighbour as in use, which keeps it fresh. Costs one cache line.
    #[inline]
    #[must_use]
    pub fn resolved(&self, id: NeighbourId) -> Option<(PortId, MacAddr)> {
        let slot = self.slots.get(id.index())?;
        let [a, b, c, d, e, f, port, state] = slot.word.load(Relaxed).to_le_bytes();
        if state & NeighbourState::USABLE == 0 {
            return None;
        }
        if slot.used.load(Relaxed) == 0 {
            slot.used.store(1, Relaxed);
        }
        Some((PortId(port), MacAddr([a, b, c, d, e, f])))
    }

    /// Whether a sweep has to clear this id wherever it is cached; see [`super::NeighbourTable::begin_sweep`].
    #[inline]
    #[must_use]
    pub fn leaving(&self, id: NeighbourId) -> bool {
        self.slots
            .get(id.index())
            .is_some_and(|s| s.word.load(Relaxed).to_le_bytes()[7] == NeighbourState::Sweeping as u8)
    }

    /// Publishes an entry. Only the table's owner calls this.
    pub(super) fn publish(&self, id: NeighbourId, port: PortId, mac: MacAddr, state: NeighbourState) {
        let [a, b, c, d, e, f] = mac.0;
        if let Some(slot) = self.slots.get(id.index()) {
            let word = u64::from_le_bytes([a, b, c, d, e, f, port.0, state as u8]);
            slot.word.store(word, Relaxed);
        }
    }

    /// Whether the entry was used since the last call. A use between the two accesses may go unnoticed until
    /// the next packet: the mark is a hint.
    pub(super) fn take_used(&self, id: NeighbourId) -> bool {
        let Some(slot) = self.slots.get(id.index()) else {
            return false;
        };
        let used = slot.used.load(Relaxed) != 0;
        if used {
            slot.used.store(0, Relaxed);
        }
        used
    }

    /// Marks the entry as in use.
    pub(super) fn mark_used(&self, id: NeighbourId) {
        if let Some(slot) = self.slots.get(id.index()) {
            slot.used.store(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    #[test]
    fn none_and_ids_out_of_range_resolve_to_nothing() {
        let words = NeighbourWords::new(2);
        assert_eq!(words.resolved(NeighbourId::NONE), None);
        assert_eq!(words.resolved(NeighbourId(2)), None);
        assert_eq!(words.resolved(NeighbourId(3)), None);
        assert!(!words.leaving(NeighbourId(3)));
    }

    #[test]
    fn exactly_the_usable_states_resolve() {
        use NeighbourState::*;
        let words = NeighbourWords::new(1);
        let id = NeighbourId(1);
        for state in [
            Free, Incomplete, Failed, Retired, Sweeping, Static, Reachable, Stale, Probing,
        ] {
            words.publish(id, PortId(255), MAC, state);
            let expected = matches!(state, Static | Reachable | Stale | Probing);
            assert_eq!(words.resolved(id).is_some(), expected, "{state:?}");
            assert_eq!(state.usable(), expected, "{state:?}");
            assert_eq!(words.leaving(id), state == Sweeping);
        }
        assert_eq!(words.resolved(id), Some((PortId(255), MAC)));
    }

    #[test]
    fn a_look_marks_use_and_taking_the_mark_clears_it() {
        let words = NeighbourWords::new(1);
        let id = NeighbourId(1);
        assert_eq!(words.resolved(id), None);
        assert!(!words.take_used(id), "an unresolved look is no use");
        words.publish(id, PortId(0), MAC, NeighbourState::Reachable);
        assert!(words.resolved(id).is_some());
        assert!(words.take_used(id));
        assert!(!words.take_used(id));
    }
}
