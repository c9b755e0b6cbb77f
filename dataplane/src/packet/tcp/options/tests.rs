//! Segments as literal bytes.

use super::super::super::checksum;
use super::super::{CHECKSUM, HEADER_LEN, apply};
use super::*;
use proptest::prelude::*;

/// A segment with these options, padded by ends of list, and a right sum over all of it.
fn segment(options: &[u8]) -> Vec<u8> {
    let mut segment = vec![
        0x04, 0, 0, 80, 0, 0, 3, 0xe8, 0, 0, 0, 9, 0, 0x10, 0x20, 0, 0, 0, 0, 0,
    ];
    segment.extend(options);
    segment.resize(segment.len().next_multiple_of(4), 0);
    segment[12] = (segment.len() * 4) as u8;
    segment.extend(b"data");
    let checksum = !checksum::sum(&segment);
    wire::put_u16(&mut segment, CHECKSUM, checksum);
    segment
}

/// The options after a change; the checksum has followed it.
fn changed(options: &[u8], change: impl Fn(&mut [u8]) -> Delta) -> Vec<u8> {
    let mut segment = segment(options);
    let delta = change(&mut segment);
    apply(&mut segment, delta);
    assert_eq!(checksum::sum(&segment), 0xffff);
    segment[HEADER_LEN..HEADER_LEN + options.len()].to_vec()
}

fn sack(blocks: &[u32]) -> Vec<u8> {
    let mut bytes = vec![5, 2 + 8 * blocks.len() as u8];
    for left in blocks {
        bytes.extend([left.to_be_bytes(), (left + 5).to_be_bytes()].concat());
    }
    bytes
}

#[test]
fn timestamps_are_read_wherever_they_stand() {
    let option = [8, 10, 0xff, 0xff, 0xff, 0xfe, 1, 2, 3, 4];
    let expected = Some([0xffff_fffe, 0x0102_0304]);
    assert_eq!(timestamps(&segment(&option)), expected);
    assert_eq!(
        timestamps(&segment(&[&[1, 2, 4, 5, 0xb4], &option[..]].concat())),
        expected
    );
    for other in [
        &[][..],
        &[8, 2],
        &[8, 9, 1, 2, 3, 4, 5, 6, 7],
        &[0, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0],
    ] {
        assert_eq!(timestamps(&segment(other)), None, "{other:?}");
    }
}

#[test]
fn blocks_are_taken_out_one_by_one() {
    let goes = |left: u32| left < 100;
    for (blocks, kept) in [
        (&[10][..], &[][..]),
        (&[200], &[200]),
        (&[10, 200, 20, 300], &[200, 300]),
        (&[200, 10, 300], &[200, 300]),
        (&[10, 20, 30], &[]),
    ] {
        let before = sack(blocks);
        assert!(has_sack(&segment(&before)));
        let mut after = if kept.is_empty() { Vec::new() } else { sack(kept) };
        after.resize(before.len(), 1);
        assert_eq!(changed(&before, |segment| drop_sack(segment, goes)), after);
    }
    // No blocks, and half of one.
    for odd in [&[5, 2][..], &[5, 6, 0, 0, 0, 1]] {
        assert!(!has_sack(&segment(odd)));
        assert_eq!(changed(odd, |segment| drop_sack(segment, goes)), odd);
    }
}

#[test]
fn both_forms_of_fast_open_go() {
    for (before, after) in [
        (&[34, 10, 1, 2, 3, 4, 5, 6, 7, 8][..], &[1; 10][..]),
        (&[34, 2, 34, 2], &[1; 4]),
        (&[254, 12, 0xf9, 0x89, 1, 2, 3, 4, 5, 6, 7, 8], &[1; 12]),
        (
            &[254, 8, 0xf9, 0x88, 1, 2, 3, 4],
            &[254, 8, 0xf9, 0x88, 1, 2, 3, 4],
        ),
        (&[254, 3, 0xf9], &[254, 3, 0xf9]),
    ] {
        assert_eq!(changed(before, strip_fast_open), after);
    }
}

proptest! {
    /// Whatever stands there, nothing is read or written beyond the options, and the checksum follows.
    #[test]
    fn any_bytes_do(options in proptest::collection::vec(any::<u8>(), 0..=40), bound: u32) {
        let _ = (timestamps(&segment(&options)), has_sack(&segment(&options)));
        changed(&options, |segment| drop_sack(segment, |left| left < bound));
        changed(&options, strip_fast_open);
    }
}
