//! NAT's rewrite of single packets over IPv4; those of IPv6 and SCTP go through the worker's tests.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::packet::{AddressDigest, MacAddr, Packet, PortRules, TestPacket, checksum, parse};

const RULES: PortRules = PortRules {
    mac: MacAddr([2, 0, 0, 0, 0, 1]),
    any_mac: false,
    check_partial: false,
    digest: AddressDigest::from_seed(1),
};
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const VIP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 11);

/// Where the checksums stand in L4 headers.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// A frame with IP options (CSUM-04) and right checksums; a UDP one without when asked.
fn frame(protocol: u8, options: usize, data: &[u8], unsummed: bool) -> TestPacket {
    let mut segment = vec![0; if protocol == ipv4::TCP { 20 } else { 8 }];
    segment[..4].copy_from_slice(&[0x04, 0x00, 0x00, 0x35]);
    segment.extend(data);
    let at = if protocol == ipv4::TCP {
        TCP_CHECKSUM
    } else {
        UDP_CHECKSUM
    };
    if protocol == ipv4::TCP {
        segment[12] = 0x50;
    } else {
        let length = segment.len() as u16;
        segment[4..4 + 2].copy_from_slice(&length.to_be_bytes());
    }
    if !unsummed {
        let sum = match !checksum::l4_sum(CLIENT, VIP, protocol, &segment) {
            0 if protocol == ipv4::UDP => 0xffff,
            computed => computed,
        };
        segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    let header_len = 20 + options * 4;
    let mut ip = vec![1; header_len];
    let fields = ipv4::Fields {
        tos: 0,
        total_len: (header_len + segment.len()) as u16,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol,
        source: CLIENT,
        destination: VIP,
    };
    ipv4::write(&mut ip, &fields);
    ip[0] = 0x45 + options as u8;
    ipv4::fill_checksum(&mut ip);
    let link = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    TestPacket::new(&[&link[..], &ip[..], &segment[..], &[0xee; 3][..]].concat())
}

/// The kernel's translation of "hello" to 192.168.1.11:5353, recorded.
#[test]
fn a_datagram_becomes_the_recorded_one() {
    let mut packet = frame(ipv4::UDP, 0, b"hello", false);
    let headers = parse(&packet, &RULES).unwrap();
    rewrite(
        packet.bytes_mut(),
        &headers,
        &FlowKey::new(CLIENT, 1024, SERVER, 5353),
    );
    let recorded = [
        0x45, 0, 0, 0x21, 0, 0, 0x40, 0, 0x3f, 0x11, 0x70, 0x17, 10, 1, 0, 1, 192, 168, 1, 11, // IP
        4, 0, 0x14, 0xe9, 0, 13, 0xd7, 0x63, b'h', b'e', b'l', b'l', b'o',
    ];
    assert_eq!(packet.bytes()[14..47], recorded);
}

#[test]
fn a_frame_that_does_not_hold_its_headers_is_left_alone() {
    let packet = frame(ipv4::TCP, 0, &[], false);
    let headers = parse(&packet, &RULES).unwrap();
    for len in 0..usize::from(headers.end) {
        let mut cut = packet.bytes()[..len].to_vec();
        rewrite(&mut cut, &headers, &FlowKey::default());
        rewrite_any(&mut cut, &headers, Target::V4(&FlowKey::default()));
        assert_eq!(cut, packet.bytes()[..len]);
    }
}

proptest! {
    /// Any key, protocol and option length: nothing but the key, the TTL and the checksums changes, both checksums
    /// are right, and an uncomputed one stays so (CSUM-01, CSUM-04). Both ways to rewrite agree.
    #[test]
    fn rewritten_packets_say_the_new_key_with_right_checksums(
        protocol in prop_oneof![Just(ipv4::TCP), Just(ipv4::UDP)],
        options in 0usize..=10,
        data in proptest::collection::vec(any::<u8>(), 0..40),
        unsummed: bool,
        source: [u8; 4],
        destination: [u8; 4],
        ports: [u16; 2],
    ) {
        let unsummed = unsummed && protocol == ipv4::UDP;
        let mut packet = frame(protocol, options, &data, unsummed);
        let headers = parse(&packet, &RULES).unwrap();
        let to = FlowKey::new(source.into(), ports[0], destination.into(), ports[1]);
        let mut other = packet.clone();
        rewrite(packet.bytes_mut(), &headers, &to);
        rewrite_any(other.bytes_mut(), &headers, Target::V4(&to));
        prop_assert_eq!(packet.bytes(), other.bytes());
        let (ip, segment) = rewrite::split(packet.bytes_mut(), &headers).unwrap();
        prop_assert_eq!(ipv4::ttl(ip), 63);
        prop_assert_eq!(checksum::sum(ip), 0xffff);
        prop_assert!(ip[20..].iter().all(|&byte| byte == 1));
        prop_assert_eq!((ipv4::source(ip), ipv4::destination(ip)), (to.source(), to.destination()));
        prop_assert_eq!((word(segment, 0), word(segment, 2)), (ports[0], ports[1]));
        prop_assert!(segment.ends_with(&data));
        match unsummed {
            true => prop_assert_eq!(word(segment, UDP_CHECKSUM), 0),
            false => prop_assert_eq!(checksum::l4_sum(to.source(), to.destination(), protocol, segment), 0xffff),
        }
        prop_assert_eq!(packet.bytes().last(), Some(&0xee));
    }
}
