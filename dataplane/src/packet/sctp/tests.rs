use proptest::prelude::*;

use super::*;

/// The CRC32c by RFC 9260 appendix A, one bit at a time, over the segment with a checksum of 0.
fn bitwise(segment: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for (at, &byte) in segment.iter().enumerate() {
        crc ^= if (CHECKSUM..HEADER_LEN).contains(&at) {
            0
        } else {
            u32::from(byte)
        };
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !crc
}

/// A segment from port 1024 to 2905 with tag 9 and these chunks, its checksum right.
fn segment(chunks: &[u8]) -> Vec<u8> {
    let mut segment = vec![4, 0, 0x0b, 0x59, 0, 0, 0, 9, 0, 0, 0, 0];
    segment.extend(chunks);
    set_checksum(&mut segment);
    segment
}

#[test]
fn the_checksum_is_crc32c_in_little_endian_order() {
    // An INIT from port 1024 to 2905: tag 0, initiate tag 7; its checksums come from another implementation.
    let mut init = [
        4, 0, 0x0b, 0x59, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 20, 0, 0, 0, 7, 0, 0, 255, 255, 0, 1, 0, 1, 0, 0,
        0, 1,
    ];
    assert!(!is_right(&init));
    set_checksum(&mut init);
    assert!(is_right(&init));
    assert_eq!(init[CHECKSUM..HEADER_LEN], [26, 184, 15, 51]);
    assert_eq!((verification_tag(&init), initiate_tag(&init)), (0, Some(7)));
    init[3] = 0x5a;
    assert!(!is_right(&init));
    set_checksum(&mut init);
    assert_eq!(init[CHECKSUM..HEADER_LEN], [132, 147, 143, 46]);
}

#[test]
fn each_chunk_is_its_event() {
    let events = [
        (DATA, Event::Data),
        (INIT, Event::Init),
        (INIT_ACK, Event::InitAck),
        (3, Event::Data),
        (4, Event::Data),
        (5, Event::Data),
        (ABORT, Event::Abort),
        (SHUTDOWN, Event::Shutdown),
        (SHUTDOWN_ACK, Event::ShutdownAck),
        (ERROR, Event::Error),
        (COOKIE_ECHO, Event::CookieEcho),
        (COOKIE_ACK, Event::CookieAck),
        (12, Event::Data),
        (SHUTDOWN_COMPLETE, Event::ShutdownComplete),
        (0xc1, Event::Data),
    ];
    for (kind, expected) in events {
        assert_eq!(event(&segment(&[kind, 0, 0, 4])), expected, "{kind}");
    }
    for (number, event) in Event::ALL.into_iter().enumerate() {
        assert_eq!(event as usize, number);
        assert_eq!(Event::from_number(number as u8), event);
    }
    assert_eq!(Event::from_number(11), Event::None);
}

#[test]
fn an_abort_counts_first_or_right_behind_a_cookie() {
    // A cookie of 5 bytes is padded to 8.
    let echo = [COOKIE_ECHO, 0, 0, 9, 1, 2, 3, 4, 5, 0, 0, 0];
    let [ack, abort, sack] = [COOKIE_ACK, ABORT, 3].map(|kind| [kind, 0, 0, 4]);
    assert_eq!(event(&segment(&[&echo[..], &abort].concat())), Event::Abort);
    assert_eq!(event(&segment(&[ack, abort].concat())), Event::Abort);
    assert_eq!(event(&segment(&[ack, sack].concat())), Event::CookieAck);
    assert_eq!(event(&segment(&[ack, sack, abort].concat())), Event::CookieAck);
    assert_eq!(event(&segment(&[sack, abort].concat())), Event::Data);
    assert!(has_chunk(&segment(&[ack, sack, abort].concat()), ABORT));
    assert!(!has_chunk(&segment(&[ack, sack].concat()), ABORT));
}

#[test]
fn lengths_that_cannot_be_are_not_followed() {
    assert_eq!(event(&segment(&[])), Event::None);
    assert_eq!(event(&segment(&[INIT, 0, 0])), Event::None);
    // A cookie echo whose length is below its header's, or beyond the segment's end.
    for length in [0, 3, 40] {
        let chunks = [COOKIE_ECHO, 0, 0, length, ABORT, 0, 0, 4];
        assert_eq!(event(&segment(&chunks)), Event::CookieEcho);
    }
    assert_eq!(initiate_tag(&segment(&[INIT, 0, 0, 7, 1, 2, 3, 4])), None);
    assert_eq!(initiate_tag(&segment(&[INIT, 0, 0, 20, 1, 2, 3])), None);
    assert_eq!(
        initiate_tag(&segment(&[INIT, 0, 0, 20, 1, 2, 3, 4])),
        Some(0x0102_0304)
    );
    assert_eq!(initiate_tag(&segment(&[DATA, 0, 0, 20, 1, 2, 3, 4])), None);
}

proptest! {
    #[test]
    fn the_checksum_agrees_with_one_made_bit_by_bit(bytes in prop::collection::vec(any::<u8>(), HEADER_LEN..1500)) {
        let mut bytes = bytes;
        prop_assert_eq!(checksum(&bytes), bitwise(&bytes));
        set_checksum(&mut bytes);
        prop_assert!(is_right(&bytes));
        let at = bytes.len() - 1;
        bytes[at] ^= 1;
        prop_assert!(!is_right(&bytes));
    }

    /// Against a walk that copies: chunks are cut off the front until an ABORT, or what cannot be one.
    #[test]
    fn events_of_random_bytes_are_those_of_a_naive_walk(chunks in prop::collection::vec(0u8..16, 0..64)) {
        let bytes = segment(&chunks);
        let naive = |chunks: &[u8]| {
            let (&kind, length) = (chunks.first()?, chunks.get(2..4)?);
            let length = usize::from(length[0]) * 256 + usize::from(length[1]);
            let padded = length.div_ceil(4) * 4;
            let rest = if length < 4 { &[] } else { chunks.get(padded..).unwrap_or(&[]) };
            Some((kind, rest.to_vec()))
        };
        let expected = match naive(&chunks) {
            None => Event::None,
            Some((COOKIE_ECHO | COOKIE_ACK, rest)) if naive(&rest).is_some_and(|(kind, _)| kind == ABORT) => Event::Abort,
            Some((kind, _)) => Event::of_chunk(kind),
        };
        prop_assert_eq!(event(&bytes), expected);
    }
}
