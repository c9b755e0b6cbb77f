//! The IPv6 header and its extension headers (RFC 8200). The parser validates them; the forward stage and the
//! makers of packets read and write them through here. Nothing here looks at what the packet carries.
//!
//! Functions take the packet from the header's first byte and panic on one below [`HEADER_LEN`], which no
//! parsed packet is.

use std::net::Ipv6Addr;

use super::checksum::Delta;
use super::wire;
use crate::drops::DropReason;

/// The length of the fixed header, in bytes.
pub const HEADER_LEN: usize = 40;
/// The length of a fragment header, in bytes.
pub const FRAGMENT_LEN: usize = 8;
/// The MTU that every link has, in bytes (RFC 8200 5).
pub const LEAST_MTU: usize = 1280;
/// Next header: hop-by-hop options, which stand first or nowhere.
pub const HOP_BY_HOP: u8 = 0;
/// Next header: a routing header.
pub const ROUTING: u8 = 43;
/// Next header: a fragment header.
pub const FRAGMENT: u8 = 44;
/// Next header: ICMPv6.
pub const ICMP: u8 = 58;
/// Next header: nothing follows.
pub const NO_NEXT_HEADER: u8 = 59;
/// Next header: destination options.
pub const DESTINATION_OPTIONS: u8 = 60;

/// How many extension headers are walked over: every order that RFC 8200 4.1 recommends has fewer.
const MOST_HEADERS: usize = 8;
/// Option: a single byte of padding, without a length.
const PAD1: u8 = 0;
/// Option: the length of a packet above 65,535 bytes (RFC 2675).
const JUMBO_PAYLOAD: u8 = 0xc2;

const PAYLOAD_LEN: usize = 4;
const NEXT_HEADER: usize = 6;
const HOP_LIMIT: usize = 7;
const SOURCE: usize = 8;
const DESTINATION: usize = 24;

/// The packet's length in bytes as it says itself, the fixed header included.
#[inline]
#[must_use]
pub fn total_len(packet: &[u8]) -> usize {
    HEADER_LEN + usize::from(wire::get_u16(packet, PAYLOAD_LEN))
}

/// Sets the length of what follows the fixed header, in bytes, extension headers included.
#[inline]
pub fn set_payload_len(packet: &mut [u8], len: u16) {
    wire::put_u16(packet, PAYLOAD_LEN, len);
}

/// The traffic class: DSCP and ECN.
#[inline]
#[must_use]
pub fn traffic_class(packet: &[u8]) -> u8 {
    (wire::get_u16(packet, 0) >> 4) as u8
}

/// The flow label, 20 bits.
#[inline]
#[must_use]
pub fn flow_label(packet: &[u8]) -> u32 {
    wire::get_u32(packet, 0) & 0x000f_ffff
}

/// What follows the fixed header: a protocol, or the first extension header.
#[inline]
#[must_use]
pub fn next_header(packet: &[u8]) -> u8 {
    packet[NEXT_HEADER]
}

/// Sets what follows the fixed header.
#[inline]
pub fn set_next_header(packet: &mut [u8], protocol: u8) {
    packet[NEXT_HEADER] = protocol;
}

/// The hop limit.
#[inline]
#[must_use]
pub fn hop_limit(packet: &[u8]) -> u8 {
    packet[HOP_LIMIT]
}

/// Sets the hop limit. No checksum covers it.
#[inline]
pub fn set_hop_limit(packet: &mut [u8], hop_limit: u8) {
    packet[HOP_LIMIT] = hop_limit;
}

/// Lowers the hop limit by one, never below 0.
#[inline]
pub fn decrement_hop_limit(packet: &mut [u8]) {
    packet[HOP_LIMIT] = packet[HOP_LIMIT].saturating_sub(1);
}

/// The source address.
#[inline]
#[must_use]
pub fn source(packet: &[u8]) -> Ipv6Addr {
    wire::get_address6(packet, SOURCE)
}

/// The destination address.
#[inline]
#[must_use]
pub fn destination(packet: &[u8]) -> Ipv6Addr {
    wire::get_address6(packet, DESTINATION)
}

/// Source and destination as they stand on the wire: what [`super::AddressDigest::of`] takes.
#[inline]
#[must_use]
pub fn addresses(packet: &[u8]) -> [u8; 32] {
    let mut addresses = [0; 32];
    addresses.copy_from_slice(&packet[SOURCE..HEADER_LEN]);
    addresses
}

/// Changes both addresses. The change of the pseudo header, host order, is left for the L4 checksum; the IPv6
/// header has none.
#[inline]
#[must_use]
pub fn set_addresses(packet: &mut [u8], source: Ipv6Addr, destination: Ipv6Addr) -> Delta {
    replace(packet, SOURCE, source).and(replace(packet, DESTINATION, destination))
}

#[inline]
fn replace(packet: &mut [u8], at: usize, address: Ipv6Addr) -> Delta {
    let mut delta = Delta::NONE;
    for (word, new) in address.octets().as_chunks::<4>().0.iter().enumerate() {
        let at = at + 4 * word;
        delta = delta.double_word(wire::get_u32(packet, at), u32::from_be_bytes(*new));
        packet[at..at + 4].copy_from_slice(new);
    }
    delta
}

/// Whether an address can be the sender of a packet on a link: not the unspecified one, loopback or multicast
/// (RFC 4291 2.5.2, 2.5.3, 2.7), nor one that holds an IPv4 address for use inside a host (2.5.5.2).
#[inline]
#[must_use]
pub fn can_send(address: Ipv6Addr) -> bool {
    // `::` and `::1` differ in the last bit only.
    !address.is_multicast() && address.to_bits() > 1 && address.to_bits() >> 32 != 0xffff
}

/// What a fixed header says, for packets that the gateway makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fields {
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label; its upper 12 bits are not sent.
    pub flow_label: u32,
    /// Length in bytes of what follows this header.
    pub payload_len: u16,
    /// Protocol number of what follows.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

/// Writes a whole fixed header.
pub fn write(packet: &mut [u8], fields: &Fields) {
    let first = 6 << 28 | u32::from(fields.traffic_class) << 20 | fields.flow_label & 0x000f_ffff;
    wire::put_u32(packet, 0, first);
    wire::put_u16(packet, PAYLOAD_LEN, fields.payload_len);
    packet[NEXT_HEADER] = fields.next_header;
    packet[HOP_LIMIT] = fields.hop_limit;
    wire::put_address6(packet, SOURCE, fields.source);
    wire::put_address6(packet, DESTINATION, fields.destination);
}

/// Where a chain of extension headers leads. Offsets are in bytes from the IPv6 header's first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain {
    /// The protocol number of what stands at `at`: a transport protocol, [`FRAGMENT`], or anything else that
    /// the walk does not pass.
    pub protocol: u8,
    /// Where that begins: inside the packet, or at its very end.
    pub at: usize,
    /// Where the byte stands that names `protocol`.
    pub named_at: usize,
}

/// Walks over hop-by-hop options, destination options and routing headers. `packet` ends where the IPv6 packet
/// does, or earlier when it is a quote.
///
/// # Errors
/// [`DropReason::BadExtensionHeader`] when a header does not fit, stands where it must not, or asks for what the
/// gateway does not do: a route that is not at its end, a jumbogram, more than 8 headers.
#[inline]
pub fn walk(packet: &[u8]) -> Result<Chain, DropReason> {
    match next_header(packet) {
        HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => walk_on(packet, NEXT_HEADER, HEADER_LEN),
        protocol => Ok(Chain {
            protocol,
            at: HEADER_LEN,
            named_at: NEXT_HEADER,
        }),
    }
}

/// As [`walk`], from the header at `at`, whose kind the byte at `named_at` says: from the fixed header on, or
/// past a fragment header.
///
/// # Errors
/// As [`walk`].
pub fn walk_on(packet: &[u8], named_at: usize, at: usize) -> Result<Chain, DropReason> {
    let bad = DropReason::BadExtensionHeader;
    let mut chain = Chain {
        protocol: *packet.get(named_at).ok_or(bad)?,
        at,
        named_at,
    };
    for _ in 0..=MOST_HEADERS {
        // RFC 8200 4.1: what is not first is no hop-by-hop header.
        match chain.protocol {
            HOP_BY_HOP if chain.at != HEADER_LEN => return Err(bad),
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {}
            _ => return Ok(chain),
        }
        let header = extension(packet, chain.at).ok_or(bad)?;
        let sound = match (chain.protocol, header) {
            (HOP_BY_HOP, [_, _, options @ ..]) => options_are_sound(options),
            // RFC 8200 4.4, RFC 5095: a route that has been walked is skipped, of whatever type it is.
            (ROUTING, header) => header.get(3) == Some(&0),
            _ => true,
        };
        let next = *header.first().ok_or(bad)?;
        if !sound {
            return Err(bad);
        }
        chain = Chain {
            protocol: next,
            named_at: chain.at,
            at: chain.at + header.len(),
        };
    }
    Err(bad)
}

/// The extension header at `at`, as long as it says: 8 bytes, and as many times 8 as its second byte tells.
fn extension(packet: &[u8], at: usize) -> Option<&[u8]> {
    let units = usize::from(*packet.get(at + 1)?);
    packet.get(at..at + 8 * (units + 1))
}

/// Whether options fill their header exactly, with no jumbo payload among them. Options that nobody knows are
/// the destination's to judge: a router need not look at them at all (RFC 8200 4).
fn options_are_sound(options: &[u8]) -> bool {
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        at += match (kind, options.get(at + 1)) {
            (PAD1, _) => 1,
            (JUMBO_PAYLOAD, _) | (_, None) => return false,
            (_, Some(&len)) => 2 + usize::from(len),
        };
    }
    at == options.len()
}

/// A fragment header (RFC 8200 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment {
    /// The protocol of what the fragment's datagram carries behind this header.
    pub next_header: u8,
    /// Where in the datagram's fragmentable part this piece begins, in bytes.
    pub offset: u16,
    /// Whether more pieces follow.
    pub more: bool,
    /// What all fragments of a datagram share.
    pub identification: u32,
}

impl Fragment {
    /// Reads a header of [`FRAGMENT_LEN`] bytes, and panics on fewer.
    #[must_use]
    pub fn read(header: &[u8]) -> Fragment {
        let offset = wire::get_u16(header, 2);
        Fragment {
            next_header: header[0],
            offset: offset & 0xfff8,
            more: offset & 1 != 0,
            identification: wire::get_u32(header, 4),
        }
    }

    /// Writes a header of [`FRAGMENT_LEN`] bytes, and panics on fewer.
    pub fn write(&self, header: &mut [u8]) {
        header[0] = self.next_header;
        header[1] = 0;
        wire::put_u16(header, 2, self.offset & 0xfff8 | u16::from(self.more));
        wire::put_u32(header, 4, self.identification);
    }
}

#[cfg(test)]
mod tests;
