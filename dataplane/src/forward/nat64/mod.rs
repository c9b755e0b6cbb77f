//! NAT64 and NAT46: a packet of one family, or an ICMP error, becomes one of the other (RFC 7915). Pure functions over
//! a packet and its validated [`Headers`]. Which addresses and ports it is to say is the caller's to know; so is that
//! its TTL has not run out, and that the checksum of SCTP was right. Whether the result fits the way out, and what
//! its sender is told if not, [`fit`] says beforehand.
//!
//! | | IPv4 to IPv6 (RFC 7915 4.1) | IPv6 to IPv4 (RFC 7915 5.1) |
//! |---|---|---|
//! | type of service, traffic class | copied | copied |
//! | TTL, hop limit | less one | less one |
//! | flow label, identification | 0 | the caller's: fresh, since many share an address |
//! | don't fragment | decides [`fit`] | set in what came whole and is longer than 1,260 bytes |
//! | options, extension headers | dropped; a source route with hops left is refused | dropped; a route with segments left is refused |
//! | checksums of TCP and UDP | by increment (RFC 1624); that of UDP is computed where there was none | by increment |
//! | checksum of SCTP | anew (RFC 9260 6.8) | anew |
//!
//! Packets that came in fragments are put together before they get here, and are cut again by [`fit`]'s limit.
//! [`translate_error`] is for ICMP errors and the packets that they quote.

mod error;
mod header;
mod kinds;
mod length;
mod mtu;

pub use error::translate_error;
pub use length::{Fit, fit};
pub use mtu::Mtus;

use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};

use super::nat;
use crate::drops::DropReason;
use crate::packet::checksum::{self, Delta};
use crate::packet::{Headers, Kind, MacAddr, Packet, ethernet, ipv4, udp};
use header::Carried;

const L3: usize = ethernet::HEADER_LEN;

/// What a packet says on the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// It becomes an IPv4 packet.
    V4 {
        /// Address and port that it comes from.
        source: SocketAddrV4,
        /// Address and port that it goes to.
        destination: SocketAddrV4,
        /// Its identification, in host order: one that no packet under way between these addresses has.
        identification: u16,
    },
    /// It becomes an IPv6 packet.
    V6 {
        /// Address and port that it comes from.
        source: SocketAddrV6,
        /// Address and port that it goes to.
        destination: SocketAddrV6,
    },
}

impl Target {
    /// The target with these ends; `None` when they are not of one family. `identification` is for IPv4 only.
    #[must_use]
    pub const fn between(source: SocketAddr, destination: SocketAddr, identification: u16) -> Option<Target> {
        match (source, destination) {
            (SocketAddr::V4(source), SocketAddr::V4(destination)) => Some(Target::V4 {
                source,
                destination,
                identification,
            }),
            (SocketAddr::V6(source), SocketAddr::V6(destination)) => Some(Target::V6 { source, destination }),
            _ => None,
        }
    }

    /// Whether the packet becomes an IPv6 packet.
    #[must_use]
    pub const fn is_v6(&self) -> bool {
        matches!(self, Target::V6 { .. })
    }

    /// Both ports as they stand on the wire.
    fn ports(&self) -> [u8; 4] {
        let (source, destination) = match self {
            Target::V4 {
                source, destination, ..
            } => (source.port(), destination.port()),
            Target::V6 { source, destination } => (source.port(), destination.port()),
        };
        let ([s0, s1], [d0, d1]) = (source.to_be_bytes(), destination.to_be_bytes());
        [s0, s1, d0, d1]
    }

    /// The folded sum of both addresses, in host order. Nothing else of the pseudo header differs between the
    /// families: lengths and protocol sum to the same (RFC 768, RFC 8200 8.1).
    fn sum(&self) -> u16 {
        match self {
            Target::V4 {
                source, destination, ..
            } => checksum::add(
                checksum::sum(&source.ip().octets()),
                checksum::sum(&destination.ip().octets()),
            ),
            Target::V6 { source, destination } => checksum::add(
                checksum::sum(&source.ip().octets()),
                checksum::sum(&destination.ip().octets()),
            ),
        }
    }
}

/// Makes a TCP, UDP or SCTP packet one of the other family: header, addresses, ports and checksums; one hop less to
/// live. `headers` are those that it came with, `more` is what else has changed in its TCP header, in host order.
/// Both MAC addresses are left zero for the resolve stage, and link padding is cut off: the frame then ends with the
/// IP packet, and `headers` hold no longer. INIT and INIT ACK of SCTP lose the addresses that they list.
///
/// # Errors
/// Nothing has changed then. [`DropReason::SourceRoute`] or [`DropReason::BadExtensionHeader`] for a packet that has
/// to visit others first (RFC 7915 4.1, 5.1); [`DropReason::NoHeadroom`] when the buffer cannot grow by 20 bytes;
/// [`DropReason::BadIpHeader`] when it is no such packet, or not of the other family.
pub fn translate<P: Packet>(
    packet: &mut P,
    headers: &Headers,
    to: &Target,
    more: Delta,
) -> Result<(), DropReason> {
    let from = if to.is_v6() { Kind::Flow } else { Kind::Flow6 };
    if headers.kind != from {
        return Err(DropReason::BadIpHeader);
    }
    let (carried, before) = read(packet.bytes(), headers)?;
    let header_len = carried.header_len(to.is_v6());
    move_l4(packet, headers, header_len)?;

    let (link, ip) = packet.bytes_mut().split_at_mut(L3);
    let ethertype = if to.is_v6() {
        ethernet::IPV6
    } else {
        ethernet::IPV4
    };
    ethernet::write(link, MacAddr::default(), MacAddr::default(), ethertype);
    let (header, segment) = ip.split_at_mut(header_len);
    carried.write(header, to);
    let delta = Delta::NONE.word(before, to.sum()).and(more);
    nat::rewrite_segment(segment, headers.protocol, to.ports(), delta);
    if to.is_v6() && headers.protocol == ipv4::UDP && udp::checksum(segment) == 0 {
        // RFC 7915 4.5: IPv4 allows a datagram without a checksum, IPv6 does not. It may end before the packet.
        let length = udp::length(segment).min(segment.len());
        udp::fill_checksum(&mut segment[..length], &header[header::ADDRESSES6]);
    }
    Ok(())
}

/// What goes to the other side of a packet's header, and the sum of its addresses.
fn read(frame: &[u8], headers: &Headers) -> Result<(Carried, u16), DropReason> {
    let bad = DropReason::BadIpHeader;
    let (l3, end) = (usize::from(headers.l3), usize::from(headers.end));
    let packet = frame.get(l3..end).ok_or(bad)?;
    let header_len = usize::from(headers.l4).checked_sub(l3).ok_or(bad)?;
    let carried = Carried::read(packet, header_len)?;
    // What the parser has seen to: the packet ends where it says, and holds the least of any of the protocols.
    let l4_len = packet.len() - header_len;
    if carried.l4_len != l4_len || l4_len < udp::HEADER_LEN || carried.fragment.is_some() {
        return Err(bad);
    }
    if packet[0] >> 4 == 4 && header::has_hops_left(&packet[ipv4::HEADER_LEN..header_len]) {
        return Err(DropReason::SourceRoute);
    }
    let carried = Carried {
        ttl: carried.ttl.saturating_sub(1),
        whole: headers.largest_fragment == 0,
        ..carried
    };
    Ok((carried, header::sum_of_addresses(packet)))
}

/// Moves the front of the frame so that the L4 segment stands behind an IP header of `header_len` bytes, and cuts off
/// what is behind the segment.
fn move_l4<P: Packet>(packet: &mut P, headers: &Headers, header_len: usize) -> Result<(), DropReason> {
    let (old, new) = (usize::from(headers.l4), L3 + header_len);
    let moved = if new > old {
        packet.prepend(new - old)
    } else {
        packet.trim_front(old - new)
    };
    if !moved {
        return Err(DropReason::NoHeadroom);
    }
    let shorter = packet.resize(new + usize::from(headers.end) - old);
    debug_assert!(shorter, "cutting needs no room");
    Ok(())
}

#[cfg(test)]
mod tests;
