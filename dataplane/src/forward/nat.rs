//! NAT: other addresses and ports, one hop less to live, and checksums that follow. What every mode that
//! translates is made of; it knows neither connections nor directions, only what a packet is to say.

use crate::packet::checksum::Delta;
use crate::packet::{FlowKey, Headers, Kind, ipv4, ipv6, rewrite, sctp, tcp, udp};

/// TTL and protocol, and the addresses, in the IPv4 header.
const TTL: usize = 8;
const ADDRESSES: usize = 12;
/// Hop limit and addresses in the IPv6 header.
const HOP_LIMIT: usize = 7;
const ADDRESSES6: usize = 8;

/// Whether a packet is of the kind that [`rewrite()`] is for: IPv4 with TCP or UDP.
#[inline]
#[must_use]
pub fn is_plain(headers: &Headers) -> bool {
    headers.kind == Kind::Flow && headers.protocol != ipv4::SCTP
}

/// Rewrites an IPv4 packet with TCP or UDP: addresses and ports of `to`, TTL (RFC 1812 5.3.1), both checksums by
/// increment (RFC 1624); a UDP checksum of 0 stays (RFC 768). `headers` are those that the packet came with.
#[inline]
pub fn rewrite(frame: &mut [u8], headers: &Headers, to: &FlowKey) {
    if let Some((ip, segment)) = rewrite::split(frame, headers) {
        translate(ip, segment, headers, to, Delta::NONE);
    }
}

/// As [`rewrite()`], over the two parts of a packet; `more` is what else has changed in the segment, in host order.
#[inline(always)]
pub fn translate(ip: &mut [u8], segment: &mut [u8], headers: &Headers, to: &FlowKey, more: Delta) {
    // All words as they are on the wire: nothing has to be turned round.
    let [source, destination, ports] = to.words();
    let [old_source, old_destination, old_ports] = headers.key.words();
    let addresses = Delta::NONE
        .double_word(old_source, source)
        .double_word(old_destination, destination);
    let delta = addresses.double_word(old_ports, ports);
    let delta = if more == Delta::NONE {
        delta
    } else {
        delta.and(more.on_the_wire())
    };

    ip[ADDRESSES..ADDRESSES + 4].copy_from_slice(&source.to_ne_bytes());
    ip[ADDRESSES + 4..ADDRESSES + 8].copy_from_slice(&destination.to_ne_bytes());
    // TTL and protocol as one word: read once, since a load of both right after a store of one has to wait.
    let [ttl, protocol] = [ip[TTL], ip[TTL + 1]];
    let (old, new) = ([ttl, protocol], [ttl.wrapping_sub(1), protocol]);
    ip[TTL..TTL + 2].copy_from_slice(&new);
    let word = addresses.word(u16::from_ne_bytes(old), u16::from_ne_bytes(new));
    ipv4::apply_wire(ip, word);

    segment[..4].copy_from_slice(&ports.to_ne_bytes());
    match headers.protocol {
        ipv4::TCP => tcp::apply_wire(segment, delta),
        _ => udp::apply_wire(segment, delta),
    }
}

/// Where a packet that [`rewrite()`] is not for is to go.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// IPv4: addresses and ports of this key.
    V4(&'a FlowKey),
    /// IPv6: source and destination address, and both ports, as on the wire.
    V6(&'a [u8; 32], [u8; 4]),
}

/// Rewrites any TCP, UDP or SCTP packet of the target's own family. An SCTP packet gets its checksum anew (RFC
/// 9260 6.8: a CRC cannot be brought along by increment), and its INIT and INIT ACK lose the addresses that they
/// list, which nobody could translate: see [`sctp::pad_addresses`]. The caller has checked the old checksum.
pub fn rewrite_any(frame: &mut [u8], headers: &Headers, to: Target<'_>) {
    if let Some((ip, segment)) = rewrite::split(frame, headers) {
        translate_any(ip, segment, headers, to, Delta::NONE);
    }
}

/// As [`rewrite_any`], over the two parts of a packet; `more` is what else has changed in the segment.
pub(super) fn translate_any(
    ip: &mut [u8],
    segment: &mut [u8],
    headers: &Headers,
    to: Target<'_>,
    more: Delta,
) {
    let (addresses, ports) = match to {
        Target::V4(key) => {
            let delta = ipv4::set_addresses(ip, key.source(), key.destination());
            ipv4::decrement_ttl(ip);
            (delta, key.words()[2].to_ne_bytes())
        }
        Target::V6(addresses, ports) => (translate_v6(ip, addresses), ports),
    };
    rewrite_segment(segment, headers.protocol, ports, addresses.and(more));
}

/// Writes both ports, as on the wire, into a segment of at least 8 bytes, and brings its checksum along: `more` is
/// what else has changed of what a checksum of TCP or UDP covers, the pseudo header included. SCTP as in
/// [`rewrite_any`].
pub(super) fn rewrite_segment(segment: &mut [u8], protocol: u8, ports: [u8; 4], more: Delta) {
    let old = [segment[0], segment[1], segment[2], segment[3]];
    segment[..4].copy_from_slice(&ports);
    let delta = more.double_word(u32::from_be_bytes(old), u32::from_be_bytes(ports));
    match protocol {
        ipv4::TCP if segment.len() >= tcp::HEADER_LEN => tcp::apply(segment, delta),
        ipv4::UDP => udp::apply(segment, delta),
        ipv4::SCTP if segment.len() >= sctp::HEADER_LEN => {
            let _ = sctp::pad_addresses(segment);
            sctp::set_checksum(segment);
        }
        _ => {}
    }
}

/// Addresses and hop limit of an IPv6 header; the change of the pseudo header.
pub(super) fn translate_v6(ip: &mut [u8], addresses: &[u8; 32]) -> Delta {
    let Some(header) = ip.first_chunk_mut::<{ ipv6::HEADER_LEN }>() else {
        return Delta::NONE;
    };
    header[HOP_LIMIT] = header[HOP_LIMIT].saturating_sub(1);
    let old = &mut header[ADDRESSES6..];
    let delta = old
        .as_chunks::<4>()
        .0
        .iter()
        .zip(addresses.as_chunks::<4>().0)
        .fold(Delta::NONE, |delta, (old, new)| {
            delta.double_word(u32::from_be_bytes(*old), u32::from_be_bytes(*new))
        });
    old.copy_from_slice(addresses);
    delta
}

/// One hop less to live, for packets that are forwarded as they are.
#[inline]
pub fn decrement_ttl(frame: &mut [u8], headers: &Headers) {
    let Some(header) = frame.get_mut(usize::from(headers.l3)..usize::from(headers.l4)) else {
        return;
    };
    let v6 = matches!(headers.kind, Kind::Flow6 | Kind::Icmp6 | Kind::Fragment6);
    if v6 && header.len() >= ipv6::HEADER_LEN {
        ipv6::decrement_hop_limit(header);
    } else if !v6 && header.len() >= ipv4::HEADER_LEN {
        ipv4::decrement_ttl(header);
    }
}

#[cfg(test)]
mod tests;
