//! ICMP errors about connections (RFC 792, RFC 4443): [`read`] finds the packet that an error quotes, and
//! [`translate`] shows both to the other side as that side knows them. Pure functions over a frame and its
//! validated [`Headers`]; which connection it is, and whether it exists, is the caller's to find out. Nothing here
//! makes a message, and no error opens a connection.
//!
//! What goes where, as Linux does it for NAT:
//!
//! | error from | quotes | outer address that changes | quote becomes |
//! |---|---|---|---|
//! | the server's side | client > server | source: the VIP, whoever sent it | client > VIP |
//! | the client's side | VIP > client | destination: the server | server > client |
//!
//! With FULLNAT an error towards the server also comes from the local address, and quotes server > local address.
//! DR passes an error on as it is ([`decrement_ttl`](super::nat::decrement_ttl)), TUN puts it into the tunnel.

pub(super) mod quote;

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

pub use quote::{Quote, read};

use super::echo::{self, Echo};
use crate::packet::checksum::{self, Delta};
use crate::packet::{FlowKey, Headers, Kind, icmp, ipv4, ipv6};

/// Where the checksums stand in L4 headers.
const TCP_CHECKSUM: Range<usize> = 16..18;
const UDP_CHECKSUM: Range<usize> = 6..8;
/// How much of a quoted L4 header may change, in bytes: up to TCP's checksum.
const L4_CHANGED: usize = TCP_CHECKSUM.end;
/// An MTU below this is none that a host heeds (RFC 791 3.2); for IPv6 see [`ipv6::LEAST_MTU`].
const LEAST_MTU: u32 = 68;

/// The addresses of the message itself that change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outer {
    /// The new source; `None` leaves it.
    pub source: Option<IpAddr>,
    /// The new destination; `None` leaves it.
    pub destination: Option<IpAddr>,
}

/// What the quoted packet becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inner {
    /// Its source.
    pub source: SocketAddr,
    /// Its destination.
    pub destination: SocketAddr,
    /// What is added to its TCP sequence number, modulo 2^32: hosts check it (RFC 5927 4.1). Acknowledgement
    /// numbers they do not, so that one stays.
    pub sequence_shift: u32,
    /// What becomes of its TCP or UDP checksum. That of SCTP stays: it covers what was cut off.
    pub checksum: QuotedChecksum,
}

/// What becomes of the L4 checksum of a quoted packet. Hosts do not look at it, since most quotes are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuotedChecksum {
    /// It stays as quoted, as Linux leaves it with NAT.
    Kept,
    /// It follows the changes, so that the quote is the packet that its sender sent (RFC 5508 4.2).
    Mended,
}

impl Inner {
    /// The quoted packet of a NAT connection.
    #[must_use]
    pub const fn nat(source: SocketAddr, destination: SocketAddr) -> Inner {
        Inner {
            source,
            destination,
            sequence_shift: 0,
            checksum: QuotedChecksum::Kept,
        }
    }

    /// The quoted packet of a FULLNAT connection. Towards the client its own segment is quoted, whose sequence
    /// number moves back by the connection's shift; towards the server the shift is 0.
    #[must_use]
    pub const fn fullnat(source: SocketAddr, destination: SocketAddr, sequence_shift: u32) -> Inner {
        Inner {
            source,
            destination,
            sequence_shift,
            checksum: QuotedChecksum::Mended,
        }
    }

    /// The ends of an IPv4 key, for the constructors above.
    #[must_use]
    pub fn ends(key: &FlowKey) -> (SocketAddr, SocketAddr) {
        (
            SocketAddr::new(key.source().into(), key.source_port()),
            SocketAddr::new(key.destination().into(), key.destination_port()),
        )
    }
}

/// Rewrites an error for its way on: outer addresses, TTL or hop limit less one, the quoted packet, and every
/// checksum but that of the quoted L4 header, of which `inner` decides. The checksum of the quoted IPv4 header is
/// computed anew, right or not before, as Linux does.
///
/// False, and nothing changed, when an address is of the other family, or when the frame does not hold what
/// `quote` says, which cannot be when it was read from it.
#[must_use]
pub fn translate(frame: &mut [u8], headers: &Headers, quote: &Quote, outer: Outer, inner: &Inner) -> bool {
    let outer_addresses = [outer.source, outer.destination];
    let fits = |address: &IpAddr| address.is_ipv6() == quote.v6;
    let all_fit = outer_addresses.iter().flatten().all(fits)
        && fits(&inner.source.ip())
        && fits(&inner.destination.ip())
        && quote.v6 == (headers.kind == Kind::Icmp6);
    let Some((ip, message, packet)) = split(frame, headers, quote).filter(|_| all_fit) else {
        return false;
    };
    let pseudo = set_addresses(ip, quote.v6, outer_addresses);
    lower_ttl(ip, quote.v6);
    let before = checksum::sum(packet);
    rewrite_quoted(packet, quote, inner);
    let delta = pseudo.word(before, checksum::sum(packet));
    icmp::set_checksum(message, delta.apply(icmp::checksum(message)));
    true
}

/// Writes the MTU of a "fragmentation needed" or "packet too big", in bytes, where less fits through the gateway than
/// through the router that told. Never less than what a host heeds: 68 bytes, or 1280 for IPv6. An MTU of 0 stays,
/// since its reader then guesses (RFC 1191 5).
///
/// False, and nothing changed, when the message is another, or says 0.
#[must_use]
pub fn set_mtu(frame: &mut [u8], headers: &Headers, quote: &Quote, mtu: u32) -> bool {
    let Some((_, message, _)) = split(frame, headers, quote) else {
        return false;
    };
    if quote.mtu().is_none_or(|mtu| mtu == 0) {
        return false;
    }
    let field = match quote.v6 {
        false => mtu.clamp(LEAST_MTU, u32::from(u16::MAX)),
        true => mtu.max(ipv6::LEAST_MTU as u32),
    };
    let old = icmp::rest(message);
    // Above ICMPv4's MTU stand 16 bits that belong to others (RFC 4884 4.1).
    let new = if quote.v6 {
        field
    } else {
        old & 0xffff_0000 | field
    };
    let checksum = Delta::NONE.double_word(old, new).apply(icmp::checksum(message));
    icmp::set_rest(message, new);
    icmp::set_checksum(message, checksum);
    true
}

const fn header_len(v6: bool) -> usize {
    if v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN }
}

/// The frame's IP header, its ICMP header, and what of the quoted packet may change.
fn split<'f>(
    frame: &'f mut [u8],
    headers: &Headers,
    quote: &Quote,
) -> Option<(&'f mut [u8], &'f mut [u8], &'f mut [u8])> {
    let (l3, l4) = (usize::from(headers.l3), usize::from(headers.l4));
    let end = quote.end.min(quote.l4.checked_add(L4_CHANGED)?);
    let packet = frame.get_mut(l3..end)?;
    let (ip, rest) = packet.split_at_mut_checked(l4.checked_sub(l3)?)?;
    let (message, packet) = rest.split_at_mut_checked(icmp::HEADER_LEN)?;
    let whole = quote.ip == l4 + icmp::HEADER_LEN
        && quote.l4 >= quote.ip + header_len(quote.v6)
        && quote.l4 + 8 <= end
        && ip.len() >= header_len(quote.v6);
    whole.then_some((ip, message, packet))
}

/// TTL or hop limit less one, never below 0.
fn lower_ttl(ip: &mut [u8], v6: bool) {
    if v6 {
        ipv6::decrement_hop_limit(ip);
    } else {
        ipv4::decrement_ttl(ip);
    }
}

/// Sets source and destination of an IP header, and gives the change of the pseudo header that ICMPv6 has, and
/// ICMPv4 has not.
fn set_addresses(ip: &mut [u8], v6: bool, addresses: [Option<IpAddr>; 2]) -> Delta {
    if v6 {
        return write_addresses(ip, addresses);
    }
    let delta = write_addresses(ip, addresses);
    ipv4::apply(ip, delta);
    Delta::NONE
}

/// Writes addresses of the header's own family, and gives the change of their words.
fn write_addresses(ip: &mut [u8], addresses: [Option<IpAddr>; 2]) -> Delta {
    let mut delta = Delta::NONE;
    for (place, address) in addresses.into_iter().enumerate() {
        delta = delta.and(match address {
            Some(IpAddr::V4(address)) => write(&mut ip[12 + 4 * place..][..4], &address.octets()),
            Some(IpAddr::V6(address)) => write(&mut ip[8 + 16 * place..][..16], &address.octets()),
            None => Delta::NONE,
        });
    }
    delta
}

/// Overwrites whole words, and gives their change.
fn write(field: &mut [u8], value: &[u8]) -> Delta {
    let old = checksum::sum(field);
    field.copy_from_slice(value);
    Delta::NONE.word(old, checksum::sum(value))
}

/// Addresses, ports and sequence number of a quoted packet, its IPv4 checksum, and, if wanted, its L4 checksum.
fn rewrite_quoted(packet: &mut [u8], quote: &Quote, inner: &Inner) {
    let (ip, l4) = packet.split_at_mut(quote.l4 - quote.ip);
    let ends = [inner.source, inner.destination];
    let delta = write_addresses(ip, ends.map(|end| Some(end.ip())));
    if !quote.v6 {
        ipv4::fill_checksum(ip);
    }
    rewrite_l4(l4, quote.protocol, inner, delta);
}

/// Ports and sequence number of a quoted L4 header, or the identifier of echo, of which at least 8 bytes are there, and, if wanted, its checksum.
/// `delta` is the change of its pseudo header.
pub(super) fn rewrite_l4(l4: &mut [u8], protocol: u8, inner: &Inner, mut delta: Delta) {
    if let Some(echo) = Echo::read(protocol, l4) {
        return rewrite_echo(l4, protocol, echo, inner, delta);
    }
    if !quote::has_ports(protocol) {
        return;
    }
    for (place, end) in [inner.source, inner.destination].into_iter().enumerate() {
        delta = delta.and(write(&mut l4[2 * place..][..2], &end.port().to_be_bytes()));
    }
    if protocol == ipv4::TCP && inner.sequence_shift != 0 {
        let [s0, s1, s2, s3] = [l4[4], l4[5], l4[6], l4[7]];
        let sequence = u32::from_be_bytes([s0, s1, s2, s3]).wrapping_add(inner.sequence_shift);
        delta = delta.and(write(&mut l4[4..8], &sequence.to_be_bytes()));
    }
    if inner.checksum == QuotedChecksum::Mended {
        mend(l4, protocol, delta);
    }
}

/// The identifier of quoted echo, which is the port of the end that asks. `pseudo` is the change of the pseudo header
/// that ICMPv6 has, and ICMPv4 has not.
fn rewrite_echo(message: &mut [u8], protocol: u8, echo: Echo, inner: &Inner, pseudo: Delta) {
    let asking = if echo.reply {
        inner.destination
    } else {
        inner.source
    };
    let delta = echo::set_identifier(message, asking.port());
    if inner.checksum == QuotedChecksum::Mended {
        let delta = if protocol == ipv6::ICMP {
            delta.and(pseudo)
        } else {
            delta
        };
        echo::mend(message, delta);
    }
}

/// Brings a quoted L4 checksum along, where the quote reaches so far.
fn mend(l4: &mut [u8], protocol: u8, delta: Delta) {
    let place = match protocol {
        ipv4::TCP => TCP_CHECKSUM,
        ipv4::UDP => UDP_CHECKSUM,
        _ => return,
    };
    let Some([high, low]) = l4.get_mut(place) else {
        return;
    };
    let old = u16::from_be_bytes([*high, *low]);
    let new = match protocol {
        ipv4::UDP => delta.apply_udp(old),
        _ => delta.apply(old),
    };
    [*high, *low] = new.to_be_bytes();
}

#[cfg(test)]
mod tests;
