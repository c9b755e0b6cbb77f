//! IP headers of both families for tests, read as naively as [`super::wire`] reads what is behind them.

use super::frames::ones_sum;
use std::net::IpAddr;

/// An IP header, and what is behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outer {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) hops: u8,
    pub(crate) tos: u8,
    pub(crate) label: u16,
    pub(crate) whole: bool,
    /// As [`Wire::between`](super::wire::Wire::between).
    pub(crate) between: Vec<u8>,
    pub(crate) protocol: u8,
    pub(crate) payload: Vec<u8>,
}

impl Outer {
    /// Reads a packet that is no fragment; what follows its end is of no interest.
    pub(crate) fn read(bytes: &[u8]) -> Outer {
        if bytes[0] >> 4 == 4 {
            let (header_len, total) = (usize::from(bytes[0] & 15) * 4, usize::from(word(bytes, 2)));
            assert!(header_len >= 20 && header_len <= total && total <= bytes.len());
            let (header, payload) = bytes[..total].split_at(header_len);
            assert_eq!(ones_sum(&[header]), 0xffff, "IP checksum: {header:02x?}");
            assert_eq!(word(header, 6) & 0xbfff, 0, "a fragment");
            let address = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&header[at..at + 4]).unwrap());
            return Outer {
                from: address(12),
                to: address(16),
                hops: header[8],
                tos: header[1],
                label: word(header, 4),
                whole: header[6] & 0x40 != 0,
                between: header[20..].to_vec(),
                protocol: header[9],
                payload: payload.to_vec(),
            };
        }
        assert_eq!(bytes[0] >> 4, 6, "version: {bytes:02x?}");
        let end = 40 + usize::from(word(bytes, 4));
        let (mut at, mut protocol) = (40, bytes[6]);
        let mut between = Vec::new();
        while matches!(protocol, 0 | 43 | 60) {
            let next = at + 8 + 8 * usize::from(bytes[at + 1]);
            between.push(protocol);
            between.extend(&bytes[at + 1..next]);
            (protocol, at) = (bytes[at], next);
        }
        assert_ne!(protocol, 44, "a fragment");
        let address = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&bytes[at..at + 16]).unwrap());
        Outer {
            from: address(8),
            to: address(24),
            hops: bytes[7],
            tos: bytes[0] << 4 | bytes[1] >> 4,
            label: word(bytes, 2),
            whole: false,
            between,
            protocol,
            payload: bytes[at..end].to_vec(),
        }
    }
}

/// Gives the extension headers of an IPv6 packet, whose first bytes are their own types, the types of what follows
/// each of them.
pub(crate) fn name_headers(packet: &mut [u8], protocol: u8) {
    let (mut named_at, mut at) = (6, 40);
    while at < packet.len() {
        let next = at + 8 + 8 * usize::from(packet[at + 1]);
        packet[named_at] = packet[at];
        (named_at, at) = (at, next);
    }
    packet[named_at] = protocol;
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn double(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) << 16 | u32::from(word(bytes, at + 2))
}
