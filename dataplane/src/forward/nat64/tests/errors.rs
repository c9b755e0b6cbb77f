//! Any ICMP error: on the other side it is the one that a naive model makes of the same words.

use proptest::prelude::*;

use super::model::{Report, Sample, pair, sample};
use super::*;
use crate::forward::icmp::{Inner, read};

/// The frame that an error becomes.
fn translated(ip: &[u8], to: &Target, inner: &Inner, mtus: Mtus) -> Result<Vec<u8>, DropReason> {
    let (mut packet, headers) = received(ip);
    let quote = read(packet.bytes(), &headers, &DIGEST).unwrap();
    let before = packet.clone();
    let done = translate_error(&mut packet, &headers, &quote, to, inner, mtus);
    if done.is_err() {
        assert_eq!(packet, before);
    }
    done.map(|()| packet.bytes().to_vec())
}

prop_compose! {
    /// An error about a packet, and the ends of both on the other side.
    fn report(v6: bool)(
        mut about in sample(v6),
        ends in pair(v6),
        (tos, ttl, identification) in (any::<u8>(), 2u8.., any::<u16>()),
        cut in prop_oneof![Just(8usize), 8usize..300],
        extensions in prop_oneof![Just(Vec::new()), prop::collection::vec(any::<u8>(), 8..40)],
        fragment in prop_oneof![Just(None), any::<(u32, bool)>().prop_map(Some)],
        (kind, code) in prop::sample::select(match v6 {
            true => vec![(1u8, 0u8), (1, 1), (1, 4), (3, 0), (3, 1)],
            false => vec![(3u8, 1u8), (3, 3), (3, 13), (11, 0), (11, 1)],
        }),
    ) -> Report {
        // A later fragment is none that can be read; one that is neither first nor has others is no fragment in IPv4.
        about.fragment = match fragment {
            Some((id, more)) if v6 => Some((id, more)),
            Some((id, true)) => Some((id & 0xffff, true)),
            _ => None,
        };
        if let (Some((id, _)), false) = (about.fragment, v6) {
            about.identification = id as u16;
        }
        Report { ends: ends.map(|end| end.ip()), tos, ttl, identification, kind, code, rest: 0, about, cut, extensions }
    }
}

fn case() -> impl Strategy<Value = (Report, [SocketAddr; 2], [SocketAddr; 2])> {
    any::<bool>().prop_flat_map(|v6| (report(v6), pair(!v6), pair(!v6)))
}

/// The error with other words, ends, and quote, cut so that it is not too long.
fn expected(report: &Report, (kind, code): (u8, u8), outer: [SocketAddr; 2], about: Sample) -> Report {
    let v6 = outer[0].is_ipv6();
    let (longest, header) = if v6 { (1280, 40) } else { (576, 20) };
    let space = longest - header - 8 - report.extensions.len();
    let unit = match (report.extensions.is_empty(), v6) {
        (true, _) => 1,
        (false, true) => 8,
        (false, false) => 4,
    };
    let most = space / unit * unit - about.header_len();
    Report {
        ends: outer.map(|end| end.ip()),
        kind,
        code,
        ttl: report.ttl - 1,
        identification: 5,
        cut: report.cut.min(most),
        about,
        ..report.clone()
    }
}

fn words(v6: bool, kind: u8, code: u8) -> (u8, u8) {
    match (v6, kind, code) {
        (true, 1, 0) => (3, 1),
        (true, 1, 1) => (3, 10),
        (true, 1, 4) => (3, 3),
        (true, ..) => (11, code),
        (false, 3, 1) => (1, 0),
        (false, 3, 3) => (1, 4),
        (false, 3, _) => (1, 1),
        _ => (3, code),
    }
}

proptest! {
    #[test]
    fn an_error_is_the_one_that_says_the_same_on_the_other_side(
        (mut report, ends, inner) in case(), shift: u32,
    ) {
        // Without a checksum in the datagram none can be computed for a quote that is cut: see below.
        report.about.unsummed = false;
        // Of a checksum that was cut in two, the half that is there cannot follow; that of SCTP is of the whole.
        report.about.protocol = if report.about.protocol == 132 { 6 } else { report.about.protocol };
        report.cut = if report.cut == 17 { 18 } else { report.cut };
        if !report.extensions.is_empty() {
            // Of a packet that was cut, nobody can tell padding from data.
            let header_len = report.about.header_len();
            report.cut = (header_len + report.cut).max(128).next_multiple_of(8) - header_len;
        }
        let mut about = report.about.translated(inner, 0);
        if about.protocol == 6 {
            about.sequence = about.sequence.wrapping_add(shift);
        }
        let v6 = report.ends[0].is_ipv6();
        let there = expected(&report, words(v6, report.kind, report.code), ends, about);
        let said = Inner::fullnat(inner[0], inner[1], shift);
        let frame = translated(&report.ip(), &target(ends[0], ends[1], 5), &said, MTUS).unwrap();
        prop_assert_eq!(&frame, &sent(&there.ip()));

        // It is read as what it says.
        let (packet, headers) = received(&frame[L3..]);
        let quote = read(packet.bytes(), &headers, &DIGEST).unwrap();
        prop_assert_eq!(quote.ends(packet.bytes()), Some((inner[0], inner[1])));
        prop_assert_eq!((quote.protocol, quote.v6), (report.about.protocol, !v6));
    }

    /// There and back, an error quotes to its receiver what that one has sent, but for what RFC 7915 drops.
    #[test]
    fn a_quote_comes_back_as_it_was((mut report, ends, inner) in case()) {
        report.cut = report.cut.min(60);
        report.about.options = 0;
        report.about.unsummed = false;
        // IPv4 has no fragment that is all of its packet.
        report.about.fragment = report.about.fragment.filter(|(_, more)| *more);
        report.extensions.clear();
        let from = report.ends.map(|ip| SocketAddr::new(ip, 0));
        let there = Inner::fullnat(inner[0], inner[1], 9);
        let frame = translated(&report.ip(), &target(ends[0], ends[1], 5), &there, MTUS).unwrap();
        let [source, destination] = report.about.ends;
        let back = Inner::fullnat(source, destination, 9u32.wrapping_neg());
        let frame = translated(&frame[L3..], &target(from[0], from[1], 6), &back, MTUS).unwrap();
        let before = report.ip();
        let start = if before[0] >> 4 == 4 { 20 } else { 40 } + 8;
        let (quoted, was) = (&frame[L3 + start..], &before[start..]);
        prop_assert_eq!(quoted.len(), was.len());
        // Ports, sequence numbers, checksums and data; addresses; TTL; length.
        let header = report.about.header_len();
        prop_assert_eq!(&quoted[header..], &was[header..]);
        let v4 = start == 28;
        let (addresses, ttl, length) = if v4 { (12..20, 8..9, 2..4) } else { (8..40, 7..8, 4..6) };
        for field in [addresses, ttl, length] {
            prop_assert_eq!(&quoted[field.clone()], &was[field]);
        }
    }
}

/// A quote of a whole SCTP packet: its ports change, the CRC stays, which covers what is mostly cut off.
#[test]
fn the_crc_of_a_quoted_sctp_packet_stays() {
    let about = Sample {
        protocol: 132,
        ..Sample::tcp("192.0.2.33:2000", "198.51.100.2:2905")
    };
    let report = Report::about(about.clone(), 3, 1);
    let ends = ["[2001:db8::1]:1024", "[2001:db8::2]:2905"].map(end);
    let to = outer(ends[1].ip(), ends[0].ip(), 0);
    let frame = translated(&report.ip(), &to, &Inner::fullnat(ends[0], ends[1], 0), MTUS).unwrap();
    let mut segment = about.segment();
    segment[..2].copy_from_slice(&1024u16.to_be_bytes());
    assert!(frame.ends_with(&segment));
}

/// A quoted datagram without a checksum has none on the other side either: what was cut off is not known.
#[test]
fn a_quoted_datagram_without_a_checksum_stays_so() {
    let about = Sample {
        protocol: 17,
        unsummed: true,
        ..Sample::tcp("192.0.2.33:2000", "198.51.100.2:53")
    };
    let ends = ["[2001:db8::1]:1024", "[2001:db8::2]:53"].map(end);
    let to = outer(ends[1].ip(), ends[0].ip(), 0);
    let report = Report::about(about, 3, 3).ip();
    let frame = translated(&report, &to, &Inner::fullnat(ends[0], ends[1], 0), MTUS).unwrap();
    assert_eq!(frame[L3 + 40 + 8 + 40 + 6..][..2], [0, 0]);
}

/// Errors without room for extensions in the other family lose them, and so do those that would be too long.
#[test]
fn extensions_go_along_where_there_is_room() {
    let extensions = bytes("2000dfff 00080101 00012301");
    let ends = ["[2001:db8::1]:1024", "[2001:db8::2]:80"].map(end);
    let said = Inner::fullnat(ends[0], ends[1], 0);
    let to = outer(ends[1].ip(), ends[0].ip(), 0);
    for ((kind, code), extension_len, kept) in [
        ((3, 1), 12, true),
        ((11, 0), 12, true),
        // The last with 128 bytes of quote in 1,280, and the first without.
        ((11, 0), 1104, true),
        ((11, 0), 1108, false),
        // Packet too big and parameter problem tell no length.
        ((3, 4), 12, false),
        ((3, 2), 12, false),
    ] {
        let mut report = Report::about(Sample::tcp("192.0.2.33:2000", "198.51.100.2:80"), kind, code);
        report.extensions = extensions.clone();
        report.extensions.resize(extension_len, 0);
        let frame = translated(&report.ip(), &to, &said, MTUS).unwrap();
        let message = &frame[L3 + 40..];
        assert_eq!(message.ends_with(&report.extensions), kept, "{kind}/{code}");
        // 128 bytes of quote, or as it is.
        assert_eq!(
            message.len(),
            if kept {
                8 + 128 + extension_len
            } else {
                8 + 40 + 27
            }
        );
        assert_eq!(message[4], if kept { 16 } else { 0 });
    }
}

/// The MTU that is told depends on the links of the gateway, and on a fragment header in the quote.
#[test]
fn mtus_are_told_for_the_other_family() {
    let about = Sample::tcp("[2001:db8::1]:2000", "[2001:db8::2]:80");
    let ends = ["192.0.2.33:1024", "198.51.100.2:80"].map(end);
    let said = Inner::fullnat(ends[0], ends[1], 0);
    let to = outer(ends[1].ip(), ends[0].ip(), 0);
    for (fragment, mtus, expected) in [
        (None, MTUS, 1380),
        (Some((1, true)), MTUS, 1372),
        (None, Mtus { v4: 1300, v6: 1500 }, 1300),
    ] {
        let mut report = Report::about(
            Sample {
                fragment,
                ..about.clone()
            },
            2,
            0,
        );
        report.rest = 1400;
        let frame = translated(&report.ip(), &to, &said, mtus).unwrap();
        assert_eq!(frame[L3 + 20..][..2], [3, 4]);
        assert_eq!(frame[L3 + 24..][..4], u32::to_be_bytes(expected));
    }
}

#[test]
fn what_has_no_word_on_the_other_side_is_refused() {
    let refused = Err(DropReason::UnsupportedIcmp);
    let (a4, b4) = (end("192.0.2.33:1024"), end("198.51.100.2:80"));
    let (a6, b6) = (end("[2001:db8::1]:1024"), end("[2001:db8::2]:80"));
    let (to4, to6) = (outer(b4.ip(), a4.ip(), 0), outer(b6.ip(), a6.ip(), 0));
    let (said4, said6) = (Inner::fullnat(a4, b4, 0), Inner::fullnat(a6, b6, 0));
    let about4 = Sample::tcp("192.0.2.33:2000", "198.51.100.2:80");
    let about6 = Sample::tcp("[2001:db8::1]:2000", "[2001:db8::2]:80");
    // Source quench; host precedence violation; an unknown code.
    for (kind, code) in [(4, 0), (3, 14), (3, 16)] {
        let report = Report::about(about4.clone(), kind, code).ip();
        assert_eq!(translated(&report, &to6, &said6, MTUS), refused, "{kind}/{code}");
    }
    // Failed source policy; an unknown option.
    for (kind, code) in [(1, 5), (4, 2)] {
        let report = Report::about(about6.clone(), kind, code).ip();
        assert_eq!(translated(&report, &to4, &said4, MTUS), refused, "{kind}/{code}");
    }
    // The wrong family, all of it or the quote only.
    let report = Report::about(about4, 3, 1).ip();
    assert_eq!(translated(&report, &to4, &said4, MTUS), refused);
    assert_eq!(translated(&report, &to6, &said4, MTUS), refused);
    assert_eq!(translated(&report, &to4, &said6, MTUS), refused);
}
