//! The record's part from segment to segment, and the option on packets of both families.

use super::*;
use crate::flow::Mode;
use crate::packet::{FlowKey, MacAddr, PortRules, TestPacket, parse};
use crate::worker::tests::frames::{ACK, FIN, PSH, RST, SYN, framed};
use crate::worker::tests::wire::{Load, Wire};
use proptest::prelude::*;
use std::net::SocketAddr;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const ISN: u32 = u32::MAX - 1;

fn fresh() -> Record {
    let key = FlowKey::new([198, 51, 100, 1].into(), 40000, [203, 0, 113, 100].into(), 80);
    let mut record = Record::new(6, Mode::Fullnat, key, FlowKey::default());
    record.flags.set(Flags::TOA, true);
    record.sequence = 1001;
    record
}

/// A segment without addresses.
fn segment(flags: u8, sequence: u32, acknowledgement: u32, data: usize) -> Vec<u8> {
    let mut segment = vec![0; 20 + data];
    segment[4..8].copy_from_slice(&sequence.to_be_bytes());
    segment[8..12].copy_from_slice(&acknowledgement.to_be_bytes());
    (segment[12], segment[13]) = (0x50, flags);
    segment
}

/// A record whose server has answered.
fn answered() -> Record {
    let mut record = fresh();
    hear_answer(&mut record, &mut segment(SYN | ACK, ISN, 1001, 0), false);
    record
}

#[test]
fn the_servers_answer_takes_the_place_of_the_clients_number() {
    let mut record = fresh();
    for flags in [SYN, ACK, SYN | RST, SYN | ACK | RST, FIN | ACK] {
        hear_answer(&mut record, &mut segment(flags, ISN, 1001, 0), false);
        assert_eq!(
            (record.sequence, record.last_shown()),
            (1001, Some(1001)),
            "{flags}"
        );
    }
    let record = answered();
    assert_eq!((record.sequence, record.last_shown()), (ISN, None));
}

#[test]
fn segments_are_due_that_acknowledge_the_answer_alone() {
    let mut record = answered();
    let first = ISN.wrapping_add(1);
    for flags in [ACK, PSH | ACK, FIN | PSH | ACK] {
        assert!(is_due(&mut record, &segment(flags, 1001, first, 10)), "{flags}");
    }
    for flags in [SYN | ACK, RST | ACK, RST, SYN, 0, PSH] {
        assert!(!is_due(&mut record, &segment(flags, 1001, first, 10)), "{flags}");
    }
    for wrong in [ISN, first.wrapping_add(1), first.wrapping_add(1 << 31), 0, 5000] {
        if wrong != first {
            assert!(!is_due(&mut record, &segment(ACK, 1001, wrong, 0)), "{wrong}");
        }
    }
    assert!(
        is_due(&mut record, &segment(ACK, 1001, first, 0)),
        "none of these ends it"
    );
}

/// The server has to have said what the client acknowledges.
#[test]
fn it_ends_when_the_client_acknowledges_what_the_server_has_said() {
    let first = ISN.wrapping_add(1);
    for (flags, data, speaks) in [
        (ACK, 0, false),
        (RST, 0, false),
        (RST | ACK, 5, false),
        (PSH | ACK, 5, true),
        (FIN | ACK, 0, true),
    ] {
        let mut record = answered();
        record.sequence_shift = 500;
        hear(&mut record, &segment(flags, first, 1001, data));
        assert!(
            is_due(&mut record, &segment(ACK, 1001, first, 0)),
            "still in flight"
        );
        assert!(
            !is_due(&mut record, &segment(ACK, 1001, ISN, 0)),
            "older than the answer"
        );
        assert!(!is_due(
            &mut record,
            &segment(PSH | ACK, 1101, first.wrapping_add(5), 7)
        ));
        let shown = speaks.then_some(1601);
        assert_eq!(record.last_shown(), shown, "{flags} {data}");
        assert!(!record.flags.has(Flags::SERVER_SPOKE));
    }
}

/// A repeated answer changes nothing; a server that begins anew does.
#[test]
fn a_second_answer() {
    let mut record = answered();
    hear(&mut record, &segment(PSH | ACK, ISN.wrapping_add(1), 1001, 5));
    hear_answer(&mut record, &mut segment(SYN | ACK, ISN, 1001, 0), false);
    assert!(record.flags.has(Flags::SERVER_SPOKE.with(Flags::SERVER_ISN)));
    hear_answer(&mut record, &mut segment(SYN | ACK, 70, 1001, 0), false);
    assert!(!record.flags.has(Flags::SERVER_SPOKE) && record.flags.has(Flags::SERVER_ISN));
    assert!(is_due(&mut record, &segment(ACK, 1001, 71, 0)));
}

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

/// The options of a packet with the client's address.
fn options_of(packet: &TestPacket) -> Vec<u8> {
    match Wire::read(&packet.bytes()[14..]).load {
        Load::Tcp { options, .. } => options,
        other => panic!("{other:?}"),
    }
}

/// NAT64-01's words: as on the wire, network order.
#[test]
fn the_option_is_the_clients_endpoint() {
    for (client, vip, option) in [
        (
            "198.51.100.7:54321",
            "203.0.113.100:80",
            &[254, 8, 0xd4, 0x31, 198, 51, 100, 7][..],
        ),
        (
            "[2001:db8:c::10]:54321",
            "[2001:db8:1::100]:80",
            &[
                254, 20, 0xd4, 0x31, 0x20, 1, 0x0d, 0xb8, 0, 0x0c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
            ],
        ),
    ] {
        let [client, vip] = [client, vip].map(|end| end.parse::<SocketAddr>().unwrap());
        let own = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        let sent = Wire::tcp(client, vip, PSH | ACK, b"GET /").with_options(&own);
        let length = sent.packet().len() as u16 + option_len(client.is_ipv6());
        let (mut packet, headers) = received(&sent);
        let before = packet.clone();
        assert_eq!(show(&mut packet, &headers, length - 1), None, "one byte too long");
        assert!(packet == before);
        let longer = show(&mut packet, &headers, length).unwrap();
        assert_eq!(longer.end - longer.l3, length);
        assert_eq!(options_of(&packet), [option, &own].concat());
        let seen = Wire::read(&packet.bytes()[14..]);
        assert_eq!(seen, sent.with_options(&[option, &own].concat()));
    }
}

/// TOA-03, and a client that lies about itself.
#[test]
fn full_options_go_without_and_a_clients_own_is_overwritten() {
    let [client, vip] = ["198.51.100.7:54321", "203.0.113.100:80"].map(|end| end.parse().unwrap());
    let lie = [254, 8, 0, 80, 192, 0, 2, 1];
    let full = [&lie[..], &[1, 1], &[5, 26], &[7; 24], &[1; 4]].concat();
    for (own, fits) in [(&lie[..], true), (&full, false)] {
        let (mut packet, headers) = received(&Wire::tcp(client, vip, ACK, b"").with_options(own));
        assert_eq!(show(&mut packet, &headers, 1500).is_some(), fits);
        let told = [254, 8, 0xd4, 0x31, 198, 51, 100, 7];
        let expected = [if fits { &told[..] } else { &[] }, &[1; 8], &own[8..]].concat();
        assert_eq!(options_of(&packet), expected);
    }
}

proptest! {
    /// Whatever a client sends, the first option of that kind, and the only one, is the gateway's, or there is none.
    #[test]
    fn no_client_speaks_for_the_gateway(
        v6: bool, options in prop::collection::vec(prop_oneof![2 => any::<u8>(), 1 => Just(254u8), 1 => 0u8..9], 0..40),
        data in prop::collection::vec(any::<u8>(), 0..30), most in 40u16..200,
    ) {
        let (client, vip) = if v6 {
            ("[2001:db8:c::10]:54321", "[2001:db8:1::100]:80")
        } else {
            ("198.51.100.7:54321", "203.0.113.100:80")
        };
        let mut own = options;
        own.resize(own.len().next_multiple_of(4), 0);
        let sent = Wire::tcp(client.parse().unwrap(), vip.parse().unwrap(), ACK, &data).with_options(&own);
        let (mut packet, headers) = received(&sent);
        let len = usize::from(option_len(v6));
        let shown = show(&mut packet, &headers, most);
        let fits = own.len() + len <= 40 && sent.packet().len() + len <= usize::from(most);
        prop_assert_eq!(shown.is_some(), fits);
        let now = options_of(&packet);
        let skipped = if fits { len } else { 0 };
        prop_assert_eq!(now.len(), own.len() + skipped);
        prop_assert_eq!(naive_kinds(&now).iter().filter(|kind| **kind == KIND).count(), usize::from(fits));
        prop_assert_eq!(naive_kinds(&now).first() == Some(&KIND), fits);
        prop_assert_eq!(Wire::read(&packet.bytes()[14..]), sent.with_options(&now));
        // Everything of another kind stands where it stood.
        for (at, (new, old)) in now[skipped..].iter().zip(&own).enumerate() {
            prop_assert!(new == old || *new == 1, "{} became {} at {}", old, new, at);
        }
    }
}

/// The kinds of options but NOPs, as a receiver walks over them.
fn naive_kinds(options: &[u8]) -> Vec<u8> {
    let (mut at, mut kinds) = (0, Vec::new());
    while at < options.len() && options[at] != 0 {
        if options[at] == 1 {
            at += 1;
            continue;
        }
        match options.get(at + 1) {
            Some(len) if *len >= 2 && at + usize::from(*len) <= options.len() => {
                kinds.push(options[at]);
                at += usize::from(*len);
            }
            _ => break,
        }
    }
    kinds
}
