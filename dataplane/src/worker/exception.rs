//! The exception path: what arrives and is the host's goes to the kernel (SSH, BGP, OSPF, VRRP, DHCP), and what the
//! kernel sends leaves by our ports. Packets get here from where they would be dropped otherwise, so that those of
//! connections never do. The kernel gets so many in a second, and what keeps routing and failover alive has a share of
//! its own: a flood to a port's address neither slows the gateway nor takes its VIPs away.
//!
//! Who answers what: echo requests, ARP and neighbour solicitations for our addresses are answered here and never
//! reach the kernel. What neighbours tell is heard by both.

use super::rate::RateLimit;
use super::{BURST, Io, Worker};
use crate::drops::DropReason;
use crate::flow::FlowIndex;
use crate::neighbour::AddressClass;
use crate::packet::{Headers, Kind, Packet, PortId, ethernet, icmp6, ipv4, ipv6};
use arrayvec::ArrayVec;
use std::net::IpAddr;

/// BGP (RFC 4271) and BFD (RFC 5881 4, RFC 5883 4, RFC 9468): without them a router takes its routes away.
const BGP: u16 = 179;
const BFD: [u16; 3] = [3784, 3785, 4784];
/// IGMP, AH, EIGRP, OSPF, PIM, VRRP.
const OF_ROUTERS: [u8; 6] = [2, 51, 88, 89, 103, 112];
/// The hop limit of neighbour discovery: no router has passed it on (RFC 4861 3.1).
const ON_LINK: u8 = 255;

/// What the kernel may still get in this second: ordinary packets, and vital ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowance {
    ordinary: RateLimit,
    vital: RateLimit,
}

/// A frame's IP packet as far as the exception path has to know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Glance {
    destination: IpAddr,
    protocol: u8,
    /// Source and destination port, host order; 0 where there are none.
    ports: [u16; 2],
    /// A message of neighbour discovery, from the link.
    is_discovery: bool,
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Whether what arrives at `port` has a way to the kernel.
    pub(super) fn has_exception(&self, port: PortId) -> bool {
        self.exception_rate(port) > 0
    }

    fn exception_rate(&self, port: PortId) -> u32 {
        let port = self.snapshot.ports.get(usize::from(port.0));
        port.map_or(0, |port| port.exception_rate)
    }

    /// Ends a packet that the gateway has no use for, here or in the kernel.
    #[cold]
    #[inline(never)]
    pub(super) fn decline(&mut self, packet: I::Packet, port: PortId, reason: DropReason) {
        match self.is_hosts(packet.bytes(), port, reason) {
            Some(vital) => self.give_to_kernel(packet, port, vital),
            None => self.discard(packet, reason),
        }
    }

    /// Ends a packet that the gateway has heard; with `tells`, it tells the kernel something too.
    pub(super) fn consume(&mut self, packet: I::Packet, port: PortId, tells: bool) {
        if tells && self.has_exception(port) {
            return self.give_to_kernel(packet, port, true);
        }
        self.stats.consumed.add(1);
    }

    /// Why a packet to an address is none of ours.
    pub(super) fn stranger(&self, destination: IpAddr) -> DropReason {
        match self.snapshot.addresses.class_of(destination) {
            AddressClass::Standby => DropReason::Standby,
            _ => DropReason::NotForUs,
        }
    }

    /// Whether a fragment goes to the kernel as it is: one to a port's own address, unless it may be of an echo request.
    pub(super) fn leaves_pieces_to_kernel(
        &self,
        headers: &Headers,
        destination: IpAddr,
        port: PortId,
    ) -> bool {
        let is_icmp = match headers.kind {
            Kind::Fragment6 => headers.protocol == ipv6::ICMP,
            _ => headers.protocol == ipv4::ICMP,
        };
        let class = self.snapshot.addresses.class_of(destination);
        matches!(class, AddressClass::Port(_)) && !is_icmp && self.has_exception(port)
    }

    /// Whether a packet that would be dropped for `reason` is the host's, and then whether routing or failover needs it.
    fn is_hosts(&self, frame: &[u8], port: PortId, reason: DropReason) -> Option<bool> {
        let may_be = matches!(
            reason,
            DropReason::NotForUs
                | DropReason::UnknownProtocol
                | DropReason::UnsupportedIcmp
                | DropReason::NoConnection
                // Where others' packets are routed on, those to link-local addresses have no way.
                | DropReason::NoRoute
        );
        if !may_be || !self.has_exception(port) {
            return None;
        }
        let glance = glance(frame)?;
        let is_ours = match self.snapshot.addresses.class_of(glance.destination) {
            AddressClass::Port(_) => true,
            // Groups, broadcasts, and an answer of DHCP to an address that nobody has yet.
            AddressClass::None if ethernet::destination(frame).is_multicast() => true,
            AddressClass::None => self.snapshot.answers_for(port, glance.destination),
            AddressClass::Vip | AddressClass::Local | AddressClass::Standby => false,
        };
        is_ours.then(|| glance.is_vital())
    }

    fn give_to_kernel(&mut self, packet: I::Packet, port: PortId, vital: bool) {
        let share = self
            .exception_rate(port)
            .div_ceil(u32::from(self.snapshot.shards.workers()).max(1));
        let allowance = &mut self.exceptions[usize::from(port.0)];
        let limit = if vital {
            &mut allowance.vital
        } else {
            &mut allowance.ordinary
        };
        if !limit.allows(self.now, share) {
            return self.discard(packet, DropReason::ExceptionRate);
        }
        match self.io.give_to_kernel(port, vital, packet) {
            Ok(()) => {
                self.stats.consumed.add(1);
                self.stats.to_kernel.add(1);
            }
            Err(packet) => self.discard(packet, DropReason::ExceptionFull),
        }
    }

    /// Sends what the kernel wants to be sent, a burst at most; returns how much that was.
    pub(super) fn send_for_kernel(&mut self) -> usize {
        let mut leaving = ArrayVec::<(PortId, I::Packet), BURST>::new();
        self.io.take_from_kernel(&mut leaving);
        let count = leaving.len();
        self.stats.made.add(count as u64);
        self.stats.from_kernel.add(count as u64);
        for (port, packet) in leaving {
            if packet.bytes().len() < ethernet::HEADER_LEN {
                self.discard(packet, DropReason::RuntFrame);
                continue;
            }
            let to = ethernet::destination(packet.bytes());
            self.send(port, to, packet);
        }
        count
    }
}

impl Glance {
    /// Whether routing or failover would suffer from its loss.
    fn is_vital(&self) -> bool {
        match self.protocol {
            ipv4::TCP => self.ports.contains(&BGP),
            ipv4::UDP => BFD.contains(&self.ports[1]),
            ipv6::ICMP => self.is_discovery,
            other => OF_ROUTERS.contains(&other),
        }
    }
}

/// Reads a frame that may not have been parsed to its end: none where there is no IP header.
fn glance(frame: &[u8]) -> Option<Glance> {
    let packet = frame.get(ethernet::HEADER_LEN..)?;
    let (destination, protocol, l4): (IpAddr, u8, usize) = match ethernet::ethertype(frame) {
        ethernet::IPV4 if packet.len() >= ipv4::HEADER_LEN => {
            let is_later = ipv4::is_later_fragment(packet);
            let l4 = if is_later {
                packet.len()
            } else {
                ipv4::header_len(packet)
            };
            (ipv4::destination(packet).into(), ipv4::protocol(packet), l4)
        }
        ethernet::IPV6 if packet.len() >= ipv6::HEADER_LEN => {
            let destination = ipv6::destination(packet).into();
            let at = ipv6::HEADER_LEN;
            // What stands behind options: multicast listeners report so.
            let chain = ipv6::walk(packet).ok();
            let (protocol, l4) = chain.map_or((ipv6::next_header(packet), at), |chain| {
                (chain.protocol, chain.at)
            });
            (destination, protocol, l4)
        }
        _ => return None,
    };
    let ports = match (protocol, packet.get(l4..)) {
        (ipv4::TCP | ipv4::UDP, Some(&[s0, s1, d0, d1, ..])) => {
            [u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])]
        }
        _ => [0; 2],
    };
    let is_discovery = protocol == ipv6::ICMP
        && destination.is_ipv6()
        && ipv6::hop_limit(packet) == ON_LINK
        && matches!(packet.get(l4), Some(icmp6::ROUTER_SOLICITATION..=icmp6::REDIRECT));
    Some(Glance {
        destination,
        protocol,
        ports,
        is_discovery,
    })
}
