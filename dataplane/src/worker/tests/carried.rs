//! What packets travel in, for tests: frames with and without tags, tunnels, fragments. As naive as [`super::wire`].

use super::frames::ones_sum;
use super::header::{Outer, word};
use super::wire::*;
use dataplane::packet::{MacAddr, PortId};

/// A frame that the gateway has sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Out {
    /// The port whose queue it left by.
    pub(crate) port: PortId,
    pub(crate) to_mac: MacAddr,
    pub(crate) from_mac: MacAddr,
    /// The VLAN of its tag.
    pub(crate) tag: Option<u16>,
    /// What is behind the ethertype.
    pub(crate) packet: Vec<u8>,
    pub(crate) arp: bool,
}

impl Out {
    pub(crate) fn read((port, frame): (PortId, Vec<u8>)) -> Out {
        let mac = |at: usize| MacAddr(frame[at..at + 6].try_into().unwrap());
        let (tag, at) = match word(&frame, 12) {
            0x8100 => (Some(word(&frame, 14)), 18),
            _ => (None, 14),
        };
        let arp = match (word(&frame, at - 2), frame[at] >> 4) {
            (0x0806, _) => true,
            (0x0800, 4) | (0x86dd, 6) => false,
            other => panic!("ethertype and version {other:04x?}"),
        };
        Out {
            port,
            to_mac: mac(0),
            from_mac: mac(6),
            tag,
            packet: frame[at..].to_vec(),
            arp,
        }
    }

    /// The packet, which is no fragment and in no tunnel.
    pub(crate) fn wire(&self) -> Wire {
        Wire::read(&self.packet)
    }
}

/// The frame with that packet, to a station.
pub(crate) fn link(to: MacAddr, packet: &[u8]) -> Vec<u8> {
    let ethertype: u16 = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    let mut frame = [
        &to.0[..],
        &[2, 0xff, 0, 0, 0, 1],
        &ethertype.to_be_bytes(),
        packet,
    ]
    .concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// The frame with a tag.
pub(crate) fn tagged(id: u16, frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &[0x81, 0], &id.to_be_bytes(), &frame[12..]].concat()
}

/// Takes the tunnel off a packet. A GUE or GRE checksum is verified. The outer header's payload is left empty, the GUE
/// header's ports are returned.
pub(crate) fn unwrap(packet: &[u8]) -> (Outer, Option<(u16, u16)>, Wire) {
    let mut outer = Outer::read(packet);
    let payload = std::mem::take(&mut outer.payload);
    let (ports, inner) = match outer.protocol {
        4 | 41 => (None, &payload[..]),
        17 => {
            assert_eq!(usize::from(word(&payload, 4)), payload.len());
            if word(&payload, 6) != 0 {
                assert_eq!(pseudo_sum(&outer, &payload), 0xffff, "GUE checksum");
            }
            // Version 0, no options, no flags.
            assert!(
                payload[8] == 0 && payload[10..12] == [0, 0],
                "GUE: {payload:02x?}"
            );
            assert!(matches!(payload[9], 4 | 41));
            (Some((word(&payload, 0), word(&payload, 2))), &payload[12..])
        }
        47 => {
            let length = if word(&payload, 0) == 0x8000 { 8 } else { 4 };
            assert!(length == 8 || word(&payload, 0) == 0, "GRE flags");
            assert!(length == 4 || ones_sum(&[&payload]) == 0xffff, "GRE checksum");
            (None, &payload[length..])
        }
        other => panic!("protocol {other}"),
    };
    (outer, ports, Wire::read(inner))
}

fn pseudo_sum(outer: &Outer, payload: &[u8]) -> u16 {
    let octets = |address| match address {
        std::net::IpAddr::V4(address) => address.octets().to_vec(),
        std::net::IpAddr::V6(address) => address.octets().to_vec(),
    };
    let length = (payload.len() as u16).to_be_bytes();
    let parts = [octets(outer.from), octets(outer.to)].concat();
    ones_sum(&[&parts, &length, &[0, outer.protocol], payload])
}

/// Cuts a packet that is no fragment into fragments that carry `step` bytes each, a multiple of 8.
pub(crate) fn cut(packet: &[u8], step: usize) -> Vec<Vec<u8>> {
    let v6 = packet[0] >> 4 == 6;
    let header_len = if v6 { 40 } else { usize::from(packet[0] & 15) * 4 };
    let (header, data) = packet.split_at(header_len);
    let pieces = data.chunks(step).enumerate();
    pieces
        .map(|(number, piece)| {
            let at = number * step;
            let more = at + piece.len() < data.len();
            let mut header = header.to_vec();
            if v6 {
                let protocol = std::mem::replace(&mut header[6], 44);
                header[4..6].copy_from_slice(&(8 + piece.len() as u16).to_be_bytes());
                header.extend([protocol, 0]);
                header.extend((at as u16 | u16::from(more)).to_be_bytes());
                header.extend([0, 0, 0x56, 0x78]);
            } else {
                header[2..4].copy_from_slice(&((header_len + piece.len()) as u16).to_be_bytes());
                header[6..8].copy_from_slice(&((at / 8) as u16 | u16::from(more) << 13).to_be_bytes());
                header[10..12].fill(0);
                let sum = !ones_sum(&[&header]);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            header.extend(piece);
            header
        })
        .collect()
}

/// Whether a packet is a fragment.
pub(crate) fn is_fragment(packet: &[u8]) -> bool {
    match packet[0] >> 4 {
        4 => word(packet, 6) & 0x3fff != 0,
        _ => packet[6] == 44,
    }
}

/// Puts fragments, in order and without gaps, together; a packet that is no fragment is itself. All have to say the
/// same, and all but the last carry as much as the first.
pub(crate) fn assemble(pieces: &[Vec<u8>]) -> Vec<u8> {
    let first = &pieces[0];
    if pieces.len() == 1 && !is_fragment(first) {
        return first.clone();
    }
    let v6 = first[0] >> 4 == 6;
    let header_len = if v6 { 40 } else { usize::from(first[0] & 15) * 4 };
    let skip = header_len + if v6 { 8 } else { 0 };
    let mut packet = first[..header_len].to_vec();
    for (number, piece) in pieces.iter().enumerate() {
        let (offset, more, end) = if v6 {
            let field = word(piece, 42);
            assert_eq!((piece[40], &piece[44..48]), (first[40], &first[44..48]));
            (usize::from(field & !7), field & 1 != 0, 40 + word(piece, 4))
        } else {
            let field = word(piece, 6);
            assert_eq!(piece[4..6], first[4..6]);
            assert_eq!(ones_sum(&[&piece[..header_len]]), 0xffff);
            (
                usize::from(field & 0x1fff) * 8,
                field & 0x2000 != 0,
                word(piece, 2),
            )
        };
        assert_eq!(offset, packet.len() - header_len, "a gap");
        assert_eq!(more, number + 1 < pieces.len());
        packet.extend(&piece[skip..usize::from(end)]);
    }
    let length = packet.len() as u16;
    if v6 {
        packet[6] = first[40];
        packet[4..6].copy_from_slice(&(length - 40).to_be_bytes());
    } else {
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet[6..8].fill(0);
        packet[10..12].fill(0);
        let sum = !ones_sum(&[&packet[..header_len]]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}
