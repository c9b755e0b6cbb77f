//! The addresses that INIT and INIT ACK carry beside the IP header's (RFC 9260 3.3.2.1, RFC 5061 4.2). A gateway
//! that translates addresses cannot honour them: it keeps connections by one pair of addresses, and those that
//! an end lists are its private ones. So it takes them off, and neither end learns of a second path.

use super::super::wire;
use super::{Chunks, INIT, INIT_ACK};

/// What stands before the parameters of INIT and INIT ACK, chunk header included, in bytes.
const FIXED_LEN: usize = 20;
/// The length of a parameter's header in bytes: type and length.
const PARAMETER_HEADER_LEN: usize = 4;

const IPV4_ADDRESS: u16 = 5;
const IPV6_ADDRESS: u16 = 6;
const HOST_NAME: u16 = 11;
const ADD_ADDRESS: u16 = 0xc001;
const DELETE_ADDRESS: u16 = 0xc002;
const SET_PRIMARY_ADDRESS: u16 = 0xc004;
/// Skipped without a word by receivers that know it (RFC 4820 3), and by its two highest bits by all others.
const PADDING: u16 = 0x8005;
/// The chunk types that the sender understands beyond RFC 9260's (RFC 5061 4.2.7).
const SUPPORTED_EXTENSIONS: u16 = 0x8008;

const ASCONF: u8 = 0xc1;
const ASCONF_ACK: u8 = 0x80;
/// The PAD chunk (RFC 4820 3): to be told that an end understands it changes nothing.
const PAD_CHUNK: u8 = 0x84;

/// Overwrites every address parameter of an INIT or INIT ACK by padding of the same length, and the offer to
/// change addresses later (ASCONF) by one that means nothing. Returns whether something was overwritten; the
/// checksum is then wrong. Other packets stay as they are: these two chunks are never bundled with others.
#[must_use]
pub fn pad_addresses(segment: &mut [u8]) -> bool {
    let Some(chunk) = Chunks::of(segment)
        .next()
        .filter(|chunk| matches!(chunk.kind, INIT | INIT_ACK))
    else {
        return false;
    };
    let mut parameters = segment
        .get_mut(chunk.at + FIXED_LEN..chunk.end)
        .unwrap_or_default();
    let mut changed = false;
    while let Some((parameter, rest)) = split(parameters) {
        changed |= pad(parameter);
        parameters = rest;
    }
    changed
}

/// The first parameter, cut at the chunk's end, and those behind it; none are behind one whose length cannot be.
fn split(parameters: &mut [u8]) -> Option<(&mut [u8], &mut [u8])> {
    let header = parameters.get(..PARAMETER_HEADER_LEN)?;
    let len = usize::from(wire::get_u16(header, 2));
    if len < PARAMETER_HEADER_LEN {
        return Some((parameters, &mut []));
    }
    let (parameter, rest) = parameters.split_at_mut(len.min(parameters.len()));
    let filler = (len.next_multiple_of(4) - len).min(rest.len());
    Some((parameter, &mut rest[filler..]))
}

/// Takes the addresses out of one parameter. One whose length cannot be is treated as one that fills the chunk:
/// whatever a receiver makes of it, there is no address in it.
fn pad(parameter: &mut [u8]) -> bool {
    match wire::get_u16(parameter, 0) {
        IPV4_ADDRESS | IPV6_ADDRESS | HOST_NAME | ADD_ADDRESS | DELETE_ADDRESS | SET_PRIMARY_ADDRESS => {
            wire::put_u16(parameter, 0, PADDING);
            parameter[PARAMETER_HEADER_LEN..].fill(0);
            true
        }
        SUPPORTED_EXTENSIONS => {
            let mut changed = false;
            for kind in &mut parameter[PARAMETER_HEADER_LEN..] {
                if matches!(*kind, ASCONF | ASCONF_ACK) {
                    *kind = PAD_CHUNK;
                    changed = true;
                }
            }
            changed
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Event, HEADER_LEN, event, is_right, set_checksum};
    use super::*;

    /// A segment of one INIT (1) or INIT ACK (2) chunk with these parameters; the chunk's length is theirs.
    fn init(kind: u8, parameters: &[u8]) -> Vec<u8> {
        let mut segment = vec![4, 0, 0x0b, 0x59, 0, 0, 0, 0, 0, 0, 0, 0];
        segment.extend([kind, 0, 0, (FIXED_LEN + parameters.len()) as u8]);
        segment.extend([0, 0, 0, 7, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1]);
        segment.extend(parameters);
        set_checksum(&mut segment);
        segment
    }

    fn padded(kind: u8, parameters: &[u8]) -> (Vec<u8>, bool) {
        let mut segment = init(kind, parameters);
        let changed = pad_addresses(&mut segment);
        (segment.split_off(HEADER_LEN + FIXED_LEN), changed)
    }

    #[test]
    fn addresses_become_padding_and_the_rest_stays() {
        let addresses = [
            &[0, 5, 0, 8, 192, 168, 1, 11][..],
            &[0, 12, 0, 6, 0, 5, 0, 0],
            &[0, 6, 0, 20, 0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11],
            &[0x80, 0, 0, 4],
            &[0xc0, 4, 0, 16, 0, 0, 0, 1, 0, 5, 0, 8, 192, 168, 1, 12],
            &[0, 11, 0, 7, b'r', b's', 0, 0],
            &[0, 7, 0, 8, 192, 168, 1, 11],
        ]
        .concat();
        let zero = [0; 16];
        let expected = [
            &[0x80, 5, 0, 8, 0, 0, 0, 0][..],
            &[0, 12, 0, 6, 0, 5, 0, 0],
            &[0x80, 5, 0, 20],
            &zero,
            &[0x80, 0, 0, 4],
            &[0x80, 5, 0, 16],
            &zero[..12],
            &[0x80, 5, 0, 7, 0, 0, 0, 0],
            // The state cookie is sealed by its maker, and opaque to the other end.
            &[0, 7, 0, 8, 192, 168, 1, 11],
        ]
        .concat();
        for kind in [INIT, INIT_ACK] {
            assert_eq!(padded(kind, &addresses), (expected.clone(), true));
            assert_eq!(padded(kind, &expected), (expected.clone(), false));
        }
    }

    #[test]
    fn the_offer_to_change_addresses_is_taken_back() {
        let offer = [0x80, 8, 0, 7, ASCONF, ASCONF_ACK, 0x82, 0];
        let none = [0x80, 8, 0, 7, PAD_CHUNK, PAD_CHUNK, 0x82, 0];
        assert_eq!(padded(INIT, &offer), (none.to_vec(), true));
        assert_eq!(padded(INIT, &none), (none.to_vec(), false));
    }

    #[test]
    fn only_init_and_init_ack_are_changed() {
        for kind in (0..=255).filter(|kind| ![INIT, INIT_ACK].contains(kind)) {
            let mut segment = init(kind, &[0, 5, 0, 8, 10, 0, 0, 1]);
            assert!(!pad_addresses(&mut segment) && is_right(&segment), "{kind}");
        }
    }

    #[test]
    fn lengths_that_cannot_be_end_the_walk() {
        let address = [0, 5, 0, 8, 10, 0, 0, 1];
        // Too short for its own header; of another kind, it ends the walk.
        assert_eq!(
            padded(INIT, &[0, 5, 0, 3, 10, 0, 0, 1]),
            (vec![0x80, 5, 0, 3, 0, 0, 0, 0], true)
        );
        let stop = [&[0, 9, 0, 0][..], &address].concat();
        assert_eq!(padded(INIT, &stop), (stop, false));
        // Beyond the chunk's end.
        assert_eq!(
            padded(INIT, &[0, 5, 0, 40, 10, 0, 0, 1]),
            (vec![0x80, 5, 0, 40, 0, 0, 0, 0], true)
        );
        // Three bytes are no parameter; a chunk that ends early has none.
        assert_eq!(padded(INIT, &[0, 5, 0]), (vec![0, 5, 0], false));
        let mut short = init(INIT, &address);
        short[HEADER_LEN + 3] = 19;
        assert!(!pad_addresses(&mut short));
        // What stands behind the chunk's end is no parameter of it.
        let mut cut = init(INIT, &address);
        cut[HEADER_LEN + 3] = (FIXED_LEN + 6) as u8;
        assert!(pad_addresses(&mut cut));
        assert_eq!(cut[HEADER_LEN + FIXED_LEN..], [0x80, 5, 0, 8, 0, 0, 0, 1]);
    }

    /// Random parameters, most of them well formed; the last may be cut.
    fn parameters() -> impl Strategy<Value = Vec<(u16, Vec<u8>)>> {
        let kind = prop_oneof![
            Just(5),
            Just(6),
            Just(7),
            Just(11),
            Just(12),
            Just(0xc004),
            Just(0x8008),
            any::<u16>()
        ];
        prop::collection::vec((kind, prop::collection::vec(any::<u8>(), 0..24)), 0..8)
    }

    proptest! {
        /// Against a list of parameters, changed before it is written.
        #[test]
        fn padding_is_that_of_the_list(kind in INIT..=INIT_ACK, list in parameters()) {
            let write = |list: &[(u16, Vec<u8>)]| {
                let mut bytes = Vec::new();
                for (kind, value) in list {
                    bytes.extend(kind.to_be_bytes());
                    bytes.extend((value.len() as u16 + 4).to_be_bytes());
                    bytes.extend(value);
                    bytes.resize(bytes.len().next_multiple_of(4), 0xaa);
                }
                bytes
            };
            let without = list.iter().cloned().map(|(kind, mut value)| match kind {
                5 | 6 | 11 | 0xc001 | 0xc002 | 0xc004 => (0x8005, vec![0; value.len()]),
                0x8008 => {
                    value.iter_mut().filter(|k| [0xc1, 0x80].contains(*k)).for_each(|k| *k = 0x84);
                    (kind, value)
                }
                _ => (kind, value),
            });
            let expected = write(&without.collect::<Vec<_>>());
            let bytes = write(&list);
            prop_assert_eq!(padded(kind, &bytes), (expected.clone(), bytes != expected));
        }

        #[test]
        fn random_bytes_keep_their_length_and_are_padded_once(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut segment = init(INIT, &[]);
            segment.truncate(HEADER_LEN + 1);
            segment.extend(&bytes);
            let before = segment.clone();
            let changed = pad_addresses(&mut segment);
            prop_assert_eq!(segment.len(), before.len());
            prop_assert_eq!(changed, segment != before);
            prop_assert!(!pad_addresses(&mut segment));
            prop_assert!(bytes.len() < 3 || event(&segment) == Event::Init);
        }
    }
}
