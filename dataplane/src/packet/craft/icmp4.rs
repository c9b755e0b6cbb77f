//! Answers by ICMP over IPv4 (RFC 792, RFC 1122 3.2.2, RFC 1812 4.3).

use std::net::Ipv4Addr;

use super::super::buffer::Packet;
use super::super::checksum::{self, Delta};
use super::super::headers::{Headers, Kind};
use super::super::mac::MacAddr;
use super::super::{ethernet, icmp, ipv4, rewrite};
use super::TTL;
use crate::drops::DropReason;

/// Precedence "internetwork control", for ICMP errors (RFC 1812 4.3.2.5).
const INTERNETWORK_CONTROL: u8 = 0xc0;
/// The longest ICMP error, IP header included, in bytes (RFC 1812 4.3.2.3).
const LONGEST_ERROR: usize = 576;

/// Turns an ICMP echo request into its reply, in place, whatever its size: the data stays where it is, and link
/// padding is cut off.
///
/// # Errors
/// [`DropReason::UnsupportedIcmp`] when it is no echo request, [`DropReason::BadL4Checksum`] when its checksum
/// is wrong; the packet has not changed then.
pub fn echo_reply_in_place<P: Packet>(packet: &mut P, headers: &Headers) -> Result<(), DropReason> {
    if headers.kind != Kind::Icmp || !ipv4::can_send(headers.key.destination()) {
        return Err(DropReason::UnsupportedIcmp);
    }
    let Some((ip, message)) = rewrite::split(packet.bytes_mut(), headers) else {
        return Err(DropReason::UnsupportedIcmp);
    };
    if (icmp::message_type(message), icmp::code(message)) != (icmp::ECHO_REQUEST, 0) {
        return Err(DropReason::UnsupportedIcmp);
    }
    if checksum::sum(message) != 0xffff {
        return Err(DropReason::BadL4Checksum);
    }
    let request = u16::from_be_bytes([icmp::ECHO_REQUEST, 0]);
    let reply = u16::from_be_bytes([icmp::ECHO_REPLY, 0]);
    // 0xffff says the same as 0, and also when nothing but zeroes is left to sum, where 0 would be wrong.
    let checksum = match Delta::NONE.word(request, reply).apply(icmp::checksum(message)) {
        0 => 0xffff,
        computed => computed,
    };
    message[0] = icmp::ECHO_REPLY;
    icmp::set_checksum(message, checksum);
    // A new identification for each of a series of pings, which tell themselves apart by these two words.
    let rest = icmp::rest(message);
    ipv4::turn_around(ip, TTL, checksum::add((rest >> 16) as u16, rest as u16));
    let shorter = packet.resize(usize::from(headers.end));
    debug_assert!(shorter, "cutting needs no room");
    ethernet::write(
        packet.bytes_mut(),
        MacAddr::default(),
        MacAddr::default(),
        ethernet::IPV4,
    );
    Ok(())
}

/// Makes `out` an ICMP error from `source` about the packet `offending`, given from its IP header on, as it is
/// to be quoted. `rest` is the second word of the ICMP header: the MTU, or 0. It quotes as much as 576 bytes
/// allow (RFC 1812 4.3.2.3).
///
/// False when none may be sent: about an ICMP error, a later fragment, a packet to many, or one from nobody
/// (RFC 1122 3.2.2); about what is no IPv4 packet; or when `out` has no room. A link broadcast, of which no
/// error may tell either, does not pass the parser.
#[must_use]
pub fn icmp_error<P: Packet>(
    out: &mut P,
    offending: &[u8],
    message_type: u8,
    code: u8,
    rest: u32,
    source: Ipv4Addr,
) -> bool {
    let Some(quote) = quotable(offending) else {
        return false;
    };
    let quote = &quote[..quote
        .len()
        .min(LONGEST_ERROR - ipv4::HEADER_LEN - icmp::HEADER_LEN)];
    let total_len = ipv4::HEADER_LEN + icmp::HEADER_LEN + quote.len();
    let fields = ipv4::Fields {
        tos: INTERNETWORK_CONTROL,
        total_len: total_len as u16,
        identification: fingerprint(quote),
        dont_fragment: false,
        ttl: TTL,
        protocol: ipv4::ICMP,
        source,
        destination: ipv4::source(quote),
    };
    let Some(message) = super::start(out, &fields) else {
        return false;
    };
    icmp::write(message, message_type, code, rest);
    message[icmp::HEADER_LEN..].copy_from_slice(quote);
    let checksum = !checksum::sum(message);
    icmp::set_checksum(message, checksum);
    true
}

/// The packet without link padding, when an ICMP error about it may be sent.
fn quotable(offending: &[u8]) -> Option<&[u8]> {
    if offending.len() < ipv4::HEADER_LEN || offending[0] >> 4 != 4 {
        return None;
    }
    let header_len = ipv4::header_len(offending);
    let packet = offending.get(..ipv4::total_len(offending)).unwrap_or(offending);
    if header_len < ipv4::HEADER_LEN || packet.len() < header_len {
        return None;
    }
    let answerable = ipv4::can_send(ipv4::source(packet))
        && ipv4::can_send(ipv4::destination(packet))
        && !ipv4::is_later_fragment(packet);
    // An ICMP message too short to tell its type might be an error.
    let about_error = ipv4::protocol(packet) == ipv4::ICMP
        && packet
            .get(header_len)
            .is_none_or(|&message_type| !icmp::is_query(message_type));
    (answerable && !about_error).then_some(packet)
}

/// An identification without a counter or a random number, from what differs between the packets of a flow and
/// between flows. An error of 576 bytes is hardly ever fragmented, and two that share an identification by
/// chance (RFC 6864 4.3) go to the same host only if their quotes are alike.
fn fingerprint(packet: &[u8]) -> u16 {
    let l4 = packet.get(ipv4::header_len(packet)..).unwrap_or(&[]);
    let start = &l4[..l4.len().min(8)];
    checksum::add(ipv4::identification(packet), checksum::sum(start))
}
