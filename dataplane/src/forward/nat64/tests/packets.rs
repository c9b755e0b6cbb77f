//! Any packet of TCP, UDP or SCTP: to the other side it is the one that a naive model makes, and back again it is what
//! its sender sent.

use proptest::prelude::*;

use super::model::{Sample, pair, sample};
use super::*;
use crate::packet::{rewrite, sctp, tcp};

/// A packet, and its ends on the other side.
fn case() -> impl Strategy<Value = (Sample, [SocketAddr; 2])> {
    any::<bool>().prop_flat_map(|v6| (sample(v6), pair(!v6)))
}

/// The frame that a packet becomes.
fn translated(ip: &[u8], to: &Target) -> Vec<u8> {
    let (mut packet, headers) = received(ip);
    translate(&mut packet, &headers, to, Delta::NONE).unwrap();
    packet.bytes().to_vec()
}

proptest! {
    #[test]
    fn a_packet_is_the_one_that_says_the_same_on_the_other_side(
        (from, ends) in case(), identification: u16, back: u16,
    ) {
        let there = from.translated(ends, identification).lives(from.ttl - 1);
        let frame = translated(&from.ip(), &target(ends[0], ends[1], identification));
        prop_assert_eq!(&frame, &sent(&there.ip()));

        // What its sender would see of it if it came back: the same but for what RFC 7915 drops.
        let home = there.translated(from.ends, back).lives(from.ttl.saturating_sub(2));
        let frame = translated(&frame[L3..], &target(from.ends[0], from.ends[1], back));
        prop_assert_eq!(&frame, &sent(&home.ip()));
        let sent_by_it = Sample {
            options: 0,
            flow_label: 0,
            ttl: home.ttl,
            unsummed: false,
            identification: home.identification,
            dont_fragment: home.dont_fragment,
            ..from
        };
        prop_assert_eq!(home, sent_by_it);
    }

    /// What came in fragments may be fragmented again, however long it is.
    #[test]
    fn what_came_in_fragments_has_no_dont_fragment(from in sample(true), ends in pair(false), largest in 1u16..) {
        let (mut packet, headers) = received(&from.ip());
        let headers = Headers { largest_fragment: largest, ..headers };
        translate(&mut packet, &headers, &target(ends[0], ends[1], 9), Delta::NONE).unwrap();
        let there = from.translated(ends, 9).lives(from.ttl - 1);
        prop_assert_eq!(packet.bytes(), sent(&Sample { dont_fragment: false, ..there }.ip()));
    }

    /// FULLNAT moves sequence numbers before the packet changes sides.
    #[test]
    fn what_else_has_changed_is_in_the_checksum((mut from, ends) in case(), shift: u32) {
        from.protocol = 6;
        from.unsummed = false;
        let (mut packet, headers) = received(&from.ip());
        let (_, segment) = rewrite::split(packet.bytes_mut(), &headers).unwrap();
        let moved = from.sequence.wrapping_add(shift);
        let delta = tcp::set_sequence(segment, moved);
        translate(&mut packet, &headers, &target(ends[0], ends[1], 7), delta).unwrap();
        let there = from.translated(ends, 7).lives(from.ttl - 1);
        prop_assert_eq!(packet.bytes(), sent(&Sample { sequence: moved, ..there }.ip()));
    }

    /// A packet that was damaged on its way must not get a checksum that says it was not.
    #[test]
    fn a_wrong_checksum_stays_wrong((mut from, ends) in case(), tcp: bool, bit in 0..8u8) {
        from.protocol = if tcp { 6 } else { 17 };
        from.unsummed = false;
        from.behind = Vec::new();
        from.data.push(0);
        let mut ip = from.ip();
        *ip.last_mut().unwrap() ^= 1u8 << bit;
        let frame = translated(&ip, &target(ends[0], ends[1], 7));
        let mut right = sent(&from.translated(ends, 7).lives(from.ttl - 1).ip());
        *right.last_mut().unwrap() ^= 1u8 << bit;
        prop_assert_eq!(frame, right);
    }
}

/// CSUM-01 over the families: a word of the payload runs through all its values, so that the checksum does as well.
#[test]
fn udp_checksums_are_right_and_never_zero() {
    let ends4 = ["198.51.100.2:5353", "192.0.2.33:53"].map(end);
    let ends6 = ["[2001:db8:1c6:3364:2::]:5353", "[2001:db8:1c0:2:21::]:53"].map(end);
    for (from, to) in [(ends4, ends6), (ends6, ends4)] {
        let mut sample = Sample::tcp("198.51.100.2:1", "192.0.2.33:1");
        (sample.ends, sample.protocol) = (from, 17);
        for unsummed in [false, true] {
            sample.unsummed = unsummed && from[0].is_ipv4();
            for value in (0..=u16::MAX).step_by(if unsummed { 1 } else { 3 }) {
                sample.data = value.to_be_bytes().to_vec();
                let frame = translated(&sample.ip(), &target(to[0], to[1], 1));
                assert_eq!(frame, sent(&sample.translated(to, 1).lives(63).ip()));
                let header = if to[0].is_ipv4() { 20 } else { 40 };
                assert_ne!(frame[L3 + header + 6..][..2], [0, 0], "{value:#06x}");
            }
        }
    }
}

/// INIT with an IPv4 and an IPv6 address in it: neither means anything on the other side.
#[test]
fn an_init_loses_its_addresses() {
    let mut init = bytes("04000b59 00000000 00000000 01000030 00000007 00010000 00010001 00000001");
    init.extend(bytes(
        "00050008 c0000221 00060014 20010db801c000020021000000000000",
    ));
    sctp::set_checksum(&mut init);
    let sample = Sample::tcp("[2001:db8:1c0:2:21::]:1024", "[2001:db8:1c6:3364:2::]:2905");
    let mut ip = sample.ip();
    ip.truncate(40);
    (ip[5], ip[6]) = (init.len() as u8, 132);
    ip.extend(&init);
    let frame = translated(&ip, &target(end("192.0.2.33:9"), end("198.51.100.2:10"), 1));
    let mut expected = init.clone();
    expected[..4].copy_from_slice(&[0, 9, 0, 10]);
    let padding = bytes("80050008 00000000 80050014 00000000000000000000000000000000");
    expected[32..].copy_from_slice(&padding);
    sctp::set_checksum(&mut expected);
    assert_eq!(frame[L3 + 20..], expected);
}
