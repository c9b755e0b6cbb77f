//! Messages as literal bytes, their checksums computed elsewhere; and each rule of RFC 4861 7.1 broken once.

use proptest::prelude::*;

use super::super::buffer::TestPacket;
use super::super::headers::{self, PortRules};
use super::*;

const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const THEIRS: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// The router, fd00::fe, asks its link for fd00::100.
const QUESTION: &str = "3333ff00010002000000000286dd\
    6000000000203afffd0000000000000000000000000000feff0200000000000000000001ff000100\
    87007a9d00000000fd0000000000000000000000000001000101020000000002";
/// It is told.
const ANSWER: &str = "02000000000202000000000186dd\
    6000000000203afffd000000000000000000000000000100fd0000000000000000000000000000fe\
    880099a1e0000000fd0000000000000000000000000001000201020000000001";
/// A node without an address asks for the same.
const PROBE: &str = "3333ff00010002000000000286dd\
    6000000000183aff00000000000000000000000000000000ff0200000000000000000001ff000100\
    87007ba700000000fd000000000000000000000000000100";
/// It, and all others, are told.
const ANNOUNCEMENT: &str = "33330000000102000000000186dd\
    6000000000203afffd000000000000000000000000000100ff020000000000000000000000000001\
    8800d89ca0000000fd0000000000000000000000000001000201020000000001";
/// The router tells fd00::1, which had asked.
const REPLY: &str = "02000000000102000000000286dd\
    6000000000203afffd0000000000000000000000000000fefd000000000000000000000000000001\
    88001aa260000000fd0000000000000000000000000000fe0201020000000002";

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |d: u8| (d as char).to_digit(16).unwrap() as u8;
    hex.as_bytes()
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn read(frame: &[u8]) -> Result<Message, DropReason> {
    let rules = PortRules {
        mac: OURS,
        ..PortRules::default()
    };
    let headers = headers::parse(&TestPacket::new(frame), &rules)?;
    parse(frame, &headers)
}

/// Makes the ICMPv6 checksum right, of a message without extension headers.
fn fix_checksum(frame: &mut [u8]) {
    let len = frame.len();
    let (source, destination) = (ipv6::source(&frame[14..]), ipv6::destination(&frame[14..]));
    frame[56..58].fill(0);
    let sum = !checksum::l4_sum6(source, destination, 58, &frame[54..len]);
    frame[56..58].copy_from_slice(&sum.to_be_bytes());
}

fn changed(hex: &str, changes: &[(usize, u8)]) -> Result<Message, DropReason> {
    let mut frame = bytes(hex);
    for &(at, value) in changes {
        frame[at] = value;
    }
    fix_checksum(&mut frame);
    read(&frame)
}

/// The message with these bytes in place of its options.
fn with_options(hex: &str, options: &[u8]) -> Result<Message, DropReason> {
    let mut frame = [&bytes(hex)[..78], options].concat();
    frame[19] = 24 + options.len() as u8;
    fix_checksum(&mut frame);
    read(&frame)
}

fn question() -> Solicitation {
    Solicitation {
        source: address("fd00::fe"),
        target: address("fd00::100"),
        source_mac: Some(THEIRS),
        station: THEIRS,
    }
}

#[test]
fn a_question_is_read_and_answered() {
    assert_eq!(read(&bytes(QUESTION)), Ok(Message::Solicitation(question())));
    assert!(!question().is_probe());
    let mut out = TestPacket::new(&[0xee; 200]);
    assert!(advertise(&mut out, &question(), OURS));
    assert_eq!(out.bytes(), bytes(ANSWER));
    // Without its MAC, as who asks by unicast may do, the frame's source has to do.
    let bare = Solicitation {
        source_mac: None,
        ..question()
    };
    assert_eq!(with_options(QUESTION, &[]), Ok(Message::Solicitation(bare)));
    assert!(advertise(&mut out, &bare, OURS));
    assert_eq!(out.bytes(), bytes(ANSWER));
}

#[test]
fn a_probe_is_read_and_answered_to_all() {
    let probe = Solicitation {
        source: Ipv6Addr::UNSPECIFIED,
        source_mac: None,
        ..question()
    };
    assert_eq!(read(&bytes(PROBE)), Ok(Message::Solicitation(probe)));
    assert!(probe.is_probe());
    let mut out = TestPacket::new(&[]);
    assert!(advertise(&mut out, &probe, OURS));
    assert_eq!(out.bytes(), bytes(ANNOUNCEMENT));
}

/// ARP-01 for IPv6.
#[test]
fn an_address_is_announced() {
    let mut out = TestPacket::new(&[]);
    assert!(announce(&mut out, OURS, address("fd00::100")));
    assert_eq!(out.bytes(), bytes(ANNOUNCEMENT));
    let statement = Advertisement {
        target: address("fd00::100"),
        target_mac: Some(OURS),
        solicited: false,
        overrides: true,
    };
    assert_eq!(read(out.bytes()), Ok(Message::Advertisement(statement)));
}

#[test]
fn a_reply_is_read() {
    let reply = Advertisement {
        target: address("fd00::fe"),
        target_mac: Some(THEIRS),
        solicited: true,
        overrides: true,
    };
    assert_eq!(read(&bytes(REPLY)), Ok(Message::Advertisement(reply)));
    let modest = Advertisement {
        overrides: false,
        ..reply
    };
    assert_eq!(changed(REPLY, &[(58, 0x40)]), Ok(Message::Advertisement(modest)));
    let bare = Advertisement {
        target_mac: None,
        ..reply
    };
    assert_eq!(with_options(REPLY, &[]), Ok(Message::Advertisement(bare)));
}

#[test]
fn a_written_question_is_the_read_one() {
    let (source, target) = (address("fd00::fe"), address("fd00::100"));
    let mut out = TestPacket::new(&[]);
    assert!(solicit(&mut out, THEIRS, source, target, None));
    assert_eq!(out.bytes(), bytes(QUESTION));
    assert!(solicit(&mut out, THEIRS, source, target, Some(OURS)));
    assert_eq!(ethernet::destination(out.bytes()), OURS);
    assert_eq!(ipv6::destination(&out.bytes()[14..]), target);
    assert_eq!(read(out.bytes()), Ok(Message::Solicitation(question())));
}

#[test]
fn groups_are_those_of_the_last_three_and_four_bytes() {
    let address = address("2001:db8::a1b2:c3d4:e5f6:789a");
    let group = solicited_node(address);
    assert_eq!(group.to_string(), "ff02::1:fff6:789a");
    assert_eq!(multicast_mac(group).to_string(), "33:33:ff:f6:78:9a");
    assert_eq!(multicast_mac(ALL_NODES).to_string(), "33:33:00:00:00:01");
}

/// RFC 4861 7.1.1 and 7.1.2, rule by rule.
#[test]
fn what_breaks_a_rule_is_malformed() {
    let malformed = Err(DropReason::MalformedNd);
    for hex in [QUESTION, REPLY, PROBE, ANNOUNCEMENT] {
        for (changes, rule) in [
            (&[(21, 254)][..], "a router passed it on"),
            (&[(55, 1)][..], "a code"),
            (&[(62, 0xff), (63, 2)][..], "a group as target"),
            (&[(62, 0), (76, 0), (77, 1)][..], "loopback as target"),
            (&[(62, 0), (76, 0), (77, 0)][..], "nobody as target"),
        ] {
            assert_eq!(changed(hex, changes), malformed, "{rule}");
        }
        for options in [
            &[1, 0, 0, 0, 0, 0, 0, 0][..],
            &[14, 0, 0, 0, 0, 0, 0, 0],
            &[14, 1, 0, 0],
            &[14],
            &[14, 2, 0, 0, 0, 0, 0, 0],
            &[14, 1, 0, 0, 0, 0, 0, 0, 2],
            // A MAC of another length, of a group, of nobody.
            &[1, 2, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0],
            &[2, 2, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0],
            &[1, 1, 3, 0, 0, 0, 0, 2],
            &[2, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[1, 1, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(with_options(hex, options), malformed, "{options:?}");
        }
        // Cut, with lengths that say so.
        for len in 8..24 {
            let mut frame = bytes(hex)[..54 + len].to_vec();
            frame[19] = len as u8;
            fix_checksum(&mut frame);
            assert_eq!(read(&frame), malformed, "{len} bytes");
        }
    }
    // A probe with a MAC, and one that is not sent to the group of its target.
    assert_eq!(with_options(PROBE, &[1, 1, 2, 0, 0, 0, 0, 2]), malformed);
    assert_eq!(changed(PROBE, &[(53, 1)]), malformed);
    assert_eq!(changed(PROBE, &[(38, 0xfd)]), malformed);
    // An answer to everybody.
    assert_eq!(changed(ANNOUNCEMENT, &[(58, 0xe0)]), malformed);
}

#[test]
fn unknown_options_are_passed_over() {
    let nonce = [14, 1, 1, 2, 3, 4, 5, 6];
    let mac = [1, 1, 2, 0, 0, 0, 0, 2];
    let expected = Ok(Message::Solicitation(question()));
    assert_eq!(with_options(QUESTION, &[nonce, mac].concat()), expected);
    assert_eq!(with_options(QUESTION, &[mac, nonce].concat()), expected);
    assert!(with_options(PROBE, &nonce).is_ok());
}

#[test]
fn other_messages_and_wrong_checksums_are_told() {
    for message_type in [128, 133, 134, 137, 1] {
        let changed = changed(QUESTION, &[(54, message_type)]);
        assert_eq!(changed, Err(DropReason::UnsupportedIcmp), "type {message_type}");
    }
    for at in 55..86 {
        let mut frame = bytes(QUESTION);
        frame[at] ^= 1;
        assert_eq!(read(&frame), Err(DropReason::BadL4Checksum), "byte {at}");
    }
}

/// RFC 6980: a fragmented one is none.
#[test]
fn what_came_in_fragments_is_malformed() {
    let frame = bytes(QUESTION);
    let rules = PortRules {
        mac: OURS,
        ..PortRules::default()
    };
    let whole = headers::parse(&TestPacket::new(&frame), &rules).unwrap();
    let headers = Headers {
        largest_fragment: 80,
        ..whole
    };
    assert!(parse(&frame, &whole).is_ok());
    assert_eq!(parse(&frame, &headers), Err(DropReason::MalformedNd));
}

proptest! {
    /// Whatever the options and flags: no panic, and what passes keeps every promise.
    #[test]
    fn no_bytes_make_it_panic(
        hex in proptest::sample::select(vec![QUESTION, PROBE, REPLY]),
        options in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(2), any::<u8>()], 0..40),
        at in 54usize..78,
        value: u8,
    ) {
        let mut frame = [&bytes(hex)[..78], &options].concat();
        frame[19] = 24 + options.len() as u8;
        frame[at] = value;
        fix_checksum(&mut frame);
        let mac_is_one = |mac: Option<MacAddr>| mac.is_none_or(|mac| !mac.is_multicast() && mac != MacAddr::default());
        match read(&frame) {
            Ok(Message::Solicitation(question)) => {
                prop_assert!(mac_is_one(question.source_mac));
                prop_assert!(!question.is_probe() || question.source_mac.is_none());
                prop_assert!(ipv6::can_send(question.target));
            }
            Ok(Message::Advertisement(statement)) => {
                prop_assert!(mac_is_one(statement.target_mac) && ipv6::can_send(statement.target));
            }
            Err(_) => {}
        }
    }

    /// What is written is read, for any addresses, with a checksum that a naive sum finds right.
    #[test]
    fn what_is_written_is_read(source: [u8; 14], target: [u8; 14], unicast: bool) {
        let [source, target] = [source, target].map(|tail| {
            let mut octets = [0x20; 16];
            octets[2..].copy_from_slice(&tail);
            Ipv6Addr::from(octets)
        });
        let mut out = TestPacket::new(&[]);
        prop_assert!(solicit(&mut out, THEIRS, source, target, unicast.then_some(OURS)));
        let frame = out.bytes();
        let mut total = 58 + 32u32;
        for pair in frame[22..].chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(pair[1]);
        }
        prop_assert_eq!(total % 0xffff, 0);
        let question = Solicitation { source, target, ..question() };
        prop_assert_eq!(read(frame), Ok(Message::Solicitation(question)));
        prop_assert!(advertise(&mut out, &question, OURS));
        let answer = Advertisement { target, target_mac: Some(OURS), solicited: true, overrides: true };
        let rules = PortRules { mac: THEIRS, ..PortRules::default() };
        let headers = headers::parse(&out, &rules).unwrap();
        prop_assert_eq!(parse(out.bytes(), &headers), Ok(Message::Advertisement(answer)));
    }
}
