//! Answers to SCTP packets of no association (RFC 9260 8.4), over both families. The CRCs in the literal packets
//! were computed bit by bit.

use super::super::super::sctp;
use super::*;

/// 40000 > 2905: INIT with initiate tag 0x01020304, and the ABORT that answers it.
const INIT: &str = "9c400b590000000070f8d8d1010000140102030400010000000a000a00000007";
const OF_INIT: &str = "0b599c4001020304106c51db06000004";
/// DATA with verification tag 0x0a0b0c0d.
const DATA: &str = "9c400b590a0b0c0db93651630003001100000000000000000000000078000000";
const OF_DATA: &str = "0b599c400a0b0c0d0a8743e906010004";
const SHUTDOWN_ACK: &str = "9c400b590a0b0c0d503f54ec08000004";
const OF_SHUTDOWN_ACK: &str = "0b599c400a0b0c0dece4071f0e010004";

fn framed(segment: &[u8], six: bool) -> Vec<u8> {
    let len = segment.len() as u8;
    if six {
        let mut ip =
            bytes("600000000000844020010db8000000000000000000000001fd000000000000000000000000000100");
        ip[5] = len;
        return [&bytes("02000000000102000000000286dd"), &ip[..], segment].concat();
    }
    let mut ip = bytes("4500000000004000408400000a0100010a000064");
    ip[3] = 20 + len;
    ipv4::fill_checksum(&mut ip);
    [&bytes(LINK), &ip[..], segment].concat()
}

fn abort_about(segment: &[u8], six: bool) -> Option<Vec<u8>> {
    let packet = TestPacket::new(&[framed(segment, six), vec![0xee; 3]].concat());
    let rules = PortRules {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        ..PortRules::default()
    };
    let headers = parse(&packet, &rules).unwrap();
    let mut out = TestPacket::new(&[0xee; 99]);
    sctp_abort(&mut out, packet.bytes(), &headers).then(|| out.bytes().to_vec())
}

/// `segment` with its CRC made right.
fn with_crc(mut segment: Vec<u8>) -> Vec<u8> {
    sctp::set_checksum(&mut segment);
    segment
}

/// `head`, a common header, with these chunks.
fn chunks(head: &str, kinds: &[u8]) -> Vec<u8> {
    let chunks = kinds.iter().flat_map(|&kind| [kind, 0, 0, 4]);
    with_crc(bytes(head)[..12].iter().copied().chain(chunks).collect())
}

#[test]
fn each_packet_out_of_the_blue_has_its_answer() {
    for (segment, expected) in [(INIT, OF_INIT), (DATA, OF_DATA), (SHUTDOWN_ACK, OF_SHUTDOWN_ACK)] {
        let answer = abort_about(&bytes(segment), false).unwrap();
        let ip = "4500002400004000408400000a0000640a010001";
        let mut ip = bytes(ip);
        ipv4::fill_checksum(&mut ip);
        let expected = bytes(expected);
        assert_eq!(
            answer,
            [&bytes("0000000000000000000000000800"), &ip[..], &expected[..]].concat()
        );
        let ip6 = "6000000000108440fd00000000000000000000000000010020010db8000000000000000000000001";
        let answer = abort_about(&bytes(segment), true).unwrap();
        assert_eq!(
            answer,
            [bytes("00000000000000000000000086dd"), bytes(ip6), expected].concat()
        );
    }
}

#[test]
fn what_ends_an_association_is_not_answered() {
    for kinds in [
        &[6][..],
        &[14],
        &[11],
        &[9],
        &[0, 6],
        &[10, 6],
        &[11, 0],
        &[1, 6],
        &[10, 9],
    ] {
        assert_eq!(abort_about(&chunks(DATA, kinds), false), None, "{kinds:?}");
    }
    assert!(abort_about(&chunks(DATA, &[10, 0]), false).is_some());
    assert!(abort_about(&chunks(DATA, &[3]), true).is_some());
}

#[test]
fn what_is_not_well_formed_is_not_answered() {
    // A wrong CRC, no chunk, an INIT without a tag to answer with or with one cut short.
    for at in 0..32 {
        let mut wrong = bytes(DATA);
        wrong[at] ^= 1;
        assert_eq!(abort_about(&wrong, true), None, "byte {at}");
    }
    assert_eq!(abort_about(&with_crc(bytes(DATA)[..12].to_vec()), false), None);
    let mut no_tag = bytes(INIT);
    no_tag[16..20].fill(0);
    assert_eq!(abort_about(&with_crc(no_tag), false), None);
    assert_eq!(abort_about(&with_crc(bytes(INIT)[..18].to_vec()), false), None);
    let (packet, headers) = received(SYN);
    assert!(!sctp_abort(&mut TestPacket::new(&[]), packet.bytes(), &headers));
}

/// An INIT inside an association: its verification tag is the receiver's, and goes back.
#[test]
fn an_init_with_a_tag_has_it_reflected() {
    let mut init = bytes(INIT);
    init[4..8].copy_from_slice(&[0x0a, 0x0b, 0x0c, 0x0d]);
    let answer = abort_about(&with_crc(init), false).unwrap();
    assert_eq!(answer[34..], bytes(OF_DATA));
}

#[test]
fn groups_get_no_abort() {
    let mut frame = framed(&bytes(DATA), true);
    (frame[38], frame[39]) = (0xff, 2);
    let packet = TestPacket::new(&frame);
    let rules = PortRules {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        ..PortRules::default()
    };
    let headers = parse(&packet, &rules).unwrap();
    assert!(!sctp_abort(&mut TestPacket::new(&[]), packet.bytes(), &headers));
}

proptest! {
    /// Whatever the chunks: no panic, and an answer never calls for another one.
    #[test]
    fn answers_are_right_and_end_the_matter(
        body in proptest::collection::vec(prop_oneof![Just(0u8), 0u8..16, any::<u8>()], 0..60),
        tag: u32,
        six: bool,
    ) {
        let mut segment = [&bytes(DATA)[..12], &body].concat();
        wire::put_u32(&mut segment, 4, tag);
        if let Some(answer) = abort_about(&with_crc(segment), six) {
            let segment = &answer[if six { 54 } else { 34 }..];
            prop_assert!(sctp::is_right(segment));
            prop_assert_eq!(abort_about(segment, six), None);
        }
    }
}
