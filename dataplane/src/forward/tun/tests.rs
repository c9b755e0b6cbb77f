//! Packets as recorded, and any packet through any tunnel against a receiver that is as simple as can be.

use super::*;
use crate::packet::TestPacket;
use proptest::prelude::*;
use receiver::{fill_header_checksum, unwrapped};
use recorded::{ROWS, Row};

mod receiver;
mod recorded;

pub(super) use receiver::{any_inner, any_outer, any_tunnel, inner};

pub(super) const IPIP: Tunnel = Tunnel {
    kind: TunnelKind::Ipip,
    checksum: TunnelChecksum::None,
};
pub(super) const GUE: Tunnel = Tunnel {
    kind: TunnelKind::Gue { port: 6080 },
    checksum: TunnelChecksum::None,
};
pub(super) const GUE_REMOTE: Tunnel = Tunnel {
    checksum: TunnelChecksum::Remote,
    ..GUE
};
pub(super) const GRE: Tunnel = Tunnel {
    kind: TunnelKind::Gre,
    checksum: TunnelChecksum::None,
};

/// The bytes that `text` writes in hexadecimal, with `x` up to the length that the IP header says.
fn packet(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    let mut bytes: Vec<u8> = (0..text.len()).step_by(2).map(byte).collect();
    let len = match bytes[0] >> 4 {
        4 => usize::from(word(&bytes, 2)),
        _ => usize::from(word(&bytes, 4)) + 40,
    };
    assert!(bytes.len() <= len);
    bytes.resize(len, b'x');
    bytes
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// A received frame with 5 bytes of link padding, and what the parser says of it that matters here.
fn received(packet: &[u8]) -> (TestPacket, Headers) {
    let ethertype = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    let link = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let frame = [&link[..], &ethertype, packet, &[0xee; 5]].concat();
    let headers = Headers {
        l3: 14,
        l4: 14,
        end: (14 + packet.len()) as u16,
        ..Headers::NONE
    };
    (TestPacket::new(&frame), headers)
}

/// The IP packet that leaves: `None` when it cannot be wrapped.
pub(super) fn wrapped(packet: &[u8], tunnel: &Tunnel, outer: &Outer) -> Option<Vec<u8>> {
    let (mut frame, headers) = received(packet);
    let ethertype = if outer.source.is_ipv6() {
        [0x86, 0xdd]
    } else {
        [8, 0]
    };
    wrap(&mut frame, &headers, tunnel, outer).then(|| {
        let (link, packet) = frame.bytes().split_at(14);
        assert_eq!(link, [&[0; 12][..], &ethertype].concat());
        packet.to_vec()
    })
}

/// A packet that holds `frame` with so much headroom left and no more.
fn with_headroom(frame: &[u8], room: usize) -> TestPacket {
    let mut packet = TestPacket::new(&[]);
    while packet.prepend(1) {}
    assert!(packet.resize(room + frame.len()) && packet.trim_front(room));
    packet.bytes_mut().copy_from_slice(frame);
    packet
}

/// The outer header of a recording: its addresses, and what is random in it.
fn recorded_outer(row: &Row, sent: &[u8]) -> Outer {
    let gue = row.tunnel.kind != TunnelKind::Gre && row.tunnel.kind != TunnelKind::Ipip;
    let (source, destination, identification, header_len): (IpAddr, IpAddr, _, _) = match sent[0] >> 4 {
        4 => (
            [192, 168, 1, 1].into(),
            [192, 168, 1, 11].into(),
            word(sent, 4),
            20,
        ),
        _ => (
            [0xfd01, 0, 0, 0, 0, 0, 0, 1].into(),
            [0xfd01, 0, 0, 0, 0, 0, 0, 0x11].into(),
            0,
            40,
        ),
    };
    Outer {
        source,
        destination,
        // With DF the recorded one has to come from nowhere but the rule.
        identification: if identification == 0 {
            0xdead
        } else {
            identification
        },
        source_port: if gue { word(sent, header_len) } else { 0 },
        keep_df: row.keep_df,
    }
}

#[test]
fn packets_leave_as_linux_sends_them() {
    for row in ROWS {
        let sent = packet(row.sent);
        let ours = wrapped(&packet(row.received), &row.tunnel, &recorded_outer(row, &sent));
        assert_eq!(ours, Some(sent), "{}: {}", row.name, row.received);
    }
}

/// What is left of 1500 bytes is what Linux tells the client (recorded for all but GRE).
#[test]
fn overheads_leave_the_recorded_mtus() {
    let gre_checksum = Tunnel {
        checksum: TunnelChecksum::Outer,
        ..GRE
    };
    for (tunnel, over_v4, over_v6) in [
        (IPIP, 1480, 1460),
        (GUE, 1468, 1448),
        (GUE_REMOTE, 1468, 1448),
        (GRE, 1476, 1456),
        (gre_checksum, 1472, 1452),
    ] {
        let mtus = [false, true].map(|v6| 1500 - overhead(&tunnel, v6));
        assert_eq!(mtus, [over_v4, over_v6], "{tunnel:?}");
    }
}

#[test]
fn congestion_is_not_told_twice() {
    let outer = [0x00, 0x01, 0x02, 0x03, 0xb8, 0xbb, 0xff].map(outer_tos);
    assert_eq!(outer, [0x00, 0x01, 0x02, 0x02, 0xb8, 0xba, 0xfe]);
}

/// The longest IP packet is 65,535 bytes long, however much room the buffer has.
#[test]
fn a_packet_that_would_be_too_long_is_left_alone() {
    let outer = Outer {
        source: [192, 168, 1, 1].into(),
        destination: [192, 168, 1, 11].into(),
        identification: 0,
        source_port: 0,
        keep_df: true,
    };
    for (len, fits) in [(65515, true), (65516, false)] {
        let packet = inner(false, 0, 64, true, 0, &vec![7; len - 20]);
        let mut frame = Spacious([&[0; 14][..], &packet].concat());
        let headers = Headers {
            l3: 14,
            l4: 34,
            end: 14 + len as u16,
            ..Headers::NONE
        };
        let before = frame.0.clone();
        assert_eq!(wrap(&mut frame, &headers, &IPIP, &outer), fits);
        assert_eq!(frame.0 == before, !fits);
        assert!(!fits || frame.0[16..18] == [0xff; 2]);
    }
}

/// A buffer without limits.
struct Spacious(Vec<u8>);

impl Packet for Spacious {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn prepend(&mut self, len: usize) -> bool {
        self.0.splice(..0, vec![0; len]);
        true
    }

    fn trim_front(&mut self, len: usize) -> bool {
        self.0.drain(..len);
        true
    }

    fn resize(&mut self, len: usize) -> bool {
        self.0.resize(len, 0);
        true
    }
}

proptest! {
    /// Any packet through any tunnel: the receiver gets it back with its TTL lowered and nothing else changed, and
    /// the outer header says what it should.
    #[test]
    fn receivers_get_the_packet_back(mut packet in any_inner(), tunnel in any_tunnel(), outer in any_outer()) {
        let sent = wrapped(&packet, &tunnel, &outer).unwrap();
        prop_assert_eq!(sent.len(), packet.len() + overhead(&tunnel, outer.source.is_ipv6()));
        let v6 = packet[0] >> 4 == 6;
        let (tos, df) = match v6 {
            true => ((word(&packet, 0) >> 4) as u8, false),
            false => (packet[1], packet[6] & 0x40 != 0),
        };
        if v6 {
            packet[7] -= 1;
        } else {
            packet[8] -= 1;
            fill_header_checksum(&mut packet);
        }
        let ttl = packet[if v6 { 7 } else { 8 }];
        prop_assert_eq!(unwrapped(&sent, &tunnel, &outer, v6), packet);

        let tos = if tos & 3 == 3 { tos - 1 } else { tos };
        if outer.source.is_ipv6() {
            prop_assert_eq!(((word(&sent, 0) >> 4) as u8, sent[7]), (tos, ttl));
        } else {
            let (id, flags) = if df && outer.keep_df { (0, 0x4000) } else { (outer.identification, 0) };
            prop_assert_eq!((sent[1], word(&sent, 4), word(&sent, 6), sent[8]), (tos, id, flags, ttl));
        }
    }

    /// A buffer with one byte of headroom too few is left as it was; with just enough it is not.
    #[test]
    fn without_headroom_nothing_changes(packet in any_inner(), tunnel in any_tunnel(), outer in any_outer()) {
        let needed = overhead(&tunnel, outer.source.is_ipv6());
        for room in [0, needed - 1, needed] {
            let (whole, headers) = received(&packet);
            let mut frame = with_headroom(whole.bytes(), room);
            let before = frame.clone();
            prop_assert_eq!(wrap(&mut frame, &headers, &tunnel, &outer), room == needed);
            prop_assert_eq!(frame == before, room != needed);
        }
    }

    /// Offsets that no parser would give, and mixed families (`outer` of one, the destination of another).
    #[test]
    fn any_bytes_and_offsets_are_survived(
        bytes in proptest::collection::vec(any::<u8>(), 0..120),
        [l3, end] in any::<[u16; 2]>(),
        near: bool,
        tunnel in any_tunnel(),
        mut outer in any_outer(),
        destination: Option<[u8; 4]>,
    ) {
        outer.destination = destination.map_or(outer.destination, IpAddr::from);
        let limit = if near { 140 } else { u16::MAX };
        let headers = Headers { l3: l3 % limit, end: end % limit, ..Headers::NONE };
        let mut frame = TestPacket::new(&bytes);
        let before = frame.clone();
        let mixed = outer.source.is_ipv6() != outer.destination.is_ipv6();
        let done = wrap(&mut frame, &headers, &tunnel, &outer);
        prop_assert!(!(done && mixed));
        prop_assert_eq!(done, frame != before);
    }
}
