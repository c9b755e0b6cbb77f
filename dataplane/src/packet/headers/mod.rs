//! The parser: the first stage. It validates Ethernet, IP and L4 once, in the order of RFC 1812 5.2.2, and
//! leaves a compact [`Headers`] on which every later stage relies: offsets that lie inside the frame, and
//! lengths that fit into each other. It never changes the packet, and never reads beyond the IP packet's end.

mod ipv4;
mod ipv6;
mod segment;

use super::buffer::Packet;
use super::digest::AddressDigest;
use super::ethernet;
use super::key::FlowKey;
use super::mac::MacAddr;
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
    /// An IPv6 fragment, an atomic one (RFC 6946) too: the key is empty; `l4` is where its fragment header
    /// begins, and `protocol` what that header names.
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
    /// Offset of the TCP, UDP, SCTP or ICMP header in the frame, in bytes; of the ARP packet once more. IPv6
    /// extension headers stand between the 40 bytes at `l3` and here.
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
/// The one reason to drop it, the first that applies in the order of RFC 1812 5.2.2. Two of them are not the
/// end: what is [`DropReason::VlanTag`] can be parsed without its tag ([`super::vlan::untag`]), and what is
/// [`DropReason::PartialChecksum`] when that is complete ([`super::complete_partial`]).
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
        return other_link(packet, ethernet, rules, place);
    }
    ipv4::parse(packet, frame, rest, rules.check_partial, place)
}

/// Every frame but IPv4 for the port's own MAC. Out of line and marked cold for IPv4's sake: IPv6 has its whole
/// parser behind one more jump, and of ARP a gateway sees about one packet a second and neighbour.
#[cold]
#[inline(never)]
fn other_link<P: Packet>(
    packet: &P,
    ethernet: &[u8; ethernet::HEADER_LEN],
    rules: &PortRules,
    place: &mut Headers,
) -> Result<(), DropReason> {
    let frame = packet.bytes();
    let [d0, d1, d2, d3, d4, d5, .., type_high, type_low] = *ethernet;
    let destination = MacAddr([d0, d1, d2, d3, d4, d5]);
    let group = destination.is_multicast();
    if destination != rules.mac && !rules.any_mac && !group {
        return Err(DropReason::NotOurMac);
    }
    match u16::from_be_bytes([type_high, type_low]) {
        ethernet::IPV6 => ipv6::parse(packet, rules, group, place),
        // RFC 1812 5.3.4: what came as a link broadcast must not be forwarded, nor answered (RFC 1122 3.2.2).
        ethernet::IPV4 if group => Err(DropReason::NotForUs),
        ethernet::IPV4 => ipv4::parse(
            packet,
            frame,
            frame.get(ethernet::HEADER_LEN..).unwrap_or(&[]),
            rules.check_partial,
            place,
        ),
        ethernet::ARP => {
            *place = Headers {
                l3: ethernet::HEADER_LEN as u16,
                l4: ethernet::HEADER_LEN as u16,
                end: frame.len().min(usize::from(u16::MAX)) as u16,
                ..Headers::NONE
            };
            Ok(())
        }
        ethernet::VLAN | ethernet::SERVICE_VLAN => Err(DropReason::VlanTag),
        _ => Err(DropReason::UnknownEthertype),
    }
}

#[cfg(test)]
mod tests;
