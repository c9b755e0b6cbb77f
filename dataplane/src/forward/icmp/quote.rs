//! Reading an ICMP error: whether it is one that is passed on, and which packet it quotes. All bounds are checked
//! here, so that a quote that was cut, or lies about its lengths, ends as a counted drop and never as a read
//! beyond it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::drops::DropReason;
use crate::packet::{AddressDigest, FlowKey, Headers, Kind, checksum, icmp, ipv4};

/// ICMPv4 type: source quench. Deprecated (RFC 6633), but passed on as Linux does.
const SOURCE_QUENCH: u8 = 4;
/// ICMPv6 type: packet too big; the MTU stands in the rest of the header.
const PACKET_TOO_BIG: u8 = 2;
/// The ICMPv6 errors of RFC 4443: unreachable, too big, time exceeded, parameter problem.
const ERRORS6: std::ops::RangeInclusive<u8> = 1..=4;
/// ICMPv6 types whose header may tell the length of the quote (RFC 4884 4.4 and 4.5).
const EXTENSIBLE6: [u8; 2] = [1, 3];
/// ICMPv4 types whose header may tell the length of the quote (RFC 4884 4.1 to 4.3).
const EXTENSIBLE: [u8; 2] = [icmp::UNREACHABLE, icmp::TIME_EXCEEDED];
/// A quote with extensions behind it is at least so long, in bytes (RFC 4884 3).
const SHORTEST_EXTENDED: usize = 128;

/// The length of an IPv6 header without extension headers, in bytes.
const HEADER6_LEN: usize = 40;
/// IPv6 next header and IPv4 protocol numbers that are looked at.
const HOP_BY_HOP: u8 = 0;
const IPIP: u8 = 4;
const IPV6: u8 = 41;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const GRE: u8 = 47;
const ICMPV6: u8 = 58;
const DESTINATION_OPTIONS: u8 = 60;
const SCTP: u8 = 132;
/// More extension headers than this no honest packet has.
const MOST_EXTENSIONS: usize = 8;

/// What a router quotes of L4 at least, in bytes (RFC 792): the ports, and TCP's sequence number.
const L4_LEN: usize = 8;

/// An ICMP error, and the packet that it quotes. Offsets are those of the frame, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quote {
    /// Whose packet is quoted, as it is quoted: `source > destination`. An error from the server's side quotes what
    /// the gateway sent to the server, one from the client's side what the client was sent. Ports are 0 where the
    /// protocol has none; an IPv6 key is a digest of the addresses, as for every packet.
    pub key: FlowKey,
    /// The protocol that the quoted packet carries; behind all extension headers for IPv6.
    pub protocol: u8,
    /// The ICMP type.
    pub message_type: u8,
    /// The ICMP code.
    pub code: u8,
    /// The second word of the ICMP header, in host order.
    pub rest: u32,
    /// Whether both the message and the packet that it quotes are IPv6.
    pub v6: bool,
    /// The quoted packet may be one that this gateway put into a tunnel: IPIP, IPv6 in IP, GRE, or UDP, of which
    /// only who knows the ports of GUE can tell.
    pub tunnel: bool,
    /// Where the quoted IP header begins.
    pub ip: usize,
    /// Where the quoted L4 header begins: at least 8 bytes of it are there.
    pub l4: usize,
    /// Where the quoted packet ends, or was cut.
    pub end: usize,
}

impl Quote {
    /// The MTU that "fragmentation needed" or "packet too big" tells, in bytes; 0 from a router that does not know
    /// RFC 1191. `None` for every other message.
    #[must_use]
    pub fn mtu(&self) -> Option<u32> {
        match (self.v6, self.message_type, self.code) {
            (false, icmp::UNREACHABLE, icmp::FRAGMENTATION_NEEDED) => Some(self.rest & 0xffff),
            (true, PACKET_TOO_BIG, _) => Some(self.rest),
            _ => None,
        }
    }

    /// Source and destination of the quoted packet, to be compared where the key is only a digest. Ports are 0
    /// where the protocol has none. `None` when this is not the frame that the quote was read from.
    #[must_use]
    pub fn ends(&self, frame: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
        let [source, destination] = if self.v6 {
            let [source, destination] = addresses6(frame.get(self.ip..)?)?;
            [IpAddr::V6(source), IpAddr::V6(destination)]
        } else {
            let header = frame.get(self.ip..)?.first_chunk::<{ ipv4::HEADER_LEN }>()?;
            [ipv4::source(header), ipv4::destination(header)].map(IpAddr::V4)
        };
        Some((
            SocketAddr::new(source, self.key.source_port()),
            SocketAddr::new(destination, self.key.destination_port()),
        ))
    }
}

/// Reads an ICMP message, [`Kind::Icmp`] or [`Kind::Icmp6`], as an error about a packet of TCP, UDP, SCTP or a
/// tunnel. `digest` makes the key of an IPv6 packet.
///
/// Types are those that Linux passes on: 3, 4 and 11 of ICMPv4, not redirect and parameter problem; all errors of
/// ICMPv6. The checksum of the quoted IPv4 header is not verified: routers are known to lower the TTL in a
/// quote and to leave the checksum, and that of the message holds for the quote as well.
///
/// # Errors
/// [`DropReason::UnsupportedIcmp`] when it is no such error, or when its quote cannot be read;
/// [`DropReason::BadL4Checksum`] when the message's checksum is wrong, [`DropReason::BadL4Header`] when it is
/// shorter than its header.
pub fn read(frame: &[u8], headers: &Headers, digest: &AddressDigest) -> Result<Quote, DropReason> {
    let v6 = headers.kind == Kind::Icmp6;
    let start = usize::from(headers.l4);
    let message = frame
        .get(start..usize::from(headers.end))
        .filter(|message| message.len() >= icmp::HEADER_LEN)
        .ok_or(DropReason::BadL4Header)?;
    if !is_passed_on(headers.kind, icmp::message_type(message)) {
        return Err(DropReason::UnsupportedIcmp);
    }
    let pseudo = if v6 { pseudo_header6(frame, headers)? } else { 0 };
    if checksum::add(pseudo, checksum::sum(message)) != 0xffff {
        return Err(DropReason::BadL4Checksum);
    }
    let packet = quoted(message, v6);
    let found = if v6 { find6(packet) } else { find4(packet) };
    let found = found.ok_or(DropReason::UnsupportedIcmp)?;
    let key = key(packet, &found, v6, digest).ok_or(DropReason::UnsupportedIcmp)?;
    let ip = start + icmp::HEADER_LEN;
    Ok(Quote {
        key,
        protocol: found.protocol,
        message_type: icmp::message_type(message),
        code: icmp::code(message),
        rest: icmp::rest(message),
        v6,
        tunnel: matches!(found.protocol, IPIP | IPV6 | GRE | ipv4::UDP),
        ip,
        l4: ip + found.l4,
        end: ip + found.end,
    })
}

/// Whether a protocol has ports in the first four bytes of its header.
pub(super) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, ipv4::TCP | ipv4::UDP | SCTP)
}

fn is_passed_on(kind: Kind, message_type: u8) -> bool {
    match kind {
        Kind::Icmp => matches!(
            message_type,
            icmp::UNREACHABLE | SOURCE_QUENCH | icmp::TIME_EXCEEDED
        ),
        Kind::Icmp6 => ERRORS6.contains(&message_type),
        _ => false,
    }
}

/// The folded sum of the pseudo header of an ICMPv6 message (RFC 8200 8.1).
fn pseudo_header6(frame: &[u8], headers: &Headers) -> Result<u16, DropReason> {
    let addresses = frame
        .get(usize::from(headers.l3) + 8..)
        .and_then(|rest| rest.first_chunk::<32>())
        .ok_or(DropReason::BadL4Header)?;
    let length = headers.end.saturating_sub(headers.l4);
    Ok(checksum::add(
        checksum::sum(addresses),
        checksum::add(length, u16::from(ICMPV6)),
    ))
}

/// The part of a message that is the quoted packet: extensions may stand behind it. A length below the least that
/// RFC 4884 allows is what an older sender left in bytes that it did not use.
fn quoted(message: &[u8], v6: bool) -> &[u8] {
    let packet = &message[icmp::HEADER_LEN..];
    let message_type = icmp::message_type(message);
    let [first, second, ..] = icmp::rest(message).to_be_bytes();
    let length = match v6 {
        false if EXTENSIBLE.contains(&message_type) => usize::from(second) * 4,
        true if EXTENSIBLE6.contains(&message_type) => usize::from(first) * 8,
        _ => 0,
    };
    match packet.get(..length) {
        Some(packet) if length >= SHORTEST_EXTENDED => packet,
        _ => packet,
    }
}

/// What a quoted packet carries, and where; offsets from its IP header on.
struct Found {
    protocol: u8,
    l4: usize,
    end: usize,
}

impl Found {
    /// `None` when not even [`L4_LEN`] bytes are there, or when the protocol is none that can be one's own.
    fn new(protocol: u8, l4: usize, end: usize) -> Option<Found> {
        let ours = has_ports(protocol) || matches!(protocol, IPIP | IPV6 | GRE);
        (ours && l4 + L4_LEN <= end).then_some(Found { protocol, l4, end })
    }
}

/// Walks a quoted IPv4 header. A later fragment has no ports.
fn find4(packet: &[u8]) -> Option<Found> {
    if packet.len() < ipv4::HEADER_LEN || packet[0] >> 4 != 4 {
        return None;
    }
    let header_len = ipv4::header_len(packet);
    if header_len < ipv4::HEADER_LEN || ipv4::is_later_fragment(packet) {
        return None;
    }
    let end = packet.len().min(ipv4::total_len(packet));
    Found::new(ipv4::protocol(packet), header_len, end)
}

/// Walks a quoted IPv6 header and its extension headers (RFC 8200 4). A packet that had not yet reached the end of
/// its routing header was sent to an address that the header does not show as its destination.
fn find6(packet: &[u8]) -> Option<Found> {
    let header = packet.first_chunk::<HEADER6_LEN>()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let end = packet.len().min(HEADER6_LEN + payload_len);
    let packet = &packet[..end];
    let (mut protocol, mut at) = (header[6], HEADER6_LEN);
    for _ in 0..MOST_EXTENSIONS {
        if !matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS) {
            break;
        }
        let extension = packet.get(at..)?.first_chunk::<8>()?;
        let fragment_offset = u16::from_be_bytes([extension[2], extension[3]]) >> 3;
        at += match protocol {
            FRAGMENT if fragment_offset != 0 => return None,
            FRAGMENT => 8,
            ROUTING if extension[3] != 0 => return None,
            _ => 8 + usize::from(extension[1]) * 8,
        };
        protocol = extension[0];
    }
    Found::new(protocol, at, end)
}

/// The key of a quoted packet.
fn key(packet: &[u8], found: &Found, v6: bool, digest: &AddressDigest) -> Option<FlowKey> {
    let ports = match has_ports(found.protocol) {
        true => *packet.get(found.l4..)?.first_chunk::<4>()?,
        false => [0; 4],
    };
    if v6 {
        let addresses = packet.get(8..)?.first_chunk::<32>()?;
        return Some(FlowKey::of_v6(digest.of(addresses), ports));
    }
    let addresses = packet.get(12..)?.first_chunk::<8>()?;
    Some(FlowKey::from_wire(addresses, &ports))
}

/// Source and destination of an IPv6 header.
fn addresses6(header: &[u8]) -> Option<[Ipv6Addr; 2]> {
    let (source, rest) = header.get(8..)?.split_first_chunk::<16>()?;
    let destination = rest.first_chunk::<16>()?;
    Some([Ipv6Addr::from(*source), Ipv6Addr::from(*destination)])
}
