//! IPv6 frames: recorded ones, and the promise that no bytes make the parser panic or lie.

use std::net::Ipv6Addr;

use super::super::super::buffer::ChecksumStatus;
use super::device::Judged;
use super::*;
use crate::packet::{ipv6, udp};

/// 2001:db8::1.1024 > fd00::100.80 [S], recorded.
pub(super) const SYN6: &str = "02000000000102000000000286dd\
    600000000014064020010db8000000000000000000000001fd000000000000000000000000000100\
    04000050000003e8000000005002faf080ff0000";
/// 2001:db8::1.1024 > fd00::100.53 "hello", recorded.
pub(super) const DATAGRAM6: &str = "02000000000102000000000286dd\
    60000000000d114020010db8000000000000000000000001fd000000000000000000000000000100\
    04000035000d8c1268656c6c6f";
/// A packet too big from fd00::fe, recorded; its quote is cut.
const TOO_BIG: &str = "02000000000102000000000286dd\
    60000000000c3a40fd0000000000000000000000000000fefd000000000000000000000000000100\
    020096290000051460000000";

pub(super) fn changed(hex: &str, changes: &[(usize, u8)]) -> Result<Headers, DropReason> {
    let mut frame = bytes(hex);
    for &(at, value) in changes {
        frame[at] = value;
    }
    parse(&TestPacket::new(&frame), &RULES)
}

/// Puts `extension` in front of the L4 header; `first` names it, and its own first byte what follows.
pub(super) fn extended(hex: &str, first: u8, extension: &[u8]) -> Vec<u8> {
    let plain = bytes(hex);
    let mut frame = [&plain[..54], extension, &plain[54..]].concat();
    frame[20] = first;
    let len = (frame.len() - 54) as u16;
    frame[18..20].copy_from_slice(&len.to_be_bytes());
    frame
}

pub(super) fn outcome(frame: &[u8]) -> Result<Headers, DropReason> {
    parse(&TestPacket::new(frame), &RULES)
}

fn key(hex: &str) -> FlowKey {
    let frame = bytes(hex);
    let addresses: &[u8; 32] = frame[22..54].try_into().unwrap();
    FlowKey::of_v6(RULES.digest.of(addresses), frame[54..58].try_into().unwrap())
}

#[test]
fn tcp_udp_and_icmpv6_are_told_apart() {
    let expected = Headers {
        key: key(SYN6),
        l3: 14,
        l4: 54,
        end: 74,
        protocol: 6,
        ttl: 64,
        l4_flags: 0x02,
        kind: Kind::Flow6,
        largest_fragment: 0,
    };
    assert_eq!(changed(SYN6, &[]), Ok(expected));
    let udp = changed(DATAGRAM6, &[]).unwrap();
    assert_eq!((udp.key, udp.end, udp.protocol), (key(DATAGRAM6), 67, 17));
    assert_eq!((udp.l4_flags, udp.kind), (0, Kind::Flow6));
    let icmp = changed(TOO_BIG, &[]).unwrap();
    assert_eq!((icmp.key, icmp.l4, icmp.end), (FlowKey::NONE, 54, 66));
    assert_eq!((icmp.protocol, icmp.kind), (58, Kind::Icmp6));
    let mut padded = bytes(DATAGRAM6);
    padded.resize(90, 0xee);
    assert_eq!(outcome(&padded), Ok(udp));
}

#[test]
fn sctp_is_a_flow_of_ipv6_as_well() {
    let mut frame = bytes(SYN6)[..54].to_vec();
    frame.extend([0x9c, 0x40, 0, 80, 1, 2, 3, 4, 0, 0, 0, 1, 11, 0, 0, 4]);
    (frame[19], frame[20]) = (16, 132);
    let headers = outcome(&frame).unwrap();
    assert_eq!((headers.kind, headers.protocol), (Kind::Flow6, 132));
    assert_eq!(headers.l4_flags, sctp::Event::CookieAck as u8);
    assert_eq!(
        (headers.key.source_port(), headers.key.destination_port()),
        (40000, 80)
    );
    frame[19] = 11;
    assert_eq!(outcome(&frame), Err(DropReason::BadL4Header));
}

#[test]
fn headers_that_cannot_be_are_refused() {
    use DropReason::*;
    for (changes, reason) in [
        (&[(5, 9)][..], NotOurMac),
        (&[(14, 0x40)][..], BadIpHeader),
        (&[(14, 0x70)][..], BadIpHeader),
        (&[(19, 21)][..], TruncatedFrame),
        (&[(18, 0xff), (19, 0xff)][..], TruncatedFrame),
        (&[(19, 19)][..], BadL4Header),
        (&[(19, 0)][..], BadL4Header),
        (&[(66, 0x40)][..], BadL4Header),
        (&[(66, 0x60)][..], BadL4Header),
        // From a group, from ::1 and from an IPv4 address.
        (&[(22, 0xff)][..], BadSource),
        (&[(22, 0), (23, 0), (24, 0), (25, 0)][..], BadSource),
        (
            &[(22, 0), (23, 0), (24, 0), (25, 0), (32, 0xff), (33, 0xff)][..],
            BadSource,
        ),
        // From nobody.
        (&[(22, 0), (23, 0), (24, 0), (25, 0), (37, 0)][..], BadSource),
        (&[(20, 1)][..], UnknownProtocol),
        (&[(20, 4)][..], UnknownProtocol),
        (&[(20, 50)][..], UnknownProtocol),
        (&[(20, 51)][..], UnknownProtocol),
        (&[(20, 59)][..], UnknownProtocol),
        (&[(20, 255)][..], UnknownProtocol),
    ] {
        assert_eq!(changed(SYN6, changes), Err(reason), "{changes:?}");
    }
    for len in 0..54 {
        assert_eq!(outcome(&bytes(SYN6)[..len]), Err(RuntFrame), "{len} bytes");
    }
    assert_eq!(changed(SYN6, &[(21, 0)]).map(|headers| headers.ttl), Ok(0));
}

/// What came by a link multicast is neighbour discovery or nothing.
#[test]
fn only_icmpv6_comes_by_multicast() {
    let group = [(0, 0x33), (1, 0x33)];
    assert_eq!(changed(SYN6, &group), Err(DropReason::NotForUs));
    assert_eq!(changed(DATAGRAM6, &group), Err(DropReason::NotForUs));
    assert!(changed(TOO_BIG, &group).is_ok());
}

/// RFC 4861 4.1, 4.3: `::` asks for routers and for its own address, and for nothing else.
#[test]
fn nobody_may_ask_for_neighbours_only() {
    let mut frame = bytes(TOO_BIG);
    frame[22..38].fill(0);
    for message_type in 0..=255 {
        frame[54] = message_type;
        let expected = match message_type {
            133 | 135 => Ok(Kind::Icmp6),
            _ => Err(DropReason::BadSource),
        };
        assert_eq!(
            outcome(&frame).map(|headers| headers.kind),
            expected,
            "type {message_type}"
        );
    }
}

/// RFC 8200 8.1.
#[test]
fn udp_without_a_checksum_is_refused() {
    assert_eq!(
        changed(DATAGRAM6, &[(60, 0), (61, 0)]),
        Err(DropReason::BadL4Checksum)
    );
    let judge = |frame: &[u8], l4| {
        parse(
            &Judged(TestPacket::new(frame), ChecksumStatus::Unknown, l4),
            &RULES,
        )
    };
    assert!(judge(&bytes(DATAGRAM6), ChecksumStatus::Good).is_ok());
    for hex in [DATAGRAM6, TOO_BIG] {
        let judged = judge(&bytes(hex), ChecksumStatus::Bad);
        assert_eq!(judged, Err(DropReason::BadL4Checksum));
    }
}

#[test]
fn partial_checksums_are_found() {
    for (hex, at) in [(SYN6, 70), (DATAGRAM6, 60)] {
        let mut frame = bytes(hex);
        let address = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&frame[at..at + 16]).unwrap());
        let len = (frame.len() - 54) as u32;
        let sum = checksum::pseudo_header6(address(22), address(38), frame[20], len);
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(outcome(&frame), Err(DropReason::PartialChecksum));
        let protocol = frame[20];
        let mut behind = extended(hex, 60, &[protocol, 0, 1, 4, 0, 0, 0, 0]);
        behind[at + 8..at + 10].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(outcome(&behind), Err(DropReason::PartialChecksum));
        let trusting = PortRules {
            check_partial: false,
            ..RULES
        };
        assert!(parse(&TestPacket::new(&frame), &trusting).is_ok());
    }
}

#[test]
fn fragments_are_told_by_their_header() {
    let piece = |next: u8, offset_and_more: u16, len: usize| {
        let mut frame = bytes(SYN6)[..54].to_vec();
        let [high, low] = offset_and_more.to_be_bytes();
        frame.extend([next, 0, high, low, 0xfd, 0x25, 0x2b, 0x58]);
        frame.extend(vec![7; len]);
        (frame[18], frame[19], frame[20]) = (0, 8 + len as u8, 44);
        outcome(&frame)
    };
    let expected = Headers {
        l3: 14,
        l4: 54,
        end: 78,
        protocol: 17,
        ttl: 64,
        kind: Kind::Fragment6,
        ..Headers::NONE
    };
    // The first, one in the middle, the last, and an atomic one.
    for field in [1, 9, 8, 0] {
        assert_eq!(piece(17, field, 16), Ok(expected), "{field}");
    }
    assert_eq!(piece(17, 8, 1).map(|headers| headers.end), Ok(63));
    for (field, len) in [(1, 15), (9, 1), (8, 0), (1, 0), (0xfff8, 8), (0xfff9, 8)] {
        assert_eq!(
            piece(17, field, len),
            Err(DropReason::BadIpHeader),
            "{field} {len}"
        );
    }
    assert!(piece(17, 0xfff8, 7).is_ok());
    for next in [6, 132, 58, 60, 43] {
        assert_eq!(piece(next, 8, 8).map(|headers| headers.protocol), Ok(next));
    }
    for (next, reason) in [
        (0, DropReason::BadExtensionHeader),
        (44, DropReason::BadExtensionHeader),
        (59, DropReason::UnknownProtocol),
        (89, DropReason::UnknownProtocol),
    ] {
        assert_eq!(piece(next, 8, 8), Err(reason), "{next}");
    }
    // Behind other headers; and without a whole fragment header.
    let behind = outcome(&extended(
        DATAGRAM6,
        60,
        &[44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 1],
    ))
    .unwrap();
    assert_eq!(
        (behind.l4, behind.end, behind.protocol, behind.kind),
        (62, 83, 17, Kind::Fragment6)
    );
    let mut cut = bytes(SYN6);
    (cut[19], cut[20]) = (7, 44);
    assert_eq!(outcome(&cut), Err(DropReason::BadExtensionHeader));
}

/// What every later stage relies on.
fn check_promises(frame: &[u8]) {
    let Ok(headers) = outcome(frame) else {
        return;
    };
    let (l4, end) = (usize::from(headers.l4), usize::from(headers.end));
    assert!(headers.l3 == 14 && 54 <= l4 && l4 <= end && end <= frame.len());
    let least = match (headers.kind, headers.protocol) {
        (Kind::Flow6, 6) => 20,
        (Kind::Flow6, 132) => sctp::HEADER_LEN,
        (Kind::Flow6, 17) => udp::HEADER_LEN,
        (Kind::Icmp6, 58) => 8,
        (Kind::Fragment6, 6 | 17 | 132 | 58 | 43 | 60) => ipv6::FRAGMENT_LEN + 1,
        other => panic!("{other:?}"),
    };
    assert!(end - l4 >= least);
    if headers.kind == Kind::Flow6 {
        let digest = RULES.digest.of(frame[22..54].try_into().unwrap());
        assert_eq!(
            headers.key,
            FlowKey::of_v6(digest, frame[l4..l4 + 4].try_into().unwrap())
        );
        assert!(headers.key.is_v6());
    } else {
        assert_eq!(headers.key, FlowKey::NONE);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        mut frame in proptest::collection::vec(
            prop_oneof![Just(0u8), Just(6), Just(17), Just(43), Just(44), Just(58), Just(60), Just(132), any::<u8>()],
            54..300,
        ),
        group: bool,
    ) {
        frame[..6].copy_from_slice(&RULES.mac.0);
        if group {
            frame[..2].copy_from_slice(&[0x33, 0x33]);
        }
        frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        frame[22] = 0x20;
        let len = (frame.len() - 54) as u16;
        frame[18..20].copy_from_slice(&len.to_be_bytes());
        check_promises(&frame);
    }

    /// A valid frame with a few bytes changed, perhaps cut or padded.
    #[test]
    fn no_mutation_makes_it_lie(
        hex in proptest::sample::select(vec![SYN6, DATAGRAM6, TOO_BIG]),
        changes in proptest::collection::vec((0usize..80, any::<u8>()), 0..4),
        len in 40usize..110,
    ) {
        let mut frame = bytes(hex);
        if len > 60 {
            frame.resize(len, 0);
        }
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        if frame[12..14] == [0x86, 0xdd] {
            check_promises(&frame);
        }
    }
}
