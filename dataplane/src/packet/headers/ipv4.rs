//! IPv4: the header (RFC 1812 5.2.2), then what it carries.

use std::net::Ipv4Addr;

use super::super::buffer::{ChecksumStatus, Packet};
use super::super::key::FlowKey;
use super::super::{checksum, ethernet, ipv4};
use super::{Headers, Kind, segment};
use crate::drops::DropReason;

/// An IPv4 frame; `rest` is what follows its Ethernet header.
#[inline(always)]
pub(super) fn parse<P: Packet>(
    packet: &P,
    frame: &[u8],
    rest: &[u8],
    check_partial: bool,
    place: &mut Headers,
) -> Result<(), DropReason> {
    let Some(header) = rest.first_chunk::<{ ipv4::HEADER_LEN }>() else {
        return Err(DropReason::RuntFrame);
    };
    match header[0] {
        0x45 => whole(packet, frame, header, ipv4::HEADER_LEN, check_partial, place),
        _ => with_options(packet, frame, header, check_partial, place),
    }
}

/// A header of unusual first byte. Cold: hosts do not send options.
#[cold]
#[inline(never)]
fn with_options<P: Packet>(
    packet: &P,
    frame: &[u8],
    header: &[u8; 20],
    check_partial: bool,
    place: &mut Headers,
) -> Result<(), DropReason> {
    let header_len = usize::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 || header_len < ipv4::HEADER_LEN {
        return Err(DropReason::BadIpHeader);
    }
    whole(packet, frame, header, header_len, check_partial, place)
}

/// Inlined into each caller, so that the usual header length is a constant.
#[inline(always)]
fn whole<P: Packet>(
    packet: &P,
    frame: &[u8],
    header: &[u8; 20],
    header_len: usize,
    check_partial: bool,
    place: &mut Headers,
) -> Result<(), DropReason> {
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if total_len < header_len {
        return Err(DropReason::BadIpHeader);
    }
    let end = ethernet::HEADER_LEN + total_len;
    // Offsets are 16 bits wide; no device hands over a frame beyond that.
    if end > frame.len() || end > usize::from(u16::MAX) {
        return Err(DropReason::TruncatedFrame);
    }
    match packet.ip_checksum() {
        ChecksumStatus::Good => {}
        ChecksumStatus::Bad => return Err(DropReason::BadIpChecksum),
        ChecksumStatus::Unknown => {
            let sum = match header_len {
                20 => checksum::sum20(header),
                _ => checksum::sum(
                    frame
                        .get(ethernet::HEADER_LEN..ethernet::HEADER_LEN + header_len)
                        .unwrap_or(header),
                ),
            };
            if sum != 0xffff {
                return Err(DropReason::BadIpChecksum);
            }
        }
    }
    // RFC 1812 5.3.7: nobody could be answered there.
    if !ipv4::can_send(Ipv4Addr::new(header[12], header[13], header[14], header[15])) {
        return Err(DropReason::BadSource);
    }
    let l4 = ethernet::HEADER_LEN + header_len;
    // More fragments, or an offset: ports stand in a first fragment only, and checksums in none.
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return fragment(header, (l4, end), place);
    }
    l4_header(packet, frame, header, (l4, end), check_partial, place)
}

/// A piece of a datagram: that it can be one, and of one that the gateway wants. Cold: fragments are rare, and
/// are copied anyway.
#[cold]
#[inline(never)]
fn fragment(header: &[u8; 20], (l4, end): (usize, usize), place: &mut Headers) -> Result<(), DropReason> {
    let [.., ttl, protocol, _, _, s0, s1, s2, s3, d0, d1, d2, d3] = *header;
    let field = u16::from_be_bytes([header[6], header[7]]);
    let (more, offset) = (field & 0x2000 != 0, usize::from(field & 0x1fff) * 8);
    let len = end - l4;
    // RFC 791: pieces are counted in units of 8 bytes, and no datagram is longer than its length field can say.
    let cannot_be = len == 0 || more && !len.is_multiple_of(8);
    if cannot_be || l4 - ethernet::HEADER_LEN + offset + len > usize::from(u16::MAX) {
        return Err(DropReason::BadIpHeader);
    }
    if !matches!(protocol, ipv4::TCP | ipv4::UDP | ipv4::SCTP | ipv4::ICMP) {
        return Err(DropReason::UnknownProtocol);
    }
    *place = Headers {
        key: FlowKey::from_wire(&[s0, s1, s2, s3, d0, d1, d2, d3], &[0; 4]),
        l3: ethernet::HEADER_LEN as u16,
        l4: l4 as u16,
        end: end as u16,
        protocol,
        ttl,
        l4_flags: 0,
        kind: Kind::Fragment,
        largest_fragment: 0,
    };
    Ok(())
}

/// The L4 header: that it is whole, and fits into the IP packet.
#[inline(always)]
fn l4_header<P: Packet>(
    packet: &P,
    frame: &[u8],
    header: &[u8; 20],
    (l4, end): (usize, usize),
    check_partial: bool,
    place: &mut Headers,
) -> Result<(), DropReason> {
    let [.., ttl, protocol, _, _, s0, s1, s2, s3, d0, d1, d2, d3] = *header;
    // `end` is inside the frame; this is how the compiler learns it.
    let segment = frame.get(l4..end).unwrap_or(&[]);
    // Eight bytes is the least of all four, and ports stand at one place: loaded once, ahead of the branch.
    let Some(&[p0, p1, p2, p3, _, _, _, _]) = segment.first_chunk::<8>() else {
        return Err(match protocol {
            ipv4::TCP | ipv4::UDP | ipv4::SCTP | ipv4::ICMP => DropReason::BadL4Header,
            _ => DropReason::UnknownProtocol,
        });
    };
    let ports = u32::from_ne_bytes([p0, p1, p2, p3]);
    let (kind, ports, found) = match protocol {
        ipv4::TCP => (Kind::Flow, ports, segment::tcp(segment)?),
        ipv4::UDP => (Kind::Flow, ports, segment::udp(segment)?),
        ipv4::ICMP => (Kind::Icmp, 0, segment::Segment::UNSUMMED),
        _ => return sctp(packet, header, segment, l4, check_partial, place),
    };
    match packet.l4_checksum() {
        ChecksumStatus::Good => {}
        // RFC 768: a UDP sender that computed no checksum sends 0. Some devices call that a wrong one.
        ChecksumStatus::Bad if protocol == ipv4::UDP && found.sum == 0 => {}
        ChecksumStatus::Bad => return Err(DropReason::BadL4Checksum),
        ChecksumStatus::Unknown if check_partial && kind == Kind::Flow => {
            let (source, destination) = (Ipv4Addr::new(s0, s1, s2, s3), Ipv4Addr::new(d0, d1, d2, d3));
            let covered = segment.get(..found.length).unwrap_or(segment);
            let pseudo = checksum::pseudo_header(source, destination, protocol, covered.len() as u16);
            segment::partial_checksum(pseudo, covered, found.sum)?;
        }
        ChecksumStatus::Unknown => {}
    }
    *place = Headers {
        key: FlowKey::from_words([
            u32::from_ne_bytes([s0, s1, s2, s3]),
            u32::from_ne_bytes([d0, d1, d2, d3]),
            ports,
        ]),
        l3: ethernet::HEADER_LEN as u16,
        l4: l4 as u16,
        end: end as u16,
        protocol,
        ttl,
        l4_flags: found.flags,
        kind,
        largest_fragment: 0,
    };
    Ok(())
}

/// SCTP, or a protocol that nobody here knows. Cold, and with an ending of its own: TCP and UDP, which share one, are
/// spared a branch and a call that their registers would have to survive.
#[cold]
#[inline(never)]
fn sctp<P: Packet>(
    packet: &P,
    header: &[u8; 20],
    segment: &[u8],
    l4: usize,
    check_partial: bool,
    place: &mut Headers,
) -> Result<(), DropReason> {
    let [.., ttl, protocol, _, _, s0, s1, s2, s3, d0, d1, d2, d3] = *header;
    let Some(&ports) = segment.first_chunk::<4>().filter(|_| protocol == ipv4::SCTP) else {
        return Err(DropReason::UnknownProtocol);
    };
    let status = packet.l4_checksum();
    let found = segment::sctp(segment, check_partial && status == ChecksumStatus::Unknown)?;
    if status == ChecksumStatus::Bad {
        return Err(DropReason::BadL4Checksum);
    }
    *place = Headers {
        key: FlowKey::from_wire(&[s0, s1, s2, s3, d0, d1, d2, d3], &ports),
        l3: ethernet::HEADER_LEN as u16,
        l4: l4 as u16,
        end: (l4 + segment.len()) as u16,
        protocol,
        ttl,
        l4_flags: found.flags,
        kind: Kind::Flow,
        largest_fragment: 0,
    };
    Ok(())
}
