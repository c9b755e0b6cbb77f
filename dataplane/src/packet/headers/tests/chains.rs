//! Chains of IPv6 extension headers: that the segment behind them is found, and those that somebody has once sent
//! to break a gateway.

use super::v6::{DATAGRAM6, SYN6, changed, extended, outcome};
use super::*;

/// CSUM-07 and IP6-01: the segment stands behind the headers, and no byte of theirs is taken for a flag: they
/// hold what would be a reset where TCP's flags are without them.
#[test]
fn segments_are_found_behind_extension_headers() {
    let options: Vec<u8> = [&[6, 2, 0x1e, 20][..], &[0x04; 20]].concat();
    for hex in [SYN6, DATAGRAM6] {
        let plain = changed(hex, &[]).unwrap();
        let with = |first: u8, extension: &[u8]| {
            let mut extension = extension.to_vec();
            let last = extension.len() - if extension.len() > 24 { 24 } else { extension.len() };
            extension[last] = plain.protocol;
            let headers = outcome(&extended(hex, first, &extension)).unwrap();
            let expected = Headers {
                l4: 54 + extension.len() as u16,
                end: plain.end + extension.len() as u16,
                ..plain
            };
            assert_eq!(headers, expected, "{first}, {extension:02x?}");
        };
        with(0, &[6, 0, 1, 4, 0, 0, 0, 0]);
        with(0, &options);
        with(60, &options);
        with(0, &[&[60, 0, 1, 4, 0, 0, 0, 0][..], &options].concat());
    }
}

/// IP6-03: forty chains that cannot be, each with its reason.
#[test]
fn malformed_chains_are_refused() {
    use DropReason::{BadExtensionHeader as Bad, UnknownProtocol as Unknown};
    const PAD: [u8; 6] = [1, 4, 0, 0, 0, 0];
    let ext = |next: u8, body: &[u8]| [&[next, ((body.len() + 2) / 8 - 1) as u8][..], body].concat();
    let padded = |next: u8| ext(next, &PAD);
    let chain = |kinds: &[u8]| kinds.iter().flat_map(|&next| padded(next)).collect::<Vec<u8>>();
    // What names the first header, the headers, and the reason.
    let mut cases: Vec<(u8, Vec<u8>, DropReason)> = vec![
        // Hop-by-hop options that are not first.
        (60, chain(&[0, 6]), Bad),
        (0, chain(&[0, 6]), Bad),
        (43, [ext(0, &[0; 6]), padded(6)].concat(), Bad),
        (0, chain(&[60, 0, 6]), Bad),
        // Nine headers, and many.
        (0, chain(&[60, 60, 60, 60, 60, 60, 60, 60, 6]), Bad),
        (60, chain(&[60, 60, 60, 60, 60, 60, 60, 60, 6]), Bad),
        (60, chain(&[60; 100]), Bad),
        (60, chain(&[60; 180]), Bad),
        // A route that is not at its end, of every type.
        (43, ext(6, &[0, 1, 0, 0, 0, 0]), Bad),
        (43, ext(6, &[0, 255, 0, 0, 0, 0]), Bad),
        (43, ext(6, &[2, 1, 0, 0, 0, 0]), Bad),
        (43, ext(6, &[4, 3, 0, 0, 0, 0]), Bad),
        (43, ext(6, &[253, 9, 0, 0, 0, 0]), Bad),
        (0, [padded(43), ext(6, &[0, 1, 0, 0, 0, 0])].concat(), Bad),
        // The jumbo payload option, alone and behind others.
        (0, ext(6, &[0xc2, 4, 0, 1, 0, 0]), Bad),
        (0, ext(6, &[0, 0, 0, 0, 0xc2, 0]), Bad),
        (
            0,
            ext(
                6,
                &[&[1, 6, 0, 0, 0, 0, 0, 0][..], &[0xc2, 4, 0, 2, 0, 0]].concat(),
            ),
            Bad,
        ),
        // Options that do not end where their header does.
        (0, ext(6, &[1, 5, 0, 0, 0, 0]), Bad),
        (0, ext(6, &[1, 255, 0, 0, 0, 0]), Bad),
        (0, ext(6, &[0, 0, 0, 0, 0, 1]), Bad),
        (0, ext(6, &[0, 0, 0, 0, 0, 5]), Bad),
        (0, ext(6, &[1, 2, 0, 0, 5, 1]), Bad),
        (0, ext(6, &[5, 3, 0, 0, 0, 7]), Bad),
        // Protocols that are not walked over: nothing, ESP, AH, mobility, HIP, shim6, IPv4's ICMP, OSPF.
        (0, chain(&[59]), Unknown),
        (60, chain(&[59]), Unknown),
        (0, chain(&[50]), Unknown),
        (0, chain(&[51]), Unknown),
        (60, chain(&[135]), Unknown),
        (60, chain(&[139]), Unknown),
        (60, chain(&[140]), Unknown),
        (0, chain(&[1]), Unknown),
        (0, chain(&[89]), Unknown),
        (0, chain(&[253]), Unknown),
        (0, chain(&[255]), Unknown),
    ];
    // Headers longer than the packet: by eight bytes, and by as many as can be.
    for first in [0, 43, 60] {
        for units in [3, 255] {
            cases.push((first, [vec![6, units], vec![0; 6]].concat(), Bad));
        }
    }
    cases.push((0, [padded(60), vec![6, 255, 0, 0, 0, 0, 0, 0]].concat(), Bad));
    assert!(cases.len() >= 40, "{} chains", cases.len());
    for (first, extension, reason) in cases {
        let frame = extended(SYN6, first, &extension);
        assert_eq!(outcome(&frame), Err(reason), "{first}, {extension:02x?}");
        // Cut anywhere, with a payload length that says so, they are no better.
        for len in 0..extension.len().min(64) {
            let mut cut = frame[..54 + len].to_vec();
            (cut[18], cut[19]) = (0, len as u8);
            assert!(outcome(&cut).is_err(), "{first}, {extension:02x?} cut to {len}");
        }
    }
}
