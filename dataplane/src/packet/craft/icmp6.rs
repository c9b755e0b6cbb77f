//! Answers by ICMPv6 (RFC 4443).

use std::net::Ipv6Addr;

use super::super::buffer::Packet;
use super::super::checksum::{self, Delta};
use super::super::headers::{Headers, Kind};
use super::super::mac::MacAddr;
use super::super::{ethernet, icmp, icmp6, ipv6};
use super::TTL;
use crate::drops::DropReason;

/// Turns an ICMPv6 echo request into its reply, in place, whatever its size: extension headers, which were for
/// the way here, and link padding go, and the data moves as a whole.
///
/// # Errors
/// [`DropReason::UnsupportedIcmp`] when it is no echo request to one address, [`DropReason::BadL4Checksum`] when
/// its checksum is wrong; the packet has not changed then.
pub fn echo6_reply_in_place<P: Packet>(packet: &mut P, headers: &Headers) -> Result<(), DropReason> {
    let unsupported = DropReason::UnsupportedIcmp;
    let (l3, l4, end) = (
        usize::from(headers.l3),
        usize::from(headers.l4),
        usize::from(headers.end),
    );
    let extensions = l4.checked_sub(l3 + ipv6::HEADER_LEN).ok_or(unsupported)?;
    let frame = packet.bytes_mut();
    let message = frame.get(l4..end).ok_or(unsupported)?;
    let is_request = headers.kind == Kind::Icmp6
        && message.len() >= icmp6::HEADER_LEN
        && (icmp6::message_type(message), icmp6::code(message)) == (icmp6::ECHO_REQUEST, 0);
    let (source, destination) = (ipv6::source(&frame[l3..]), ipv6::destination(&frame[l3..]));
    if !is_request || !ipv6::can_send(destination) {
        return Err(unsupported);
    }
    if checksum::l4_sum6(source, destination, ipv6::ICMP, message) != 0xffff {
        return Err(DropReason::BadL4Checksum);
    }
    let fields = ipv6::Fields {
        traffic_class: ipv6::traffic_class(&frame[l3..]),
        flow_label: 0,
        payload_len: (end - l4) as u16,
        next_header: ipv6::ICMP,
        hop_limit: TTL,
        source: destination,
        destination: source,
    };
    let message = &mut frame[l4..end];
    message[0] = icmp6::ECHO_REPLY;
    let request = u16::from_be_bytes([icmp6::ECHO_REQUEST, 0]);
    let reply = u16::from_be_bytes([icmp6::ECHO_REPLY, 0]);
    // Exchanged addresses leave the pseudo header's sum as it was, and it is never that of nothing but zeroes.
    let checksum = Delta::NONE.word(request, reply).apply(icmp6::checksum(message));
    icmp6::set_checksum(message, checksum);
    let trimmed = packet.trim_front(extensions) && packet.resize(end - extensions);
    debug_assert!(trimmed, "cutting needs no room");
    let (link, rest) = packet.bytes_mut().split_at_mut(l3);
    ethernet::write(link, MacAddr::default(), MacAddr::default(), ethernet::IPV6);
    ipv6::write(rest, &fields);
    Ok(())
}

/// Makes `out` an ICMPv6 error from `source` about the packet `offending`, given from its IPv6 header on, as it
/// is to be quoted. `rest` is the second word of the ICMP header: the MTU, or 0. It quotes as much as fits into
/// the least MTU, 1280 bytes (RFC 4443 2.4 c).
///
/// False when none may be sent (RFC 4443 2.4 e): about an ICMPv6 error or redirect, a packet to many (but for
/// packet too big, and an unknown option), one from nobody; about a later fragment, or a packet whose extension
/// headers hide what it is; about what is no IPv6 packet; or when `out` has no room.
#[must_use]
pub fn icmp6_error<P: Packet>(
    out: &mut P,
    offending: &[u8],
    message_type: u8,
    code: u8,
    rest: u32,
    source: Ipv6Addr,
) -> bool {
    let to_many = matches!(
        (message_type, code),
        (icmp6::PACKET_TOO_BIG, _) | (icmp6::PARAMETER_PROBLEM, icmp6::UNKNOWN_OPTION)
    );
    let Some(quote) = quotable(offending, to_many) else {
        return false;
    };
    let most = ipv6::LEAST_MTU - ipv6::HEADER_LEN - icmp6::HEADER_LEN;
    let quote = &quote[..quote.len().min(most)];
    let fields = ipv6::Fields {
        traffic_class: 0,
        flow_label: 0,
        payload_len: (icmp6::HEADER_LEN + quote.len()) as u16,
        next_header: ipv6::ICMP,
        hop_limit: TTL,
        source,
        destination: ipv6::source(quote),
    };
    let Some(message) = super::start6(out, &fields) else {
        return false;
    };
    icmp::write(message, message_type, code, rest);
    message[icmp6::HEADER_LEN..].copy_from_slice(quote);
    let checksum = !checksum::l4_sum6(source, fields.destination, ipv6::ICMP, message);
    icmp6::set_checksum(message, checksum);
    true
}

/// The packet without link padding, when an ICMPv6 error about it may be sent; `to_many`: also if it was sent to
/// a group.
fn quotable(offending: &[u8], to_many: bool) -> Option<&[u8]> {
    if offending.len() < ipv6::HEADER_LEN || offending[0] >> 4 != 6 {
        return None;
    }
    let packet = offending.get(..ipv6::total_len(offending)).unwrap_or(offending);
    let destination = ipv6::destination(packet);
    let answerable = ipv6::can_send(ipv6::source(packet))
        && (ipv6::can_send(destination) || to_many && destination.is_multicast());
    let mut chain = ipv6::walk(packet).ok()?;
    if chain.protocol == ipv6::FRAGMENT {
        let header = packet.get(chain.at..)?.first_chunk::<{ ipv6::FRAGMENT_LEN }>()?;
        if ipv6::Fragment::read(header).offset != 0 {
            return None;
        }
        chain = ipv6::walk_on(packet, chain.at, chain.at + ipv6::FRAGMENT_LEN).ok()?;
    }
    // An ICMP message too short to tell its type might be an error.
    let about_error = chain.protocol == ipv6::ICMP
        && packet
            .get(chain.at)
            .is_none_or(|&message_type| icmp6::is_error(message_type) || message_type == icmp6::REDIRECT);
    (answerable && !about_error).then_some(packet)
}
