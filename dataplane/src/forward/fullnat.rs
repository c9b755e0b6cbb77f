//! FULLNAT: new addresses and ports in both directions, and the care for TCP sequence numbers. What the server
//! has been shown is remembered, and a connection on a recycled local port is shown to the server with other
//! sequence numbers than its client uses.

use crate::flow::{Direction, Flags, Record};
use crate::packet::checksum::Delta;
use crate::packet::{FlowKey, Headers, ipv4, tcp};

const TTL: usize = 8;
const IP_CHECKSUM: usize = 10;
const ADDRESSES: usize = 12;
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Rewrites a packet of the connection for its way on: addresses, ports, TTL (RFC 1812 5.3.1), sequence numbers,
/// both checksums. `headers` are those that the packet came with.
#[inline]
pub fn rewrite(frame: &mut [u8], headers: &Headers, record: &mut Record, direction: Direction) {
    let to = match direction {
        Direction::Inbound => record.outbound.reversed(),
        Direction::Outbound => record.inbound.reversed(),
    };
    let Some(packet) = frame.get_mut(usize::from(headers.l3)..usize::from(headers.end)) else {
        return;
    };
    let Some((ip, segment)) = packet.split_at_mut_checked(usize::from(headers.l4 - headers.l3)) else {
        return;
    };
    let sequence = match headers.protocol {
        ipv4::TCP => adjust_sequence(segment, record, direction),
        _ => Delta::NONE,
    };
    translate(ip, segment, headers, &to, sequence);
}

/// Addresses, ports and TTL; `more` is what else has changed in the segment.
#[inline]
fn translate(ip: &mut [u8], segment: &mut [u8], headers: &Headers, to: &FlowKey, more: Delta) {
    let [source, destination, ports] = to.words();
    let [old_source, old_destination, old_ports] = headers.key.words().map(u32::from_be);
    let addresses = Delta::NONE
        .double_word(old_source, u32::from_be(source))
        .double_word(old_destination, u32::from_be(destination));

    ip[ADDRESSES..ADDRESSES + 4].copy_from_slice(&source.to_ne_bytes());
    ip[ADDRESSES + 4..ADDRESSES + 8].copy_from_slice(&destination.to_ne_bytes());
    let old_ttl = word(ip, TTL);
    ip[TTL] = ip[TTL].wrapping_sub(1);
    let header = addresses.word(old_ttl, word(ip, TTL));
    put(ip, IP_CHECKSUM, header.apply(word(ip, IP_CHECKSUM)));

    segment[..4].copy_from_slice(&ports.to_ne_bytes());
    let delta = addresses.double_word(old_ports, u32::from_be(ports)).and(more);
    match headers.protocol {
        ipv4::TCP => put(segment, TCP_CHECKSUM, delta.apply(word(segment, TCP_CHECKSUM))),
        _ => put(
            segment,
            UDP_CHECKSUM,
            delta.apply_udp(word(segment, UDP_CHECKSUM)),
        ),
    }
}

/// Shifts sequence numbers where the connection has a shift, and notes what the server is shown.
#[inline]
fn adjust_sequence(segment: &mut [u8], record: &mut Record, direction: Direction) -> Delta {
    let mut delta = Delta::NONE;
    if record.sequence_shift != 0 || record.flags.has(Flags::STRIP_TIMESTAMPS) {
        delta = shift(segment, record, direction);
    }
    if direction == Direction::Inbound {
        let end = tcp::sequence(segment).wrapping_add(tcp::sequence_len(segment));
        let opening = tcp::flags(segment) & tcp::SYN != 0;
        if opening || end.wrapping_sub(record.sequence) <= u32::MAX / 2 {
            record.sequence = end;
        }
    }
    delta
}

/// The client's sequence numbers move up on their way in; acknowledgements and SACK blocks (RFC 2018) move back
/// on their way out. A SYN without timestamps is answered without, so that the connection has none.
#[cold]
#[inline(never)]
fn shift(segment: &mut [u8], record: &Record, direction: Direction) -> Delta {
    let by = record.sequence_shift;
    match direction {
        Direction::Inbound => {
            let moved = tcp::sequence(segment).wrapping_add(by);
            let delta = tcp::set_sequence(segment, moved);
            if record.flags.has(Flags::STRIP_TIMESTAMPS) && tcp::flags(segment) & tcp::SYN != 0 {
                delta.and(tcp::strip_timestamps(segment))
            } else {
                delta
            }
        }
        Direction::Outbound if tcp::flags(segment) & tcp::ACK != 0 => {
            let moved = tcp::acknowledgement(segment).wrapping_sub(by);
            tcp::set_acknowledgement(segment, moved).and(tcp::shift_sack(segment, by.wrapping_neg()))
        }
        Direction::Outbound => Delta::NONE,
    }
}
