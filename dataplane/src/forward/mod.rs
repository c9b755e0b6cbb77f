//! What forwarding does to a packet: rewrites in place with incremental checksums (RFC 1624). Pure functions
//! over a frame and its validated [`Headers`]; they know nothing of tables and never fail, because the parser has
//! checked every offset.

use crate::packet::checksum::Delta;
use crate::packet::{FlowKey, Headers};

pub mod sequence;

const TCP: u8 = 6;
const TTL: usize = 8;
const IP_CHECKSUM: usize = 10;
const SOURCE: usize = 12;
const DESTINATION: usize = 16;
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
}

/// DR's only change to the IP packet: one hop less to live (RFC 1812 5.3.1).
#[inline]
pub fn decrement_ttl(frame: &mut [u8], headers: &Headers) {
    let Some(ip) = frame.get_mut(usize::from(headers.l3)..usize::from(headers.l4)) else { return };
    let delta = lower_ttl(ip);
    put(ip, IP_CHECKSUM, delta.apply(word(ip, IP_CHECKSUM)));
}

fn lower_ttl(ip: &mut [u8]) -> Delta {
    let old = word(ip, TTL);
    ip[TTL] = ip[TTL].wrapping_sub(1);
    Delta::NONE.word(old, word(ip, TTL))
}

/// FULLNAT's (and NAT's) change: new addresses and ports, one hop less to live, both checksums.
#[inline]
pub fn translate(frame: &mut [u8], headers: &Headers, to: &FlowKey) {
    let Some(packet) = frame.get_mut(usize::from(headers.l3)..usize::from(headers.end)) else { return };
    let Some((ip, l4)) = packet.split_at_mut_checked(usize::from(headers.l4 - headers.l3)) else { return };
    let ([source, destination, ports], [old_source, old_destination, old_ports]) =
        (to.words(), headers.key.words());
    let addresses = Delta::NONE.double_word(old_source, source).double_word(old_destination, destination);

    ip[SOURCE..SOURCE + 4].copy_from_slice(&source.to_ne_bytes());
    ip[DESTINATION..DESTINATION + 4].copy_from_slice(&destination.to_ne_bytes());
    let header = addresses.and(lower_ttl(ip));
    put(ip, IP_CHECKSUM, header.apply(word(ip, IP_CHECKSUM)));

    l4[..4].copy_from_slice(&ports.to_ne_bytes());
    let segment = addresses.double_word(old_ports, ports);
    if headers.protocol == TCP {
        put(l4, TCP_CHECKSUM, segment.apply(word(l4, TCP_CHECKSUM)));
    } else {
        put(l4, UDP_CHECKSUM, segment.apply_udp(word(l4, UDP_CHECKSUM)));
    }
}
