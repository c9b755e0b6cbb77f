//! The processor's time stamp counter. Workers read it once per burst and make their ticks of it; it is never
//! the wall clock, and nothing here sleeps.

use crate::Eal;

/// The counter now. Its rate is [`hz`]; it never jumps with the wall clock.
#[inline]
#[must_use]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC has no precondition: it touches no memory, and user space may execute it wherever DPDK runs.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        // SAFETY: the shim only reads a counter register.
        unsafe { dpdk_sys::tg_tsc() }
    }
}

/// Counts of [`now`] a second, as EAL measured it at start. At least 1.
#[must_use]
pub fn hz(_eal: &Eal) -> u64 {
    // SAFETY: reads a variable that EAL set before `Eal` existed.
    unsafe { dpdk_sys::tg_tsc_hz() }.max(1)
}
