//! Datagrams for tests, cut by a rule of their own that knows nothing of how the gateway cuts.

use crate::packet::{Headers, Kind, Packet, PortId, TestPacket, ipv4, ipv6};
use proptest::prelude::*;

pub(super) const PORT: PortId = PortId(3);

/// A datagram: everything up to its payload as it stands in a whole packet, and the payload.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) head: Vec<u8>,
    pub(super) payload: Vec<u8>,
    pub(super) identification: u32,
    pub(super) is_v6: bool,
}

const ETHERNET: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

impl Sample {
    /// UDP from 10.1.0.1 to 10.0.0.100, with IPv4 options (a multiple of 4 bytes).
    pub(super) fn v4(identification: u16, options: &[u8], payload: Vec<u8>) -> Sample {
        let ihl = 5 + options.len() as u8 / 4;
        let mut head = [
            &ETHERNET[..],
            &[8, 0, 0x40 | ihl, 0x04, 0, 0],
            &identification.to_be_bytes(),
        ]
        .concat();
        head.extend_from_slice(&[0, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 0, 0, 100]);
        head.extend_from_slice(options);
        Sample {
            head,
            payload,
            identification: u32::from(identification),
            is_v6: false,
        }
    }

    /// UDP from 2001:db8::1 to fd00::100, behind as many hop-by-hop and routing headers of 8 bytes as asked for.
    pub(super) fn v6(identification: u32, extensions: usize, payload: Vec<u8>) -> Sample {
        let kinds = [0, 43, 60];
        let number = |i: usize| if i < extensions { kinds[i.min(2)] } else { 17 };
        let mut head = [
            &ETHERNET[..],
            &[0x86, 0xdd, 0x60, 0x0c, 0, 9, 0, 0, number(0), 64],
        ]
        .concat();
        head.extend_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        head.extend_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        for i in 0..extensions {
            head.extend_from_slice(&[number(i + 1), 0, 1, 0, 0, 0, 0, 0]);
        }
        Sample {
            head,
            payload,
            identification,
            is_v6: true,
        }
    }

    /// The whole packet.
    pub(super) fn whole(&self) -> Vec<u8> {
        finished([&self.head[..], &self.payload].concat(), self.is_v6)
    }

    /// The fragment that holds the payload from `start` up to `end`.
    pub(super) fn piece(&self, start: usize, end: usize) -> Vec<u8> {
        let more = end < self.payload.len();
        self.piece_of(start, &self.payload[start..end], more)
    }

    /// A fragment with any content.
    pub(super) fn piece_of(&self, start: usize, data: &[u8], more: bool) -> Vec<u8> {
        assert_eq!(start % 8, 0);
        let mut frame = self.head.clone();
        if self.is_v6 {
            // The last header of the chain begins 8 bytes before the end, if there are any.
            let field = if frame.len() > 54 { frame.len() - 8 } else { 20 };
            let next = std::mem::replace(&mut frame[field], ipv6::FRAGMENT);
            frame.extend_from_slice(&[next, 0]);
            frame.extend_from_slice(&(start as u16 | u16::from(more)).to_be_bytes());
            frame.extend_from_slice(&self.identification.to_be_bytes());
        } else {
            let flags = (start / 8) as u16 | u16::from(more) << 13;
            frame[20..22].copy_from_slice(&flags.to_be_bytes());
        }
        frame.extend_from_slice(data);
        finished(frame, self.is_v6)
    }

    /// The fragments of at most `room` payload bytes each, a multiple of 8.
    pub(super) fn pieces(&self, room: usize) -> Vec<Vec<u8>> {
        let len = self.payload.len();
        (0..len)
            .step_by(room)
            .map(|start| self.piece(start, len.min(start + room)))
            .collect()
    }

    /// Bytes of a fragment that are not payload, from the IP header on.
    pub(super) fn overhead(&self) -> usize {
        self.head.len() - 14 + if self.is_v6 { 8 } else { 0 }
    }
}

/// The frame with its lengths and its checksum.
pub(super) fn finished(mut frame: Vec<u8>, is_v6: bool) -> Vec<u8> {
    let len = (frame.len() - 14) as u16;
    if is_v6 {
        frame[18..20].copy_from_slice(&(len - 40).to_be_bytes());
    } else {
        frame[16..18].copy_from_slice(&len.to_be_bytes());
        ipv4::fill_checksum(&mut frame[14..]);
    }
    frame
}

/// What the parser says of a fragment.
pub(super) fn headers(frame: &[u8]) -> Headers {
    if frame[14] >> 4 == 4 {
        return Headers {
            kind: Kind::Fragment,
            l3: 14,
            l4: 14 + u16::from(frame[14] & 15) * 4,
            end: 14 + ipv4::total_len(&frame[14..]) as u16,
            protocol: 17,
            ..Headers::NONE
        };
    }
    let (mut number, mut at) = (frame[20], 54);
    while number != ipv6::FRAGMENT {
        number = frame[at];
        at += 8 * (usize::from(frame[at + 1]) + 1);
    }
    Headers {
        kind: Kind::Fragment6,
        l3: 14,
        l4: at as u16,
        end: 14 + ipv6::total_len(&frame[14..]) as u16,
        ..Headers::NONE
    }
}

/// A packet of any frame, however long.
pub(super) fn packet(frame: &[u8]) -> TestPacket {
    let mut packet = TestPacket::large();
    assert!(packet.resize(frame.len()));
    packet.bytes_mut().copy_from_slice(frame);
    packet
}

/// Bytes that differ along the way.
pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8 ^ (i / 251) as u8).collect()
}

/// Datagrams of both families with a payload of up to `longest` bytes.
pub(super) fn samples(longest: usize) -> impl Strategy<Value = Sample> {
    (any::<bool>(), any::<u16>(), 0usize..4, 9..=longest).prop_map(|(is_v6, identification, extras, len)| {
        if is_v6 {
            Sample::v6(u32::from(identification) << 9, extras, pattern(len))
        } else {
            // Record route and router alert, by halves.
            let options = [7, 7, 4, 0, 0, 0, 0, 1, 148, 4, 0, 0];
            Sample::v4(identification, &options[..extras * 4], pattern(len))
        }
    })
}
