//! Quotes as recorded and as field case ICMP-04 lists them, and any of our own packets cut anywhere.

use super::super::tests::{any_inner, any_outer, any_tunnel, inner, wrapped};
use super::super::{Outer, overhead};
use super::*;
use crate::service::{Tunnel, TunnelChecksum, TunnelKind};
use proptest::prelude::*;

/// What a router quoted from an IPIP packet in a recording: 192.168.1.1 > 192.168.1.11, 10.1.0.1 > 10.0.0.100.
const QUOTE: [u8; 67] = [
    0x45, 0, 0, 0x43, 0, 0, 0x40, 0, 0x3c, 4, 0xbb, 0x5a, 192, 168, 1, 1, 192, 168, 1, 11, // outer
    0x45, 0, 0, 0x2f, 0, 0, 0x40, 0, 0x3c, 6, 0x2a, 0x64, 10, 1, 0, 1, 10, 0, 0, 100, // inner
    4, 0, 0, 80, 0, 0, 0x03, 0xe9, 0, 0, 0x07, 0xd1, 0x50, 0x18, 0xfa, 0xf0, 0xd3, 0x16, 0, 0, // TCP
    b'r', b'e', b'q', b'u', b'e', b's', b't',
];

fn find(quote: &[u8]) -> Option<Range<usize>> {
    unwrap_quote(quote, |port| port == 6080)
}

#[test]
fn the_recorded_quote_holds_the_clients_packet() {
    assert_eq!(find(&QUOTE), Some(20..67));
}

/// ICMP-04: 20, 28 and 40 bytes say nothing of a connection, 48 are enough, and no byte beyond is read.
#[test]
fn quotes_need_the_inner_header_and_8_bytes() {
    for len in 0..48 {
        assert_eq!(find(&QUOTE[..len]), None, "{len}");
    }
    for len in 48..=67 {
        assert_eq!(find(&QUOTE[..len]), Some(20..len));
    }
}

/// RFC 4884 5.1: routers fill a quote up to 128 bytes with zeroes, and put objects of their own behind.
#[test]
fn padding_is_not_the_clients_packet() {
    let quote = [&QUOTE[..], &[0; 61], b"\x20\x00\x00\x00object"].concat();
    assert_eq!(find(&quote), Some(20..67));
}

/// A changed byte or two of the recorded quote, and what becomes of it.
#[test]
fn quotes_that_contradict_themselves_are_refused() {
    let whole = Some(20..67);
    for (what, changes, expected) in [
        ("outer version", &[(0, 0x55)][..], None),
        ("outer header of 16 bytes", &[(0, 0x44)], None),
        ("outer header up to the inner TCP", &[(0, 0x4a)], None),
        ("outer length below its header", &[(3, 19)], None),
        ("outer length below the inner packet's", &[(3, 0x42)], None),
        ("outer length ends in the inner header", &[(3, 30)], None),
        (
            "outer length below, but a first fragment",
            &[(3, 0x40), (6, 0x20)],
            Some(20..64),
        ),
        ("outer length beyond", &[(3, 0xff)], whole.clone()),
        ("a later fragment", &[(6, 0), (7, 1)], None),
        ("no tunnel: TCP", &[(9, 6)], None),
        ("no tunnel: ICMP", &[(9, 1)], None),
        ("IPv6 said, IPv4 found", &[(9, 41)], None),
        ("inner version", &[(20, 0x65)], None),
        ("inner header of 16 bytes", &[(20, 0x44)], None),
        ("inner header beyond the quote", &[(20, 0x4f)], None),
        ("inner length below its header", &[(23, 19)], None),
        ("inner length without 8 bytes", &[(23, 27)], None),
        ("inner length with 8 bytes", &[(23, 28)], Some(20..48)),
        ("inner length of 64 kB", &[(22, 0xff), (23, 0xff)], None),
        (
            "router changed TTL and checksum",
            &[(8, 0), (10, 0), (11, 0)],
            whole,
        ),
    ] {
        let mut quote = QUOTE;
        for &(at, value) in changes {
            quote[at] = value;
        }
        assert_eq!(find(&quote), expected, "{what}");
    }
}

/// The fragment header that stands in an outer IPv6 packet when the gateway had to fragment it.
#[test]
fn a_first_ipv6_fragment_is_looked_through() {
    let outer = Outer {
        source: [0xfd01, 0, 0, 0, 0, 0, 0, 1].into(),
        destination: [0xfd01, 0, 0, 0, 0, 0, 0, 0x11].into(),
        identification: 0,
        source_port: 0,
        keep_df: false,
    };
    let tunnel = Tunnel::default();
    let mut quote = wrapped(&inner(false, 0, 9, false, 0, b"12345678"), &tunnel, &outer).unwrap();
    quote.splice(40..40, [4, 0, 0, 1, 1, 2, 3, 4]);
    quote[5] += 8;
    quote[6] = 44;
    assert_eq!(find(&quote), Some(48..76));
    for len in 0..76 {
        assert_eq!(find(&quote[..len]), None, "{len}");
    }
    quote[43] = 9;
    assert_eq!(find(&quote), None, "a later fragment");
}

proptest! {
    /// Every packet that the gateway wraps is found again in a quote of it, however long, unless too little of it
    /// is quoted. GUE is only looked for on its own port.
    #[test]
    fn what_we_wrapped_is_found(
        packet in any_inner(),
        tunnel in any_tunnel(),
        outer in any_outer(),
        padding in 0usize..50,
    ) {
        let sent = wrapped(&packet, &tunnel, &outer).unwrap();
        let start = overhead(&tunnel, outer.source.is_ipv6());
        let header_len = match packet[0] >> 4 {
            4 => usize::from(packet[0] & 15) * 4,
            _ => 40,
        };
        let ours = |port| tunnel.kind == TunnelKind::Gue { port };
        for len in 0..=sent.len() {
            let expected = (len >= start + header_len + 8).then_some(start..len);
            prop_assert_eq!(unwrap_quote(&sent[..len], ours), expected);
        }
        let padded = [&sent[..], &vec![0; padding]].concat();
        let expected = (packet.len() >= header_len + 8).then_some(start..sent.len());
        prop_assert_eq!(unwrap_quote(&padded, ours), expected);
        if matches!(tunnel.kind, TunnelKind::Gue { .. }) {
            prop_assert_eq!(unwrap_quote(&sent, |port| !ours(port)), None);
        }
    }

    /// Bytes like a quote's, bent at will: what is found lies in the quote and is an IP header with 8 bytes.
    #[test]
    fn any_bytes_are_survived(
        packet in any_inner(),
        tunnel in any_tunnel(),
        outer in any_outer(),
        bends in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut quote = wrapped(&packet, &tunnel, &outer).unwrap();
        for (index, value) in bends {
            let at = index.index(quote.len());
            quote[at] = value;
        }
        if let Some(range) = unwrap_quote(&quote, |_| true) {
            let found = quote.get(range).unwrap();
            let header_len = match found[0] >> 4 {
                4 => usize::from(found[0] & 15) * 4,
                _ => 40,
            };
            prop_assert!(header_len >= 20 && found.len() >= header_len + 8);
        }
    }

    #[test]
    fn noise_is_survived(quote in proptest::collection::vec(any::<u8>(), 0..120)) {
        let _ = unwrap_quote(&quote, |_| true);
    }
}

/// GRE with a checksum is quoted as it is sent.
#[test]
fn a_gre_checksum_is_stepped_over() {
    let outer = Outer {
        source: [192, 168, 1, 1].into(),
        destination: [192, 168, 1, 11].into(),
        identification: 7,
        source_port: 0,
        keep_df: true,
    };
    let tunnel = Tunnel {
        kind: TunnelKind::Gre,
        checksum: TunnelChecksum::Outer,
    };
    let quote = wrapped(&inner(true, 0, 9, false, 0, b"12345678"), &tunnel, &outer).unwrap();
    assert_eq!(find(&quote), Some(28..76));
    // The type says IPv4, the packet IPv6.
    let mut other = quote;
    other[22..24].copy_from_slice(&[8, 0]);
    assert_eq!(find(&other), None);
}
