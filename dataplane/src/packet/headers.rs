//! The parser: the first stage. It validates Ethernet, IPv4 and L4 once, in the order of RFC 1812 5.2.2, and
//! leaves a compact [`Headers`] on which every later stage relies: offsets that lie inside the frame, and
//! lengths that fit into each other. It never changes the packet, and never reads beyond the IP packet's end.

use std::net::Ipv4Addr;

use super::buffer::{ChecksumStatus, Packet};
use super::digest::AddressDigest;
use super::key::FlowKey;
use super::mac::MacAddr;
use super::{checksum, ethernet, ipv4};
use crate::drops::DropReason;

/// What a packet is to the later stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// IPv4 with TCP, UDP or SCTP: the ports are in the key.
    Flow,
    /// IPv6 with TCP, UDP or SCTP: the key is a digest of the addresses, with the ports.
    Flow6,
    /// IPv4 with ICMP: addresses in the key, ports 0.
    Icmp,
    /// ICMPv6, neighbour discovery included; the key is empty.
    Icmp6,
    /// An IPv4 fragment: addresses in the key, ports 0; `l4` is where its piece of the payload begins.
    Fragment,
    /// An IPv6 fragment: the key is empty; `l4` is where its fragment header begins.
    Fragment6,
    /// ARP: the key is empty, and nothing but the Ethernet header has been looked at.
    Arp,
}

/// A validated packet in 24 bytes. The frame holds at least `end` bytes; `l3 <= l4 <= end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// Addresses and ports.
    pub key: FlowKey,
    /// Offset of the IP header or the ARP packet in the frame, in bytes.
    pub l3: u16,
    /// Offset of the TCP, UDP or ICMP header in the frame, in bytes; of the ARP packet once more.
    pub l4: u16,
    /// End of the IP packet in the frame: what follows is padding of the link. For ARP, the frame's end.
    pub end: u16,
    /// The IP protocol number; 0 for ARP.
    pub protocol: u8,
    /// The TTL or hop limit as received; 0 for ARP.
    pub ttl: u8,
    /// TCP: the flags, the 14th byte of its header. SCTP: its event, [`super::sctp::Event`] as a number. 0 for
    /// everything else.
    pub l4_flags: u8,
    /// What it is.
    pub kind: Kind,
    /// The length in bytes of the largest fragment (IP header included) that this packet was put together from;
    /// 0 = it came whole. The parser leaves 0.
    pub largest_fragment: u16,
}

const _: () = assert!(size_of::<Headers>() == 24);

impl Headers {
    /// No packet at all: what an empty place holds.
    pub const NONE: Headers = Headers {
        key: FlowKey::NONE,
        l3: 0,
        l4: 0,
        end: 0,
        protocol: 0,
        ttl: 0,
        l4_flags: 0,
        kind: Kind::Arp,
        largest_fragment: 0,
    };
}

/// What the parser has to know of the port that received the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortRules {
    /// The port's own MAC address.
    pub mac: MacAddr,
    /// Take unicast frames whatever their destination MAC: for ports without addresses of their own, such as
    /// `net_null` and `net_ring`.
    pub any_mac: bool,
    /// Look for TCP and UDP checksums that an offload should have completed and did not: for software devices
    /// (veth, TAP, virtio), whose peer may hand over packets that never see a wire.
    pub check_partial: bool,
    /// What makes keys of IPv6 addresses: the same on all ports and workers.
    pub digest: AddressDigest,
}

/// Validates one received frame.
///
/// # Errors
/// The one reason to drop it, the first that applies in the order of RFC 1812 5.2.2.
#[inline]
pub fn parse<P: Packet>(packet: &P, rules: &PortRules) -> Result<Headers, DropReason> {
    let mut headers = Headers::NONE;
    parse_into(packet, rules, &mut headers).map(|()| headers)
}

/// As [`parse`], with the answer left in its place. A result of 24 bytes would be put together field by field and
/// copied by wide loads right after, which have to wait until all these narrow stores are through.
///
/// # Errors
/// As [`parse`]; then `place` is as it was.
#[inline(always)]
pub fn parse_into<P: Packet>(packet: &P, rules: &PortRules, place: &mut Headers) -> Result<(), DropReason> {
    let frame = packet.bytes();
    let Some((ethernet, rest)) = frame.split_first_chunk::<{ ethernet::HEADER_LEN }>() else {
        return Err(DropReason::RuntFrame);
    };
    let [d0, d1, d2, d3, d4, d5, .., type_high, type_low] = *ethernet;
    let to_port = MacAddr([d0, d1, d2, d3, d4, d5]) == rules.mac;
    if !(to_port && u16::from_be_bytes([type_high, type_low]) == ethernet::IPV4) {
        match other_link(ethernet, rules, frame.len()) {
            Ok(None) => {}
            Ok(Some(arp)) => {
                *place = arp;
                return Ok(());
            }
            Err(reason) => return Err(reason),
        }
    }
    let Some(header) = rest.first_chunk::<20>() else {
        return Err(DropReason::RuntFrame);
    };
    match header[0] {
        0x45 => ipv4(packet, frame, header, 20, rules.check_partial, place),
        _ => with_options(packet, frame, header, rules.check_partial, place),
    }
}

/// Every frame but IPv4 for the port's own MAC: `None` means that it is to be read as IPv4 all the same. Cold:
/// a gateway sees about one ARP packet a second and neighbour.
#[cold]
#[inline(never)]
fn other_link(
    ethernet: &[u8; ethernet::HEADER_LEN],
    rules: &PortRules,
    frame_len: usize,
) -> Result<Option<Headers>, DropReason> {
    let [d0, d1, d2, d3, d4, d5, .., type_high, type_low] = *ethernet;
    let destination = MacAddr([d0, d1, d2, d3, d4, d5]);
    let group = destination.is_multicast();
    if destination != rules.mac && !rules.any_mac && !group {
        return Err(DropReason::NotOurMac);
    }
    match u16::from_be_bytes([type_high, type_low]) {
        // RFC 1812 5.3.4: what came as a link broadcast must not be forwarded, nor answered (RFC 1122 3.2.2).
        ethernet::IPV4 if group => Err(DropReason::NotForUs),
        ethernet::IPV4 => Ok(None),
        ethernet::ARP => Ok(Some(Headers {
            key: FlowKey::default(),
            l3: ethernet::HEADER_LEN as u16,
            l4: ethernet::HEADER_LEN as u16,
            end: frame_len.min(usize::from(u16::MAX)) as u16,
            protocol: 0,
            ttl: 0,
            l4_flags: 0,
            kind: Kind::Arp,
            largest_fragment: 0,
        })),
        ethernet::VLAN | ethernet::SERVICE_VLAN => Err(DropReason::VlanTag),
        _ => Err(DropReason::UnknownEthertype),
    }
}

/// An IPv4 header of unusual first byte. Cold: hosts do not send options.
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
    if header[0] >> 4 != 4 || header_len < 20 {
        return Err(DropReason::BadIpHeader);
    }
    ipv4(packet, frame, header, header_len, check_partial, place)
}

/// The IPv4 header (RFC 1812 5.2.2), then what it carries. Inlined into each caller, so that the usual length
/// is a constant.
#[inline(always)]
fn ipv4<P: Packet>(
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
    // More fragments, or an offset: ports stand in a first fragment only, and checksums in none.
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return Err(DropReason::Fragment);
    }
    let l4 = ethernet::HEADER_LEN + header_len;
    l4_header(packet, frame, header, (l4, end), check_partial, place)
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
    // Eight bytes is the least of all three, and ports stand at one place: loaded once, ahead of the branch.
    let Some(&[p0, p1, p2, p3, _, _, _, _]) = segment.first_chunk::<8>() else {
        return Err(match protocol {
            ipv4::TCP | ipv4::UDP | ipv4::ICMP => DropReason::BadL4Header,
            _ => DropReason::UnknownProtocol,
        });
    };
    let ports = u32::from_ne_bytes([p0, p1, p2, p3]);
    let (kind, ports, l4_flags, length, sum) = match protocol {
        ipv4::TCP => {
            let Some(tcp) = segment.first_chunk::<20>() else {
                return Err(DropReason::BadL4Header);
            };
            let data_offset = usize::from(tcp[12] >> 4) * 4;
            if data_offset < 20 || data_offset > segment.len() {
                return Err(DropReason::BadL4Header);
            }
            (
                Kind::Flow,
                ports,
                tcp[13],
                segment.len(),
                u16::from_be_bytes([tcp[16], tcp[17]]),
            )
        }
        ipv4::UDP => {
            let length = usize::from(u16::from_be_bytes([segment[4], segment[5]]));
            if length < 8 || length > segment.len() {
                return Err(DropReason::BadL4Header);
            }
            (
                Kind::Flow,
                ports,
                0,
                length,
                u16::from_be_bytes([segment[6], segment[7]]),
            )
        }
        ipv4::ICMP => (Kind::Icmp, 0, 0, 0, 0),
        _ => return Err(DropReason::UnknownProtocol),
    };
    match packet.l4_checksum() {
        ChecksumStatus::Good => {}
        // RFC 768: a UDP sender that computed no checksum sends 0. Some devices call that a wrong one.
        ChecksumStatus::Bad if protocol == ipv4::UDP && sum == 0 => {}
        ChecksumStatus::Bad => return Err(DropReason::BadL4Checksum),
        ChecksumStatus::Unknown if check_partial && kind == Kind::Flow => {
            let ends = (Ipv4Addr::new(s0, s1, s2, s3), Ipv4Addr::new(d0, d1, d2, d3));
            partial_checksum(ends, protocol, segment.get(..length).unwrap_or(segment), sum)?;
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
        l4_flags,
        kind,
        largest_fragment: 0,
    };
    Ok(())
}

/// Refuses a segment in whose checksum field only the pseudo header's sum stands, as an offload wants to find
/// it, unless that is right: one valid packet in 65,536 has this very checksum.
#[inline(always)]
fn partial_checksum(
    (source, destination): (Ipv4Addr, Ipv4Addr),
    protocol: u8,
    segment: &[u8],
    field: u16,
) -> Result<(), DropReason> {
    let pseudo = checksum::pseudo_header(source, destination, protocol, segment.len() as u16);
    if field == pseudo && is_wrong(pseudo, segment) {
        return Err(DropReason::PartialChecksum);
    }
    Ok(())
}

/// Whether the checksum in a whole segment is wrong. Cold: asked of one right packet in 65,536.
#[cold]
#[inline(never)]
fn is_wrong(pseudo: u16, segment: &[u8]) -> bool {
    checksum::add(pseudo, checksum::sum(segment)) != 0xffff
}

#[cfg(test)]
mod tests;
