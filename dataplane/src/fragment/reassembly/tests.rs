//! Datagrams cut by a naive rule: one thing wrong, or special, at a time.

mod properties;

use super::*;
use crate::fragment::samples::{PORT, Sample, finished, headers, packet, pattern};
use crate::packet::TestPacket;

const TIMEOUT: u32 = 3000;

fn reassembly() -> Reassembly<TestPacket> {
    Reassembly::new(16, 1)
}

/// Adds a frame at time 0.
fn add(reassembly: &mut Reassembly<TestPacket>, frame: &[u8]) -> Added<TestPacket> {
    add_at(reassembly, frame, 0)
}

fn add_at(reassembly: &mut Reassembly<TestPacket>, frame: &[u8], now: u32) -> Added<TestPacket> {
    let fragment = packet(frame);
    let allocate = || Some(TestPacket::large());
    reassembly.add(&fragment, &headers(frame), PORT, Tick(now), TIMEOUT, allocate)
}

const HELD: Added<TestPacket> = Added::Held { gave_way: 0 };

/// The frame that came out.
fn whole_of(added: Added<TestPacket>) -> Vec<u8> {
    match added {
        Added::Whole { packet, .. } => packet.bytes().to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_fragments_become_the_datagram() {
    let sample = Sample::v4(99, &[], pattern(2568));
    let mut reassembly = reassembly();
    assert_eq!(add(&mut reassembly, &sample.piece(0, 1480)), HELD);
    assert_eq!(reassembly.held(), 1);
    match add(&mut reassembly, &sample.piece(1480, 2568)) {
        Added::Whole {
            packet,
            largest,
            fragments,
            identification,
            port,
        } => {
            assert_eq!(packet.bytes(), sample.whole());
            assert_eq!((largest, fragments, identification, port), (1500, 2, 99, PORT));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(reassembly.held(), 0);
}

/// RFC 8200 4.5: the fragment header goes, and the one before it says what follows. Its first fragment counts, the
/// second names another next header.
#[test]
fn the_fragment_header_goes_and_the_chain_is_mended() {
    let sample = Sample::v6(0x1234_5678, 2, pattern(1000));
    let mut reassembly = reassembly();
    let mut last = sample.piece(496, 1000);
    last[14 + 56] = 6;
    assert_eq!(add(&mut reassembly, &last), HELD);
    match add(&mut reassembly, &sample.piece(0, 496)) {
        Added::Whole {
            packet,
            largest,
            identification,
            ..
        } => {
            assert_eq!(packet.bytes(), sample.whole());
            assert_eq!(
                packet.bytes()[14 + 40..14 + 56],
                [43, 0, 1, 0, 0, 0, 0, 0, 17, 0, 1, 0, 0, 0, 0, 0]
            );
            assert_eq!((largest, identification), (40 + 16 + 8 + 504, 0x1234_5678));
        }
        other => panic!("{other:?}"),
    }
}

/// The header of the first fragment is the packet's, wherever in the order it comes; "don't fragment" goes.
#[test]
fn the_first_fragment_gives_the_header() {
    let sample = Sample::v4(7, &[7, 3, 4, 0], pattern(64));
    let (mut first, mut last) = (sample.piece(0, 32), sample.piece(32, 64));
    first[20] |= 0x40;
    last[22] = 9;
    last[15] = 0xb8;
    let mut reassembly = reassembly();
    assert_eq!(add(&mut reassembly, &finished(last, false)), HELD);
    assert_eq!(
        whole_of(add(&mut reassembly, &finished(first, false))),
        sample.whole()
    );
}

/// RFC 3168 5.3.
#[test]
fn a_mark_of_congestion_survives_where_it_is_understood() {
    for is_v6 in [false, true] {
        let sample = if is_v6 {
            Sample::v6(5, 0, pattern(48))
        } else {
            Sample::v4(5, &[], pattern(48))
        };
        let marked = |start: usize, codepoint: u8| {
            let mut frame = sample.piece(start, start + 16);
            let shift = if is_v6 { 4 } else { 0 };
            frame[15] = frame[15] & !(3 << shift) | codepoint << shift;
            finished(frame, is_v6)
        };
        for (codepoints, expected) in [
            ([2, 3, 2], Some(3)),
            ([1, 1, 3], Some(3)),
            ([3, 3, 3], Some(3)),
            ([2, 1, 1], Some(2)),
            ([0, 0, 0], Some(0)),
            ([0, 3, 0], None),
            ([3, 0, 2], None),
        ] {
            let mut reassembly = reassembly();
            add(&mut reassembly, &marked(0, codepoints[0]));
            add(&mut reassembly, &marked(16, codepoints[1]));
            match (add(&mut reassembly, &marked(32, codepoints[2])), expected) {
                (Added::Whole { packet, .. }, Some(expected)) => {
                    let mut frame = sample.whole();
                    frame[15] |= expected << if is_v6 { 4 } else { 0 };
                    assert_eq!(packet.bytes(), finished(frame, is_v6));
                }
                (added, None) => assert_eq!(added, lost(3, DropReason::FragmentOverlap)),
                (added, _) => panic!("{codepoints:?}: {added:?}"),
            }
            assert_eq!(reassembly.held(), 0);
        }
    }
}

/// RFC 6946: a whole packet behind a fragment header neither waits nor disturbs its namesakes.
#[test]
fn an_atomic_fragment_is_whole_by_itself() {
    let (sample, other) = (Sample::v6(1, 1, pattern(64)), Sample::v6(1, 1, vec![9; 20]));
    let mut reassembly = reassembly();
    assert_eq!(add(&mut reassembly, &sample.piece(0, 32)), HELD);
    assert_eq!(whole_of(add(&mut reassembly, &other.piece(0, 20))), other.whole());
    assert_eq!(reassembly.held(), 1);
    assert_eq!(
        whole_of(add(&mut reassembly, &sample.piece(32, 64))),
        sample.whole()
    );
}

/// Whatever differs in the key is another datagram.
#[test]
fn strangers_are_kept_apart() {
    let sample = Sample::v4(1, &[], pattern(64));
    let last = sample.piece(32, 64);
    for (at, value) in [(26, 11), (30, 11), (19, 2), (23, 6)] {
        let mut reassembly = reassembly();
        let mut first = sample.piece(0, 32);
        first[at] = value;
        assert_eq!(add(&mut reassembly, &finished(first, false)), HELD, "byte {at}");
        assert_eq!(add(&mut reassembly, &last), HELD, "byte {at}");
    }
    let mut reassembly = reassembly();
    assert_eq!(add(&mut reassembly, &sample.piece(0, 32)), HELD);
    let elsewhere = reassembly.add(
        &packet(&last),
        &headers(&last),
        PortId(0),
        Tick(0),
        TIMEOUT,
        || Some(TestPacket::large()),
    );
    assert_eq!((elsewhere, reassembly.held()), (HELD, 2));
}

#[test]
fn contradicting_ends_are_refused() {
    let sample = Sample::v4(1, &[], pattern(400));
    let refused = |frames: &[Vec<u8>]| {
        let mut reassembly = reassembly();
        let (last, before) = frames.split_last().unwrap();
        for frame in before {
            assert_eq!(add(&mut reassembly, frame), HELD);
        }
        let count = frames.len() as u32;
        assert_eq!(
            add(&mut reassembly, last),
            lost(count, DropReason::FragmentOverlap)
        );
        assert_eq!(reassembly.held(), 0);
    };
    let piece =
        |start: usize, len: usize, more| sample.piece_of(start, &sample.payload[start..start + len], more);
    // Beyond the end; another end; an end before what is there; more to follow where the end is.
    refused(&[piece(80, 16, false), piece(96, 16, true)]);
    refused(&[piece(80, 16, false), piece(0, 72, true), piece(96, 8, false)]);
    refused(&[piece(96, 16, true), piece(80, 16, false)]);
    refused(&[piece(96, 16, true), piece(104, 8, false)]);
    refused(&[piece(80, 16, false), piece(80, 16, true)]);
}

#[test]
fn malformed_pieces_are_dropped_alone() {
    let mut reassembly = reassembly();
    for sample in [Sample::v4(1, &[], pattern(64)), Sample::v6(1, 0, pattern(64))] {
        assert_eq!(add(&mut reassembly, &sample.piece(0, 32)), HELD);
        for (start, len, more) in [(32, 0, false), (32, 0, true), (32, 12, true)] {
            let frame = sample.piece_of(start, &sample.payload[start..start + len], more);
            assert_eq!(add(&mut reassembly, &frame), lost(1, DropReason::BadIpHeader));
        }
        assert_eq!(
            whole_of(add(&mut reassembly, &sample.piece(32, 64))),
            sample.whole()
        );
    }
}

/// The longest that is put together, in IPv6's smallest pieces and the worst order; one byte more ends it.
#[test]
fn the_longest_datagram_comes_in_any_order() {
    for (sample, room) in [
        (Sample::v4(1, &[], pattern(65_088)), 1256),
        (Sample::v6(1, 0, pattern(65_088)), 1232),
    ] {
        let pieces = sample.pieces(room);
        let mut reassembly = reassembly();
        let (even, odd): (Vec<_>, Vec<_>) = pieces.iter().enumerate().partition(|(i, _)| i % 2 == 0);
        let mut order: Vec<_> = odd.into_iter().chain(even).map(|(_, piece)| piece).collect();
        let last = order.pop().unwrap();
        for piece in order {
            assert_eq!(add(&mut reassembly, piece), HELD);
        }
        assert_eq!(whole_of(add(&mut reassembly, last)), sample.whole());

        let beyond = sample.piece_of(65_080, &[0; 9], false);
        assert_eq!(
            add(&mut reassembly, &beyond),
            lost(1, DropReason::FragmentTooLong)
        );
        assert_eq!(add(&mut reassembly, &pieces[0]), HELD);
        assert_eq!(
            add(&mut reassembly, &beyond),
            lost(2, DropReason::FragmentTooLong)
        );
        assert_eq!(reassembly.held(), 0);
    }
}

#[test]
fn too_many_gaps_end_the_datagram() {
    let sample = Sample::v4(1, &[], pattern(2000));
    let mut reassembly = reassembly();
    for i in 0..64 {
        assert_eq!(add(&mut reassembly, &sample.piece(16 * i, 16 * i + 8)), HELD);
    }
    let one_more = add(&mut reassembly, &sample.piece(1600, 1608));
    assert_eq!(
        (one_more, reassembly.held()),
        (lost(65, DropReason::FragmentTooLong), 0)
    );
}

/// A first fragment behind one routing header of `len` bytes.
fn behind_a_routing_header(len: usize) -> Vec<u8> {
    let mut frame = Sample::v6(1, 0, vec![]).head;
    frame[20] = 43;
    frame.extend_from_slice(&[44, (len / 8 - 1) as u8]);
    frame.resize(54 + len, 0);
    frame.extend_from_slice(&[17, 0, 0, 1, 0, 0, 0, 1]);
    frame.extend_from_slice(&pattern(8));
    finished(frame, true)
}

#[test]
fn headers_too_long_to_keep_are_refused() {
    let mut reassembly = reassembly();
    let (fits, longer) = (behind_a_routing_header(136), behind_a_routing_header(144));
    assert_eq!(
        add(&mut reassembly, &longer),
        lost(1, DropReason::FragmentTooLong)
    );
    assert_eq!(add(&mut reassembly, &fits), HELD);
    let last = Sample::v6(1, 0, pattern(16)).piece(8, 16);
    let mut expected = fits[..14 + 40 + 136].to_vec();
    expected[54] = 17;
    expected.extend_from_slice(&pattern(16));
    assert_eq!(whole_of(add(&mut reassembly, &last)), finished(expected, true));
    // The other way round, the last fragment is lost with it.
    assert_eq!(add(&mut reassembly, &last), HELD);
    assert_eq!(
        add(&mut reassembly, &longer),
        lost(2, DropReason::FragmentTooLong)
    );
}

#[test]
fn the_oldest_gives_way() {
    let mut reassembly = Reassembly::new(2, 1);
    let sample = |id| Sample::v4(id, &[], pattern(64));
    add(&mut reassembly, &sample(1).piece(0, 16));
    add(&mut reassembly, &sample(2).piece(0, 32));
    add(&mut reassembly, &sample(1).piece(16, 32));
    assert_eq!(
        add(&mut reassembly, &sample(3).piece(0, 32)),
        Added::Held { gave_way: 2 }
    );
    assert_eq!(reassembly.held(), 2);
    assert_eq!(
        whole_of(add(&mut reassembly, &sample(2).piece(32, 64))),
        sample(2).whole()
    );
    assert_eq!(
        whole_of(add(&mut reassembly, &sample(3).piece(32, 64))),
        sample(3).whole()
    );
    assert_eq!(add(&mut reassembly, &sample(1).piece(32, 64)), HELD);
}

/// Buffers of others that never become whole must not shut out everybody until they time out.
#[test]
fn the_oldest_gives_up_its_buffer() {
    let mut reassembly = Reassembly::<TestPacket>::new(8, 1);
    let sample = |id| Sample::v4(id, &[], pattern(64));
    let mut without_buffer = |frame: &[u8]| {
        let fragment = packet(frame);
        reassembly.add(&fragment, &headers(frame), PORT, Tick(0), TIMEOUT, || None)
    };
    assert_eq!(
        without_buffer(&sample(1).piece(0, 32)),
        lost(1, DropReason::NoBuffer)
    );
    let mut reassembly = Reassembly::new(8, 1);
    add(&mut reassembly, &sample(1).piece(0, 32));
    let second = sample(2).piece(0, 32);
    let added = reassembly.add(
        &packet(&second),
        &headers(&second),
        PORT,
        Tick(0),
        TIMEOUT,
        || None,
    );
    assert_eq!((added, reassembly.held()), (Added::Held { gave_way: 1 }, 1));
    assert_eq!(
        whole_of(add(&mut reassembly, &sample(2).piece(32, 64))),
        sample(2).whole()
    );
}

#[test]
fn what_is_not_completed_times_out() {
    let mut reassembly = reassembly();
    let sample = |id| Sample::v4(id, &[], pattern(64));
    add_at(&mut reassembly, &sample(1).piece(0, 16), 0);
    add_at(&mut reassembly, &sample(1).piece(32, 64), 10);
    add_at(&mut reassembly, &sample(2).piece(0, 16), 20);
    add_at(&mut reassembly, &sample(3).piece(0, 16), 20);
    let mut expired = |now, budget| {
        let mut lost = Vec::new();
        reassembly.expire(Tick(now), budget, |fragments| lost.push(fragments));
        (lost, reassembly.held())
    };
    assert_eq!(expired(TIMEOUT - 1, 9), (vec![], 4));
    assert_eq!(expired(TIMEOUT, 9), (vec![2], 2));
    assert_eq!(expired(TIMEOUT + 20, 1), (vec![1], 1));
    assert_eq!(expired(TIMEOUT + 20, 1), (vec![1], 0));
    // A fragment that comes too late starts anew.
    assert_eq!(add_at(&mut reassembly, &sample(1).piece(16, 32), TIMEOUT), HELD);
}
