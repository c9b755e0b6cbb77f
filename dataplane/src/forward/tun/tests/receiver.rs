//! Any packet, any tunnel, and a receiver that takes the one out of the other, as simple as can be.

use super::word;
use crate::forward::tun::Outer;
use crate::service::{Tunnel, TunnelChecksum, TunnelKind};
use proptest::prelude::*;
use std::net::IpAddr;

/// A packet of either family with a right header checksum.
pub(in crate::forward::tun) fn inner(
    v6: bool,
    tos: u8,
    ttl: u8,
    df: bool,
    options: usize,
    data: &[u8],
) -> Vec<u8> {
    if v6 {
        let [high, low] = (data.len() as u16).to_be_bytes();
        let header = [0x60 | tos >> 4, tos << 4 | 0x0a, 0xbc, 0xde, high, low, 59, ttl];
        return [&header[..], &[0x20; 32], data].concat();
    }
    let [high, low] = ((20 + options * 4 + data.len()) as u16).to_be_bytes();
    let flags = if df { 0x40 } else { 0 };
    let first = 0x45 + options as u8;
    let header = [
        first, tos, high, low, 0x12, 0x34, flags, 0, ttl, 17, 0, 0, 10, 1, 0, 1, 10, 0, 0, 100,
    ];
    let mut packet = [&header[..], &vec![1; options * 4], data].concat();
    fill_header_checksum(&mut packet);
    packet
}

pub(super) fn fill_header_checksum(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let len = usize::from(packet[0] & 15) * 4;
    let checksum = !naive_sum(&packet[..len]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// RFC 1071 as its first page states it.
fn naive_sum(bytes: &[u8]) -> u16 {
    let mut total = 0u32;
    for pair in bytes.chunks(2) {
        total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// Takes the tunnel off as its receiver does, checking every field of its own header; the packet is left.
pub(super) fn unwrapped<'p>(packet: &'p [u8], tunnel: &Tunnel, outer: &Outer, inner_v6: bool) -> &'p [u8] {
    let len = packet.len() as u16;
    let inside = if inner_v6 { 41 } else { 4 };
    let number = match tunnel.kind {
        TunnelKind::Ipip => inside,
        TunnelKind::Gue { .. } => 17,
        TunnelKind::Gre => 47,
    };
    let (addresses, payload) = match (outer.source, outer.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            assert_eq!((packet[0], word(packet, 2), packet[9]), (0x45, len, number));
            assert_eq!(naive_sum(&packet[..20]), 0xffff);
            let addresses = [source.octets(), destination.octets()].concat();
            assert_eq!(packet[12..20], addresses);
            (addresses, &packet[20..])
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            // No flow label.
            assert_eq!(
                [packet[0] >> 4, packet[1] & 15, packet[2], packet[3]],
                [6, 0, 0, 0]
            );
            assert_eq!((word(packet, 4), packet[6]), (len - 40, number));
            let addresses = [source.octets(), destination.octets()].concat();
            assert_eq!(packet[8..40], addresses);
            (addresses, &packet[40..])
        }
        _ => unreachable!(),
    };
    let checksum = tunnel.checksum != TunnelChecksum::None;
    match tunnel.kind {
        TunnelKind::Ipip => payload,
        TunnelKind::Gue { port } => {
            let words = [0, 2, 4].map(|at| word(payload, at));
            assert_eq!(words, [outer.source_port, port, payload.len() as u16]);
            assert_eq!(payload[8..12], [0, inside, 0, 0]);
            assert_eq!(word(payload, 6) != 0, checksum);
            let [high, low] = words[2].to_be_bytes();
            let sum = naive_sum(&[&addresses[..], &[0, 17, high, low], payload].concat());
            assert!(!checksum || sum == 0xffff);
            &payload[12..]
        }
        TunnelKind::Gre => {
            let ethertype = if inner_v6 { 0x86dd } else { 0x0800 };
            let flags = if checksum { 0x8000 } else { 0 };
            assert_eq!((word(payload, 0), word(payload, 2)), (flags, ethertype));
            assert!(!checksum || naive_sum(payload) == 0xffff);
            &payload[if checksum { 8 } else { 4 }..]
        }
    }
}

pub(in crate::forward::tun) fn any_tunnel() -> impl Strategy<Value = Tunnel> {
    let kind = prop_oneof![
        Just(TunnelKind::Ipip),
        any::<u16>().prop_map(|port| TunnelKind::Gue { port }),
        Just(TunnelKind::Gre)
    ];
    let checksum = prop_oneof![
        Just(TunnelChecksum::None),
        Just(TunnelChecksum::Outer),
        Just(TunnelChecksum::Remote)
    ];
    (kind, checksum).prop_map(|(kind, checksum)| Tunnel { kind, checksum })
}

pub(in crate::forward::tun) fn any_outer() -> impl Strategy<Value = Outer> {
    let ends = prop_oneof![
        any::<[[u8; 4]; 2]>().prop_map(|ends| ends.map(IpAddr::from)),
        any::<[[u8; 16]; 2]>().prop_map(|ends| ends.map(IpAddr::from)),
    ];
    (ends, any::<u16>(), any::<u16>(), any::<bool>()).prop_map(
        |([source, destination], identification, source_port, keep_df)| Outer {
            source,
            destination,
            identification,
            source_port,
            keep_df,
        },
    )
}

pub(in crate::forward::tun) fn any_inner() -> impl Strategy<Value = Vec<u8>> {
    let data = proptest::collection::vec(any::<u8>(), 0..80);
    (
        any::<bool>(),
        any::<u8>(),
        1u8..,
        any::<bool>(),
        0usize..=10,
        data,
    )
        .prop_map(|(v6, tos, ttl, df, options, data)| inner(v6, tos, ttl, df, options, &data))
}
