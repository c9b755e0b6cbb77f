//! The IPv6 header chain as far as fragments need it (RFC 8200 4.5): where the part ends that every fragment
//! repeats, and where the number stands that says what follows that part. Reads only.

use super::{HEADER6_LEN, L3};

/// Headers in a chain at the most: what the parser takes.
const MOST_HEADERS: usize = 8;
/// Offset of the next header field in the IPv6 header, in bytes.
const NEXT_HEADER: usize = 6;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const DESTINATION_OPTIONS: u8 = 60;

/// One step along the chain: a header that is told by the number at `field` and begins at `at`.
#[derive(Clone, Copy)]
struct Step {
    /// Where the number of this header stands in the frame.
    field: usize,
    /// Where it begins in the frame.
    at: usize,
}

impl Step {
    const FIRST: Step = Step {
        field: L3 + NEXT_HEADER,
        at: L3 + HEADER6_LEN,
    };

    /// Behind this header, when it is an extension header that fits into the frame.
    fn next(self, frame: &[u8]) -> Option<Step> {
        let number = *frame.get(self.field)?;
        if !matches!(number, HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS) {
            return None;
        }
        // In units of 8 bytes, not counting the first (RFC 8200 4.3).
        let len = (usize::from(*frame.get(self.at + 1)?) + 1) * 8;
        (self.at + len <= frame.len()).then_some(Step {
            field: self.at,
            at: self.at + len,
        })
    }
}

/// The length in bytes of the part of an IPv6 packet that every fragment repeats: the header, and the extension
/// headers up to a routing header, or else a hop-by-hop header (RFC 8200 4.5). `frame` begins with its Ethernet
/// header.
#[must_use]
pub fn unfragmentable_len(frame: &[u8]) -> usize {
    let mut step = Step::FIRST;
    let mut end = step.at;
    for _ in 0..MOST_HEADERS {
        let number = frame.get(step.field).copied();
        let Some(next) = step.next(frame) else {
            break;
        };
        if matches!(number, Some(HOP_BY_HOP | ROUTING)) {
            end = next.at;
        }
        step = next;
    }
    end - L3
}

/// Where in `frame` the number stands that says what begins at `end`; none when no header of the chain begins there.
pub(super) fn field_of(frame: &[u8], end: usize) -> Option<usize> {
    let mut step = Step::FIRST;
    for _ in 0..=MOST_HEADERS {
        if step.at == end {
            return Some(step.field);
        }
        step = step.next(frame)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An Ethernet header, an IPv6 header with `first` as its next header, and what follows.
    fn frame(first: u8, rest: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; L3 + HEADER6_LEN];
        frame[L3] = 0x60;
        frame[L3 + NEXT_HEADER] = first;
        frame.extend_from_slice(rest);
        frame
    }

    /// An extension header of 8 bytes.
    fn short(next: u8) -> [u8; 8] {
        [next, 0, 1, 4, 0, 0, 0, 0]
    }

    #[test]
    fn a_plain_header_is_repeated_alone() {
        let udp = frame(17, &[0; 8]);
        assert_eq!(unfragmentable_len(&udp), 40);
        assert_eq!(field_of(&udp, L3 + 40), Some(L3 + 6));
        assert_eq!(field_of(&udp, L3 + 48), None);
    }

    #[test]
    fn headers_up_to_the_routing_header_are_repeated() {
        // Hop-by-hop, destination options, routing (16 bytes), destination options, UDP.
        let mut rest = [
            short(DESTINATION_OPTIONS),
            short(ROUTING),
            short(DESTINATION_OPTIONS),
        ]
        .concat();
        rest[17] = 1;
        rest.extend_from_slice(&[0; 8]);
        rest.extend_from_slice(&short(17));
        rest.extend_from_slice(&[0; 8]);
        let frame = frame(HOP_BY_HOP, &rest);
        assert_eq!(unfragmentable_len(&frame), 40 + 32);
        assert_eq!(field_of(&frame, L3 + 40 + 16), Some(L3 + 40 + 8));
        assert_eq!(field_of(&frame, L3 + 40 + 32), Some(L3 + 40 + 16));
        assert_eq!(field_of(&frame, L3 + 40 + 40), Some(L3 + 40 + 32));
    }

    #[test]
    fn destination_options_alone_are_not_repeated() {
        let options = frame(DESTINATION_OPTIONS, &[short(17), [0; 8]].concat());
        assert_eq!(unfragmentable_len(&options), 40);
        let both = frame(
            HOP_BY_HOP,
            &[short(DESTINATION_OPTIONS), short(17), [0; 8]].concat(),
        );
        assert_eq!(unfragmentable_len(&both), 48);
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked_within_bounds(bytes in proptest::collection::vec(any::<u8>(), 0..300), end in 0usize..300) {
            let len = unfragmentable_len(&bytes);
            prop_assert!(len == HEADER6_LEN || L3 + len <= bytes.len());
            if let Some(field) = field_of(&bytes, end) {
                prop_assert!(field < end);
            }
        }
    }
}
