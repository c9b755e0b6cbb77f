//! How long a packet may be: RFC 7915's 1,280 and 1,260 bytes at their edges, and any length against what has to hold
//! of the answer.

use proptest::prelude::*;

use super::model::Sample;
use super::*;
use crate::packet::ipv6;

/// What becomes of a packet of `length` bytes as it comes.
fn fit_of(v6: bool, length: usize, dont_fragment: bool, largest: u16, mtu: u16) -> Fit {
    let mut sample = match v6 {
        true => Sample::tcp("[2001:db8:1c0:2:21::]:1024", "[2001:db8:1c6:3364:2::]:80"),
        false => Sample::tcp("198.51.100.2:1024", "192.0.2.33:80"),
    };
    sample.dont_fragment = dont_fragment;
    sample.data = vec![0; length - if v6 { 60 } else { 40 }];
    let (packet, headers) = received(&sample.ip());
    let headers = Headers {
        largest_fragment: largest,
        ..headers
    };
    fit(packet.bytes(), &headers, mtu)
}

#[test]
fn ipv4_with_dont_fragment_is_told() {
    for (length, mtu, expected) in [
        (1480, 1500, Fit::Whole),
        (1481, 1500, Fit::TooBig(1480)),
        (1500, 1500, Fit::TooBig(1480)),
        (1260, 1280, Fit::Whole),
        (1261, 1280, Fit::TooBig(1260)),
        (9000, 9000, Fit::TooBig(8980)),
        // A link that IPv6 does not allow.
        (1260, 1000, Fit::Fragments(1000)),
        (1261, 1000, Fit::TooBig(1260)),
    ] {
        assert_eq!(fit_of(false, length, true, 0, mtu), expected, "{length} by {mtu}");
    }
}

#[test]
fn ipv4_that_may_be_cut_is_cut_to_ipv6s_least_mtu() {
    for (length, largest, mtu, expected) in [
        (1260, 0, 1500, Fit::Whole),
        (1261, 0, 1500, Fit::Fragments(1280)),
        (1500, 0, 1500, Fit::Fragments(1280)),
        (1500, 0, 1000, Fit::Fragments(1000)),
        // What came in fragments: a fragment of 576 bytes is one of 604.
        (1500, 576, 1500, Fit::Fragments(604)),
        (1500, 1480, 1500, Fit::Fragments(1280)),
        (584, 576, 1500, Fit::Whole),
        (585, 576, 1500, Fit::Fragments(604)),
    ] {
        assert_eq!(
            fit_of(false, length, false, largest, mtu),
            expected,
            "{length} by {mtu}"
        );
    }
    // Of a packet that was put together, the bit says nothing any more.
    assert_eq!(fit_of(false, 1500, true, 576, 1500), Fit::Fragments(604));
}

#[test]
fn ipv6_is_told_what_its_least_mtu_allows() {
    for (length, largest, mtu, expected) in [
        (1500, 0, 1500, Fit::Whole),
        (1500, 0, 1480, Fit::Whole),
        (1500, 0, 1479, Fit::TooBig(1499)),
        (1281, 0, 1260, Fit::TooBig(1280)),
        (1281, 0, 1000, Fit::TooBig(1280)),
        (1280, 0, 1260, Fit::Whole),
        (1280, 0, 1259, Fit::Fragments(1259)),
        (1280, 0, 576, Fit::Fragments(576)),
        (3000, 1500, 1500, Fit::Fragments(1472)),
        (3000, 1500, 1400, Fit::Fragments(1400)),
        (3000, 1280, 1500, Fit::Fragments(1252)),
        (1280, 48, 1500, Fit::Fragments(68)),
        (1272, 1280, 1500, Fit::Whole),
        (1272, 1279, 1500, Fit::Fragments(1251)),
        // An atomic fragment, put together from itself.
        (1492, 1500, 1500, Fit::Whole),
    ] {
        assert_eq!(
            fit_of(true, length, false, largest, mtu),
            expected,
            "{length} by {mtu}"
        );
    }
}

proptest! {
    /// Any link that may be: what goes fits it, what does not is told of what would; a packet that is cut has no
    /// "don't fragment" once it is translated.
    #[test]
    fn what_goes_fits_and_what_does_not_is_told_of_what_does(
        v6: bool, length in 60usize..9000, dont_fragment: bool, largest in prop_oneof![Just(0u16), 60u16..9000],
        mtu in 1280u16..9000,
    ) {
        let mtu = if v6 { mtu - 1280 + 68 } else { mtu };
        let new = if v6 { length - 20 } else { length + 20 };
        match fit_of(v6, length, dont_fragment, largest, mtu) {
            Fit::Whole => prop_assert!(new <= usize::from(mtu)),
            Fit::Fragments(limit) => {
                prop_assert!(limit >= 68 && limit <= mtu && new > usize::from(limit));
                prop_assert!(v6 || limit <= 1280);
                prop_assert!(largest != 0 || !v6 || new <= 1260);
                prop_assert!(v6 || largest != 0 || !dont_fragment);
            }
            Fit::TooBig(told) => {
                prop_assert!(largest == 0 && usize::from(told) < length);
                let least = if v6 { 1280 } else { 1260 };
                prop_assert!(told >= least);
                // Its sender's next try goes.
                let again = fit_of(v6, usize::from(told), dont_fragment, 0, mtu);
                prop_assert!(!matches!(again, Fit::TooBig(_)));
            }
        }
    }

    /// The two halves agree: what is to be cut may be cut.
    #[test]
    fn nothing_is_cut_that_says_it_must_not_be(length in 60usize..1400, mtu in 68u16..1400, largest in 0u16..1400) {
        let mut sample = Sample::tcp("[2001:db8:1c0:2:21::]:1024", "[2001:db8:1c6:3364:2::]:80");
        sample.data = vec![0; length - 60];
        let (mut packet, headers) = received(&sample.ip());
        let headers = Headers { largest_fragment: largest, ..headers };
        let fit = fit(packet.bytes(), &headers, mtu);
        let to = target(end("192.0.2.33:2000"), end("198.51.100.2:80"), 1);
        translate(&mut packet, &headers, &to, Delta::NONE).unwrap();
        let cut = matches!(fit, Fit::Fragments(_));
        prop_assert!(!(cut && ipv4::dont_fragment(&packet.bytes()[L3..])));
    }
}

/// Cut to its limit, a datagram from a sender that may be cut comes in pieces that IPv6's least MTU carries.
#[test]
fn a_translated_packet_is_cut_to_the_limit() {
    let mut sample = Sample::tcp("198.51.100.2:1024", "192.0.2.33:80");
    sample.data = vec![7; 3000];
    let (mut packet, headers) = received(&sample.ip());
    let Fit::Fragments(limit) = fit(packet.bytes(), &headers, 9000) else {
        panic!("not to be cut");
    };
    let to = target(end("[2001:db8::1]:1"), end("[2001:db8::2]:2"), 0);
    translate(&mut packet, &headers, &to, Delta::NONE).unwrap();
    let mut pieces = Vec::new();
    let allocate = || Some(TestPacket::new(&[]));
    crate::fragment::split6(&packet, 77, limit, allocate, |piece| pieces.push(piece)).unwrap();
    let lengths: Vec<_> = pieces.iter().map(|piece| piece.bytes().len() - L3).collect();
    assert_eq!(lengths, [1280, 1280, 40 + 8 + 3020 - 2 * 1232]);
    assert!(
        pieces
            .iter()
            .all(|piece| ipv6::next_header(&piece.bytes()[L3..]) == ipv6::FRAGMENT)
    );
}
