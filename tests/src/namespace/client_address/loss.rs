//! A cable to the server that loses, doubles and reorders, header segments above all: the server's stream is the header
//! and the client's bytes, and the client's is what the server has said.

use super::greeter::{Greeter, Heard, PORT, greeted, say};
use super::site::{self, SERVERS, VIPS, end};
use crate::lab::{Fate, Lab, Rough, Side};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Bytes of the client in each connection.
const BYTES: usize = 100_000;

fn bytes() -> Vec<u8> {
    (0..BYTES).map(|at| (at * 7 % 251) as u8).collect()
}

/// Whether a frame has a segment or datagram with the header of the PROXY protocol.
fn has_header(frame: &[u8]) -> bool {
    frame
        .windows(12)
        .take(120)
        .any(|window| window == b"\r\n\r\n\0\r\nQUIT\n")
}

/// Whether a frame is TCP of either family: neighbour discovery has to work.
fn is_tcp(frame: &[u8]) -> bool {
    match (frame[12], frame[13]) {
        (8, 0) => frame[23] == 6,
        (0x86, 0xdd) => frame[20] == 6,
        _ => false,
    }
}

/// Some connections of each family over a cable with this rule, each with bytes both ways. At least `resent` headers are
/// sent more than once, and none is given up.
fn all_arrives(rounds: usize, resent: u64, rule: impl FnMut(Side, &[u8]) -> Fate + Send + 'static) {
    let lab = Lab::dual();
    let gateway = site::gateway(&lab);
    let rough = Rough::start(&lab, rule);
    let sent = bytes();
    for (server, vip) in SERVERS.into_iter().zip(VIPS) {
        let greeter = Greeter::start(&lab, end(server, PORT));
        for _ in 0..rounds {
            let (mut reader, own) = greeted(&lab, end(vip, 25));
            let answer = say(&mut reader, &sent);
            assert!(answer == sent, "{} bytes of {BYTES}, or others", answer.len());
            let Heard {
                client,
                vip: asked,
                bytes,
            } = greeter.heard().pop().unwrap();
            assert_eq!((client, asked), (own, end(vip, 25)));
            assert!(bytes == sent, "{} bytes of {BYTES}, or others", bytes.len());
        }
    }
    drop(rough);
    let of = |name: &str| site::metric(&gateway, &format!("tidegate_worker_proxy_headers_{name}_total"));
    assert_eq!(of("sent"), 2 * rounds as u64);
    assert!(of("resent") >= resent, "{} of {resent}", of("resent"));
    assert_eq!(of("unacknowledged"), 0);
    site::finish(&lab, gateway);
}

/// The first header segment of the first connection is lost, and the first three of each other: the client says nothing
/// meanwhile, so that nothing but the gateway's own timer can repair it.
#[test]
fn a_lost_header_is_sent_again_to_a_server_that_waits_for_it() {
    // By local port.
    let lost = Arc::new(Mutex::new(HashMap::<[u8; 2], u32>::new()));
    let known = Arc::clone(&lost);
    let mut first = None;
    all_arrives(2, 10, move |side, frame| {
        if side == Side::Server || !has_header(frame) {
            return Fate::Passes;
        }
        let mut known = known.lock().unwrap();
        let l4 = if frame[12] == 8 { 34 } else { 54 };
        let port = [frame[l4], frame[l4 + 1]];
        let most = if *first.get_or_insert(port) == port { 1 } else { 3 };
        let count = known.entry(port).or_default();
        if *count < most {
            *count += 1;
            Fate::IsLost
        } else {
            Fate::Passes
        }
    });
    let mut counts: Vec<u32> = lost.lock().unwrap().values().copied().collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 3, 3, 3]);
}

/// Every seventh frame of each side is lost, whatever it is.
#[test]
fn streams_survive_a_cable_that_loses() {
    let mut count = [0_u32; 2];
    all_arrives(3, 0, move |side, frame| {
        let count = &mut count[usize::from(side == Side::Server)];
        *count += 1;
        if is_tcp(frame) && count.is_multiple_of(7) {
            Fate::IsLost
        } else {
            Fate::Passes
        }
    });
}

/// Header segments come last and twice, and others out of order.
#[test]
fn streams_survive_a_cable_that_reorders() {
    let mut count = 0_u32;
    all_arrives(3, 0, move |side, frame| {
        count += 1;
        match count % 5 {
            _ if side == Side::Gateway && has_header(frame) => Fate::IsLate(3),
            0 if is_tcp(frame) => Fate::IsLate(2),
            2 => Fate::Doubles,
            _ => Fate::Passes,
        }
    });
}
