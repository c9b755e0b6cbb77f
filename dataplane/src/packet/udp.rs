//! The UDP header (RFC 768). Functions take the datagram from the header's first byte and panic on one below
//! [`HEADER_LEN`], which no parsed packet is. Ports are rewritten by [`super::rewrite`].

use super::checksum::Delta;
use super::wire;

/// The header's length in bytes.
pub const HEADER_LEN: usize = 8;

const LENGTH: usize = 4;
pub(super) const CHECKSUM: usize = 6;

/// The datagram's length in bytes as it says itself, header included; it may be below that of the IP payload.
#[inline]
#[must_use]
pub fn length(datagram: &[u8]) -> usize {
    usize::from(wire::get_u16(datagram, LENGTH))
}

/// Updates the checksum by a change of words in host order. A checksum of 0, none computed, stays (RFC 768).
#[inline]
pub fn apply(datagram: &mut [u8], delta: Delta) {
    let checksum = delta.apply_udp(wire::get_u16(datagram, CHECKSUM));
    wire::put_u16(datagram, CHECKSUM, checksum);
}
