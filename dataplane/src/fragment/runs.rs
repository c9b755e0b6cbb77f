//! Which bytes of a datagram have arrived: sorted runs that neither touch nor overlap.

use arrayvec::ArrayVec;

/// Runs at the most. Pieces of 1,232 bytes, which is what IPv6's least MTU holds, are 53 in the longest datagram;
/// in the worst order every other one is there first.
const MOST: usize = 64;

/// The bytes from `start` up to `end`, which is beyond the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    start: u16,
    end: u16,
}

/// How a piece fits to what has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fit {
    /// None of its bytes is there yet.
    New,
    /// All of its bytes are there.
    There,
    /// Some are.
    Overlap,
}

/// The runs of one datagram. `start < end` in every argument.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs(ArrayVec<Run, MOST>);

impl Runs {
    /// How the bytes from `start` up to `end` fit in.
    pub(super) fn fit(&self, start: u16, end: u16) -> Fit {
        match self.0.get(self.after(start)) {
            Some(run) if run.start <= start && end <= run.end => Fit::There,
            Some(run) if run.start < end => Fit::Overlap,
            _ => Fit::New,
        }
    }

    /// Adds bytes that fit in as new. False when that would be one run too many; then nothing has changed.
    pub(super) fn insert(&mut self, start: u16, end: u16) -> bool {
        let at = self.after(start);
        let before = at.checked_sub(1).filter(|&i| self.0[i].end == start);
        let touches_next = self.0.get(at).is_some_and(|run| run.start == end);
        match (before, touches_next) {
            (Some(before), true) => {
                self.0[before].end = self.0[at].end;
                self.0.remove(at);
            }
            (Some(before), false) => self.0[before].end = end,
            (None, true) => self.0[at].start = start,
            (None, false) => return self.0.try_insert(at, Run { start, end }).is_ok(),
        }
        true
    }

    /// Whether everything from 0 up to `end` is there.
    pub(super) fn cover(&self, end: u16) -> bool {
        self.0.first().is_some_and(|run| *run == Run { start: 0, end })
    }

    /// The index of the first run that ends beyond `start`.
    fn after(&self, start: u16) -> usize {
        self.0.partition_point(|run| run.end <= start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn runs_grow_together() {
        let mut runs = Runs::default();
        assert!(runs.insert(16, 24) && runs.insert(0, 8));
        assert_eq!((runs.fit(8, 16), runs.fit(8, 17)), (Fit::New, Fit::Overlap));
        assert_eq!((runs.fit(0, 8), runs.fit(0, 9)), (Fit::There, Fit::Overlap));
        assert!(!runs.cover(24));
        assert!(runs.insert(8, 16));
        assert!(runs.cover(24) && !runs.cover(16));
        assert_eq!((runs.fit(4, 20), runs.0.len()), (Fit::There, 1));
    }

    #[test]
    fn the_number_of_runs_is_bounded() {
        let mut runs = Runs::default();
        for i in 0..MOST as u16 {
            assert!(runs.insert(i * 16, i * 16 + 8));
        }
        assert!(!runs.insert(8 * 1024, 8 * 1024 + 8));
        assert_eq!(runs.fit(8 * 1024, 8 * 1024 + 8), Fit::New);
        // What closes a gap, or lengthens a run, needs no room.
        assert!(runs.insert(8, 16) && runs.insert(8 * 1024, 8 * 1024 + 8));
    }

    proptest! {
        /// Against one flag a byte.
        #[test]
        fn runs_agree_with_flags(pieces in proptest::collection::vec((0u16..120, 1u16..20), 1..80)) {
            let (mut runs, mut flags) = (Runs::default(), [false; 140]);
            for (start, len) in pieces {
                let range = usize::from(start)..usize::from(start + len);
                let there = flags[range.clone()].iter().filter(|&&flag| flag).count();
                let expected = match there {
                    0 => Fit::New,
                    n if n == range.len() => Fit::There,
                    _ => Fit::Overlap,
                };
                prop_assert_eq!(runs.fit(start, start + len), expected);
                if expected == Fit::New {
                    prop_assert!(runs.insert(start, start + len));
                    flags[range].fill(true);
                }
                for end in 1..140 {
                    let whole = flags[..end].iter().all(|&flag| flag) && !flags[end];
                    prop_assert_eq!(runs.cover(end as u16), whole);
                }
            }
        }
    }
}
