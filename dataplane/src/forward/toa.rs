//! TOA: FULLNAT's servers learn their client's address and port from a TCP option, which the `toa` kernel module on the
//! server reads from the segment that completes the handshake. A server without that module skips the option (RFC
//! 9293 3.1). The layout is that of all gateways that have it: kind 254, length, port, address, in network order.
//!
//! Which segment completes the handshake, the gateway cannot know: the client's ACK may be lost, and its data then does
//! it. So the option goes into each client segment that acknowledges the server's SYN-ACK and nothing beyond. For that
//! the record holds the server's initial sequence number, in the place of the client's last one, from the SYN-ACK on
//! until the server has spoken and the client has acknowledged it.
//!
//! Pure functions over packets and records, called by the worker for connections with [`Flags::TOA`].

use crate::flow::{Flags, Record};
use crate::packet::{Headers, Kind, Packet, rewrite, tcp};
use arrayvec::ArrayVec;

/// The option's kind: one of two for experiments (RFC 4727 8), which its first users took.
pub const KIND: u8 = 254;
/// Where source addresses stand in the IPv4 and the IPv6 header.
const SOURCE: usize = 12;
const SOURCE6: usize = 8;

/// Bytes of the option for a client of IPv6 or IPv4.
#[must_use]
pub const fn option_len(ipv6: bool) -> u16 {
    if ipv6 { 20 } else { 8 }
}

/// The server's SYN-ACK: its initial sequence number is noted, and the MSS in it lowered by the option's length, so
/// that the client's segments leave room for it. What does not matter here is left alone.
pub fn hear_answer(record: &mut Record, segment: &mut [u8], ipv6: bool) {
    if tcp::flags(segment) & (tcp::SYN | tcp::ACK | tcp::RST) != tcp::SYN | tcp::ACK {
        return;
    }
    let isn = tcp::sequence(segment);
    let again = record.flags.has(Flags::SERVER_ISN) && record.sequence == isn;
    record.flags.set(Flags::SERVER_ISN, true);
    record.flags.set(
        Flags::SERVER_SPOKE,
        again && record.flags.has(Flags::SERVER_SPOKE),
    );
    record.sequence = isn;
    let delta = tcp::lower_mss(segment, option_len(ipv6));
    tcp::apply(segment, delta);
}

/// Any other segment of the server, while the record has [`Flags::SERVER_ISN`]. Data and FIN say that the handshake is
/// over for it; an ACK does not, which is also how it refuses a segment during the handshake (RFC 9293 3.10.7.4).
pub fn hear(record: &mut Record, segment: &[u8]) {
    if tcp::flags(segment) & (tcp::SYN | tcp::RST) == 0 && tcp::sequence_len(segment) > 0 {
        record.flags.set(Flags::SERVER_SPOKE, true);
    }
}

/// Whether a client's segment, as it came, is to carry the option. The first one that acknowledges what the server has
/// said ends the time in which any does: [`Flags::SERVER_ISN`] goes, and [`Record::sequence`] is the client's again.
/// An acknowledgement of what the server has not said ends nothing, or a client could hide by sending one.
pub fn is_due(record: &mut Record, segment: &[u8]) -> bool {
    if tcp::flags(segment) & (tcp::SYN | tcp::RST | tcp::ACK) != tcp::ACK {
        return false;
    }
    let first = record.sequence.wrapping_add(1);
    let beyond = tcp::acknowledgement(segment).wrapping_sub(first);
    if record.flags.has(Flags::SERVER_SPOKE) && (1..=u32::MAX / 2).contains(&beyond) {
        record.flags = record.flags.without(Flags::SERVER_ISN.with(Flags::SERVER_SPOKE));
        record.sequence = tcp::sequence(segment).wrapping_add(record.sequence_shift);
    }
    beyond == 0
}

/// Puts the client's address and port, which are the packet's own source, in front of a segment's options. `most` is
/// the longest IP packet that may leave, in bytes. Options of that kind that the client has sent are overwritten: a
/// server must believe nobody but the gateway. The packet's new headers, or `None` when there is no room.
#[must_use]
pub fn show<P: Packet>(packet: &mut P, headers: &Headers, most: u16) -> Option<Headers> {
    let (ip, segment) = rewrite::split(packet.bytes_mut(), headers)?;
    let delta = tcp::blank(segment, KIND);
    tcp::apply(segment, delta);
    let address = match headers.kind {
        Kind::Flow6 => ip.get(SOURCE6..SOURCE6 + 16)?,
        _ => ip.get(SOURCE..SOURCE + 4)?,
    };
    let len = option_len(headers.kind == Kind::Flow6);
    let mut option = ArrayVec::<u8, 20>::new();
    for part in [&[KIND, len as u8], &segment[..2], address] {
        option.try_extend_from_slice(part).ok()?;
    }
    if (headers.end - headers.l3).saturating_add(len) > most {
        return None;
    }
    tcp::insert_option(packet, headers, &option)
}

#[cfg(test)]
mod tests;
