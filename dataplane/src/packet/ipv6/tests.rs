//! Recorded headers, and extension headers of every shape.

use proptest::prelude::*;

use super::super::checksum;
use super::*;

/// The header of a recorded segment, 2001:db8::1 > fd00::100.
const HEADER: [u8; 40] = [
    0x62, 0, 0, 0, 0, 0x17, 6, 64, // traffic class 0x20, 23 bytes of TCP, hop limit 64
    0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, // source
    0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, // destination
];

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

#[test]
fn a_recorded_header_is_read() {
    assert_eq!(
        (total_len(&HEADER), next_header(&HEADER), hop_limit(&HEADER)),
        (63, 6, 64)
    );
    assert_eq!((traffic_class(&HEADER), flow_label(&HEADER)), (0x20, 0));
    assert_eq!(source(&HEADER), address("2001:db8::1"));
    assert_eq!(destination(&HEADER), address("fd00::100"));
    assert_eq!(addresses(&HEADER), HEADER[8..]);
}

#[test]
fn a_written_header_is_the_recorded_one() {
    let mut header = [0xee; 40];
    let fields = Fields {
        traffic_class: 0x20,
        flow_label: 0xfff0_0000,
        payload_len: 23,
        next_header: 6,
        hop_limit: 64,
        source: address("2001:db8::1"),
        destination: address("fd00::100"),
    };
    write(&mut header, &fields);
    assert_eq!(header, HEADER);
    let labelled = Fields {
        flow_label: 0x0003_8c4a,
        ..fields
    };
    write(&mut header, &labelled);
    assert_eq!(
        (header[..4].to_vec(), flow_label(&header)),
        (vec![0x62, 3, 0x8c, 0x4a], 0x0003_8c4a)
    );
}

/// The kernel's own translation of that segment to fd01::11, recorded.
#[test]
fn a_translated_header_is_the_recorded_one() {
    let mut header = HEADER;
    let _ = set_addresses(&mut header, address("2001:db8::1"), address("fd01::11"));
    decrement_hop_limit(&mut header);
    let mut recorded = HEADER;
    recorded[7] = 63;
    recorded[25] = 1;
    recorded[38..].copy_from_slice(&[0, 0x11]);
    assert_eq!(header, recorded);
    set_hop_limit(&mut header, 0);
    decrement_hop_limit(&mut header);
    assert_eq!(hop_limit(&header), 0);
}

#[test]
fn senders_are_told_from_what_cannot_be_one() {
    for text in [
        "2001:db8::1",
        "fe80::1",
        "fd00::100",
        "::2",
        "::1:0:0",
        "64:ff9b::102:304",
    ] {
        assert!(can_send(address(text)), "{text}");
    }
    for text in [
        "::",
        "::1",
        "ff02::1",
        "ff0e::1",
        "::ffff:0:0",
        "::ffff:192.0.2.1",
    ] {
        assert!(!can_send(address(text)), "{text}");
    }
}

/// A packet with these headers in front of eight bytes of payload: each is its kind and its bytes from the third
/// on, whose length is 6 and some eights.
fn chained(headers: &[(u8, &[u8])], last: u8) -> Vec<u8> {
    let mut packet = HEADER.to_vec();
    let kinds: Vec<u8> = headers.iter().map(|header| header.0).chain([last]).collect();
    packet[6] = kinds[0];
    for ((_, body), next) in headers.iter().zip(&kinds[1..]) {
        packet.extend([*next, ((body.len() + 2) / 8 - 1) as u8]);
        packet.extend(*body);
    }
    packet.extend([0xaa; 8]);
    packet
}

const PADDING: &[u8] = &[1, 4, 0, 0, 0, 0];
/// A routing header of type 2 whose route has been walked.
const WALKED: &[u8] = &[2, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

#[test]
fn chains_are_walked_to_their_end() {
    assert_eq!(
        walk(&HEADER),
        Ok(Chain {
            protocol: 6,
            at: 40,
            named_at: 6
        })
    );
    let packet = chained(
        &[
            (HOP_BY_HOP, PADDING),
            (DESTINATION_OPTIONS, WALKED),
            (ROUTING, WALKED),
        ],
        17,
    );
    assert_eq!(
        walk(&packet),
        Ok(Chain {
            protocol: 17,
            at: 80,
            named_at: 64
        })
    );
    // A fragment header ends the walk, which can be taken up behind it.
    let packet = chained(
        &[
            (DESTINATION_OPTIONS, PADDING),
            (FRAGMENT, PADDING),
            (ROUTING, WALKED),
        ],
        6,
    );
    assert_eq!(
        walk(&packet),
        Ok(Chain {
            protocol: FRAGMENT,
            at: 48,
            named_at: 40
        })
    );
    assert_eq!(
        walk_on(&packet, 48, 56),
        Ok(Chain {
            protocol: 6,
            at: 72,
            named_at: 56
        })
    );
    for protocol in [NO_NEXT_HEADER, 50, 51, 135, 255] {
        assert_eq!(
            walk(&chained(&[(HOP_BY_HOP, PADDING)], protocol))
                .unwrap()
                .protocol,
            protocol
        );
    }
}

#[test]
fn at_most_eight_headers_are_walked() {
    let headers = [(DESTINATION_OPTIONS, PADDING); 9];
    assert_eq!(
        walk(&chained(&headers[..8], 6)).map(|chain| chain.at),
        Ok(40 + 64)
    );
    assert_eq!(walk(&chained(&headers, 6)), Err(DropReason::BadExtensionHeader));
}

#[test]
fn a_fragment_header_is_read_and_written() {
    // Recorded: the last of two pieces, behind 1440 bytes.
    let bytes = [0x11, 0, 0x05, 0xa0, 0xfd, 0x25, 0x2b, 0x58];
    let fragment = Fragment {
        next_header: 17,
        offset: 1440,
        more: false,
        identification: 0xfd25_2b58,
    };
    assert_eq!(Fragment::read(&bytes), fragment);
    let mut written = [0xee; 8];
    fragment.write(&mut written);
    assert_eq!(written, bytes);
    let first = Fragment {
        offset: 0,
        more: true,
        ..fragment
    };
    first.write(&mut written);
    assert_eq!(written[2..4], [0, 1]);
    assert_eq!(Fragment::read(&written), first);
}

proptest! {
    /// The increment equals the sum computed anew, over any data.
    #[test]
    fn new_addresses_change_the_sum_as_they_say(
        source: [u8; 16],
        destination: [u8; 16],
        mut segment in proptest::collection::vec(any::<u8>(), 4..60),
    ) {
        let mut header = HEADER;
        segment[..2].fill(0);
        let sum = |header: &[u8], segment: &[u8]| {
            checksum::l4_sum6(super::source(header), super::destination(header), 6, segment)
        };
        let before = !sum(&header, &segment);
        let delta = set_addresses(&mut header, source.into(), destination.into());
        segment[..2].copy_from_slice(&delta.apply(before).to_be_bytes());
        prop_assert_eq!(sum(&header, &segment), 0xffff);
        prop_assert_eq!(addresses(&header).to_vec(), [source, destination].concat());
    }

    /// Whatever the bytes, the walk ends inside the packet.
    #[test]
    fn no_chain_leads_out_of_the_packet(
        mut packet in proptest::collection::vec(
            prop_oneof![Just(0u8), Just(0), Just(43), Just(44), Just(60), Just(1), any::<u8>()],
            40..400,
        ),
        first in prop_oneof![Just(0u8), Just(43), Just(60), any::<u8>()],
    ) {
        packet[6] = first;
        if let Ok(chain) = walk(&packet) {
            prop_assert!(chain.at <= packet.len() && chain.at % 8 == 0);
            prop_assert_eq!(chain.protocol, packet[chain.named_at]);
            prop_assert!(!matches!(chain.protocol, HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS));
        }
    }

    /// Chains that were put together from sound headers lead where they were put to.
    #[test]
    fn sound_chains_are_walked(
        kinds in proptest::collection::vec((any::<bool>(), 0usize..4), 0..8),
        hop_by_hop: bool,
    ) {
        let body = |eights: usize| [PADDING, &vec![0; 8 * eights]].concat();
        let bodies: Vec<_> = kinds.iter().map(|&(_, eights)| body(eights)).collect();
        let mut headers: Vec<(u8, &[u8])> = kinds
            .iter()
            .zip(&bodies)
            .map(|(&(options, _), body)| (if options { DESTINATION_OPTIONS } else { ROUTING }, &body[..]))
            .collect();
        // A routing header's fourth byte says how much of the route is left.
        let walked: Vec<_> = bodies.iter().map(|body| [&[2, 0][..], &body[2..]].concat()).collect();
        for (header, body) in headers.iter_mut().zip(&walked) {
            if header.0 == ROUTING {
                header.1 = body;
            }
        }
        if hop_by_hop {
            headers.insert(0, (HOP_BY_HOP, PADDING));
        }
        prop_assume!(headers.len() <= 8);
        let packet = chained(&headers, 17);
        let chain = walk(&packet);
        prop_assert_eq!(chain.map(|chain| (chain.protocol, chain.at)), Ok((17, packet.len() - 8)));
    }
}
