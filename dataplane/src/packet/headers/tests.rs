//! Frames as literal bytes, and the promise that no bytes make the parser panic or lie.

use proptest::prelude::*;

use super::super::buffer::TestPacket;
use super::super::{checksum, sctp};
use super::*;

mod chains;
mod device;
mod v6;

const RULES: PortRules = PortRules {
    mac: MacAddr([2, 0, 0, 0, 0, 1]),
    any_mac: false,
    check_partial: true,
    digest: AddressDigest::from_seed(1),
};

/// 10.1.0.1:1024 > 10.0.0.100:80 [S], recorded.
const SYN: &str = "020000000001020000000002080045000028000040004006266b0a0100010a000064\
                   04000050000003e8000000005002faf098540000";
/// 10.1.0.1:1024 > 10.0.0.100:53 "hello", recorded.
const DATAGRAM: &str = "02000000000102000000000208004500002100004000401126670a0100010a000064\
                        04000035000da36768656c6c6f";
/// An echo request to 10.0.0.100, recorded.
const ECHO: &str = "02000000000102000000000208004500002000004000400126780a0100010a000064\
                    0800192d0001000170696e67";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .bytes()
        .filter(|d| !d.is_ascii_whitespace())
        .map(|d| (d as char).to_digit(16).unwrap() as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Parses `hex` with some bytes changed; the IP checksum is made right again unless it was among them.
fn changed(hex: &str, changes: &[(usize, u8)]) -> Result<Headers, DropReason> {
    let mut frame = bytes(hex);
    for &(at, value) in changes {
        frame[at] = value;
    }
    if !changes.iter().any(|&(at, _)| at == 24 || at == 25) {
        fix_ip_checksum(&mut frame);
    }
    parse(&TestPacket::new(&frame), &RULES)
}

fn fix_ip_checksum(frame: &mut [u8]) {
    let end = 14 + usize::from(frame[14] & 15) * 4;
    if (34..=frame.len()).contains(&end) {
        frame[24..26].fill(0);
        let checksum = !checksum::sum(&frame[14..end]);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    }
}

#[test]
fn tcp_udp_and_icmp_are_told_apart() {
    let tcp = changed(SYN, &[]).unwrap();
    let (client, vip) = ([10, 1, 0, 1].into(), [10, 0, 0, 100].into());
    let expected = Headers {
        key: FlowKey::new(client, 1024, vip, 80),
        l3: 14,
        l4: 34,
        end: 54,
        protocol: 6,
        ttl: 64,
        l4_flags: 0x02,
        kind: Kind::Flow,
        largest_fragment: 0,
    };
    assert_eq!(tcp, expected);
    let udp = changed(DATAGRAM, &[]).unwrap();
    assert_eq!(udp.key, FlowKey::new(client, 1024, vip, 53));
    assert_eq!(
        (udp.end, udp.protocol, udp.l4_flags, udp.kind),
        (47, 17, 0, Kind::Flow)
    );
    let icmp = changed(ECHO, &[]).unwrap();
    assert_eq!(icmp.key, FlowKey::new(client, 0, vip, 0));
    assert_eq!((icmp.end, icmp.protocol, icmp.kind), (46, 1, Kind::Icmp));
}

#[test]
fn link_padding_is_not_part_of_the_packet() {
    let mut frame = bytes(DATAGRAM);
    frame.resize(60, 0xee);
    assert_eq!(parse(&TestPacket::new(&frame), &RULES), changed(DATAGRAM, &[]));
}

#[test]
fn the_link_header_is_judged_first() {
    use DropReason::*;
    for (changes, reason) in [
        (&[(5, 9)][..], NotOurMac),
        (&[(12, 0x81)][..], VlanTag),
        (&[(12, 0x88), (13, 0xa8)][..], VlanTag),
        (&[(12, 0x88), (13, 0x8e)][..], UnknownEthertype),
        // IPv4 that says it were IPv6.
        (&[(12, 0x86), (13, 0xdd)][..], BadIpHeader),
        // IPv4 in a link broadcast or multicast.
        (
            &[(0, 0xff), (1, 0xff), (2, 0xff), (3, 0xff), (4, 0xff), (5, 0xff)][..],
            NotForUs,
        ),
        (&[(0, 0x01), (2, 0x5e)][..], NotForUs),
    ] {
        assert_eq!(changed(SYN, changes), Err(reason), "{changes:?}");
    }
    for len in 0..34 {
        assert_eq!(
            parse(&TestPacket::new(&bytes(SYN)[..len]), &RULES),
            Err(RuntFrame),
            "{len} bytes"
        );
    }
    let open = PortRules {
        any_mac: true,
        mac: MacAddr([2, 9, 9, 9, 9, 9]),
        ..RULES
    };
    assert!(parse(&TestPacket::new(&bytes(SYN)), &open).is_ok());
}

#[test]
fn arp_is_left_to_its_own_parser() {
    for destination in [[0xff; 6], RULES.mac.0] {
        let mut frame = [0; 42];
        frame[..6].copy_from_slice(&destination);
        frame[12..14].copy_from_slice(&[0x08, 0x06]);
        let headers = parse(&TestPacket::new(&frame), &RULES).unwrap();
        assert_eq!(
            (headers.kind, headers.l3, headers.end, headers.protocol),
            (Kind::Arp, 14, 42, 0)
        );
        assert_eq!(headers.key, FlowKey::default());
    }
}

#[test]
fn ip_headers_that_cannot_be_are_refused() {
    use DropReason::*;
    for (changes, reason) in [
        (&[(14, 0x65)][..], BadIpHeader),
        (&[(14, 0x44)][..], BadIpHeader),
        (&[(14, 0x40)][..], BadIpHeader),
        // Total length below the header's, and above the frame's.
        (&[(17, 19)][..], BadIpHeader),
        (&[(17, 41)][..], TruncatedFrame),
        (&[(16, 0xff), (17, 0xff)][..], TruncatedFrame),
        (&[(24, 0)][..], BadIpChecksum),
        (&[(26, 0)][..], BadSource),
        (&[(26, 127)][..], BadSource),
        (&[(26, 224)][..], BadSource),
        (&[(26, 239)][..], BadSource),
        (&[(26, 255), (27, 255), (28, 255), (29, 255)][..], BadSource),
        (&[(23, 47)][..], UnknownProtocol),
        (&[(23, 58)][..], UnknownProtocol),
    ] {
        assert_eq!(changed(SYN, changes), Err(reason), "{changes:?}");
    }
}

#[test]
fn l4_headers_have_to_fit() {
    use DropReason::*;
    for (hex, changes, expected) in [
        (SYN, &[(17, 39)][..], Err(BadL4Header)),
        (SYN, &[(46, 0x40)][..], Err(BadL4Header)),
        (SYN, &[(46, 0x60)][..], Err(BadL4Header)),
        (DATAGRAM, &[(17, 27)][..], Err(BadL4Header)),
        (DATAGRAM, &[(39, 7)][..], Err(BadL4Header)),
        (DATAGRAM, &[(39, 14)][..], Err(BadL4Header)),
        // RFC 768 lets the datagram end before the IP packet does.
        (DATAGRAM, &[(39, 8)][..], Ok(())),
        (ECHO, &[(17, 27)][..], Err(BadL4Header)),
        (ECHO, &[(17, 28)][..], Ok(())),
    ] {
        assert_eq!(changed(hex, changes).map(|_| ()), expected, "{changes:?}");
    }
}

/// CSUM-04: the L4 header stands behind the options, and the IP checksum covers them.
#[test]
fn ip_options_are_honoured() {
    for words in 1..=10u8 {
        for hex in [SYN, DATAGRAM, ECHO] {
            let plain = bytes(hex);
            let extra = usize::from(words) * 4;
            let mut frame = [&plain[..34], &vec![1; extra][..], &plain[34..]].concat();
            frame[14] += words;
            frame[17] += words * 4;
            assert_eq!(
                parse(&TestPacket::new(&frame), &RULES),
                Err(DropReason::BadIpChecksum)
            );
            fix_ip_checksum(&mut frame);
            let headers = parse(&TestPacket::new(&frame), &RULES).unwrap();
            let expected = changed(hex, &[]).unwrap();
            assert_eq!((headers.key, headers.l4_flags), (expected.key, expected.l4_flags));
            assert_eq!(
                (headers.l4, usize::from(headers.end)),
                (34 + extra as u16, frame.len())
            );
        }
    }
}

/// Pieces of the datagram: the first, one in the middle, the last.
#[test]
fn fragments_are_told_by_their_header_alone() {
    let piece = |flags: [u8; 2], len: usize| {
        let mut frame = bytes(DATAGRAM)[..34].to_vec();
        frame.extend(vec![7; len]);
        frame[20..22].copy_from_slice(&flags);
        let total_len = 20 + len as u16;
        frame[16..18].copy_from_slice(&total_len.to_be_bytes());
        fix_ip_checksum(&mut frame);
        parse(&TestPacket::new(&frame), &RULES)
    };
    let expected = Headers {
        key: FlowKey::new([10, 1, 0, 1].into(), 0, [10, 0, 0, 100].into(), 0),
        l3: 14,
        l4: 34,
        end: 50,
        protocol: 17,
        ttl: 64,
        kind: Kind::Fragment,
        ..Headers::NONE
    };
    for flags in [[0x20, 0], [0x20, 1], [0, 1], [0x40, 1]] {
        assert_eq!(piece(flags, 16), Ok(expected), "{flags:02x?}");
    }
    assert_eq!(piece([0, 9], 1).map(|headers| headers.end), Ok(35));
    // Pieces that something must follow are counted in units of 8 bytes; a datagram ends at 65,535 bytes.
    for (flags, len) in [
        ([0x20, 0], 15),
        ([0x20, 9], 1),
        ([0, 9], 0),
        ([0x1f, 0xff], 8),
        ([0x3f, 0xfe], 8),
    ] {
        assert_eq!(
            piece(flags, len),
            Err(DropReason::BadIpHeader),
            "{flags:02x?} {len}"
        );
    }
    assert!(piece([0x1f, 0xfc], 11).is_ok());
    assert_eq!(piece([0x1f, 0xfc], 12), Err(DropReason::BadIpHeader));
    let other = changed(DATAGRAM, &[(21, 1), (20, 0), (23, 89)]);
    assert_eq!(other, Err(DropReason::UnknownProtocol));
}

/// An INIT, and what cannot be one.
#[test]
fn sctp_is_a_flow() {
    let mut frame = bytes(SYN)[..34].to_vec();
    frame.extend([0x9c, 0x40, 0, 80, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 20]);
    (frame[17], frame[23]) = (36, 132);
    fix_ip_checksum(&mut frame);
    let headers = parse(&TestPacket::new(&frame), &RULES).unwrap();
    assert_eq!(
        headers.key,
        FlowKey::new([10, 1, 0, 1].into(), 40000, [10, 0, 0, 100].into(), 80)
    );
    assert_eq!(
        (headers.kind, headers.protocol, headers.end),
        (Kind::Flow, 132, 50)
    );
    assert_eq!(headers.l4_flags, sctp::Event::Init as u8);
    for (len, expected) in [
        (7, Err(DropReason::BadL4Header)),
        (11, Err(DropReason::BadL4Header)),
        (12, Ok(())),
    ] {
        let mut cut = frame.clone();
        cut[17] = 20 + len;
        fix_ip_checksum(&mut cut);
        assert_eq!(
            parse(&TestPacket::new(&cut), &RULES).map(|_| ()),
            expected,
            "{len} bytes"
        );
    }
}

/// What every later stage relies on.
fn check_promises(frame: &[u8]) {
    let Ok(headers) = parse(&TestPacket::new(frame), &RULES) else {
        return;
    };
    let (l3, l4, end) = (
        usize::from(headers.l3),
        usize::from(headers.l4),
        usize::from(headers.end),
    );
    assert!(l3 == 14 && l3 <= l4 && l4 <= end && end <= frame.len());
    let least = match (headers.kind, headers.protocol) {
        (Kind::Flow, 6) => 20,
        (Kind::Flow, 132) => 12,
        (Kind::Flow, 17) | (Kind::Icmp, 1) => 8,
        (Kind::Fragment, 1 | 6 | 17 | 132) => 1,
        (Kind::Arp, 0) => return,
        other => panic!("{other:?}"),
    };
    assert!(end - l4 >= least && l4 >= l3 + 20);
    assert_eq!(headers.key.source().octets(), frame[26..30]);
    assert_eq!(headers.key.destination().octets(), frame[30..34]);
    if headers.kind == Kind::Flow {
        assert_eq!(bytemuck::bytes_of(&headers.key)[8..], frame[l4..l4 + 4]);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(frame in proptest::collection::vec(any::<u8>(), 0..128)) {
        check_promises(&frame);
        let mut ours = frame;
        if ours.len() >= 15 {
            ours[..6].copy_from_slice(&RULES.mac.0);
            ours[12..14].copy_from_slice(&[0x08, 0x00]);
            ours[14] = 0x40 | ours[14] & 0x0f;
            fix_ip_checksum(&mut ours);
            check_promises(&ours);
        }
    }

    /// A valid frame with a few bytes changed, perhaps cut or padded, and its IP checksum right again.
    #[test]
    fn no_mutation_makes_it_lie(
        hex in proptest::sample::select(vec![SYN, DATAGRAM, ECHO]),
        changes in proptest::collection::vec((0usize..60, any::<u8>()), 0..4),
        len in 0usize..90,
    ) {
        let mut frame = bytes(hex);
        if len > 30 {
            frame.resize(len, 0);
        }
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        fix_ip_checksum(&mut frame);
        check_promises(&frame);
    }
}
