//! A TCP segment of a connection that goes through here, said in the place of one of its ends.

use super::super::buffer::Packet;
use super::super::{checksum, ipv4, ipv6, tcp, wire};
use super::TTL;
use std::net::{IpAddr, SocketAddr};

/// NOP twice, then the timestamps option: its usual place (RFC 7323 appendix A).
const TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];
const TIMESTAMPS_LEN: usize = 12;

/// What a segment says besides its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Address and port that it comes from.
    pub source: SocketAddr,
    /// Address and port that it goes to, of the same family.
    pub destination: SocketAddr,
    /// The sequence number.
    pub sequence: u32,
    /// The acknowledgement number.
    pub acknowledgement: u32,
    /// The flags, as the 14th byte of the header.
    pub flags: u8,
    /// The window, as on the wire.
    pub window: u16,
    /// TSval and TSecr; none = no timestamps option.
    pub timestamps: Option<[u32; 2]>,
    /// DSCP and ECN.
    pub traffic_class: u8,
}

/// Makes `out` that segment with `data`, both checksums computed in full. False when the addresses are of two families
/// or `out` has no room.
#[must_use]
pub fn tcp_segment<P: Packet>(out: &mut P, fields: &Segment, data: &[u8]) -> bool {
    let options = if fields.timestamps.is_some() {
        TIMESTAMPS_LEN
    } else {
        0
    };
    let header_len = tcp::HEADER_LEN + options;
    let Some((segment, pseudo)) = start_between(out, fields, header_len + data.len()) else {
        return false;
    };
    tcp::write_bare(segment, fields.sequence, fields.acknowledgement, fields.flags);
    wire::put_u16(segment, 0, fields.source.port());
    wire::put_u16(segment, 2, fields.destination.port());
    // In words of 4 bytes, in the upper 4 bits.
    segment[tcp::DATA_OFFSET] = ((header_len / 4) << 4) as u8;
    wire::put_u16(segment, tcp::WINDOW, fields.window);
    if let Some([value, echo]) = fields.timestamps {
        segment[tcp::HEADER_LEN..tcp::HEADER_LEN + 4].copy_from_slice(&TIMESTAMPS);
        wire::put_u32(segment, tcp::HEADER_LEN + 4, value);
        wire::put_u32(segment, tcp::HEADER_LEN + 8, echo);
    }
    segment[header_len..].copy_from_slice(data);
    let checksum = !checksum::add(pseudo, checksum::sum(segment));
    wire::put_u16(segment, tcp::CHECKSUM, checksum);
    true
}

/// Sizes `out` for `len` bytes of TCP between the ends of `fields`, and writes what is in front of them; the room for
/// them, and the sum of their pseudo header.
fn start_between<'o, P: Packet>(out: &'o mut P, fields: &Segment, len: usize) -> Option<(&'o mut [u8], u16)> {
    let length = u16::try_from(len).ok()?;
    match (fields.source.ip(), fields.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let header = ipv4::Fields {
                tos: fields.traffic_class,
                total_len: length.checked_add(ipv4::HEADER_LEN as u16)?,
                identification: 0,
                dont_fragment: true,
                ttl: TTL,
                protocol: ipv4::TCP,
                source,
                destination,
            };
            let pseudo = checksum::pseudo_header(source, destination, ipv4::TCP, length);
            Some((super::start(out, &header)?, pseudo))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = ipv6::Fields {
                traffic_class: fields.traffic_class,
                flow_label: 0,
                payload_len: length,
                next_header: ipv4::TCP,
                hop_limit: TTL,
                source,
                destination,
            };
            let pseudo = checksum::pseudo_header6(source, destination, ipv4::TCP, u32::from(length));
            Some((super::start6(out, &header)?, pseudo))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::TestPacket;
    use crate::worker::tests::plan::Family;
    use crate::worker::tests::wire::{Load, Wire};

    fn fields(family: Family) -> Segment {
        Segment {
            source: family.client(1, 1024),
            destination: family.server(1, 8080),
            sequence: 0x0102_0304,
            acknowledgement: 0x0506_0708,
            flags: 0x18,
            window: 0x1234,
            timestamps: None,
            traffic_class: 0xb8,
        }
    }

    #[test]
    fn a_segment_byte_by_byte() {
        let mut out = TestPacket::new(&[]);
        let wanted = Segment {
            timestamps: Some([0xa0a1_a2a3, 0xb0b1_b2b3]),
            ..fields(Family::V4)
        };
        assert!(tcp_segment(&mut out, &wanted, b"odd"));
        let frame = out.bytes();
        assert_eq!(frame[..14], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
        assert_eq!(frame[14..24], [0x45, 0xb8, 0, 55, 0, 0, 0x40, 0, 64, 6]);
        assert_eq!(frame[26..34], [198, 51, 100, 1, 10, 0, 0, 11]);
        assert_eq!(
            frame[34..50],
            [4, 0, 0x1f, 0x90, 1, 2, 3, 4, 5, 6, 7, 8, 0x80, 0x18, 0x12, 0x34]
        );
        assert_eq!(frame[52..56], [0, 0, 1, 1]);
        assert_eq!(frame[56..], *b"\x08\x0a\xa0\xa1\xa2\xa3\xb0\xb1\xb2\xb3odd");
    }

    #[test]
    fn it_reads_as_what_it_is_in_both_families() {
        for family in Family::BOTH {
            let mut out = TestPacket::new(&[]);
            assert!(tcp_segment(&mut out, &fields(family), b"odd"));
            let seen = Wire::read(&out.bytes()[14..]);
            let wanted = fields(family);
            assert_eq!((seen.from, seen.to), (wanted.source, wanted.destination));
            assert_eq!((seen.hops, seen.tos), (64, 0xb8));
            let load = Load::Tcp {
                flags: 0x18,
                sequence: 0x0102_0304,
                acknowledgement: 0x0506_0708,
                options: Vec::new(),
                data: b"odd".to_vec(),
            };
            assert_eq!(seen.load, load);
        }
    }

    #[test]
    fn there_is_none_between_two_families() {
        let mixed = Segment {
            destination: Family::V6.server(1, 8080),
            ..fields(Family::V4)
        };
        assert!(!tcp_segment(&mut TestPacket::new(&[]), &mixed, b""));
    }
}
