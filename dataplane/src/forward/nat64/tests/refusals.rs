//! What is not translated: it stays as it is, and never is more than refused, whatever its bytes are.

use proptest::prelude::*;

use super::model::{Report, Sample, naive_sum, pair, sample};
use super::*;
use crate::forward::icmp::{Inner, Quote, read};
use crate::packet::FlowKey;

/// A packet without room to grow at its front.
struct Tight(Vec<u8>);

impl Packet for Tight {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn prepend(&mut self, _: usize) -> bool {
        false
    }

    fn trim_front(&mut self, len: usize) -> bool {
        self.0.drain(..len);
        true
    }

    fn resize(&mut self, len: usize) -> bool {
        if len <= self.0.len() {
            self.0.truncate(len);
        }
        len == self.0.len()
    }
}

fn to6() -> Target {
    target(end("[2001:db8::1]:1"), end("[2001:db8::2]:2"), 0)
}

fn to4() -> Target {
    target(end("192.0.2.33:1"), end("198.51.100.2:2"), 0)
}

#[test]
fn families_are_not_mixed() {
    let (v4, v6) = (end("192.0.2.33:1"), end("[2001:db8::1]:1"));
    assert_eq!(Target::between(v4, v6, 0), None);
    assert_eq!(Target::between(v6, v4, 0), None);
    for (sample, to) in [
        (Sample::tcp("192.0.2.33:1", "198.51.100.2:2"), to4()),
        (Sample::tcp("[2001:db8::1]:1", "[2001:db8::2]:2"), to6()),
    ] {
        let (mut packet, headers) = received(&sample.ip());
        let refused = translate(&mut packet, &headers, &to, Delta::NONE);
        assert_eq!(refused, Err(DropReason::BadIpHeader));
        assert_eq!(packet.bytes(), framed(&sample.ip()));
    }
}

/// RFC 7915 4.1: a source route may pass only when it has been walked.
#[test]
fn a_source_route_with_hops_left_is_refused() {
    use DropReason::SourceRoute;
    for (options, expected) in [
        ("83070400000000 00", Err(SourceRoute)),
        ("89070400000000 00", Err(SourceRoute)),
        ("01 01 83070700000000 000000", Err(SourceRoute)),
        ("83070800000000 00", Ok(())),
        ("94040000 89070400000000 00", Err(SourceRoute)),
        ("94040000 89070800000000 00", Ok(())),
        // Behind the end, or behind an option that cannot be, there is none.
        ("00 83070400000000", Ok(())),
        ("94000000 83070400000000 00", Ok(())),
        ("9440830704000000", Ok(())),
        // Record route looks alike.
        ("07070400000000 00", Ok(())),
        ("01010183", Ok(())),
    ] {
        let options = bytes(options);
        let sample = Sample {
            options: options.len() / 4,
            ..Sample::tcp("192.0.2.33:1", "198.51.100.2:2")
        };
        let mut ip = sample.ip();
        ip[20..20 + options.len()].copy_from_slice(&options);
        ip[10..12].fill(0);
        let sum = !naive_sum(&ip[..20 + options.len()]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let (mut packet, headers) = received(&ip);
        let done = translate(&mut packet, &headers, &to6(), Delta::NONE);
        assert_eq!(done, expected, "{options:02x?}");
        if done.is_err() {
            assert_eq!(packet.bytes(), framed(&ip));
        }
    }
}

/// RFC 7915 5.1; the parser refuses it as well, with the same reason.
#[test]
fn a_route_with_segments_left_is_refused() {
    let sample = Sample {
        options: 1,
        ..Sample::tcp("[2001:db8::1]:1", "[2001:db8::2]:2")
    };
    let mut ip = sample.ip();
    ip[6] = 43;
    let (mut packet, headers) = received(&ip);
    let mut walked = packet.clone();
    translate(&mut walked, &headers, &to4(), Delta::NONE).unwrap();
    packet.bytes_mut()[L3 + 43] = 1;
    let before = packet.clone();
    let refused = translate(&mut packet, &headers, &to4(), Delta::NONE);
    assert_eq!(refused, Err(DropReason::BadExtensionHeader));
    assert_eq!(packet, before);
    assert_eq!(
        parse(&packet, &rules()).unwrap_err(),
        DropReason::BadExtensionHeader
    );
}

#[test]
fn without_headroom_nothing_changes() {
    let plain = Sample::tcp("192.0.2.33:1", "198.51.100.2:2");
    for (options, expected) in [(0, Err(DropReason::NoHeadroom)), (5, Ok(())), (8, Ok(()))] {
        let sample = Sample {
            options,
            ..plain.clone()
        };
        let (_, headers) = received(&sample.ip());
        let mut tight = Tight(framed(&sample.ip()));
        assert_eq!(translate(&mut tight, &headers, &to6(), Delta::NONE), expected);
        if expected.is_err() {
            assert_eq!(tight.0, framed(&sample.ip()));
        }
    }
    let report = Report::about(plain, 3, 3);
    let (packet, headers) = received(&report.ip());
    let quote = read(packet.bytes(), &headers, &DIGEST).unwrap();
    let mut tight = Tight(framed(&report.ip()));
    let inner = Inner::nat(end("[2001:db8::1]:1"), end("[2001:db8::2]:2"));
    let refused = translate_error(&mut tight, &headers, &quote, &to6(), &inner, MTUS);
    assert_eq!(refused, Err(DropReason::NoHeadroom));
    assert_eq!(tight.0, framed(&report.ip()));
}

proptest! {
    /// Bytes changed anywhere, and the parser's offsets kept: what is refused stays as it was, and what is not has
    /// the length that its new header says.
    #[test]
    fn a_damaged_packet_is_whole_or_as_it_was(
        (sample, to) in any::<bool>().prop_flat_map(|v6| (sample(v6), pair(!v6))),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(), cuts: bool,
    ) {
        let (mut packet, headers) = received(&sample.ip());
        for (index, value) in damage {
            let frame = packet.bytes_mut();
            // Most of it in the headers.
            let len = frame.len().min(120);
            frame[index.index(len)] = value;
        }
        if cuts {
            let len = cut.index(packet.bytes().len());
            prop_assert!(packet.resize(len));
        }
        let before = packet.clone();
        match translate(&mut packet, &headers, &target(to[0], to[1], 1), Delta::NONE) {
            Err(_) => prop_assert_eq!(packet, before),
            Ok(()) => {
                let ip = &packet.bytes()[L3..];
                let len = if to[0].is_ipv4() { ipv4::total_len(ip) } else { crate::packet::ipv6::total_len(ip) };
                prop_assert_eq!(ip.len(), len);
            }
        }
    }

    #[test]
    fn random_bytes_are_never_more_than_refused(
        frame in prop::collection::vec(any::<u8>(), 0..200),
        (l3, l4, end) in (any::<u8>(), any::<u8>(), any::<u8>()),
        kind in prop::sample::select(vec![
            Kind::Flow, Kind::Flow6, Kind::Icmp, Kind::Icmp6, Kind::Fragment, Kind::Fragment6, Kind::Arp,
        ]),
        protocol in prop::sample::select(vec![6u8, 17, 132, 1, 58, 0]),
        largest: u16, mtu: u16, mtus: (u16, u16),
        (ip, quoted_l4, quoted_end) in (any::<u8>(), any::<u8>(), any::<u8>()),
        (message_type, code, rest) in (0u8..20, any::<u8>(), any::<u32>()),
        first in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()],
    ) {
        let mut frame = frame;
        if let Some(byte) = frame.get_mut(usize::from(l3)) {
            *byte = first;
        }
        let headers = Headers {
            l3: l3.into(), l4: l4.into(), end: end.into(), kind, protocol, largest_fragment: largest, ..Headers::NONE
        };
        let quote = Quote {
            key: FlowKey::NONE, protocol, message_type, code, rest, v6: kind == Kind::Icmp6, tunnel: false,
            ip: ip.into(), l4: quoted_l4.into(), end: quoted_end.into(),
        };
        let _ = fit(&frame, &headers, mtu);
        for (to, inner) in [
            (to4(), Inner::nat(self::end("192.0.2.33:1"), self::end("198.51.100.2:2"))),
            (to6(), Inner::nat(self::end("[2001:db8::1]:1"), self::end("[2001:db8::2]:2"))),
        ] {
            let mut packet = TestPacket::new(&frame);
            if translate(&mut packet, &headers, &to, Delta::NONE).is_err() {
                prop_assert_eq!(packet.bytes(), &frame);
            }
            let mut packet = TestPacket::new(&frame);
            let mtus = Mtus { v4: mtus.0, v6: mtus.1 };
            if translate_error(&mut packet, &headers, &quote, &to, &inner, mtus).is_err() {
                prop_assert_eq!(packet.bytes(), &frame);
            }
        }
    }
}
