//! Reading an ICMP error: whether it is one that is passed on, and which packet it quotes. All bounds are checked
//! here, so that a quote that was cut, or lies about its lengths, ends as a counted drop and never as a read
//! beyond it.

use std::net::{IpAddr, SocketAddr};

use super::super::echo::Echo;
use crate::drops::DropReason;
use crate::packet::{AddressDigest, FlowKey, Headers, Kind, checksum, gre, icmp, icmp6, ipv4, ipv6};

/// ICMPv4 type: source quench. Deprecated (RFC 6633), but passed on as Linux does.
const SOURCE_QUENCH: u8 = 4;
/// ICMPv6 types whose header may tell the length of the quote (RFC 4884 4.4 and 4.5).
const EXTENSIBLE6: [u8; 2] = [icmp6::UNREACHABLE, icmp6::TIME_EXCEEDED];
/// ICMPv4 types whose header may tell the length of the quote (RFC 4884 4.1 to 4.3).
const EXTENSIBLE: [u8; 2] = [icmp::UNREACHABLE, icmp::TIME_EXCEEDED];
/// A quote with extensions behind it is at least so long, in bytes (RFC 4884 3).
const SHORTEST_EXTENDED: usize = 128;
/// What a router quotes of L4 at least, in bytes (RFC 792): the ports, and TCP's sequence number.
const L4_LEN: usize = 8;

/// An ICMP error, and the packet that it quotes. Offsets are those of the frame, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quote {
    /// Whose packet is quoted, as it is quoted: `source > destination`. An error from the server's side quotes what
    /// the gateway sent to the server, one from the client's side what the client was sent. Ports are 0 where the
    /// protocol has none, and of echo the identifier is that of who asks; an IPv6 key is a digest of the addresses, as for every packet.
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
            (true, icmp6::PACKET_TOO_BIG, _) => Some(self.rest),
            _ => None,
        }
    }

    /// Source and destination of the quoted packet, to be compared where the key is only a digest. Ports are 0
    /// where the protocol has none. `None` when this is not the frame that the quote was read from.
    #[must_use]
    pub fn ends(&self, frame: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
        let packet = frame.get(self.ip..)?;
        let [source, destination] = if self.v6 {
            let header = packet.first_chunk::<{ ipv6::HEADER_LEN }>()?;
            [ipv6::source(header), ipv6::destination(header)].map(IpAddr::V6)
        } else {
            let header = packet.first_chunk::<{ ipv4::HEADER_LEN }>()?;
            [ipv4::source(header), ipv4::destination(header)].map(IpAddr::V4)
        };
        Some((
            SocketAddr::new(source, self.key.source_port()),
            SocketAddr::new(destination, self.key.destination_port()),
        ))
    }
}

/// Reads an ICMP message, [`Kind::Icmp`] or [`Kind::Icmp6`], as an error about a packet of TCP, UDP, SCTP, echo or
/// a tunnel. `digest` makes the key of an IPv6 packet.
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
    if sum(frame, headers, message) != Some(0xffff) {
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
        tunnel: is_tunnel(found.protocol) || found.protocol == ipv4::UDP,
        ip,
        l4: ip + found.l4,
        end: ip + found.end,
    })
}

/// Whether a protocol has ports in the first four bytes of its header.
pub(in crate::forward) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, ipv4::TCP | ipv4::UDP | ipv4::SCTP)
}

/// Whether a protocol carries packets of TUN servers, and nothing else.
fn is_tunnel(protocol: u8) -> bool {
    matches!(protocol, ipv4::IPV4_INSIDE | ipv4::IPV6_INSIDE | gre::PROTOCOL)
}

fn is_passed_on(kind: Kind, message_type: u8) -> bool {
    match kind {
        Kind::Icmp => matches!(
            message_type,
            icmp::UNREACHABLE | SOURCE_QUENCH | icmp::TIME_EXCEEDED
        ),
        Kind::Icmp6 => matches!(message_type, icmp6::UNREACHABLE..=icmp6::PARAMETER_PROBLEM),
        _ => false,
    }
}

/// The sum of a whole message; that of ICMPv6 has a pseudo header (RFC 4443 2.3).
fn sum(frame: &[u8], headers: &Headers, message: &[u8]) -> Option<u16> {
    if headers.kind == Kind::Icmp {
        return Some(checksum::sum(message));
    }
    let header = frame
        .get(usize::from(headers.l3)..)?
        .first_chunk::<{ ipv6::HEADER_LEN }>()?;
    let (source, destination) = (ipv6::source(header), ipv6::destination(header));
    Some(checksum::l4_sum6(source, destination, ipv6::ICMP, message))
}

/// The part of a message that is the quoted packet: extensions may stand behind it. A length below the least that
/// RFC 4884 allows is what an older sender left in bytes that it did not use.
fn quoted(message: &[u8], v6: bool) -> &[u8] {
    split_extensions(message, v6).0
}

/// What stands behind the quoted packet and its padding: an extension structure (RFC 4884 7), or nothing.
pub(in crate::forward) fn extensions(message: &[u8], v6: bool) -> &[u8] {
    split_extensions(message, v6).1
}

/// Whether the header of an error of this type can tell the length of its quote.
pub(in crate::forward) fn is_extensible(message_type: u8, v6: bool) -> bool {
    match v6 {
        false => EXTENSIBLE.contains(&message_type),
        true => EXTENSIBLE6.contains(&message_type),
    }
}

/// A message behind its header, of at least 8 bytes: quote and extensions.
fn split_extensions(message: &[u8], v6: bool) -> (&[u8], &[u8]) {
    let packet = &message[icmp::HEADER_LEN..];
    let [first, second, ..] = icmp::rest(message).to_be_bytes();
    let length = match v6 {
        _ if !is_extensible(icmp::message_type(message), v6) => 0,
        false => usize::from(second) * 4,
        true => usize::from(first) * 8,
    };
    match packet.split_at_checked(length) {
        Some(parts) if length >= SHORTEST_EXTENDED => parts,
        _ => (packet, &[]),
    }
}

/// What a quoted packet carries, and where; offsets from its IP header on.
struct Found {
    protocol: u8,
    l4: usize,
    end: usize,
}

impl Found {
    /// `None` when not even [`L4_LEN`] bytes are there, or when what is quoted cannot be one's own.
    fn new(packet: &[u8], protocol: u8, l4: usize, end: usize) -> Option<Found> {
        let echo = || Echo::read(protocol, packet.get(l4..end).unwrap_or(&[])).is_some();
        let ours = has_ports(protocol) || is_tunnel(protocol) || echo();
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
    Found::new(packet, ipv4::protocol(packet), header_len, end)
}

/// Walks a quoted IPv6 header and its extension headers, a first fragment's as well. The walk refuses a packet that
/// had not yet reached the end of its routing header: its header does not show where it was going.
fn find6(packet: &[u8]) -> Option<Found> {
    if packet.len() < ipv6::HEADER_LEN || packet[0] >> 4 != 6 {
        return None;
    }
    let end = packet.len().min(ipv6::total_len(packet));
    let packet = &packet[..end];
    let mut chain = ipv6::walk(packet).ok()?;
    if chain.protocol == ipv6::FRAGMENT {
        let header = packet.get(chain.at..)?.first_chunk::<{ ipv6::FRAGMENT_LEN }>()?;
        if ipv6::Fragment::read(header).offset != 0 {
            return None;
        }
        chain = ipv6::walk_on(packet, chain.at, chain.at + ipv6::FRAGMENT_LEN).ok()?;
    }
    Found::new(packet, chain.protocol, chain.at, end)
}

/// The key of a quoted packet.
fn key(packet: &[u8], found: &Found, v6: bool, digest: &AddressDigest) -> Option<FlowKey> {
    let l4 = packet.get(found.l4..)?;
    let ports = match (has_ports(found.protocol), Echo::read(found.protocol, l4)) {
        (true, _) => *l4.first_chunk::<4>()?,
        (false, Some(echo)) => {
            let (source, destination) = echo.ports();
            let ([s0, s1], [d0, d1]) = (source.to_be_bytes(), destination.to_be_bytes());
            [s0, s1, d0, d1]
        }
        (false, None) => [0; 4],
    };
    if v6 {
        let header = packet.first_chunk::<{ ipv6::HEADER_LEN }>()?;
        return Some(FlowKey::of_v6(digest.of(&ipv6::addresses(header)), ports));
    }
    let addresses = packet.get(12..)?.first_chunk::<8>()?;
    Some(FlowKey::from_wire(addresses, &ports))
}
