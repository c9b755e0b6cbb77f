//! Answers over IPv6: the kernel's, recorded, but for its random flow label; and what must not be answered.

use std::net::Ipv6Addr;

use super::super::super::{icmp6, ipv6};
use super::*;

const LINK6: &str = "02000000000102000000000286dd";
const ZERO_LINK6: &str = "00000000000000000000000086dd";
const SYN6: &str = "600000000014064020010db8000000000000000000000001fd000000000000000000000000000100\
                    04000050000003e8000000005002faf080ff0000";
const DATAGRAM6: &str = "60000000000d114020010db8000000000000000000000001fd000000000000000000000000000100\
                         04000035000d8c1268656c6c6f";
const ECHO6: &str = "60000000000c3a4020010db8000000000000000000000001fd000000000000000000000000000100\
                     8000752b0001000170696e67";
const ECHO6_REPLY: &str = "60000000000c3a40fd00000000000000000000000000010020010db8000000000000000000000001\
                           8100742b0001000170696e67";

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn received6(ip: &[u8]) -> (TestPacket, Headers) {
    let packet = TestPacket::new(&[&bytes(LINK6), ip].concat());
    let rules = PortRules {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        ..PortRules::default()
    };
    let headers = parse(&packet, &rules).unwrap();
    (packet, headers)
}

/// The sum over the segment of a crafted packet without extension headers: 0xffff when its checksum is right.
fn sum6(packet: &[u8]) -> u16 {
    let (source, destination) = (ipv6::source(packet), ipv6::destination(packet));
    checksum::l4_sum6(source, destination, ipv6::next_header(packet), &packet[40..])
}

fn error6_about(offending: &[u8], message_type: u8, code: u8, rest: u32) -> Option<Vec<u8>> {
    let mut out = TestPacket::new(&[0xee; 1400]);
    icmp6_error(
        &mut out,
        offending,
        message_type,
        code,
        rest,
        address("fd00::100"),
    )
    .then(|| {
        assert_eq!(out.bytes()[..14], bytes(ZERO_LINK6));
        assert_eq!(sum6(&out.bytes()[14..]), 0xffff);
        out.bytes()[14..].to_vec()
    })
}

/// A segment of 1,500 bytes towards an IPv6 tunnel: the error is as long as the least MTU.
#[test]
fn a_packet_too_big_is_that_of_the_kernel() {
    let head = "6000000005b4063f20010db8000000000000000000000001fd000000000000000000000000000100\
                04000050000003e9000000015010faf0a87c0000";
    let mut offending = bytes(head);
    offending.resize(1500, b'x');
    let error = error6_about(&offending, icmp6::PACKET_TOO_BIG, 0, 1460).unwrap();
    let start = "6000000004d83a40fd00000000000000000000000000010020010db8000000000000000000000001\
                 02007054000005b4";
    let mut expected = bytes(&[start, head].concat());
    expected.resize(1280, b'x');
    assert_eq!(error, expected);
}

#[test]
fn link_padding_is_not_quoted() {
    let plain = bytes(DATAGRAM6);
    let error = error6_about(&plain, icmp6::UNREACHABLE, icmp6::PORT_UNREACHABLE, 0).unwrap();
    assert_eq!((error.len(), error[40], error[41]), (48 + plain.len(), 1, 4));
    assert_eq!(error[48..], plain);
    let padded = [&plain[..], &[0xee; 13]].concat();
    assert_eq!(error6_about(&padded, 1, 4, 0), Some(error));
}

/// RFC 4443 2.4 e.
#[test]
fn errors_about_what_must_not_be_answered() {
    let with = |hex: &str, changes: &[(usize, u8)], message_type: u8, code: u8| {
        let mut packet = bytes(hex);
        for &(at, value) in changes {
            packet[at] = value;
        }
        error6_about(&packet, message_type, code, 0).is_some()
    };
    assert!(with(SYN6, &[], 1, 4) && with(ECHO6, &[], 1, 4));
    for message_type in 0..=255 {
        let informs = message_type >= 128 && message_type != 137;
        assert_eq!(
            with(ECHO6, &[(40, message_type)], 3, 0),
            informs,
            "about type {message_type}"
        );
    }
    // To many: only that it is too big, and that an option is unknown.
    for (message_type, code, expected) in [
        (1, 4, false),
        (2, 0, true),
        (3, 0, false),
        (4, 2, true),
        (4, 1, false),
    ] {
        assert_eq!(
            with(SYN6, &[(24, 0xff), (25, 2)], message_type, code),
            expected,
            "{message_type}/{code}"
        );
    }
    // From many, from nobody, from and to loopback; IPv4; a chain that cannot be.
    let nobody = [(8, 0), (9, 0), (10, 0), (11, 0), (23, 0)];
    assert!(!with(SYN6, &[(8, 0xff)], 2, 0));
    assert!(!with(SYN6, &nobody, 2, 0) && !with(SYN6, &nobody[..4], 2, 0));
    assert!(!with(SYN6, &[(24, 0), (38, 0), (39, 1)], 2, 0));
    assert!(!with(SYN6, &[(0, 0x45)], 1, 4) && !with(SYN6, &[(6, 0), (41, 9)], 1, 4));
    assert!(error6_about(&bytes(SYN6)[..39], 1, 4, 0).is_none());
    assert!(error6_about(&bytes(ECHO6)[..40], 1, 4, 0).is_none());
}

/// A first fragment may be answered unless it is an error's, a later one not.
#[test]
fn fragments_are_looked_into() {
    let about = |next: u8, offset_and_more: u8, l4: u8| {
        let mut packet = bytes(SYN6);
        packet.splice(40..40, [next, 0, 0, offset_and_more, 0, 0, 0, 7]);
        (packet[5], packet[6], packet[48]) = (28, 44, l4);
        error6_about(&packet, 3, 1, 0).is_some()
    };
    assert!(about(6, 1, 0) && about(6, 0, 0) && about(58, 1, 128));
    assert!(!about(6, 9, 0) && !about(58, 8, 128));
    assert!(!about(58, 1, 1) && !about(58, 0, 3) && !about(58, 1, 137));
}

#[test]
fn an_echo_reply_is_the_request_turned_around() {
    let (mut packet, headers) = received6(&[bytes(ECHO6), vec![0xee; 6]].concat());
    assert_eq!(echo6_reply_in_place(&mut packet, &headers), Ok(()));
    assert_eq!(packet.bytes(), bytes(&[ZERO_LINK6, ECHO6_REPLY].concat()));
}

/// CSUM-07: the request stands behind extension headers, which the reply does without.
#[test]
fn extension_headers_are_not_sent_back() {
    let mut ip = bytes(ECHO6);
    ip.splice(
        40..40,
        [
            60, 0, 1, 4, 0, 0, 0, 0, 58, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ],
    );
    (ip[0], ip[1], ip[5], ip[6]) = (0x6b, 0x81, 36, 0);
    let (mut packet, headers) = received6(&ip);
    assert_eq!(usize::from(headers.l4), 14 + 64);
    assert_eq!(echo6_reply_in_place(&mut packet, &headers), Ok(()));
    let mut expected = bytes(&[ZERO_LINK6, ECHO6_REPLY].concat());
    // The traffic class is the request's, the flow label is not.
    (expected[14], expected[15]) = (0x6b, 0x80);
    assert_eq!(packet.bytes(), expected);
}

#[test]
fn only_right_echo_requests_are_answered() {
    for (at, value, reason) in [
        (51, 1, DropReason::BadL4Checksum),
        (40, 129, DropReason::UnsupportedIcmp),
        (40, 1, DropReason::UnsupportedIcmp),
        (41, 1, DropReason::UnsupportedIcmp),
        // To a group.
        (24, 0xff, DropReason::UnsupportedIcmp),
    ] {
        let mut ip = bytes(ECHO6);
        ip[at] = value;
        let (mut packet, headers) = received6(&ip);
        let before = packet.clone();
        assert_eq!(
            echo6_reply_in_place(&mut packet, &headers),
            Err(reason),
            "byte {at}"
        );
        assert_eq!(packet, before);
    }
    for hex in [SYN6, DATAGRAM6] {
        let (mut packet, headers) = received6(&bytes(hex));
        let unsupported = Err(DropReason::UnsupportedIcmp);
        assert_eq!(echo6_reply_in_place(&mut packet, &headers), unsupported);
    }
}

fn reset6_about(ip: &[u8]) -> Option<Vec<u8>> {
    let (packet, headers) = received6(ip);
    let mut out = TestPacket::new(&[0xee; 99]);
    tcp_reset(&mut out, packet.bytes(), &headers).then(|| {
        assert_eq!(out.bytes()[..14], bytes(ZERO_LINK6));
        out.bytes()[14..].to_vec()
    })
}

#[test]
fn resets_answer_over_ipv6() {
    // A SYN, whose sequence number is acknowledged; data, whose acknowledgement is the sequence number.
    let of_syn = "6000000000140640fd00000000000000000000000000010020010db8000000000000000000000001\
                  0050040000000000000003e9501400007bdd0000";
    let data = "600000000015064020010db8000000000000000000000001fd000000000000000000000000000100\
                04000050000003e9000007d35018faf00114000078";
    let of_data = "6000000000140640fd00000000000000000000000000010020010db8000000000000000000000001\
                   00500400000007d3000000005004000078030000";
    assert_eq!(reset6_about(&bytes(SYN6)), Some(bytes(of_syn)));
    assert_eq!(reset6_about(&bytes(data)), Some(bytes(of_data)));
    // IP6-01: the segment is the one behind the options; the class is kept, but for ECN.
    let mut behind = bytes(data);
    behind.splice(40..40, [6, 0, 0x1e, 4, 4, 4, 4, 4]);
    (behind[0], behind[1], behind[5], behind[6]) = (0x6b, 0xb0, 29, 60);
    let mut expected = bytes(of_data);
    (expected[0], expected[1]) = (0x6b, 0x80);
    assert_eq!(reset6_about(&behind), Some(expected));
}

#[test]
fn resets_and_groups_get_no_reset_over_ipv6() {
    let mut reset = bytes(SYN6);
    reset[53] = tcp::RST;
    assert_eq!(reset6_about(&reset), None);
    let mut to_many = bytes(SYN6);
    (to_many[24], to_many[25]) = (0xff, 2);
    assert_eq!(reset6_about(&to_many), None);
    assert_eq!(reset6_about(&bytes(DATAGRAM6)), None);
}

proptest! {
    #[test]
    fn no_quote_makes_it_panic(
        mut offending in proptest::collection::vec(
            prop_oneof![Just(0u8), Just(44), Just(58), Just(60), any::<u8>()],
            0..1500,
        ),
        next in prop_oneof![Just(0u8), Just(6), Just(44), Just(58), any::<u8>()],
    ) {
        if offending.len() >= 40 {
            (offending[0], offending[6], offending[8], offending[24]) = (0x60, next, 0x20, 0xfd);
        }
        if let Some(error) = error6_about(&offending, 2, 0, 1400) {
            prop_assert!(error.len() <= 1280);
            prop_assert!(offending.starts_with(&error[48..]));
        }
    }

    #[test]
    fn echo_replies_of_any_size_have_right_checksums(
        rest: u32,
        data in proptest::collection::vec(any::<u8>(), 0..1480),
    ) {
        let mut ip = [&bytes(ECHO6)[..44], &rest.to_be_bytes(), &data[..]].concat();
        let len = (ip.len() - 40) as u16;
        ip[4..6].copy_from_slice(&len.to_be_bytes());
        ip[42..44].fill(0);
        let checksum = !sum6(&ip);
        ip[42..44].copy_from_slice(&checksum.to_be_bytes());
        let (mut packet, headers) = received6(&ip);
        prop_assert_eq!(echo6_reply_in_place(&mut packet, &headers), Ok(()));
        let reply = &packet.bytes()[14..];
        prop_assert_eq!(sum6(reply), 0xffff);
        prop_assert_eq!(&reply[44..], &ip[44..]);
        prop_assert_eq!((ipv6::source(reply), ipv6::destination(reply)), (ipv6::destination(&ip), ipv6::source(&ip)));
    }

    #[test]
    fn resets_have_right_checksums(sequence: u32, acknowledgement: u32, flags: u8, data in 0usize..40) {
        let mut ip = bytes(SYN6);
        wire::put_u32(&mut ip, 44, sequence);
        wire::put_u32(&mut ip, 48, acknowledgement);
        ip[53] = flags;
        ip.resize(60 + data, 7);
        ip[5] = 20 + data as u8;
        match reset6_about(&ip) {
            None => prop_assert!(flags & tcp::RST != 0),
            Some(reset) => prop_assert_eq!(sum6(&reset), 0xffff),
        }
    }
}
