//! Rewrites of any error, against the naive model: the bytes are those of the error that says the new thing.

use proptest::prelude::*;

use super::*;

/// Two ends of one family, out of few or of all.
fn pair(v6: bool) -> impl Strategy<Value = [SocketAddr; 2]> {
    any::<([u8; 16], u16, [u8; 16], u16)>().prop_map(move |(source, sport, destination, dport)| {
        let address = |bytes: [u8; 16]| match v6 {
            true => IpAddr::from(bytes),
            false => IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
        };
        [
            SocketAddr::new(address(source), sport),
            SocketAddr::new(address(destination), dport),
        ]
    })
}

prop_compose! {
    fn message(v6: bool)(
        ends in pair(v6),
        outer in pair(v6),
        protocol in prop_oneof![Just(6u8), Just(17u8), Just(132u8)],
        unsummed: bool,
        sequence: u32,
        data in proptest::collection::vec(any::<u8>(), 0..40),
        cut in prop_oneof![Just(8usize), 8usize..70],
        options in 0usize..=8,
        behind in proptest::collection::vec(any::<u8>(), 0..9),
        ttl in 2u8..,
        (kind, rest) in if v6 {
            prop_oneof![(Just(2u8), any::<u32>()), (1u8..=4, Just(0u32))].boxed()
        } else {
            prop_oneof![(Just(3u8), 0u32..=0xffff), (prop_oneof![Just(4u8), Just(11u8)], Just(0u32))].boxed()
        },
        code: u8,
    ) -> Message {
        let mut message = Message::tcp(ends[0], ends[1]).protocol(protocol).sequence(sequence).cut(cut);
        message.outer = outer.map(|end| end.ip());
        // Behind a quote that was cut, nobody could tell what is no longer quote.
        let behind = if cut < 20 + data.len() { Vec::new() } else { behind };
        message.data = data;
        message.unsummed = unsummed;
        message.options(options).behind(&behind).ttl(ttl).kind(kind, code).rest(rest)
    }
}

/// An error, and what its outer addresses and its quote become, of the same family.
fn case() -> impl Strategy<Value = (Message, [SocketAddr; 2], [SocketAddr; 2])> {
    any::<bool>().prop_flat_map(|v6| (message(v6), pair(v6), pair(v6)))
}

proptest! {
    #[test]
    fn an_error_becomes_the_one_that_says_the_new_thing(
        (message, ends, outer) in case(), change: [bool; 2], shift: u32, fullnat: bool,
    ) {
        let mut frame = message.frame();
        let headers = message.headers();
        let quote = read(&frame, &headers, &DIGEST).unwrap();
        let [source, destination] = ends;
        let inner = if fullnat { Inner::fullnat(source, destination, shift) } else { Inner::nat(source, destination) };
        let new = |place: usize| change[place].then_some(outer[place].ip());
        let outer = Outer { source: new(0), destination: new(1) };
        prop_assert!(translate(&mut frame, &headers, &quote, outer, &inner));

        let mut expected = message.clone().quoting(source, destination).ttl(message.ttl - 1);
        expected.outer = [outer.source.unwrap_or(message.outer[0]), outer.destination.unwrap_or(message.outer[1])];
        if fullnat {
            expected.sequence = message.sequence.wrapping_add(shift);
        }
        // Of a checksum that was cut in two, the half that is there cannot follow.
        if !fullnat || (message.protocol == 6 && message.cut == 17) {
            expected = expected.kept(&message);
        }
        prop_assert_eq!(&frame, &expected.frame());

        // What was translated is read as what it was translated to.
        let read_again = read(&frame, &headers, &DIGEST).unwrap();
        prop_assert_eq!(read_again.ends(&frame), Some((source, destination)));
        prop_assert_eq!(Quote { key: quote.key, ..read_again }, quote);

        // And back: the identity, but for the TTL.
        let [source, destination] = message.ends;
        let back = Inner { source, destination, sequence_shift: inner.sequence_shift.wrapping_neg(), ..inner };
        let outer = Outer { source: Some(message.outer[0]), destination: Some(message.outer[1]) };
        prop_assert!(translate(&mut frame, &headers, &quote, outer, &back));
        prop_assert_eq!(frame, message.clone().ttl(message.ttl - 2).frame());
    }

    #[test]
    fn an_error_passed_on_has_one_ttl_less((message, ..) in case(), ttl: u8) {
        let message = message.ttl(ttl);
        let mut frame = message.frame();
        nat::decrement_ttl(&mut frame, &message.headers());
        prop_assert_eq!(frame, message.ttl(ttl.saturating_sub(1)).frame());
    }

    #[test]
    fn any_mtu_leaves_the_checksum_right((message, ..) in case(), mtu: u32) {
        let mut frame = message.frame();
        let headers = message.headers();
        let quote = read(&frame, &headers, &DIGEST).unwrap();
        if set_mtu(&mut frame, &headers, &quote, mtu) {
            let written = read(&frame, &headers, &DIGEST).unwrap();
            prop_assert!(written.mtu().is_some_and(|written| written <= mtu.max(1280)));
            prop_assert_eq!(&frame, &message.rest(written.rest).frame());
        } else {
            prop_assert_eq!(frame, message.frame());
        }
    }

    /// Bytes changed anywhere in the message, its end cut off, the checksum right: read or refused, and what is
    /// read lies inside; rewriting changes nothing behind what it may.
    #[test]
    fn a_damaged_quote_is_read_within_its_bounds_or_not_at_all(
        (message, ends, _) in case(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<proptest::sample::Index>(), cuts: bool,
    ) {
        let mut frame = message.frame();
        let start = usize::from(message.headers().l4);
        for (index, value) in damage {
            let at = start + index.index(frame.len() - start);
            frame[at] = value;
        }
        if cuts {
            frame.truncate(start + 8 + cut.index(frame.len() - start - 8));
        }
        let headers = headers_of(&frame);
        message::fill_icmp_checksum(&mut frame, &headers);
        if let Ok(quote) = read(&frame, &headers, &DIGEST) {
            prop_assert!(quote.ip < quote.l4 && quote.l4 + 8 <= quote.end && quote.end <= frame.len());
            let before = frame.clone();
            prop_assert!(translate(&mut frame, &headers, &quote, Outer::default(), &Inner::fullnat(ends[0], ends[1], 7)));
            let last = quote.end.min(quote.l4 + 18);
            prop_assert_eq!(&frame[last..], &before[last..]);
            prop_assert!(read(&frame, &headers, &DIGEST).is_ok());
        }
    }

    #[test]
    fn random_bytes_are_never_more_than_refused(
        mut frame in proptest::collection::vec(any::<u8>(), 0..200),
        l3: u8, l4: u8, end: u8, v6: bool, other: (u8, u8, u8), ends in pair(false),
    ) {
        let headers = Headers {
            l3: l3.into(), l4: l4.into(), end: end.into(),
            kind: if v6 { Kind::Icmp6 } else { Kind::Icmp },
            ..Headers::NONE
        };
        let _ = read(&frame, &headers, &DIGEST);
        let quote = Quote {
            key: FlowKey::NONE, protocol: 6, message_type: 3, code: 4, rest: 1500, v6, tunnel: false,
            ip: other.0.into(), l4: other.1.into(), end: other.2.into(),
        };
        let _ = quote.ends(&frame);
        let _ = translate(&mut frame, &headers, &quote, Outer::default(), &Inner::nat(ends[0], ends[1]));
        let _ = set_mtu(&mut frame, &headers, &quote, 1400);
        nat::decrement_ttl(&mut frame, &headers);
    }
}
