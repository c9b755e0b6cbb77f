//! Which errors are read, and which are refused under which reason.

use super::*;
use crate::drops::DropReason::{self, BadL4Checksum, BadL4Header, UnsupportedIcmp};

fn about_v4() -> Message {
    Message::tcp(end("10.0.0.100:80"), end("10.1.0.1:1024"))
}

fn about_v6() -> Message {
    Message::tcp(end("[fd00::100]:80"), end("[2001:db8::1]:1024"))
}

fn reading(message: &Message) -> Result<Quote, DropReason> {
    read(&message.frame(), &message.headers(), &DIGEST)
}

/// A message whose bytes have been changed, with a right checksum.
fn changed(message: &Message, change: impl FnOnce(&mut Vec<u8>)) -> Result<Quote, DropReason> {
    let mut frame = message.frame();
    change(&mut frame);
    let headers = headers_of(&frame);
    message::fill_icmp_checksum(&mut frame, &headers);
    read(&frame, &headers, &DIGEST)
}

/// Offsets of the quoted IP header.
const QUOTED4: usize = 14 + 20 + 8;
const QUOTED6: usize = 14 + 40 + 8;

#[test]
fn what_is_quoted_is_found() {
    let quote = reading(&about_v4().kind(3, 4).rest(1400)).unwrap();
    let key = FlowKey::new([10, 0, 0, 100].into(), 80, [10, 1, 0, 1].into(), 1024);
    assert_eq!(
        quote,
        Quote {
            key,
            protocol: 6,
            message_type: 3,
            code: 4,
            rest: 1400,
            v6: false,
            tunnel: false,
            ip: QUOTED4,
            l4: QUOTED4 + 20,
            end: QUOTED4 + 47,
        }
    );
    assert_eq!(Inner::ends(&key), (end("10.0.0.100:80"), end("10.1.0.1:1024")));

    let message = about_v6().kind(2, 0).rest(1300).options(3);
    let quote = reading(&message).unwrap();
    let mut addresses = [0; 32];
    addresses.copy_from_slice(&message.quoted()[8..40]);
    assert_eq!(quote.key, FlowKey::of_v6(DIGEST.of(&addresses), [0, 80, 4, 0]));
    assert_eq!((quote.mtu(), quote.protocol), (Some(1300), 6));
    assert_eq!((quote.ip, quote.l4), (QUOTED6, QUOTED6 + 40 + 8 + 16 + 24));
    assert_eq!(
        quote.ends(&message.frame()),
        Some((end("[fd00::100]:80"), end("[2001:db8::1]:1024")))
    );
}

/// Those of Linux: no redirect and no parameter problem for IPv4, all errors for IPv6; no query, no neighbour
/// discovery.
#[test]
fn only_errors_are_passed_on() {
    let passed = |message: Message| {
        (0..=255)
            .filter(|&kind| reading(&message.clone().kind(kind, 0)).is_ok())
            .collect::<Vec<u8>>()
    };
    assert_eq!(passed(about_v4()), [3, 4, 11]);
    assert_eq!(passed(about_v6()), [1, 2, 3, 4]);
    for kind in [
        Kind::Flow,
        Kind::Flow6,
        Kind::Arp,
        Kind::Fragment,
        Kind::Fragment6,
    ] {
        let headers = Headers {
            kind,
            ..about_v4().headers()
        };
        assert_eq!(read(&about_v4().frame(), &headers, &DIGEST), Err(UnsupportedIcmp));
    }
    for message in [about_v4(), about_v6()] {
        let headers = message.headers();
        let headers = Headers {
            end: headers.l4 + 7,
            ..headers
        };
        assert_eq!(read(&message.frame(), &headers, &DIGEST), Err(BadL4Header));
    }
}

/// ICMP-01: 8 bytes are enough. ICMP-04: whatever is less is not.
#[test]
fn a_quote_of_eight_bytes_is_enough_and_of_seven_is_not() {
    for protocol in [6, 17, 132, 4, 41, 47] {
        for (message, header) in [(about_v4(), 20), (about_v6(), 40)] {
            let message = message.protocol(protocol);
            assert_eq!(reading(&message.clone().cut(7)), Err(UnsupportedIcmp));
            let quote = reading(&message.clone().cut(8)).unwrap();
            assert_eq!((quote.l4 - quote.ip, quote.end - quote.l4), (header, 8));
            assert_eq!(quote.tunnel, matches!(protocol, 4 | 17 | 41 | 47));
            assert_eq!(quote.key.source_port() != 0, quote::has_ports(protocol));
        }
    }
    // The quoted length alone decides: 20, 28, 40 and 48 bytes of a tunnel's packet.
    for (len, readable) in [
        (0, false),
        (19, false),
        (20, false),
        (27, false),
        (28, true),
        (40, true),
        (48, true),
    ] {
        let mut message = about_v4().protocol(4);
        message.data = vec![0x11; 40];
        let found = changed(&message, |frame| frame.truncate(QUOTED4 + len));
        assert_eq!(found.is_ok(), readable, "{len}");
    }
}

#[test]
fn other_protocols_have_no_connections() {
    for protocol in [1, 2, 50, 51, 58, 59, 89, 255] {
        assert_eq!(reading(&about_v4().protocol(protocol)), Err(UnsupportedIcmp));
        assert_eq!(reading(&about_v6().protocol(protocol)), Err(UnsupportedIcmp));
    }
}

/// Bytes of a quoted IPv4 header that make it unreadable (ICMP-04).
#[test]
fn a_quoted_ipv4_header_that_lies_is_refused() {
    for (at, value, what) in [
        (0, 0x65, "version"),
        (0, 0x44, "header length below 20"),
        (0, 0x4f, "header length beyond the quote"),
        (7, 0x01, "a later fragment"),
        (3, 27, "total length below the ports"),
        (3, 0, "no total length"),
    ] {
        let found = changed(&about_v4(), |frame| frame[QUOTED4 + at] = value);
        assert_eq!(found, Err(UnsupportedIcmp), "{what}");
    }
    let first_fragment = changed(&about_v4(), |frame| frame[QUOTED4 + 6] = 0x20);
    assert!(first_fragment.is_ok(), "a first fragment has ports");
}

#[test]
fn a_quoted_ipv6_chain_that_lies_is_refused() {
    // The first of two extension headers, 16 bytes long, stands behind the fixed header.
    let message = about_v6().options(2);
    let chain = QUOTED6 + 40;
    type Change = fn(&mut Vec<u8>, usize);
    let refused: [(&str, Change); 8] = [
        ("version", |frame, _| frame[QUOTED6] = 0x45),
        ("no payload", |frame, _| frame[QUOTED6 + 4..QUOTED6 + 6].fill(0)),
        ("a chain longer than the payload", |frame, _| {
            frame[QUOTED6 + 5] = 20
        }),
        ("an extension beyond the quote", |frame, chain| {
            frame[chain + 1] = 255
        }),
        ("no next header", |frame, chain| frame[chain] = 59),
        ("an encrypted payload", |frame, chain| frame[chain] = 50),
        ("segments left to visit", |frame, chain| {
            frame[QUOTED6 + 6] = 43;
            frame[chain + 3] = 1;
        }),
        ("a later fragment", |frame, chain| {
            frame[QUOTED6 + 6] = 44;
            frame[chain + 3] = 8;
        }),
    ];
    for (what, change) in refused {
        let found = changed(&message, |frame| change(frame, chain));
        assert_eq!(found, Err(UnsupportedIcmp), "{what}");
    }
    assert!(reading(&about_v6().options(8)).is_ok());
    assert_eq!(
        reading(&about_v6().options(9)),
        Err(UnsupportedIcmp),
        "a chain without end"
    );
    for cut in QUOTED6..QUOTED6 + 40 + 24 + 8 {
        assert_eq!(
            changed(&message, |frame| frame.truncate(cut)),
            Err(UnsupportedIcmp),
            "{cut}"
        );
    }
}

/// A first fragment (RFC 8200 4.5) has ports; so has an atomic one, and one behind a routing header that is done.
#[test]
fn quoted_fragment_and_routing_headers_are_walked() {
    for next in [44, 43, 0] {
        let found = changed(&about_v6().options(1), |frame| {
            frame[QUOTED6 + 6] = next;
            frame[QUOTED6 + 43] = u8::from(next == 44);
        });
        assert_eq!(found.map(|quote| quote.l4), Ok(QUOTED6 + 48), "{next}");
    }
}

/// ICMP-07 and all others: every single bit counts, IPv6's pseudo header included.
#[test]
fn a_wrong_checksum_is_refused() {
    for message in [about_v4(), about_v6()] {
        let (frame, headers) = (message.frame(), message.headers());
        let pseudo = 14 + 8..14 + 40;
        let pseudo = if frame[14] >> 4 == 6 { pseudo } else { 0..0 };
        // The type is looked at first, the rest is not.
        for at in pseudo.chain(usize::from(headers.l4) + 1..frame.len()) {
            let mut damaged = frame.clone();
            damaged[at] ^= 0x10;
            assert_eq!(read(&damaged, &headers, &DIGEST), Err(BadL4Checksum), "byte {at}");
        }
    }
    // Computed as ICMPv4 does, without the pseudo header.
    let message = about_v6();
    let mut frame = message.frame();
    frame[56..58].fill(0);
    let sum = !checksum::sum(&frame[54..]);
    frame[56..58].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(read(&frame, &message.headers(), &DIGEST), Err(BadL4Checksum));
}

/// RFC 4884: a quote that the header gives a length is followed by something else.
#[test]
fn extensions_are_no_part_of_the_quote() {
    let mut message = about_v4();
    message.data = vec![0x22; 400];
    let words = |length: u32| length << 16;
    for (message, kind, header, length) in [
        (message.clone(), 3, 20, words(128 / 4)),
        (message.clone(), 11, 20, words(160 / 4)),
    ] {
        let len = (length >> 16) as usize * 4;
        let message = message
            .kind(kind, 0)
            .rest(length)
            .cut(len - header)
            .behind(&[0x20, 0, 0xaa, 0xbb, 0, 4, 1, 1]);
        let quote = reading(&message).unwrap();
        assert_eq!(quote.end - quote.ip, len);
    }
    let mut message = about_v6();
    message.data = vec![0x22; 400];
    let message = message
        .rest(17 << 24)
        .cut(17 * 8 - 40)
        .behind(&[0x20, 0, 0xaa, 0xbb]);
    assert_eq!(reading(&message).map(|quote| quote.end - quote.ip), Ok(136));
    // Lengths that cannot be: longer than what is there, or shorter than RFC 4884 allows.
    for length in [255, 31, 1] {
        let quote = reading(&about_v4().rest(words(length))).unwrap();
        assert_eq!(quote.end - quote.ip, 47);
    }
}
