//! An arena of what some connections have beside their record: one cache line each. What none has used is never touched,
//! so it costs no memory.

use std::io;

use bytemuck::Pod;

use crate::memory::Slab;

/// Lines of one kind. Index 0 is none.
pub(super) struct Lines<T: Pod> {
    lines: Slab<T>,
    /// First of the free lines that have been used before, linked through their first four bytes.
    free: u32,
    /// The highest index ever used.
    highest: u32,
}

impl<T: Pod> Lines<T> {
    pub(super) fn new(capacity: usize) -> io::Result<Lines<T>> {
        const { assert!(size_of::<T>() == 64 && align_of::<T>() == 64) };
        Ok(Lines {
            lines: Slab::sparse(capacity + 1)?,
            free: 0,
            highest: 0,
        })
    }

    /// Keeps `line`; its index, or None when there is no room.
    pub(super) fn put(&mut self, line: T) -> Option<u32> {
        let index = if self.free != 0 {
            self.free
        } else {
            self.highest + 1
        };
        let place = self.lines.get_mut(index as usize)?;
        if index == self.free {
            let [a, b, c, d, ..] = *bytemuck::bytes_of(place) else {
                return None;
            };
            self.free = u32::from_ne_bytes([a, b, c, d]);
        } else {
            self.highest = index;
        }
        *place = line;
        Some(index)
    }

    /// Gives a line back.
    pub(super) fn free(&mut self, index: u32) {
        let line = &mut self.lines[index as usize];
        *line = T::zeroed();
        bytemuck::bytes_of_mut(line)[..4].copy_from_slice(&self.free.to_ne_bytes());
        self.free = index;
    }

    /// The memory that the system has given for them, see [`Slab::resident`].
    pub(super) fn resident(&self) -> io::Result<usize> {
        self.lines.resident()
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &T {
        &self.lines[index as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> &mut T {
        &mut self.lines[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Extension;
    use bytemuck::Zeroable;

    #[test]
    fn lines_are_given_out_once_and_again_after_they_were_freed() {
        let line = Extension {
            template: 7,
            ..Extension::zeroed()
        };
        let mut lines = Lines::new(3).unwrap();
        let taken: Vec<_> = std::iter::from_fn(|| lines.put(line)).collect();
        assert_eq!(taken, [1, 2, 3]);
        lines.free(2);
        lines.free(1);
        assert_eq!(
            (lines.put(line), lines.put(line), lines.put(line)),
            (Some(1), Some(2), None)
        );
        assert_eq!(lines.get(2).template, 7);
    }
}
