//! The UDP header (RFC 768). Functions take the datagram from the header's first byte and panic on one below
//! [`HEADER_LEN`], which no parsed packet is. Ports are rewritten by [`super::rewrite`].

use super::checksum::{self, Delta};
use super::{ipv4, wire};

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

/// Sets the datagram's length in bytes, header included. The change of its checksum: the pseudo header has it once more.
#[inline]
#[must_use]
pub fn set_length(datagram: &mut [u8], len: u16) -> Delta {
    let old = wire::get_u16(datagram, LENGTH);
    wire::put_u16(datagram, LENGTH, len);
    Delta::NONE.word(old, len).word(old, len)
}

/// The checksum, in host order; 0 = the sender computed none.
#[inline]
#[must_use]
pub fn checksum(datagram: &[u8]) -> u16 {
    wire::get_u16(datagram, CHECKSUM)
}

/// Computes the checksum anew. `addresses` are source and destination as they stand in the IP header, of either
/// family: the pseudo headers of RFC 768 and of RFC 8200 8.1 sum to the same for lengths of 16 bits.
pub fn fill_checksum(datagram: &mut [u8], addresses: &[u8]) {
    wire::put_u16(datagram, CHECKSUM, 0);
    let pseudo_header = checksum::add(
        checksum::sum(addresses),
        checksum::add(u16::from(ipv4::UDP), datagram.len() as u16),
    );
    let checksum = match !checksum::add(pseudo_header, checksum::sum(datagram)) {
        0 => 0xffff,
        computed => computed,
    };
    wire::put_u16(datagram, CHECKSUM, checksum);
}

/// Updates the checksum by a change of words in host order. A checksum of 0, none computed, stays (RFC 768).
#[inline]
pub fn apply(datagram: &mut [u8], delta: Delta) {
    let checksum = delta.apply_udp(wire::get_u16(datagram, CHECKSUM));
    wire::put_u16(datagram, CHECKSUM, checksum);
}

/// As [`apply`], by a change of words as they are on the wire.
#[inline]
pub fn apply_wire(datagram: &mut [u8], delta: Delta) {
    let checksum = delta.apply_udp(wire::load_u16(datagram, CHECKSUM));
    wire::store_u16(datagram, CHECKSUM, checksum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computed_checksum_is_never_zero() {
        // The last word runs through all its values, so that the sum does as well.
        let addresses = [192, 168, 1, 1, 192, 168, 1, 11];
        for value in 0..=u16::MAX {
            let mut datagram = [0; 14];
            datagram[12..].copy_from_slice(&value.to_be_bytes());
            datagram[..6].copy_from_slice(&[0xc3, 0x50, 0x17, 0xc0, 0, 14]);
            fill_checksum(&mut datagram, &addresses);
            assert_ne!(datagram[6..8], [0, 0]);
            let sum = checksum::l4_sum([192, 168, 1, 1].into(), [192, 168, 1, 11].into(), 17, &datagram);
            assert_eq!(sum, 0xffff, "{value:#06x}");
        }
    }
}
