//! The IPv4 header (RFC 791). The parser validates it; the forward stage and the makers of packets read and
//! write it through here. Nothing here looks at what the packet carries.
//!
//! Functions take the packet from the header's first byte and panic on one below [`HEADER_LEN`], which no
//! parsed packet is.

use std::net::Ipv4Addr;

use super::checksum::{self, Delta};
use super::wire;

/// The length of a header without options, in bytes.
pub const HEADER_LEN: usize = 20;
/// The protocol number of ICMP.
pub const ICMP: u8 = 1;
/// The protocol number of a packet that is IPv4 itself (RFC 2003).
pub const IPV4_INSIDE: u8 = 4;
/// The protocol number of a packet that is IPv6 itself (RFC 2473).
pub const IPV6_INSIDE: u8 = 41;
/// The protocol number of TCP.
pub const TCP: u8 = 6;
/// The protocol number of UDP.
pub const UDP: u8 = 17;
/// The protocol number of SCTP.
pub const SCTP: u8 = 132;

const TOTAL_LEN: usize = 2;
const IDENTIFICATION: usize = 4;
const FLAGS: usize = 6;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET: u16 = 0x1fff;
const TTL: usize = 8;
const PROTOCOL: usize = 9;
const CHECKSUM: usize = 10;
const SOURCE: usize = 12;
const DESTINATION: usize = 16;

/// The header's length in bytes as it says itself, options included.
#[inline]
#[must_use]
pub fn header_len(packet: &[u8]) -> usize {
    usize::from(packet[0] & 0x0f) * 4
}

/// The packet's length in bytes as it says itself, header included.
#[inline]
#[must_use]
pub fn total_len(packet: &[u8]) -> usize {
    usize::from(wire::get_u16(packet, TOTAL_LEN))
}

/// Sets the packet's length in bytes, header included; the header checksum follows.
#[inline]
pub fn set_total_len(packet: &mut [u8], len: u16) {
    let old = wire::get_u16(packet, TOTAL_LEN);
    wire::put_u16(packet, TOTAL_LEN, len);
    apply(packet, Delta::NONE.word(old, len));
}

/// The type of service: DSCP and ECN.
#[inline]
#[must_use]
pub fn tos(packet: &[u8]) -> u8 {
    packet[1]
}

/// The identification that the fragments of a packet share.
#[inline]
#[must_use]
pub fn identification(packet: &[u8]) -> u16 {
    wire::get_u16(packet, IDENTIFICATION)
}

/// Sets the identification, and brings the header's checksum along. A header that is cut short is left alone.
pub fn set_identification(packet: &mut [u8], identification: u16) {
    if packet.len() < HEADER_LEN {
        return;
    }
    let old = self::identification(packet);
    wire::put_u16(packet, IDENTIFICATION, identification);
    apply(packet, Delta::NONE.word(old, identification));
}

/// Whether the packet must not be fragmented.
#[inline]
#[must_use]
pub fn dont_fragment(packet: &[u8]) -> bool {
    wire::get_u16(packet, FLAGS) & DONT_FRAGMENT != 0
}

/// Whether this is a fragment, the first or another.
#[inline]
#[must_use]
pub fn is_fragment(packet: &[u8]) -> bool {
    wire::get_u16(packet, FLAGS) & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0
}

/// Whether this is a fragment other than the first: it holds no L4 header.
#[inline]
#[must_use]
pub fn is_later_fragment(packet: &[u8]) -> bool {
    wire::get_u16(packet, FLAGS) & FRAGMENT_OFFSET != 0
}

/// Where in its datagram a fragment begins, in bytes: a multiple of 8; 0 for a whole packet.
#[inline]
#[must_use]
pub fn fragment_offset(packet: &[u8]) -> u16 {
    (wire::get_u16(packet, FLAGS) & FRAGMENT_OFFSET) << 3
}

/// Whether other fragments of the same datagram follow this one.
#[inline]
#[must_use]
pub fn more_fragments(packet: &[u8]) -> bool {
    wire::get_u16(packet, FLAGS) & MORE_FRAGMENTS != 0
}

/// Makes a fragment of `total_len` bytes, header included, that begins at `offset` bytes, a multiple of 8, of its
/// datagram; offset 0 with no `more` is a whole packet. It may be fragmented. The header checksum is computed anew.
pub fn set_fragment(packet: &mut [u8], total_len: u16, offset: u16, more: bool) {
    wire::put_u16(packet, TOTAL_LEN, total_len);
    let more = if more { MORE_FRAGMENTS } else { 0 };
    wire::put_u16(packet, FLAGS, offset >> 3 | more);
    fill_checksum(packet);
}

/// The time to live.
#[inline]
#[must_use]
pub fn ttl(packet: &[u8]) -> u8 {
    packet[TTL]
}

/// The number of the protocol that the packet carries.
#[inline]
#[must_use]
pub fn protocol(packet: &[u8]) -> u8 {
    packet[PROTOCOL]
}

/// The source address.
#[inline]
#[must_use]
pub fn source(packet: &[u8]) -> Ipv4Addr {
    wire::get_address(packet, SOURCE)
}

/// The destination address.
#[inline]
#[must_use]
pub fn destination(packet: &[u8]) -> Ipv4Addr {
    wire::get_address(packet, DESTINATION)
}

/// Whether an address can be the sender of a packet (RFC 1122 3.2.1.3): not of this network, loopback,
/// multicast or the limited broadcast.
#[inline]
#[must_use]
pub fn can_send(address: Ipv4Addr) -> bool {
    !matches!(address.octets()[0], 0 | 127 | 224..=239) && !address.is_broadcast()
}

/// Changes both addresses; the header checksum follows. The change of the pseudo header, host order, is left
/// for the L4 checksum.
#[inline]
#[must_use]
pub fn set_addresses(packet: &mut [u8], source: Ipv4Addr, destination: Ipv4Addr) -> Delta {
    let delta = Delta::NONE
        .double_word(wire::get_u32(packet, SOURCE), source.to_bits())
        .double_word(wire::get_u32(packet, DESTINATION), destination.to_bits());
    wire::put_u32(packet, SOURCE, source.to_bits());
    wire::put_u32(packet, DESTINATION, destination.to_bits());
    apply(packet, delta);
    delta
}

/// Lowers the TTL by one, never below 0; the header checksum follows.
#[inline]
pub fn decrement_ttl(packet: &mut [u8]) {
    let ttl = ttl(packet);
    set_ttl(packet, ttl.saturating_sub(1));
}

/// Sets the TTL; the header checksum follows.
#[inline]
pub fn set_ttl(packet: &mut [u8], ttl: u8) {
    let old = wire::get_u16(packet, TTL);
    packet[TTL] = ttl;
    apply(packet, Delta::NONE.word(old, wire::get_u16(packet, TTL)));
}

/// Updates the header checksum by a change of words in host order.
#[inline]
pub fn apply(packet: &mut [u8], delta: Delta) {
    let checksum = delta.apply(wire::get_u16(packet, CHECKSUM));
    wire::put_u16(packet, CHECKSUM, checksum);
}

/// As [`apply`], by a change of words as they are on the wire.
#[inline]
pub fn apply_wire(packet: &mut [u8], delta: Delta) {
    let checksum = delta.apply(wire::load_u16(packet, CHECKSUM));
    wire::store_u16(packet, CHECKSUM, checksum);
}

/// Computes the header checksum anew. A header length that does not fit into `packet` is cut to it.
pub fn fill_checksum(packet: &mut [u8]) {
    wire::put_u16(packet, CHECKSUM, 0);
    let len = header_len(packet).min(packet.len());
    let checksum = !checksum::sum(&packet[..len]);
    wire::put_u16(packet, CHECKSUM, checksum);
}

/// What a header without options says, for packets that the gateway makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fields {
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Length of the packet in bytes, this header included.
    pub total_len: u16,
    /// Identification; 0 is right where `dont_fragment` is set (RFC 6864).
    pub identification: u16,
    /// Whether routers must not fragment the packet.
    pub dont_fragment: bool,
    /// Time to live.
    pub ttl: u8,
    /// Protocol number of what follows.
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

/// Writes a whole header without options, checksum included.
pub fn write(packet: &mut [u8], fields: &Fields) {
    packet[0] = 0x45;
    packet[1] = fields.tos;
    wire::put_u16(packet, TOTAL_LEN, fields.total_len);
    wire::put_u16(packet, IDENTIFICATION, fields.identification);
    wire::put_u16(
        packet,
        FLAGS,
        if fields.dont_fragment { DONT_FRAGMENT } else { 0 },
    );
    packet[TTL] = fields.ttl;
    packet[PROTOCOL] = fields.protocol;
    wire::put_u32(packet, SOURCE, fields.source.to_bits());
    wire::put_u32(packet, DESTINATION, fields.destination.to_bits());
    fill_checksum(packet);
}

/// Turns a packet around for an answer in place: exchanges the addresses, sets the TTL, allows fragments under
/// a new identification, and blanks the options, since a source route must not be walked again in the same
/// direction (RFC 1122 3.2.2.6). The header checksum is computed anew.
pub(super) fn turn_around(packet: &mut [u8], ttl: u8, identification: u16) {
    let (source, destination) = (source(packet), destination(packet));
    let len = header_len(packet).min(packet.len());
    wire::put_u16(packet, IDENTIFICATION, identification);
    wire::put_u16(packet, FLAGS, 0);
    packet[TTL] = ttl;
    wire::put_u32(packet, SOURCE, destination.to_bits());
    wire::put_u32(packet, DESTINATION, source.to_bits());
    if let Some(options) = packet.get_mut(HEADER_LEN..len) {
        options.fill(0);
    }
    fill_checksum(packet);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The header of a recorded SYN, 10.1.0.1 > 10.0.0.100.
    const HEADER: [u8; 20] = [
        0x45, 0, 0, 0x28, 0, 0, 0x40, 0, 0x40, 6, 0x26, 0x6b, 10, 1, 0, 1, 10, 0, 0, 100,
    ];

    #[test]
    fn a_recorded_header_is_read() {
        assert_eq!(
            (header_len(&HEADER), total_len(&HEADER), tos(&HEADER)),
            (20, 40, 0)
        );
        assert_eq!(
            (ttl(&HEADER), protocol(&HEADER), identification(&HEADER)),
            (64, TCP, 0)
        );
        assert!(dont_fragment(&HEADER) && !is_fragment(&HEADER));
        for (field, later) in [(0x2000, false), (0x2001, true), (0x0001, true)] {
            let mut piece = HEADER;
            wire::put_u16(&mut piece, FLAGS, field);
            assert!(is_fragment(&piece), "{field:#06x}");
            assert_eq!(is_later_fragment(&piece), later, "{field:#06x}");
        }
        assert_eq!(source(&HEADER), Ipv4Addr::new(10, 1, 0, 1));
        assert_eq!(destination(&HEADER), Ipv4Addr::new(10, 0, 0, 100));
    }

    #[test]
    fn a_written_header_is_the_recorded_one() {
        let mut header = [0xee; 20];
        let fields = Fields {
            tos: 0,
            total_len: 40,
            identification: 0,
            dont_fragment: true,
            ttl: 64,
            protocol: TCP,
            source: Ipv4Addr::new(10, 1, 0, 1),
            destination: Ipv4Addr::new(10, 0, 0, 100),
        };
        write(&mut header, &fields);
        assert_eq!(header, HEADER);
    }

    /// The kernel's own translation of that SYN to 192.168.1.11, recorded.
    #[test]
    fn a_translated_header_is_the_recorded_one() {
        let mut header = HEADER;
        let _ = set_addresses(
            &mut header,
            Ipv4Addr::new(10, 1, 0, 1),
            Ipv4Addr::new(192, 168, 1, 11),
        );
        decrement_ttl(&mut header);
        let recorded = [
            0x45, 0, 0, 0x28, 0, 0, 0x40, 0, 0x3f, 6, 0x70, 0x1b, 10, 1, 0, 1, 192, 168, 1, 11,
        ];
        assert_eq!(header, recorded);
    }

    /// The header of the second fragment of a recorded datagram.
    #[test]
    fn a_fragment_is_the_recorded_one() {
        let recorded = [
            0x45, 0, 4, 0x54, 0, 0x63, 0, 0xb9, 0x40, 0x11, 0x61, 0x18, 10, 1, 0, 1, 10, 0, 0, 100,
        ];
        assert_eq!(
            (fragment_offset(&recorded), more_fragments(&recorded)),
            (1480, false)
        );
        let mut header = recorded;
        set_fragment(&mut header, 1500, 0, true);
        assert_eq!(
            (header[6..8].to_vec(), header[10..12].to_vec()),
            (vec![0x20, 0], vec![0x40, 0x49])
        );
        assert_eq!((fragment_offset(&header), more_fragments(&header)), (0, true));
        header[6] |= 0x40;
        set_fragment(&mut header, 1108, 1480, false);
        assert_eq!(header, recorded);
    }

    #[test]
    fn a_ttl_of_zero_stays() {
        let mut header = HEADER;
        set_ttl(&mut header, 0);
        let before = header;
        decrement_ttl(&mut header);
        assert_eq!(header, before);
        assert_eq!(checksum::sum(&header), 0xffff);
    }

    proptest! {
        #[test]
        fn every_change_leaves_the_checksum_right(
            mut header: [u8; 20],
            source: [u8; 4],
            destination: [u8; 4],
            ttl: u8,
            chosen: u16,
        ) {
            header[0] = 0x45;
            fill_checksum(&mut header);
            let _ = set_addresses(&mut header, source.into(), destination.into());
            set_identification(&mut header, chosen);
            prop_assert_eq!(identification(&header), chosen);
            set_ttl(&mut header, ttl);
            decrement_ttl(&mut header);
            prop_assert_eq!(checksum::sum(&header), 0xffff);
        }
    }
}
