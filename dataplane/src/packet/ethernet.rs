//! The Ethernet header (IEEE 802.3, without tags), at the front of every frame. The parser reads it by itself;
//! the resolve stage and the makers of packets write it through here.
//!
//! Functions take the frame from its first byte and panic on one below [`HEADER_LEN`], which neither a parsed
//! packet nor a crafted one is.

use std::ops::Range;

use super::mac::MacAddr;
use super::wire;

/// The header's length in bytes: the offset of what the frame carries.
pub const HEADER_LEN: usize = 14;
/// The length in bytes of the shortest frame, without its checksum: what is shorter is padded (IEEE 802.3 3.2.8).
pub const LEAST_LEN: usize = 60;
/// The ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// The ethertype of ARP.
pub const ARP: u16 = 0x0806;
/// The ethertype of IPv6.
pub const IPV6: u16 = 0x86dd;
/// The ethertype of an IEEE 802.1Q tag.
pub const VLAN: u16 = 0x8100;
/// The ethertype of an IEEE 802.1ad service tag.
pub const SERVICE_VLAN: u16 = 0x88a8;

const DESTINATION: Range<usize> = 0..6;
const SOURCE: Range<usize> = 6..12;
const ETHERTYPE: usize = 12;

/// Writes both addresses: what the resolve stage does to every packet.
#[inline]
pub fn set_addresses(frame: &mut [u8], destination: MacAddr, source: MacAddr) {
    frame[DESTINATION].copy_from_slice(&destination.0);
    frame[SOURCE].copy_from_slice(&source.0);
}

/// The address of the station that sent the frame over this link.
#[inline]
#[must_use]
pub fn source(frame: &[u8]) -> MacAddr {
    let mut mac = [0; 6];
    mac.copy_from_slice(&frame[SOURCE]);
    MacAddr(mac)
}

/// The address that the frame is for.
#[inline]
#[must_use]
pub fn destination(frame: &[u8]) -> MacAddr {
    let mut mac = [0; 6];
    mac.copy_from_slice(&frame[DESTINATION]);
    MacAddr(mac)
}

/// What the frame carries.
#[inline]
#[must_use]
pub fn ethertype(frame: &[u8]) -> u16 {
    wire::get_u16(frame, ETHERTYPE)
}

/// Writes a whole header.
pub fn write(frame: &mut [u8], destination: MacAddr, source: MacAddr, ethertype: u16) {
    set_addresses(frame, destination, source);
    wire::put_u16(frame, ETHERTYPE, ethertype);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_destination_source_type() {
        let mut frame = [0; HEADER_LEN];
        let (to, from) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        write(&mut frame, to, from, ARP);
        assert_eq!(frame, [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6]);
        assert_eq!((destination(&frame), source(&frame)), (to, from));
        assert_eq!(ethertype(&frame), ARP);
    }
}
