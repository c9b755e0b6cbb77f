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

pub use key::DatagramKey;
pub use reassembly::{Added, Reassembly};
pub use split::{limit4, limit6, split4, split6};

/// Offset of the IP header in a frame, in bytes: tags have been taken off before.
const L3: usize = crate::packet::ethernet::HEADER_LEN;
