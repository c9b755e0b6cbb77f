//! IPv6 (RFC 8200): the fixed header, the way through extension headers, then what the packet carries.

use super::super::buffer::{ChecksumStatus, Packet};
use super::super::key::FlowKey;
use super::super::{checksum, ethernet, icmp6, ipv4, ipv6};
use super::{Headers, Kind, PortRules, segment};
use crate::drops::DropReason;

const L3: usize = ethernet::HEADER_LEN;

/// An IPv6 frame. `group`: its destination MAC is a multicast or the broadcast one.
#[inline(never)]
pub(super) fn parse<P: Packet>(
    packet: &P,
    rules: &PortRules,
    group: bool,
    place: &mut Headers,
) -> Result<(), DropReason> {
    let frame = packet.bytes();
    let Some(header) = frame
        .get(L3..)
        .and_then(|rest| rest.first_chunk::<{ ipv6::HEADER_LEN }>())
    else {
        return Err(DropReason::RuntFrame);
    };
    if header[0] >> 4 != 6 {
        return Err(DropReason::BadIpHeader);
    }
    let end = L3 + ipv6::total_len(header);
    // Offsets are 16 bits wide; no device hands over a frame beyond that.
    let Some(ip) = frame.get(L3..end).filter(|_| end <= usize::from(u16::MAX)) else {
        return Err(DropReason::TruncatedFrame);
    };
    let source = ipv6::source(header);
    if !ipv6::can_send(source) && !source.is_unspecified() {
        return Err(DropReason::BadSource);
    }
    let chain = ipv6::walk(ip)?;
    let (l4, protocol) = (L3 + chain.at, chain.protocol);
    let segment = ip.get(chain.at..).unwrap_or(&[]);
    // RFC 4861 4.1, 4.3: who has no address yet asks for routers, and whether its own is taken.
    let nobody_may = protocol == ipv6::ICMP
        && matches!(
            segment.first(),
            Some(&(icmp6::ROUTER_SOLICITATION | icmp6::NEIGHBOUR_SOLICITATION))
        );
    if source.is_unspecified() && !nobody_may {
        return Err(DropReason::BadSource);
    }
    // A link multicast is neighbour discovery's way; nothing else that came so may be forwarded or answered.
    if group && protocol != ipv6::ICMP {
        return Err(DropReason::NotForUs);
    }
    let mut found = Headers {
        l3: L3 as u16,
        l4: l4 as u16,
        end: end as u16,
        protocol,
        ttl: ipv6::hop_limit(header),
        ..Headers::NONE
    };
    match protocol {
        ipv4::TCP | ipv4::UDP | ipv4::SCTP => flow(packet, header, segment, rules, &mut found)?,
        ipv6::ICMP => icmp(packet, segment, &mut found)?,
        ipv6::FRAGMENT => fragment(ip, chain.at, &mut found)?,
        _ => return Err(DropReason::UnknownProtocol),
    }
    *place = found;
    Ok(())
}

/// TCP, UDP and SCTP.
#[inline(always)]
fn flow<P: Packet>(
    packet: &P,
    header: &[u8; ipv6::HEADER_LEN],
    segment: &[u8],
    rules: &PortRules,
    found: &mut Headers,
) -> Result<(), DropReason> {
    let protocol = found.protocol;
    let Some(&ports) = segment.first_chunk::<4>() else {
        return Err(DropReason::BadL4Header);
    };
    let l4 = match protocol {
        ipv4::TCP => segment::tcp(segment)?,
        ipv4::UDP => segment::udp(segment)?,
        _ => {
            let unlooked = rules.check_partial && packet.l4_checksum() == ChecksumStatus::Unknown;
            segment::sctp(segment, unlooked)?
        }
    };
    // RFC 8200 8.1: over IPv6, where no header checksum guards the addresses, a datagram has a checksum.
    if protocol == ipv4::UDP && l4.sum == 0 {
        return Err(DropReason::BadL4Checksum);
    }
    match packet.l4_checksum() {
        ChecksumStatus::Good => {}
        ChecksumStatus::Bad => return Err(DropReason::BadL4Checksum),
        ChecksumStatus::Unknown if rules.check_partial && protocol != ipv4::SCTP => {
            let covered = segment.get(..l4.length).unwrap_or(segment);
            let (source, destination) = (ipv6::source(header), ipv6::destination(header));
            let pseudo = checksum::pseudo_header6(source, destination, protocol, covered.len() as u32);
            segment::partial_checksum(pseudo, covered, l4.sum)?;
        }
        ChecksumStatus::Unknown => {}
    }
    found.key = FlowKey::of_v6(rules.digest.of(&ipv6::addresses(header)), ports);
    found.l4_flags = l4.flags;
    found.kind = Kind::Flow6;
    Ok(())
}

/// ICMPv6: whoever acts on it checks its checksum.
fn icmp<P: Packet>(packet: &P, message: &[u8], found: &mut Headers) -> Result<(), DropReason> {
    if message.len() < icmp6::HEADER_LEN {
        return Err(DropReason::BadL4Header);
    }
    if packet.l4_checksum() == ChecksumStatus::Bad {
        return Err(DropReason::BadL4Checksum);
    }
    found.kind = Kind::Icmp6;
    Ok(())
}

/// A piece of a datagram, perhaps the only one: that it can be one, and of one that the gateway wants. Cold:
/// fragments are rare, and are copied anyway.
#[cold]
#[inline(never)]
fn fragment(ip: &[u8], at: usize, found: &mut Headers) -> Result<(), DropReason> {
    let Some((header, piece)) = ip
        .get(at..)
        .and_then(|rest| rest.split_first_chunk::<{ ipv6::FRAGMENT_LEN }>())
    else {
        return Err(DropReason::BadExtensionHeader);
    };
    let fragment = ipv6::Fragment::read(header);
    // RFC 8200 4.5: pieces are counted in units of 8 bytes, and no datagram is longer than its length field can
    // say, which counts the extension headers in front of the fragment header as well.
    let cannot_be = piece.is_empty() || fragment.more && !piece.len().is_multiple_of(8);
    let payload_len = at - ipv6::HEADER_LEN + usize::from(fragment.offset) + piece.len();
    if cannot_be || payload_len > usize::from(u16::MAX) {
        return Err(DropReason::BadIpHeader);
    }
    match fragment.next_header {
        ipv4::TCP | ipv4::UDP | ipv4::SCTP | ipv6::ICMP | ipv6::ROUTING | ipv6::DESTINATION_OPTIONS => {}
        // One datagram cannot be cut twice, and hop-by-hop options stand in front.
        ipv6::FRAGMENT | ipv6::HOP_BY_HOP => return Err(DropReason::BadExtensionHeader),
        _ => return Err(DropReason::UnknownProtocol),
    }
    found.protocol = fragment.next_header;
    found.kind = Kind::Fragment6;
    Ok(())
}
