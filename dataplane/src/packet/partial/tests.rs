//! Recorded packets whose checksum has been taken away, and the promise that nothing else changes.

use proptest::prelude::*;

use super::super::buffer::TestPacket;
use super::super::digest::AddressDigest;
use super::super::headers::{PortRules, parse};
use super::super::mac::MacAddr;
use super::*;
use crate::drops::DropReason;

const RULES: PortRules = PortRules {
    mac: MacAddr([2, 0, 0, 0, 0, 1]),
    any_mac: false,
    check_partial: true,
    digest: AddressDigest::from_seed(1),
};

/// Recorded: the IP packet, the ethertype, and where its checksum stands.
const RECORDED: [(&str, u16, usize); 4] = [
    (
        "45000028000040004006266b0a0100010a00006404000050000003e8000000005002faf098540000",
        ethernet::IPV4,
        36,
    ),
    (
        "4500002100004000401126670a0100010a0000640400\
      0035000da36768656c6c6f",
        ethernet::IPV4,
        26,
    ),
    (
        "600000000014064020010db8000000000000000000000001fd000000000000000000000000000100\
         04000050000003e8000000005002faf080ff0000",
        ethernet::IPV6,
        56,
    ),
    (
        "60000000000d114020010db8000000000000000000000001fd000000000000000000000000000100\
         04000035000d8c1268656c6c6f",
        ethernet::IPV6,
        46,
    ),
];

fn frame(hex: &str, ethertype: u16) -> Vec<u8> {
    let digit = |d: u8| (d as char).to_digit(16).unwrap() as u8;
    let packet = hex
        .as_bytes()
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]));
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(ethertype.to_be_bytes());
    frame.extend(packet);
    frame
}

/// CSUM-10: the peer leaves the pseudo header's sum; the whole sum is what the kernel had sent.
#[test]
fn a_completed_checksum_is_the_recorded_one() {
    for (hex, ethertype, at) in RECORDED {
        let recorded = frame(hex, ethertype);
        let at = at + 14;
        let segment = if ethertype == ethernet::IPV4 { 34 } else { 54 };
        let (protocol, len) = (
            recorded[if segment == 34 { 23 } else { 20 }],
            recorded.len() - segment,
        );
        let pseudo = match segment {
            34 => checksum::pseudo_header(
                ipv4::source(&recorded[14..]),
                ipv4::destination(&recorded[14..]),
                protocol,
                len as u16,
            ),
            _ => checksum::pseudo_header6(
                ipv6::source(&recorded[14..]),
                ipv6::destination(&recorded[14..]),
                protocol,
                len as u32,
            ),
        };
        let mut partial = recorded.clone();
        wire::put_u16(&mut partial, at, pseudo);
        partial.extend([0xee; 5]);
        let mut packet = TestPacket::new(&partial);
        assert_eq!(parse(&packet, &RULES), Err(DropReason::PartialChecksum));
        assert!(complete_partial(&mut packet));
        assert_eq!(packet.bytes(), [&recorded[..], &[0xee; 5]].concat());
        assert!(parse(&packet, &RULES).is_ok());
    }
}

/// CSUM-07: the segment stands behind the options of either family.
#[test]
fn headers_in_between_are_walked_over() {
    let (hex, ethertype, at) = RECORDED[2];
    let mut six = frame(hex, ethertype);
    six.splice(54..54, [6, 0, 1, 4, 0, 0, 0, 0]);
    (six[20], six[19]) = (60, 28);
    let (hex, ethertype, at4) = RECORDED[0];
    let mut four = frame(hex, ethertype);
    four.splice(34..34, [1; 8]);
    (four[14], four[17]) = (0x47, 48);
    for (mut frame, at) in [(six, at + 22), (four, at4 + 22)] {
        let right = frame.clone();
        frame[at..at + 2].fill(0x55);
        let mut packet = TestPacket::new(&frame);
        assert!(complete_partial(&mut packet));
        assert_eq!(packet.bytes(), right);
    }
}

/// A Linux sender over veth leaves a CRC of 0.
#[test]
fn the_crc_of_sctp_is_completed() {
    let cookie_ack = [0x9c, 0x40, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, 11, 0, 0, 4];
    for (header, ethertype) in [(20, ethernet::IPV4), (40, ethernet::IPV6)] {
        let hex = RECORDED[if header == 20 { 0 } else { 2 }].0;
        let mut bytes = frame(hex, ethertype)[..14 + header].to_vec();
        bytes.extend(cookie_ack);
        if header == 20 {
            (bytes[17], bytes[23]) = (36, 132);
            ipv4::fill_checksum(&mut bytes[14..34]);
        } else {
            (bytes[19], bytes[20]) = (16, 132);
        }
        let mut packet = TestPacket::new(&bytes);
        assert_eq!(parse(&packet, &RULES), Err(DropReason::PartialChecksum));
        assert!(complete_partial(&mut packet));
        assert!(sctp::is_right(&packet.bytes()[14 + header..]));
        assert!(parse(&packet, &RULES).is_ok());
    }
}

#[test]
fn what_has_no_such_checksum_is_left_alone() {
    let four = frame(RECORDED[0].0, ethernet::IPV4);
    let with = |changes: &[(usize, u8)]| {
        let mut frame = four.clone();
        for &(at, value) in changes {
            frame[at] = value;
        }
        frame
    };
    for bytes in [
        with(&[(23, 1)]),
        with(&[(23, 47)]),
        with(&[(20, 0x20)]),
        with(&[(21, 3)]),
        with(&[(14, 0x44)]),
        with(&[(17, 39)]),
        with(&[(17, 41)]),
        with(&[(12, 0x86), (13, 0xdd)]),
        with(&[(13, 6)]),
        four[..33].to_vec(),
        four[..13].to_vec(),
        vec![],
    ] {
        let mut packet = TestPacket::new(&bytes);
        assert!(!complete_partial(&mut packet), "{bytes:02x?}");
        assert_eq!(packet.bytes(), bytes);
    }
}

proptest! {
    /// Against a sum over the whole pseudo packet, byte by byte as RFC 1071 states it.
    #[test]
    fn completed_datagrams_agree_with_a_naive_sum(
        six: bool,
        data in proptest::collection::vec(any::<u8>(), 0..60),
        junk: u16,
    ) {
        let (hex, ethertype, _) = RECORDED[if six { 3 } else { 1 }];
        let header = if six { 54 } else { 34 };
        let mut bytes = [&frame(hex, ethertype)[..header + 8], &data[..]].concat();
        let len = 8 + data.len() as u16;
        wire::put_u16(&mut bytes, header + 4, len);
        wire::put_u16(&mut bytes, header + 6, junk);
        wire::put_u16(&mut bytes, if six { 18 } else { 16 }, if six { len } else { len + 20 });
        let mut packet = TestPacket::new(&bytes);
        prop_assert!(complete_partial(&mut packet));
        let done = packet.bytes();
        let addresses = if six { &done[22..54] } else { &done[26..34] };
        let mut total = 17 + u32::from(len);
        for pair in addresses.chunks(2).chain(done[header..].chunks(2)) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        }
        while total > 0xffff {
            total = (total & 0xffff) + (total >> 16);
        }
        prop_assert_eq!(total, 0xffff);
        prop_assert_ne!(wire::get_u16(done, header + 6), 0);
    }

    #[test]
    fn no_bytes_make_it_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..120),
        six: bool,
        protocol in prop_oneof![Just(6u8), Just(17), Just(132), Just(0), Just(60)],
    ) {
        if bytes.len() > 24 {
            let (ethertype, version, at) = if six { ([0x86, 0xdd], 0x60, 20) } else { ([8, 0], 0x45, 23) };
            bytes[12..14].copy_from_slice(&ethertype);
            bytes[14] = version;
            (bytes[16], bytes[18]) = (0, 0);
            bytes[at] = protocol;
        }
        let _ = complete_partial(&mut TestPacket::new(&bytes));
    }
}
