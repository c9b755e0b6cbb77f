//! Packets cut, against cuts by a naive rule.

use super::*;
use crate::fragment::samples::{PORT, Sample, headers, packet, pattern, samples};
use crate::fragment::{Added, Reassembly};
use crate::packet::{TestPacket, checksum};
use crate::time::Tick;
use proptest::prelude::*;

fn buffer() -> Option<TestPacket> {
    Some(TestPacket::new(&[]))
}

/// Cuts a frame of either family.
fn split(frame: &[u8], identification: u32, limit: u16) -> Result<Vec<Vec<u8>>, DropReason> {
    let (packet, mut out) = (packet(frame), Vec::new());
    let push = |fragment: TestPacket| out.push(fragment.bytes().to_vec());
    let count = if frame[L3] >> 4 == 6 {
        split6(&packet, identification, limit, buffer, push)
    } else {
        split4(&packet, limit, buffer, push)
    };
    count.map(|count| {
        assert_eq!(count, out.len());
        out
    })
}

#[test]
fn a_datagram_is_cut_at_the_limit() {
    let sample = Sample::v4(99, &[], pattern(2568));
    let lens = |limit| {
        split(&sample.whole(), 0, limit)
            .unwrap()
            .iter()
            .map(|f| f.len() - 14)
            .collect::<Vec<_>>()
    };
    assert_eq!(lens(1500), [1500, 1108]);
    // 1,499 - 20 is not a multiple of 8.
    assert_eq!(lens(1499), [1492, 1116]);
    assert_eq!(lens(1304), [1300, 1300, 28]);
    assert_eq!(lens(2588), [2588]);
    assert_eq!(lens(2587), [2580, 28]);
}

/// RFC 791 3.1: the first fragment has all options, later ones those with the copied flag.
#[test]
fn later_fragments_have_the_copied_options_only() {
    // No operation, record route (7 bytes), router alert (copied), end.
    let options = [1, 7, 7, 4, 10, 0, 0, 1, 148, 4, 0, 0, 0, 0, 0, 0];
    let sample = Sample::v4(1, &options, pattern(64));
    let fragments = split(&sample.whole(), 0, 36 + 32).unwrap();
    assert_eq!(fragments.len(), 2);
    assert_eq!(fragments[0], sample.piece(0, 32));
    assert_eq!(
        fragments[1][34..50],
        [1, 1, 1, 1, 1, 1, 1, 1, 148, 4, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(fragments[1][50..], sample.payload[32..]);
    assert_eq!(checksum::sum(&fragments[1][14..50]), 0xffff);
}

#[test]
fn malformed_options_end_the_header() {
    for options in [[130, 1, 2, 3], [130, 5, 2, 3], [1, 1, 1, 130]] {
        let sample = Sample::v4(1, &options, pattern(64));
        let fragments = split(&sample.whole(), 0, 24 + 32).unwrap();
        let (at, expected) = if options[0] == 1 {
            (37, vec![0])
        } else {
            (34, vec![0; 4])
        };
        assert_eq!(fragments[1][at..38], expected);
    }
}

/// A fragment that is too long for the next link is cut again; its pieces belong to the same datagram.
#[test]
fn fragments_of_fragments_fit_together() {
    let sample = Sample::v4(5, &[], pattern(3000));
    let mut reassembly = Reassembly::<TestPacket>::new(4, 1);
    let mut whole = None;
    for piece in sample.pieces(1480) {
        for fragment in split(&piece, 0, 576).unwrap() {
            assert!(fragment.len() <= 14 + 576);
            let added = reassembly.add(&packet(&fragment), &headers(&fragment), PORT, Tick(0), 1, || {
                Some(TestPacket::large())
            });
            if let Added::Whole {
                packet, fragments, ..
            } = added
            {
                whole = Some((packet.bytes().to_vec(), fragments));
            }
        }
    }
    assert_eq!(whole, Some((sample.whole(), 3 + 3 + 1)));
}

/// "Don't fragment" is the caller's to respect; it does not stand on fragments.
#[test]
fn fragments_may_be_fragmented() {
    let mut frame = Sample::v4(5, &[], pattern(100)).whole();
    frame[20] |= 0x40;
    ipv4::fill_checksum(&mut frame[14..]);
    let fragments = split(&frame, 0, 68).unwrap();
    assert_eq!(fragments, Sample::v4(5, &[], pattern(100)).pieces(48));
    assert_eq!(split(&frame, 0, 120).unwrap(), [frame]);
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let (four, six) = (
        Sample::v4(5, &[], pattern(100)).whole(),
        Sample::v6(5, 1, pattern(100)).whole(),
    );
    assert_eq!(split(&four, 0, 27), Err(DropReason::ExceedsMtu));
    assert_eq!(split(&four, 0, 28).unwrap().len(), 13);
    assert_eq!(split(&six, 0, 63), Err(DropReason::ExceedsMtu));
    assert_eq!(split(&six, 0, 64).unwrap().len(), 13);
    for (frame, len) in [(&four, 60), (&four, 14), (&six, 80), (&six, 14)] {
        assert_eq!(split_any(&frame[..len], 1500), Err(DropReason::BadIpHeader));
    }
    let mut buffers = 2;
    let mut scarce = || {
        buffers -= 1;
        (buffers >= 0).then(|| TestPacket::new(&[]))
    };
    let mut out = 0;
    assert_eq!(
        split4(&packet(&four), 28, &mut scarce, |_| out += 1),
        Err(DropReason::NoBuffer)
    );
    assert_eq!(out, 2);
}

fn split_any(frame: &[u8], limit: u16) -> Result<usize, DropReason> {
    let four = split4(&packet(frame), limit, buffer, |_| {});
    let six = split6(&packet(frame), 1, limit, buffer, |_| {});
    if frame.get(L3).is_some_and(|byte| byte >> 4 == 6) {
        six
    } else {
        four
    }
}

#[test]
fn limits_follow_the_largest_fragment() {
    assert_eq!(
        (limit4(1500, 0), limit4(1500, 124), limit4(1500, 9000)),
        (1500, 124, 1500)
    );
    assert_eq!(
        (limit6(1500, 0), limit6(1500, 1488), limit6(1500, 9000)),
        (1500, 1488, 1500)
    );
    assert_eq!(limit6(1500, 600), 600);
}

proptest! {
    /// As the naive rule cuts, byte for byte.
    #[test]
    fn cuts_agree_with_the_naive_ones(sample in samples(3000), limit in 28u16..3100) {
        // The naive rule repeats all options, and all extension headers.
        let sample = if sample.is_v6 { sample } else { Sample::v4(sample.identification as u16, &[], sample.payload) };
        prop_assume!(!sample.is_v6 || 14 + chain::repeated(&sample.whole()[14..]).at == sample.head.len());
        let overhead = sample.head.len() - 14;
        let cut = split(&sample.whole(), sample.identification, limit);
        let room = usize::from(limit).saturating_sub(sample.overhead());
        if overhead + sample.payload.len() <= usize::from(limit) {
            prop_assert_eq!(cut, Ok(vec![sample.whole()]));
        } else if room < 8 {
            prop_assert_eq!(cut, Err(DropReason::ExceedsMtu));
        } else {
            // What is left when it fits needs no multiple of 8.
            let (mut start, mut expected, len) = (0, Vec::new(), sample.payload.len());
            while start < len {
                let end = if len - start <= room { len } else { start + room / 8 * 8 };
                expected.push(sample.piece(start, end));
                start = end;
            }
            prop_assert_eq!(cut, Ok(expected));
        }
    }

    /// Whatever is cut fits together again, in reverse order too.
    #[test]
    fn what_is_cut_fits_together(sample in samples(5000), limit in 100u16..1500, reverse: bool) {
        let mut fragments = split(&sample.whole(), sample.identification, limit).unwrap();
        if reverse {
            fragments.reverse();
        }
        prop_assume!(fragments.len() > 1);
        let mut reassembly = Reassembly::<TestPacket>::new(1, 1);
        let mut whole = Vec::new();
        for fragment in &fragments {
            prop_assert!(fragment.len() <= 14 + usize::from(limit));
            let added = reassembly
                .add(&packet(fragment), &headers(fragment), PORT, Tick(0), 1, || Some(TestPacket::large()));
            if let Added::Whole { packet, identification, .. } = added {
                prop_assert_eq!(identification, sample.identification);
                whole.push(packet.bytes().to_vec());
            }
        }
        prop_assert_eq!(whole, vec![sample.whole()]);
    }

    #[test]
    fn garbage_never_panics(mut frame in proptest::collection::vec(any::<u8>(), 0..300) , limit: u16) {
        for small in [true, false] {
            if small && frame.len() > 19 {
                // Lengths that may well fit.
                frame[16] &= 1;
                frame[18] &= 1;
            }
            let limit = if small { limit % 200 } else { limit };
            let _ = split4(&packet(&frame), limit, buffer, |_| {});
            let _ = split6(&packet(&frame), 1, limit, buffer, |_| {});
        }
    }
}
