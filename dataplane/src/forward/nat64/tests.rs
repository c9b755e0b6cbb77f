//! Translation, whole: literal packets, the tables of RFC 7915 row by row, lengths, and any packet against a naive
//! model. Addresses are those of RFC 7915's appendix A.

mod errors;
mod lengths;
mod literal;
mod model;
mod packets;
mod refusals;
mod tables;

use std::net::IpAddr;

use super::*;
use crate::packet::{AddressDigest, PortRules, TestPacket, parse};

const DIGEST: AddressDigest = AddressDigest::from_seed(3);
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const MTUS: Mtus = Mtus { v4: 1500, v6: 1500 };

/// The frame of an IP packet, and what the parser makes of it.
fn received(ip: &[u8]) -> (TestPacket, Headers) {
    let packet = TestPacket::new(&framed(ip));
    let headers = parse(&packet, &rules()).unwrap();
    (packet, headers)
}

fn rules() -> PortRules {
    PortRules {
        mac: MacAddr(MAC),
        digest: DIGEST,
        ..PortRules::default()
    }
}

/// An IP packet behind a link header to us, with a byte of padding behind it.
fn framed(ip: &[u8]) -> Vec<u8> {
    let ethertype = if ip[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    [&MAC[..], &[2, 0, 0, 0, 0, 9], &ethertype, ip, &[0xee]].concat()
}

/// An IP packet behind the link header that a translated packet has.
fn sent(ip: &[u8]) -> Vec<u8> {
    let ethertype = if ip[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    [&[0; 12][..], &ethertype, ip].concat()
}

fn end(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn target(source: SocketAddr, destination: SocketAddr, identification: u16) -> Target {
    Target::between(source, destination, identification).unwrap()
}

/// The ends of an ICMP error.
fn outer(source: IpAddr, destination: IpAddr, identification: u16) -> Target {
    target(
        SocketAddr::new(source, 0),
        SocketAddr::new(destination, 0),
        identification,
    )
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter_map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
