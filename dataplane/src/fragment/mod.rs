//! Fragments: puts received ones together ([`Reassembly`]), and cuts packets that are too long for their way out
//! ([`split4`], [`split6`]). Both IP versions.
//!
//! The worker calls this before a packet's flow is looked up, and again right before it is sent. Nothing here sends
//! or receives; a packet's bytes are copied, and nothing but the IP headers is looked at.

mod chain;
mod datagram;
#[cfg(test)]
mod golden;
mod key;
mod piece;
mod reassembly;
mod runs;
#[cfg(test)]
mod samples;
mod split;
mod table;

pub use chain::unfragmentable_len;
pub use key::DatagramKey;
pub use reassembly::{Added, Reassembly};
pub use split::{limit4, limit6, split4, split6};

use crate::packet::ethernet;

/// Offset of the IP header in a frame, in bytes: tags have been taken off before.
const L3: usize = ethernet::HEADER_LEN;
/// The length of an IPv6 header without extension headers, in bytes.
const HEADER6_LEN: usize = 40;
/// The length of an IPv6 fragment header, in bytes.
const FRAGMENT_HEADER_LEN: usize = 8;
/// The next header value of an IPv6 fragment header.
const FRAGMENT_HEADER: u8 = 44;

/// The big-endian word at `at`; 0 beyond the end, which the callers have checked.
#[inline]
fn word(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..at + 2) {
        Some(&[high, low]) => u16::from_be_bytes([high, low]),
        _ => 0,
    }
}

/// Writes a big-endian word at `at`; nothing beyond the end.
#[inline]
fn put_word(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}
