//! What the packet path needs of the processor and the language does not offer: prefetching, comparing eight or ten tags
//! at once, and, in a build that times stages, the time stamp counter. Every other file of this crate but `memory` is safe code.

/// Asks the cache for the line that holds `slice[index]`; nothing happens when there is no such element.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], index: usize) {
    let address = slice.as_ptr().wrapping_add(index).cast::<i8>();
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch neither reads nor faults at any address, so an index out of range is harmless.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: a prefetch neither reads nor faults at any address, so an index out of range is harmless.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, readonly, preserves_flags));
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// The time stamp counter.
#[cfg(all(feature = "stages", target_arch = "x86_64"))]
#[inline(always)]
#[must_use]
pub fn cycles() -> u64 {
    // SAFETY: RDTSC has no precondition: it touches no memory, and user space may execute it wherever DPDK runs.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Bit per lane: it equals `value`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[must_use]
pub fn equal_lanes(lanes: &[u16; 8], value: u16) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi16, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16,
        _mm_setzero_si128,
    };
    // SAFETY: SSE2 is part of x86-64, and the unaligned load reads the 16 bytes of `lanes`.
    let mask = unsafe {
        let lanes = _mm_loadu_si128(std::ptr::from_ref(lanes).cast::<__m128i>());
        let equal = _mm_cmpeq_epi16(lanes, _mm_set1_epi16(value as i16));
        _mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128()))
    };
    mask as u32
}

/// Bit per lane: it equals `value`.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
#[must_use]
pub fn equal_lanes(lanes: &[u16; 8], value: u16) -> u32 {
    lanes
        .iter()
        .enumerate()
        .fold(0, |mask, (lane, &other)| mask | u32::from(other == value) << lane)
}

/// Bit per lane: it equals `value`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[must_use]
pub fn equal_ten(lanes: &[u16; 10], value: u16) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi16, _mm_cvtsi32_si128, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16,
        _mm_set1_epi16,
    };
    let last = u32::from(lanes[8]) | u32::from(lanes[9]) << 16;
    // SAFETY: SSE2 is part of x86-64, and the unaligned load reads the first 16 of the 20 bytes of `lanes`.
    let mask = unsafe {
        let value = _mm_set1_epi16(value as i16);
        let first = _mm_cmpeq_epi16(
            _mm_loadu_si128(std::ptr::from_ref(lanes).cast::<__m128i>()),
            value,
        );
        let last = _mm_cmpeq_epi16(_mm_cvtsi32_si128(last as i32), value);
        _mm_movemask_epi8(_mm_packs_epi16(first, last))
    };
    // There are six lanes of zeros behind the last.
    mask as u32 & 0x3ff
}

/// Bit per lane: it equals `value`.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
#[must_use]
pub fn equal_ten(lanes: &[u16; 10], value: u16) -> u32 {
    lanes
        .iter()
        .enumerate()
        .fold(0, |mask, (lane, &other)| mask | u32::from(other == value) << lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetching_is_harmless_everywhere() {
        let values = [1u64, 2, 3];
        prefetch(&values, 1);
        prefetch(&values, usize::MAX);
        prefetch::<u64>(&[], 0);
        assert_eq!(values, [1, 2, 3]);
    }

    #[test]
    fn lanes_are_compared_each_in_its_place() {
        let lanes = [7, 0, 0x8000, 7, u16::MAX, 1, 0x7fff, 7];
        assert_eq!(equal_lanes(&lanes, 7), 0b1000_1001);
        assert_eq!(equal_lanes(&lanes, 0), 0b0000_0010);
        assert_eq!(equal_lanes(&lanes, 0x8000), 0b0000_0100);
        assert_eq!(equal_lanes(&lanes, u16::MAX), 0b0001_0000);
        assert_eq!(equal_lanes(&lanes, 9), 0);
        let lanes = [7, 0, 0x8000, 7, u16::MAX, 1, 0x7fff, 7, 0, 7];
        assert_eq!(equal_ten(&lanes, 7), 0b10_1000_1001);
        assert_eq!(equal_ten(&lanes, 0), 0b01_0000_0010);
        assert_eq!(equal_ten(&lanes, 0x8000), 0b00_0000_0100);
        assert_eq!(equal_ten(&lanes, u16::MAX), 0b00_0001_0000);
        assert_eq!(equal_ten(&lanes, 9), 0);
    }
}
