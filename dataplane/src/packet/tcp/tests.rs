//! Segments as literal bytes, and options of any shape.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

/// A SYN of Linux: MSS 1460, SACK permitted, timestamps, NOP, window scale 7.
const SYN_SEGMENT: [u8; 40] = [
    0x04, 0x00, 0x00, 0x50, 0, 0, 0x03, 0xe8, 0, 0, 0, 0, 0xa0, 0x02, 0xfa, 0xf0, 0, 0, 0, 0, // header
    2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 1, 3, 3, 7,
];

/// An ACK with timestamps and two SACK blocks, and 2 bytes of data; its SACK blocks stand at an odd place.
const SACK_SEGMENT: [u8; 54] = [
    0x04, 0x00, 0x00, 0x50, 0, 0, 0x03, 0xe8, 0, 0, 0x07, 0xd0, 0xd0, 0x10, 0xfa, 0xf0, 0, 0, 0,
    0, // header
    1, 5, 18, 0, 0, 0x10, 0, 0, 0, 0x20, 0, 0xff, 0xff, 0xff, 0xf0, 0xff, 0xff, 0xff, 0xff, // SACK
    8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 0, b'h', b'i',
];

const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);

fn sum(segment: &[u8]) -> u16 {
    checksum::l4_sum(SOURCE, DESTINATION, 6, segment)
}

fn with_checksum(segment: &[u8]) -> Vec<u8> {
    let mut segment = segment.to_vec();
    wire::put_u16(&mut segment, CHECKSUM, 0);
    let checksum = !sum(&segment);
    wire::put_u16(&mut segment, CHECKSUM, checksum);
    segment
}

#[test]
fn a_header_is_read() {
    assert_eq!((sequence(&SYN_SEGMENT), acknowledgement(&SYN_SEGMENT)), (1000, 0));
    assert_eq!((flags(&SYN_SEGMENT), data_offset(&SYN_SEGMENT)), (SYN, 40));
    assert_eq!((payload_len(&SYN_SEGMENT), sequence_len(&SYN_SEGMENT)), (0, 1));
    assert_eq!((payload_len(&SACK_SEGMENT), sequence_len(&SACK_SEGMENT)), (2, 2));
    assert_eq!(mss(&SYN_SEGMENT), Some(1460));
    assert_eq!(mss(&SACK_SEGMENT), None);
}

#[test]
fn stripped_timestamps_are_nops() {
    let mut segment = with_checksum(&SYN_SEGMENT);
    let delta = strip_timestamps(&mut segment);
    apply(&mut segment, delta);
    assert_eq!(segment[20..26], SYN_SEGMENT[20..26]);
    assert_eq!(segment[26..36], [1; 10]);
    assert_eq!(segment[36..], SYN_SEGMENT[36..]);
    assert_eq!(sum(&segment), 0xffff);
    assert_eq!(strip_timestamps(&mut segment), Delta::NONE);
}

#[test]
fn a_large_mss_is_lowered_and_a_small_one_kept() {
    let mut segment = with_checksum(&SYN_SEGMENT);
    for most in [1461, 1460] {
        assert_eq!(clamp_mss(&mut segment, most), Delta::NONE);
    }
    let delta = clamp_mss(&mut segment, 1440);
    apply(&mut segment, delta);
    assert_eq!(segment[20..24], [2, 4, 0x05, 0xa0]);
    assert_eq!(segment[24..], SYN_SEGMENT[24..]);
    assert_eq!(sum(&segment), 0xffff);
    assert_eq!(clamp_mss(&mut segment, 1440), Delta::NONE);
}

/// The option may stand anywhere, also at an odd place, last, and twice: some hosts heed the last one.
#[test]
fn an_mss_is_lowered_wherever_it_stands() {
    for (options, lowered) in [
        ([1, 2, 4, 0x05, 0xb4, 0, 0, 0], [1, 2, 4, 0x02, 0x00, 0, 0, 0]),
        ([1, 1, 1, 3, 3, 7, 2, 4], [1, 1, 1, 3, 3, 7, 2, 4]),
        ([4, 2, 1, 1, 2, 4, 0xff, 0xff], [4, 2, 1, 1, 2, 4, 0x02, 0x00]),
        ([2, 4, 0, 100, 2, 4, 0x05, 0xb4], [2, 4, 0, 100, 2, 4, 0x02, 0x00]),
        ([2, 5, 0x05, 0xb4, 0, 1, 1, 1], [2, 5, 0x05, 0xb4, 0, 1, 1, 1]),
        (
            [2, 3, 0xff, 2, 4, 0x05, 0xb4, 1],
            [2, 3, 0xff, 2, 4, 0x02, 0x00, 1],
        ),
        (
            [2, 0, 0x05, 0xb4, 2, 4, 0x05, 0xb4],
            [2, 0, 0x05, 0xb4, 2, 4, 0x05, 0xb4],
        ),
        ([0, 2, 4, 0x05, 0xb4, 1, 1, 1], [0, 2, 4, 0x05, 0xb4, 1, 1, 1]),
    ] {
        let mut segment = [&SYN_SEGMENT[..20], &options[..], b"data"].concat();
        segment[12] = 0x70;
        let mut segment = with_checksum(&segment);
        let delta = clamp_mss(&mut segment, 512);
        apply(&mut segment, delta);
        assert_eq!(segment[20..28], lowered, "{options:?}");
        assert_eq!((sum(&segment), &segment[28..]), (0xffff, &b"data"[..]));
    }
}

/// Only SYNs announce one: the same bytes mean nothing in another segment (RFC 9293 3.7.1).
#[test]
fn an_mss_without_syn_is_left_alone() {
    let mut segment = with_checksum(&SYN_SEGMENT);
    segment[13] = ACK;
    let before = segment.clone();
    assert_eq!(clamp_mss(&mut segment, 512), Delta::NONE);
    assert_eq!(segment, before);
    segment[13] = SYN | ACK;
    assert_ne!(clamp_mss(&mut segment, 512), Delta::NONE);
    assert_eq!(mss(&segment), Some(512));
}

#[test]
fn sack_edges_move_modulo_two_to_the_32() {
    let mut segment = with_checksum(&SACK_SEGMENT);
    let mut delta = shift_sack(&mut segment, 0x10);
    delta = delta
        .and(set_sequence(&mut segment, 5))
        .and(set_acknowledgement(&mut segment, u32::MAX));
    apply(&mut segment, delta);
    let edges = [0, 0, 0x10, 0x10, 0, 0, 0x20, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x0f];
    assert_eq!(segment[23..39], edges);
    assert_eq!((sequence(&segment), acknowledgement(&segment)), (5, u32::MAX));
    assert_eq!(sum(&segment), 0xffff);
}

#[test]
fn options_that_lie_about_their_length_end_the_walk() {
    for options in [
        [8, 0, 1, 1],
        [8, 1, 1, 1],
        [8, 10, 1, 1],
        [1, 1, 1, 8],
        [0, 8, 2, 0],
        [2, 5, 0, 0],
    ] {
        let mut segment = [&SYN_SEGMENT[..20], &options[..]].concat();
        segment[12] = 0x60;
        let before = segment.clone();
        assert_eq!(strip_timestamps(&mut segment), Delta::NONE, "{options:?}");
        assert_eq!(mss(&segment), None);
        assert_eq!(segment, before);
    }
}

proptest! {
    /// Whatever the options, a change neither panics, nor touches anything but them, nor breaks the checksum.
    #[test]
    fn any_options_survive_any_change(
        options in proptest::collection::vec(
            prop_oneof![Just(1u8), Just(2), Just(4), Just(5), Just(8), Just(10), any::<u8>()],
            0..60,
        ),
        offset in 0u8..16,
        shift: u32,
        most: u16,
    ) {
        let mut segment = [&SYN_SEGMENT[..20], &options[..]].concat();
        segment[12] = offset << 4;
        let mut segment = with_checksum(&segment);
        let before = segment.clone();
        let _ = mss(&segment);
        let delta = shift_sack(&mut segment, shift)
            .and(strip_timestamps(&mut segment))
            .and(clamp_mss(&mut segment, most));
        let end = data_offset(&segment).clamp(20, segment.len());
        prop_assert_eq!(&segment[..20], &before[..20]);
        prop_assert_eq!(&segment[end..], &before[end..]);
        apply(&mut segment, delta);
        prop_assert_eq!(sum(&segment), 0xffff);
        prop_assert_eq!(strip_timestamps(&mut segment), Delta::NONE);
        prop_assert_eq!(clamp_mss(&mut segment, most), Delta::NONE);
        prop_assert!(mss(&segment) <= mss(&before));
        prop_assert!(mss(&segment).is_none_or(|mss| mss <= most));
    }

    /// The walk finds what a plain list of well-formed options holds.
    #[test]
    fn well_formed_options_are_all_found(
        list in proptest::collection::vec((2u8..=254, 0usize..6), 0..6),
        nops in 0usize..3,
    ) {
        let mut options = vec![];
        for &(kind, data) in &list {
            options.extend(vec![NOP; nops]);
            options.extend([kind, data as u8 + 2]);
            options.extend(vec![0xaa; data]);
        }
        let found: Vec<_> = Walk::over(&options).map(|option| (option.kind, option.len - 2)).collect();
        prop_assert_eq!(found, list);
    }
}

/// Each MSS of a SYN makes room, none becomes 0, and no other segment announces one.
#[test]
fn an_mss_makes_room() {
    for (options, by, lowered) in [
        ([2, 4, 0x05, 0xb4, 4, 2, 1, 1], 8, [2, 4, 0x05, 0xac, 4, 2, 1, 1]),
        ([1, 2, 4, 0x05, 0xa0, 1, 0, 0], 20, [1, 2, 4, 0x05, 0x8c, 1, 0, 0]),
        ([2, 4, 0x05, 0xb4, 2, 4, 0, 7], 8, [2, 4, 0x05, 0xac, 2, 4, 0, 1]),
        (
            [2, 3, 0x05, 2, 4, 0x05, 0xb4, 0],
            8,
            [2, 3, 0x05, 2, 4, 0x05, 0xac, 0],
        ),
        ([3, 3, 7, 1, 1, 1, 1, 1], 8, [3, 3, 7, 1, 1, 1, 1, 1]),
    ] {
        let mut segment = SYN_SEGMENT[..20].to_vec();
        segment[12] = 0x70;
        segment.extend(options);
        let mut segment = with_checksum(&segment);
        for (flags, expected) in [(ACK, options), (SYN | ACK, lowered)] {
            segment[13] = flags;
            segment = with_checksum(&segment);
            let delta = lower_mss(&mut segment, by);
            apply(&mut segment, delta);
            assert_eq!(segment[20..], expected);
            assert_eq!(sum(&segment), 0xffff);
        }
    }
}

#[test]
fn every_option_of_a_kind_is_blanked() {
    let mut segment = SYN_SEGMENT[..20].to_vec();
    segment[12] = 0xa0;
    segment.extend([254, 8, 1, 2, 3, 4, 5, 6, 1, 254, 3, 9, 4, 2, 254, 2, 0, 254, 3, 3]);
    let mut segment = with_checksum(&segment);
    let delta = blank(&mut segment, 254);
    apply(&mut segment, delta);
    let expected = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 2, 1, 1, 0, 254, 3, 3];
    assert_eq!(segment[20..], expected, "none is read behind the list's end");
    assert_eq!(sum(&segment), 0xffff);
}
