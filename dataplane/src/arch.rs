//! What the packet path needs of the processor and the language does not offer: prefetching. Every other
//! file of this crate is safe code.

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
}
