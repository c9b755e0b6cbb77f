//! Fixed arrays in anonymous memory: the arenas and indices of the data plane are made of them at start, and
//! nothing here is ever grown, moved or called on the packet path except to read and write elements.

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

use bytemuck::Pod;
use memmap2::{Advice, MmapMut, MmapOptions};

/// The page size that [`Slab::new`] asks for: 2 MB.
const HUGE_PAGE: usize = 2 << 20;
/// The smallest page there is.
const PAGE: usize = 4096;

/// What kind of pages back a [`Slab`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pages {
    /// Reserved 2 MB hugepages: present for certain, never swapped. What is left over when the slab has been divided by
    /// them is in ordinary ones: a small table would pay for much more than it has.
    Huge,
    /// Ordinary pages that the kernel was asked to join into 2 MB ones where it can.
    Transparent,
    /// Ordinary pages.
    Plain,
}

/// A fixed number of zeroed elements, in memory that is only taken from the system as it is first touched.
pub struct Slab<T: Pod> {
    /// Owns the memory.
    map: MmapMut,
    /// The first element, within `map`: kept, since elements are looked up all the time.
    start: NonNull<T>,
    len: usize,
    /// The bytes from there on that are its own: whole pages.
    bytes: usize,
    pages: Pages,
}

impl<T: Pod> Slab<T> {
    const ALIGNMENT_HOLDS: () = assert!(
        align_of::<T>() <= PAGE,
        "a page is the coarsest alignment there is"
    );

    /// `len` zeroed elements. With `hugepages`, reserved 2 MB pages are used if the system has enough of them
    /// free and the slab fills at least one; otherwise it is ordinary memory, which [`Slab::pages`]
    /// tells.
    ///
    /// # Errors
    /// The system refuses the mapping, or `len` elements do not fit the address space.
    pub fn new(len: usize, hugepages: bool) -> io::Result<Slab<T>> {
        let () = Self::ALIGNMENT_HOLDS;
        let bytes = len
            .checked_mul(size_of::<T>())
            .and_then(|bytes| {
                // With room for a place at a multiple of a hugepage.
                bytes.checked_add(2 * HUGE_PAGE)?;
                bytes.max(1).checked_next_multiple_of(PAGE)
            })
            .ok_or_else(|| io::Error::new(io::ErrorKind::OutOfMemory, "a slab larger than memory"))?;
        let (mut map, first, pages) = match hugepages.then(|| map_huge(bytes)).flatten() {
            Some((map, first)) => (map, first, Pages::Huge),
            None => map_plain(bytes)?,
        };
        Ok(Slab {
            start: NonNull::from(&mut map[first..]).cast(),
            map,
            len,
            bytes,
            pages,
        })
    }

    /// As [`Slab::new`], for memory that is not touched before it is used: ordinary pages, whatever their number, so that
    /// the first use of one waits for 4 kB to be cleared. It would be 2 MB else, which takes longer than a receive queue
    /// lasts, and milliseconds where the system has to make room for that first.
    ///
    /// # Errors
    /// As [`Slab::new`].
    pub fn sparse(len: usize) -> io::Result<Slab<T>> {
        let slab = Slab::new(len, false)?;
        // Where the system does not know such pages it has none.
        let _ = slab.map.advise(Advice::NoHugePage);
        Ok(Slab {
            pages: Pages::Plain,
            ..slab
        })
    }

    /// Takes all the memory from the system now, so that no first use has to wait for a page to be cleared.
    pub fn touch(&mut self) {
        for page in bytemuck::cast_slice_mut::<T, u8>(self).chunks_mut(PAGE) {
            // Opaque to the compiler, or it would see that nothing changes and leave it out.
            page[0] = std::hint::black_box(page[0]);
        }
    }

    /// What kind of pages the slab got.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// The memory that the system has given for it so far, in bytes: its pages that are there. Reads a file, so it is for
    /// measurements.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn resident(&self) -> io::Result<usize> {
        // A word for each page of the smallest size, also within hugepages; its upper two bits: there, or swapped out.
        const WORD: usize = 8;
        const THERE: u8 = 0b1100_0000;
        let mut words = vec![0; self.bytes / PAGE * WORD];
        let first = self.start.as_ptr() as usize / PAGE;
        File::open("/proc/self/pagemap")?.read_exact_at(&mut words, (first * WORD) as u64)?;
        let (words, _) = words.as_chunks::<WORD>();
        let there = words
            .iter()
            .filter(|word| u64::from_ne_bytes(**word).to_be_bytes()[0] & THERE != 0);
        Ok(there.count() * PAGE)
    }

    /// The memory it takes once all of it has been touched, in bytes: whole pages.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// As many whole hugepages as fit into so many bytes, and behind them, in the same piece of address space, ordinary pages for
/// the rest; and where in the mapping they begin. None when the system has not so many hugepages.
fn map_huge(bytes: usize) -> Option<(MmapMut, usize)> {
    let huge = bytes / HUGE_PAGE * HUGE_PAGE;
    if huge == 0 {
        return None;
    }
    // Wherever it lies, hugepages find a place at a multiple of their size.
    let map = MmapOptions::new().len(bytes + HUGE_PAGE).map_anon().ok()?;
    let _ = map.advise(Advice::NoHugePage);
    let first = map.as_ptr().align_offset(HUGE_PAGE);
    // SAFETY: the range lies within `map`, which nobody has a reference into yet, so what is replaced there belongs to
    // this function; the new pages are readable, writable, zeroed and private like the old ones, and go with `map`,
    // which unmaps all of its range.
    let placed = unsafe {
        libc::mmap(
            map.as_ptr().add(first).cast_mut().cast(),
            huge,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE
                | libc::MAP_ANONYMOUS
                | libc::MAP_FIXED
                | libc::MAP_HUGETLB
                | libc::MAP_HUGE_2MB,
            -1,
            0,
        )
    };
    if placed == libc::MAP_FAILED {
        // The old pages may be gone, and another thread may have got the place since: it must not be unmapped. What is
        // left over is address space without memory.
        std::mem::forget(map);
        return None;
    }
    Some((map, first))
}

fn map_plain(bytes: usize) -> io::Result<(MmapMut, usize, Pages)> {
    let map = MmapOptions::new().len(bytes).map_anon()?;
    let joined = bytes >= HUGE_PAGE && map.advise(Advice::HugePage).is_ok();
    Ok((map, 0, if joined { Pages::Transparent } else { Pages::Plain }))
}

// SAFETY: a slab owns its memory as a `Vec<T>` does; `start` is a place in `map`, which may go to other threads itself.
unsafe impl<T: Pod + Send> Send for Slab<T> {}
// SAFETY: as above; a shared slab only gives shared references.
unsafe impl<T: Pod + Sync> Sync for Slab<T> {}

impl<T: Pod> Deref for Slab<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: from `start` on the mapping is page-aligned (`ALIGNMENT_HOLDS`), at least `len * size_of::<T>()` bytes
        // long (`new`), initialised (anonymous memory reads as zero), lives as long as `self`, and any bytes are a
        // `T` because `T: Pod`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Pod> DerefMut for Slab<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slab_is_zeroed_and_keeps_what_is_written() {
        for hugepages in [false, true] {
            let mut slab = Slab::<u64>::new(300_000, hugepages).unwrap();
            assert_eq!(slab.len(), 300_000);
            assert!(slab.iter().all(|&x| x == 0));
            slab[299_999] = 7;
            slab.touch();
            assert_eq!(slab[299_999], 7);
            assert!(slab.bytes() >= 2_400_000);
            assert!(hugepages || slab.pages() != Pages::Huge);
        }
    }

    /// As much memory becomes resident as was touched, and no more.
    #[test]
    fn a_sparse_slab_takes_single_pages() {
        let mut slab = Slab::<u64>::sparse(4 << 20).unwrap();
        assert_eq!((slab.len(), slab.pages()), (4 << 20, Pages::Plain));
        // One word in each 2 MB.
        for word in slab.iter_mut().step_by(HUGE_PAGE / 8) {
            *word = 1;
        }
        assert_eq!(slab.resident().unwrap(), 16 * PAGE);
    }

    #[test]
    fn a_touched_slab_is_all_there() {
        for hugepages in [false, true] {
            let mut slab = Slab::<u64>::new(300_000, hugepages).unwrap();
            assert_eq!(slab.resident().unwrap(), 0);
            slab.touch();
            assert_eq!(slab.resident().unwrap(), slab.bytes());
            assert_eq!(
                slab.bytes(),
                2_400_000usize.next_multiple_of(PAGE),
                "no more than it has"
            );
        }
    }

    /// Where there are hugepages, all but a rest of less than one is in them, and all of it goes away with the slab.
    #[test]
    fn hugepages_and_the_rest_are_one_piece() {
        for len in [1, 262_143, 262_144, 262_145, 700_001] {
            let mut slab = Slab::<u64>::new(len, true).unwrap();
            let huge = slab.pages() == Pages::Huge;
            assert!(!huge || (slab.as_ptr() as usize).is_multiple_of(HUGE_PAGE));
            for (at, word) in slab.iter_mut().enumerate() {
                assert_eq!(std::mem::replace(word, at as u64), 0);
            }
            assert!(slab.iter().enumerate().all(|(at, word)| *word == at as u64));
            assert_eq!(slab.resident().unwrap(), (len * 8).next_multiple_of(PAGE));
        }
    }

    #[test]
    fn an_empty_slab_and_an_impossible_one() {
        assert!(Slab::<u64>::new(0, true).unwrap().is_empty());
        assert!(Slab::<u64>::new(usize::MAX / 8, false).is_err());
        assert!(Slab::<u64>::new(usize::MAX, false).is_err());
    }
}
