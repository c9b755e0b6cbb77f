//! The answers that the Linux kernel gave in the recordings, byte for byte but for the random identification,
//! and the packets that must not be answered.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::super::buffer::TestPacket;
use super::super::headers::{Headers, PortRules, parse};
use super::super::key::FlowKey;
use super::super::{checksum, tcp, wire};
use super::*;
use crate::drops::DropReason;

mod sctp;
mod v6;

const VIP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);
const LINK: &str = "0200000000010200000000020800";
const SYN: &str = "45000028000040004006266b0a0100010a00006404000050000003e8000000005002faf098540000";
const DATAGRAM: &str = "4500002100004000401126670a0100010a00006404000035000da36768656c6c6f";
const ECHO: &str = "4500002000004000400126780a0100010a0000640800192d0001000170696e67";

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |d: u8| (d as char).to_digit(16).unwrap() as u8;
    hex.as_bytes()
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

fn received(ip_hex: &str) -> (TestPacket, Headers) {
    let packet = TestPacket::new(&bytes(&[LINK, ip_hex].concat()));
    let rules = PortRules {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        ..PortRules::default()
    };
    let headers = parse(&packet, &rules).unwrap();
    (packet, headers)
}

/// The IP packet of a crafted frame with identification 0; its checksums have been found right.
fn masked(out: &TestPacket) -> Vec<u8> {
    let frame = out.bytes();
    assert_eq!(frame[..14], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
    assert_eq!(checksum::sum(&frame[14..34]), 0xffff);
    let mut packet = frame[14..].to_vec();
    packet[4..6].fill(0);
    packet[10..12].fill(0);
    packet
}

/// A recorded packet under the same mask.
fn recorded(hex: &str) -> Vec<u8> {
    let mut packet = bytes(hex);
    packet[4..6].fill(0);
    packet[10..12].fill(0);
    packet
}

fn error_about(offending: &[u8], message_type: u8, code: u8, rest: u32) -> Option<TestPacket> {
    let mut out = TestPacket::new(&[0xee; 700]);
    icmp_error(&mut out, offending, message_type, code, rest, VIP).then_some(out)
}

#[test]
fn errors_are_those_of_the_kernel() {
    let unreachable = error_about(&bytes(SYN), 3, 3, 0).unwrap();
    let expected = "45c00044a8d700004001bcbc0a0000640a0100010303117d00000000\
                    45000028000040004006266b0a0100010a00006404000050000003e8000000005002faf098540000";
    assert_eq!(masked(&unreachable), recorded(expected));
    let expired = "45000028000040000106656b0a0100010a00006404000050000003e8000000005002faf098540000";
    let exceeded = error_about(&bytes(expired), 11, 0, 0).unwrap();
    let expected = [
        "45c00044ab6300004001ba300a0000640a0100010b00098000000000",
        expired,
    ]
    .concat();
    assert_eq!(masked(&exceeded), recorded(&expected));
    let datagram = error_about(&bytes(DATAGRAM), 3, 3, 0).unwrap();
    let expected = [
        "45c0003dae6c00004001b72e0a0000640a0100010303118100000000",
        DATAGRAM,
    ]
    .concat();
    assert_eq!(masked(&datagram), recorded(&expected));
}

/// A segment of 1,481 bytes towards a tunnel: 576 bytes, and the MTU in the header.
#[test]
fn long_packets_are_quoted_up_to_576_bytes() {
    let head = "450005c9000040003f0621ca0a0100010a00006404000050000003e9000000015010faf047d00000";
    let mut offending = bytes(head);
    offending.resize(1481, b'x');
    let error = error_about(&offending, 3, 4, 1480).unwrap();
    let mut expected = recorded(&["45c00240cde90000400195ae0a0000640a0100010304d4a0000005c8", head].concat());
    expected.resize(576, b'x');
    assert_eq!(masked(&error), expected);
}

#[test]
fn link_padding_is_not_quoted() {
    let padded = [bytes(DATAGRAM), vec![0xee; 13]].concat();
    assert_eq!(
        error_about(&padded, 3, 3, 0),
        error_about(&bytes(DATAGRAM), 3, 3, 0)
    );
}

#[test]
fn errors_about_what_must_not_be_answered() {
    let with = |hex: &str, changes: &[(usize, u8)]| {
        let mut packet = bytes(hex);
        for &(at, value) in changes {
            packet[at] = value;
        }
        error_about(&packet, 3, 3, 0).is_some()
    };
    assert!(with(SYN, &[]) && with(ECHO, &[]) && with(ECHO, &[(20, 0)]));
    // A first fragment may be answered, a later one not.
    assert!(with(SYN, &[(6, 0x20)]));
    assert!(!with(SYN, &[(6, 0x20), (7, 1)]));
    for error in [3, 4, 5, 11, 12, 40, 255] {
        assert!(!with(ECHO, &[(20, error)]), "about ICMP type {error}");
    }
    for first in [0, 127, 224, 239] {
        assert!(!with(SYN, &[(12, first)]), "from {first}.1.0.1");
        assert!(!with(SYN, &[(16, first)]), "to {first}.0.0.100");
    }
    assert!(!with(SYN, &[(16, 255), (17, 255), (18, 255), (19, 255)]));
    assert!(!with(SYN, &[(0, 0x65)]) && !with(SYN, &[(0, 0x44)]));
    assert!(error_about(&bytes(ECHO)[..20], 3, 3, 0).is_none());
    assert!(error_about(&bytes(SYN)[..19], 3, 3, 0).is_none());
}

#[test]
fn an_echo_reply_is_that_of_the_kernel() {
    let (mut packet, headers) = received(ECHO);
    assert_eq!(echo_reply_in_place(&mut packet, &headers), Ok(()));
    let expected = "45000020d3120000400193650a0000640a0100010000212d0001000170696e67";
    assert_eq!(masked(&packet), recorded(expected));
}

#[test]
fn only_right_echo_requests_are_answered() {
    let (mut packet, headers) = received(ECHO);
    packet.bytes_mut()[45] ^= 1;
    let before = packet.clone();
    assert_eq!(
        echo_reply_in_place(&mut packet, &headers),
        Err(DropReason::BadL4Checksum)
    );
    assert_eq!(packet, before);
    for (message_type, code) in [(0, 0), (3, 3), (8, 1), (13, 0)] {
        let (mut packet, headers) = received(ECHO);
        packet.bytes_mut()[34..36].copy_from_slice(&[message_type, code]);
        assert_eq!(
            echo_reply_in_place(&mut packet, &headers),
            Err(DropReason::UnsupportedIcmp)
        );
    }
    let (mut packet, headers) = received(SYN);
    assert_eq!(
        echo_reply_in_place(&mut packet, &headers),
        Err(DropReason::UnsupportedIcmp)
    );
}

/// The sum of nothing but zeroes: the one message whose checksum cannot be 0.
#[test]
fn an_echo_of_nothing_has_a_right_checksum() {
    let (mut packet, headers) = received("4500001c000040004001267c0a0100010a0000640800f7ff00000000");
    assert_eq!(echo_reply_in_place(&mut packet, &headers), Ok(()));
    assert_eq!(packet.bytes()[34..42], [0, 0, 0xff, 0xff, 0, 0, 0, 0]);
}

/// CSUM-04, and RFC 1122 3.2.2.6: a source route is not walked again.
#[test]
fn echo_requests_with_options_are_answered_without() {
    let mut ip = bytes(ECHO);
    ip.splice(20..20, [131, 7, 4, 10, 9, 9, 9, 0]);
    ip[0] = 0x47;
    ip[3] += 8;
    ipv4::fill_checksum(&mut ip);
    let hex: String = ip.iter().map(|byte| format!("{byte:02x}")).collect();
    let (mut packet, headers) = received(&hex);
    assert_eq!(echo_reply_in_place(&mut packet, &headers), Ok(()));
    let frame = packet.bytes();
    assert_eq!(frame[34..42], [0; 8]);
    assert_eq!(checksum::sum(&frame[14..42]), 0xffff);
    assert_eq!(checksum::sum(&frame[42..]), 0xffff);
}

fn reset_about(ip_hex: &str) -> Option<Vec<u8>> {
    let (packet, headers) = received(ip_hex);
    let mut out = TestPacket::new(&[0xee; 99]);
    tcp_reset(&mut out, packet.bytes(), &headers).then(|| out.bytes()[14..].to_vec())
}

#[test]
fn resets_are_those_of_the_kernel() {
    for (segment, reset) in [
        // SYN to a port without service: the sequence number acknowledged.
        (
            "45000028000040004006266b0a0100010a00006404000051000003e8000000005002faf098530000",
            "45000028000040004006266b0a0000640a0100010051040000000000000003e95014000093310000",
        ),
        // ACK, FIN+ACK and data of no connection: the sequence number that they acknowledge.
        (
            "45000028000040004006266b0a0100010a00006404000050000003e8000000005010faf098460000",
            "45000028000040004006266b0a0000640a01000100500400000000000000000050040000972b0000",
        ),
        (
            "45000028000040004006266b0a0100010a00006404000050000003e8000000005011faf098450000",
            "45000028000040004006266b0a0000640a01000100500400000000000000000050040000972b0000",
        ),
        (
            "45000029000040004006266a0a0100010a00006404000050000003ee000007d35018faf01864000078",
            "45000028000040004006266b0a0000640a01000100500400000007d300000000500400008f580000",
        ),
    ] {
        assert_eq!(reset_about(segment), Some(bytes(reset)), "{segment}");
    }
}

/// DSCP is kept, ECN is not.
#[test]
fn a_reset_has_the_class_of_the_segment() {
    let mut segment = bytes(SYN);
    segment[1] = 0xbb;
    ipv4::fill_checksum(&mut segment);
    let hex: String = segment.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(reset_about(&hex).unwrap()[..2], [0x45, 0xb8]);
}

#[test]
fn resets_and_groups_get_no_reset() {
    let reset = "45000028000040004006266b0a0100010a00006404000050000003ee000000005004faf0984c0000";
    assert_eq!(reset_about(reset), None);
    assert_eq!(reset_about(DATAGRAM), None);
    let (packet, headers) = received(SYN);
    let many = Headers {
        key: FlowKey::new([10, 1, 0, 1].into(), 1024, [224, 0, 0, 1].into(), 80),
        ..headers
    };
    assert!(!tcp_reset(&mut TestPacket::new(&[]), packet.bytes(), &many));
}

proptest! {
    #[test]
    fn no_quote_makes_it_panic(
        mut offending in proptest::collection::vec(any::<u8>(), 0..700),
        first in prop_oneof![Just(0x45u8), Just(0x46), any::<u8>()],
        total_len in 0u16..800,
    ) {
        if offending.len() >= 4 {
            offending[0] = first;
            offending[2..4].copy_from_slice(&total_len.to_be_bytes());
        }
        if let Some(out) = error_about(&offending, 3, 4, 1480) {
            prop_assert!(out.bytes().len() <= 14 + 576);
            prop_assert_eq!(checksum::sum(&out.bytes()[14..34]), 0xffff);
            prop_assert_eq!(checksum::sum(&out.bytes()[34..]), 0xffff);
        }
    }

    #[test]
    fn echo_replies_of_any_size_have_right_checksums(
        rest: u32,
        data in proptest::collection::vec(any::<u8>(), 0..1480),
    ) {
        let mut ip = [bytes(ECHO)[..28].to_vec(), data].concat();
        let total_len = ip.len() as u16;
        ip[2..4].copy_from_slice(&total_len.to_be_bytes());
        ip[22..24].fill(0);
        ip[24..28].copy_from_slice(&rest.to_be_bytes());
        let checksum = !checksum::sum(&ip[20..]);
        ip[22..24].copy_from_slice(&checksum.to_be_bytes());
        ipv4::fill_checksum(&mut ip);
        let mut packet = TestPacket::new(&[bytes(LINK), ip.clone(), vec![0xee; 5]].concat());
        let headers = parse(&packet, &PortRules { mac: MacAddr([2, 0, 0, 0, 0, 1]), ..PortRules::default() });
        prop_assert_eq!(echo_reply_in_place(&mut packet, &headers.unwrap()), Ok(()));
        let reply = packet.bytes()[14..].to_vec();
        prop_assert_eq!(reply.len(), ip.len());
        prop_assert_eq!(checksum::sum(&reply[..20]), 0xffff);
        prop_assert_eq!(checksum::sum(&reply[20..]), 0xffff);
        prop_assert_eq!(&reply[24..], &ip[24..]);
    }

    #[test]
    fn resets_have_right_checksums(sequence: u32, acknowledgement: u32, flags: u8, data in 0usize..40) {
        let mut segment = bytes(&SYN[40..]);
        wire::put_u32(&mut segment, 4, sequence);
        wire::put_u32(&mut segment, 8, acknowledgement);
        segment[13] = flags;
        segment.resize(20 + data, 7);
        let mut ip = [bytes(&SYN[..40]), segment].concat();
        ip[3] += data as u8;
        ipv4::fill_checksum(&mut ip);
        let hex: String = ip.iter().map(|byte| format!("{byte:02x}")).collect();
        match reset_about(&hex) {
            None => prop_assert!(flags & tcp::RST != 0),
            Some(reset) => {
                let client = Ipv4Addr::new(10, 1, 0, 1);
                prop_assert_eq!(checksum::l4_sum(VIP, client, 6, &reset[20..]), 0xffff);
                prop_assert_eq!(checksum::sum(&reset[..20]), 0xffff);
            }
        }
    }
}
