//! Recordings of what the kernel did to fragments: the same bytes, the same cuts.

use super::samples::{PORT, packet};
use super::{Added, Reassembly, limit4, limit6, split4, split6};
use crate::packet::{
    AddressDigest, Headers, Kind, MacAddr, Packet, PortRules, TestPacket, ethernet, ipv4, parse,
};
use crate::time::Tick;
use serde_json::Value;

const MTU: u16 = 1500;

/// A packet that was put together, and what is remembered of its fragments.
struct Whole {
    packet: TestPacket,
    largest: u16,
    identification: u32,
}

/// The events of one recorded scenario.
fn events(name: &str) -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/frag.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let scenarios = file["scenarios"].as_array().unwrap();
    let found = scenarios
        .iter()
        .find(|scenario| scenario["name"] == name)
        .unwrap();
    found["events"].as_array().unwrap().clone()
}

/// A recorded IP packet as a frame.
fn frame(hex: &Value) -> Vec<u8> {
    let digits = hex.as_str().unwrap().as_bytes();
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
    let packet = digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1]));
    let mut frame: Vec<u8> = std::iter::repeat_n(0x22, 12)
        .chain([0, 0])
        .chain(packet)
        .collect();
    let ethertype = if frame[14] >> 4 == 6 {
        0x86dd
    } else {
        ethernet::IPV4
    };
    frame[12..14].copy_from_slice(&u16::to_be_bytes(ethertype));
    frame
}

fn received(event: &Value) -> Vec<Vec<u8>> {
    event["in_hex"].as_array().unwrap().iter().map(frame).collect()
}

fn sent(event: &Value) -> Vec<Vec<u8>> {
    event["out"]
        .as_array()
        .unwrap()
        .iter()
        .map(|out| frame(&out["hex"]))
        .collect()
}

/// What the parser says of a frame: fragments, and what is put together, are all good packets.
fn parsed(frame: &TestPacket) -> Headers {
    let rules = PortRules {
        mac: MacAddr([0x22; 6]),
        any_mac: true,
        check_partial: true,
        digest: AddressDigest::from_seed(1),
    };
    parse(frame, &rules).unwrap()
}

fn put_together(frames: &[Vec<u8>]) -> Option<Whole> {
    let mut reassembly = Reassembly::<TestPacket>::new(4, 1);
    let mut whole = None;
    for frame in frames {
        let fragment = packet(frame);
        let headers = parsed(&fragment);
        let added = reassembly.add(&fragment, &headers, PORT, Tick(0), 3000, || {
            Some(TestPacket::large())
        });
        if let Added::Whole {
            packet,
            largest,
            identification,
            ..
        } = added
        {
            let headers = parsed(&packet);
            assert!(matches!(headers.kind, Kind::Flow | Kind::Flow6));
            assert_eq!(usize::from(headers.end), packet.bytes().len());
            whole = Some(Whole {
                packet,
                largest,
                identification,
            });
        }
    }
    whole
}

fn cut(whole: &Whole, identification: u32) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let buffer = || Some(TestPacket::new(&[]));
    let push = |fragment: TestPacket| out.push(fragment.bytes().to_vec());
    let bytes = whole.packet.bytes();
    let result = if bytes[14] >> 4 == 6 {
        let limit = limit6(MTU, whole.largest);
        split6(&whole.packet, identification, limit, buffer, push)
    } else {
        split4(&whole.packet, limit4(MTU, whole.largest), buffer, push)
    };
    assert_eq!(result, Ok(out.len()));
    out
}

/// The identification of an IPv6 fragment without extension headers.
fn identification6(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[58..62].try_into().unwrap())
}

fn is_fragment(frame: &[u8]) -> bool {
    frame[14] >> 4 == 6 || (frame[20] & 0x3f, frame[21]) != (0, 0)
}

fn in_order(mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    frames.sort_by_key(|frame| match frame[14] >> 4 {
        6 => u16::from_be_bytes([frame[56], frame[57]]) & 0xfff8,
        _ => u16::from_be_bytes([frame[20], frame[21]]) & 0x1fff,
    });
    frames
}

/// What comes in, and what the kernel sent, is put together and cut to the very same fragments.
#[test]
fn what_is_put_together_is_cut_as_it_came() {
    let mut seen = 0;
    for name in ["frag-udp-nat", "frag-tcp-nat", "frag-udp6-nat", "frag-udp6-dr"] {
        for event in events(name) {
            let (frames, out) = (received(&event), sent(&event));
            if !frames.iter().all(|frame| is_fragment(frame)) {
                continue;
            }
            let Some(whole) = put_together(&frames) else {
                // A lone fragment goes nowhere, with the kernel too.
                assert_eq!((frames.len(), out.len()), (1, 0));
                continue;
            };
            assert_eq!(cut(&whole, whole.identification), in_order(frames));
            let translated = put_together(&out).unwrap();
            assert_eq!(cut(&translated, translated.identification), out);
            seen += 1;
        }
    }
    assert_eq!(seen, 9);
}

/// DR changes nothing but the hop limit; the kernel draws the identification.
#[test]
fn direct_routing_sends_what_the_kernel_sent() {
    for event in events("frag-udp6-dr") {
        let mut whole = put_together(&received(&event)).unwrap();
        whole.packet.bytes_mut()[21] -= 1;
        let out = sent(&event);
        assert_eq!(cut(&whole, identification6(&out[0])), out);
    }
}

/// IP in IP: the tunnel's packet is cut, by the longest fragment of the packet within.
#[test]
fn tunnels_are_cut_as_the_kernel_cuts() {
    for event in events("frag-udp-tun") {
        let mut whole = put_together(&received(&event)).unwrap();
        let out = sent(&event);
        let inner_len = whole.packet.bytes().len() - 14;
        ipv4::decrement_ttl(&mut whole.packet.bytes_mut()[14..]);
        assert!(whole.packet.prepend(20));
        let frame = whole.packet.bytes_mut();
        frame[..14].copy_from_slice(&out[0][..14]);
        let fields = ipv4::Fields {
            tos: 0,
            total_len: inner_len as u16 + 20,
            identification: ipv4::identification(&out[0][14..]),
            dont_fragment: false,
            ttl: 63,
            protocol: 4,
            source: [192, 168, 1, 1].into(),
            destination: [192, 168, 1, 11].into(),
        };
        ipv4::write(&mut frame[14..], &fields);
        assert_eq!(cut(&whole, 0), out);
    }
}
