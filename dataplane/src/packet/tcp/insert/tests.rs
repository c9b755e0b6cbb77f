//! Against a naive model that builds the longer packet from nothing, and one packet byte by byte.

use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};

use proptest::prelude::*;

use super::*;
use crate::packet::{Kind, MacAddr, PortRules, TestPacket, ipv4, parse};
use crate::worker::tests::frames::framed;
use crate::worker::tests::wire::{Load, Wire};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn received(wire: &Wire) -> (TestPacket, Headers) {
    let ethertype = if wire.from.is_ipv6() { 0x86dd } else { 0x0800 };
    let packet = TestPacket::new(&framed(MAC, ethertype, &wire.packet()));
    let rules = PortRules {
        mac: MAC,
        ..PortRules::default()
    };
    let headers = parse(&packet, &rules).unwrap();
    (packet, headers)
}

/// Whatever it is, with `option` before its own options.
fn with_first_option(wire: &Wire, option: &[u8]) -> Wire {
    let mut longer = wire.clone();
    match &mut longer.load {
        Load::Tcp { options, .. } => *options = [option, options].concat(),
        _ => panic!("no TCP"),
    }
    longer
}

#[test]
fn an_ack_byte_by_byte() {
    let bytes = [
        &[
            0x45, 0, 0, 40, 0x12, 0x34, 0x40, 0, 64, 6, 0xc2, 0x02, 198, 51, 100, 1, 203, 0, 113, 100,
        ][..],
        &[
            0x9c, 0x40, 0, 80, 0, 0, 3, 0xe9, 0, 0, 0x13, 0x89, 0x50, 0x10, 0x20, 0,
        ],
        &[0, 0, 0, 0],
    ]
    .concat();
    let mut packet = TestPacket::new(&framed(MAC, 0x0800, &bytes));
    let headers = Headers {
        l3: 14,
        l4: 34,
        end: 54,
        kind: Kind::Flow,
        protocol: ipv4::TCP,
        ..Headers::NONE
    };
    let option = [254, 8, 0x9c, 0x40, 198, 51, 100, 1];
    let longer = insert_option(&mut packet, &headers, &option).unwrap();
    assert_eq!(longer, Headers { end: 62, ..headers });
    let frame = packet.bytes();
    assert_eq!(frame.len(), 60 + 8, "the link's padding stays behind the packet");
    assert_eq!(frame[..14], framed(MAC, 0x0800, &[])[..14]);
    assert_eq!(frame[16..18], [0, 48]);
    assert_eq!(frame[18..24], bytes[4..10]);
    assert_eq!(frame[24..26], [0xc1, 0xfa]);
    assert_eq!(frame[34..46], bytes[20..32]);
    assert_eq!(frame[46..48], [0x70, 0x10]);
    assert_eq!(frame[54..62], option);
}

/// RFC 9293 3.1: header and options have 60 bytes.
#[test]
fn full_options_have_no_room() {
    let ends = [[198, 51, 100, 1], [203, 0, 113, 100]].map(|ip| SocketAddr::from((ip, 80)));
    for (options, fits) in [(32, true), (36, false), (40, false)] {
        let wire = Wire::tcp(ends[0], ends[1], 16, b"data").with_options(&vec![1; options]);
        let (mut packet, headers) = received(&wire);
        let before = packet.clone();
        let done = insert_option(&mut packet, &headers, &[254, 8, 0, 0, 0, 0, 0, 0]);
        assert_eq!(done.is_some(), fits, "{options}");
        assert_eq!(packet == before, !fits);
    }
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let ends = [[198, 51, 100, 1], [203, 0, 113, 100]].map(|ip| SocketAddr::from((ip, 80)));
    let (mut packet, headers) = received(&Wire::tcp(ends[0], ends[1], 16, b"data"));
    let before = packet.clone();
    for option in [&[254, 6, 0, 0, 0, 0][..], &[0; 256], &[0; 44]] {
        assert_eq!(insert_option(&mut packet, &headers, option), None, "{option:?}");
    }
    let endless = Headers {
        end: u16::MAX - 3,
        ..headers
    };
    assert_eq!(insert_option(&mut packet, &endless, &[254, 4, 0, 0]), None);
    assert!(packet == before);
    // Without headroom there is nothing to be done.
    while packet.prepend(1) {}
    let gone = usize::from(headers.l3) + 128;
    let headers = Headers {
        l3: gone as u16,
        l4: headers.l4 + 128,
        end: headers.end + 128,
        ..headers
    };
    let before = packet.clone();
    assert_eq!(insert_option(&mut packet, &headers, &[254, 4, 0, 0]), None);
    assert!(packet == before);
}

fn ends() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    let v4 = any::<((u8, u8, u16), (u8, u8, u16))>().prop_map(|(from, to)| {
        let end = |(a, b, port): (u8, u8, u16)| SocketAddrV4::new([10, a, b, 7].into(), port);
        (end(from).into(), end(to).into())
    });
    let v6 = any::<((u16, u16, u16), (u16, u16, u16))>().prop_map(|(from, to)| {
        let end = |(a, b, port): (u16, u16, u16)| {
            SocketAddrV6::new([0x2001, 0xdb8, a, 0, 0, 0, b, 7].into(), port, 0, 0)
        };
        (end(from).into(), end(to).into())
    });
    prop_oneof![v4, v6]
}

proptest! {
    /// Lengths, checksums and the place of everything, by a packet that was written with the option at once.
    #[test]
    fn it_is_as_if_its_sender_had_written_it(
        (from, to) in ends(), flags: u8, options in 0usize..=10, between in 0usize..3,
        option in prop::collection::vec(any::<[u8; 4]>(), 1..6), data in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let option = option.concat();
        let own: Vec<u8> = (0..4 * options).map(|_| 1).collect();
        let between = match from {
            SocketAddr::V4(_) => vec![1; 4 * between],
            SocketAddr::V6(_) => [60, 0, 1, 4, 0, 0, 0, 0].repeat(between),
        };
        let wire = Wire::tcp(from, to, flags, &data).with_options(&own).with_between(&between);
        let (mut packet, headers) = received(&wire);
        let before = packet.clone();
        match insert_option(&mut packet, &headers, &option) {
            Some(longer) => {
                prop_assert!(own.len() + option.len() <= 40);
                let (expected, fresh) = received(&with_first_option(&wire, &option));
                prop_assert_eq!(longer, fresh);
                prop_assert_eq!(Wire::read(&packet.bytes()[14..]), with_first_option(&wire, &option));
                prop_assert_eq!(&packet.bytes()[..14], &expected.bytes()[..14]);
            }
            None => {
                prop_assert!(own.len() + option.len() > 40);
                prop_assert!(packet == before);
            }
        }
    }

    /// A wrong checksum stays wrong by as much: nobody is told that the data are right.
    #[test]
    fn a_wrong_checksum_stays_wrong((from, to) in ends(), wrong in 1u16..0xffff, option in any::<[u8; 8]>()) {
        let (mut packet, headers) = received(&Wire::tcp(from, to, 16, b"data"));
        let at = usize::from(headers.l4) + 16;
        let sum = u16::from_be_bytes([packet.bytes()[at], packet.bytes()[at + 1]]);
        let spoilt = crate::packet::checksum::add(sum, wrong);
        packet.bytes_mut()[at..at + 2].copy_from_slice(&spoilt.to_be_bytes());
        insert_option(&mut packet, &headers, &option).unwrap();
        let now = u16::from_be_bytes([packet.bytes()[at], packet.bytes()[at + 1]]);
        let mended = crate::packet::checksum::add(now, !wrong);
        packet.bytes_mut()[at..at + 2].copy_from_slice(&mended.to_be_bytes());
        Wire::read(&packet.bytes()[14..]);
    }
}
