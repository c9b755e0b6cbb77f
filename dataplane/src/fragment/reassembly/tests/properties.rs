//! Properties of reassembly: any cuts, any order, any mixture of datagrams, any bytes.

use super::*;
use crate::fragment::samples::samples;
use crate::packet::{Kind, ipv4, ipv6};
use proptest::prelude::*;
use proptest::sample::Index;
use std::rc::Rc;

/// A packet that tells how many of its kind there are.
struct Counted {
    inner: TestPacket,
    _alive: Rc<()>,
}

impl Packet for Counted {
    fn bytes(&self) -> &[u8] {
        self.inner.bytes()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.inner.bytes_mut()
    }
    fn prepend(&mut self, len: usize) -> bool {
        self.inner.prepend(len)
    }
    fn trim_front(&mut self, len: usize) -> bool {
        self.inner.trim_front(len)
    }
    fn resize(&mut self, len: usize) -> bool {
        self.inner.resize(len)
    }
}

/// A fragment of one of a few datagrams, not always a good one.
fn garbled() -> impl Strategy<Value = Vec<u8>> {
    let pieces = (
        0u16..6,
        any::<bool>(),
        0usize..8,
        1usize..4,
        any::<bool>(),
        0u8..12,
    );
    pieces.prop_map(|(id, is_v6, start, units, more, odd)| {
        let payload = pattern(128);
        let sample = if is_v6 {
            Sample::v6(id.into(), 1, payload)
        } else {
            Sample::v4(id, &[], payload)
        };
        let (start, end) = (start * 8, (start + units) * 8);
        let mut data = sample.payload[start..end].to_vec();
        // Now and then other content, or a length that is not right.
        match odd {
            0 => data[0] ^= 1,
            1 => data.truncate(5),
            _ => {}
        }
        sample.piece_of(start, &data, more)
    })
}

proptest! {
    /// Cut anywhere, in any order, with pieces that come twice: the same bytes.
    #[test]
    fn any_cuts_in_any_order_give_the_datagram(
        sample in prop_oneof![9 => samples(3000), 1 => samples(65_000)],
        cuts in proptest::collection::vec(any::<Index>(), 1..20),
        shuffle in proptest::collection::vec(any::<Index>(), 40),
        padding in 0usize..20,
    ) {
        let units = sample.payload.len().div_ceil(8);
        let mut ends: Vec<_> = cuts.iter().map(|cut| (1 + cut.index(units - 1)) * 8).collect();
        ends.push(sample.payload.len());
        ends.sort_unstable();
        ends.dedup();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let mut pieces: Vec<_> = starts.zip(ends.iter().copied()).map(|(start, end)| sample.piece(start, end)).collect();
        let largest = pieces.iter().map(|piece| piece.len() - 14).max();
        for (i, other) in (0..pieces.len()).zip(&shuffle) {
            let other = other.index(pieces.len());
            pieces.swap(i, other);
        }
        for piece in &mut pieces {
            piece.resize(piece.len() + padding, 0xee);
        }
        let mut reassembly = reassembly();
        let (last, others) = pieces.split_last().unwrap();
        for (i, piece) in others.iter().enumerate() {
            prop_assert_eq!(add(&mut reassembly, piece), HELD);
            let twice = &others[shuffle[i + 20].index(i + 1)];
            prop_assert_eq!(add(&mut reassembly, twice), lost(1, DropReason::FragmentDuplicate));
        }
        prop_assert_eq!(reassembly.held(), others.len());
        match add(&mut reassembly, last) {
            Added::Whole { packet, largest: longest, fragments, identification, .. } => {
                prop_assert_eq!(packet.bytes(), sample.whole());
                prop_assert_eq!(Some(usize::from(longest)), largest);
                prop_assert_eq!(fragments as usize, pieces.len());
                prop_assert_eq!(identification, sample.identification);
            }
            other => prop_assert!(false, "{:?}", other),
        }
        prop_assert_eq!(reassembly.held(), 0);
    }

    /// RFC 5722: any overlap that is not a mere repetition ends the datagram.
    #[test]
    fn overlaps_are_refused(
        sample in samples(600).prop_filter("long enough", |sample| sample.payload.len() >= 96),
        skip in 0usize..6,
        other in (0usize..12, 1usize..6),
        change in any::<bool>(),
    ) {
        let mut reassembly = reassembly();
        // Six pieces of 16 bytes, one of which is missing.
        for i in (0..6).filter(|&i| i != skip) {
            prop_assert_eq!(add(&mut reassembly, &sample.piece_of(i * 16, &sample.payload[i * 16..i * 16 + 16], true)), HELD);
        }
        let (start, end) = (other.0 * 8, (other.0 + other.1) * 8);
        prop_assume!(end <= 96);
        let mut data = sample.payload[start..end].to_vec();
        if change {
            data[0] ^= 0x55;
        }
        let gap = skip * 16..skip * 16 + 16;
        let touched = (start..end).filter(|at| gap.contains(at)).count();
        let expected = match touched {
            0 if !change => lost(1, DropReason::FragmentDuplicate),
            n if n == end - start => HELD,
            _ => lost(6, DropReason::FragmentOverlap),
        };
        let held = match &expected {
            Added::Lost { fragments: 6, .. } => 0,
            Added::Lost { .. } => 5,
            _ => 6,
        };
        prop_assert_eq!(add(&mut reassembly, &sample.piece_of(start, &data, true)), expected);
        prop_assert_eq!(reassembly.held(), held);
    }

    /// Every fragment that went in is held, or has come out by exactly one way; there are never more datagrams or
    /// buffers than allowed.
    #[test]
    fn nothing_is_lost_uncounted(
        capacity in 1u16..4,
        buffers in 0usize..4,
        frames in proptest::collection::vec((garbled(), 0u32..900), 1..120),
    ) {
        let (mut reassembly, alive) = (Reassembly::<Counted>::new(capacity, 7), Rc::new(()));
        let counted = |inner| Counted { inner, _alive: Rc::clone(&alive) };
        let (mut now, mut gone) = (0, 0);
        for (i, (frame, later)) in frames.iter().enumerate() {
            now += later;
            let fragment = Counted { inner: packet(frame), _alive: Rc::new(()) };
            let allocate = || (Rc::strong_count(&alive) - 1 < buffers).then(|| counted(TestPacket::large()));
            match reassembly.add(&fragment, &headers(frame), PORT, Tick(now), TIMEOUT, allocate) {
                Added::Held { gave_way } => gone += gave_way as usize,
                Added::Whole { fragments, packet, .. } => {
                    gone += fragments as usize;
                    let ip = &packet.bytes()[14..];
                    let len = if frame[14] >> 4 == 6 { ipv6::total_len(ip) } else { ipv4::total_len(ip) };
                    prop_assert_eq!(ip.len(), len);
                }
                Added::Lost { fragments, .. } => gone += fragments as usize,
            }
            reassembly.expire(Tick(now), 1, |fragments| gone += fragments as usize);
            prop_assert_eq!(gone + reassembly.held(), i + 1);
            prop_assert!(Rc::strong_count(&alive) - 1 <= buffers.min(usize::from(capacity)));
        }
        now += TIMEOUT;
        reassembly.expire(Tick(now), usize::from(capacity), |fragments| gone += fragments as usize);
        prop_assert_eq!((gone, reassembly.held(), Rc::strong_count(&alive)), (frames.len(), 0, 1));
    }

    /// Neither bytes nor headers that lie bring it down.
    #[test]
    fn garbage_never_panics(
        frames in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..200), any::<bool>(), any::<[u8; 2]>()), 1..20),
    ) {
        let mut reassembly = reassembly();
        for (mut frame, is_v6, [l4, end]) in frames {
            if let Some(flags) = frame.get_mut(20..40) {
                // Few names, so that they meet.
                flags[2..].fill(0);
            }
            let kind = if is_v6 { Kind::Fragment6 } else { Kind::Fragment };
            let headers = Headers { kind, l3: 14, l4: l4.into(), end: end.into(), ..Headers::NONE };
            let _ = reassembly.add(&packet(&frame), &headers, PORT, Tick(0), TIMEOUT, || Some(TestPacket::large()));
        }
    }
}
