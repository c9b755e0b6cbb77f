//! TUN: the client's packet as it is, but for its TTL, behind a header from the gateway to the server. The packet and
//! the tunnel may each be of either family, and the tunnel IPIP, GUE or GRE. The server takes the outer header off
//! and answers the client itself, so there is no way back in here; only routers inside the tunnel answer, with ICMP
//! errors that [`quote`] looks into.
//!
//! Called by the forward stage with a parsed packet. It neither chooses addresses nor looks whether the result fits
//! the MTU: [`overhead`] tells beforehand.

pub mod quote;
pub mod spread;

pub use quote::unwrap_quote;
pub use spread::{gue_source_port, spread_source};

use crate::packet::{Headers, MacAddr, Packet, ethernet, gre, gue, ipv4, ipv6, udp};
use crate::service::{Tunnel, TunnelChecksum, TunnelKind};
use std::net::IpAddr;

/// What the outer header says that neither the packet nor the tunnel does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outer {
    /// The gateway's address. It names the family of the outer header together with `destination`.
    pub source: IpAddr,
    /// The server's address.
    pub destination: IpAddr,
    /// The identification of an outer IPv4 header that may be fragmented. With DF it is 0 (RFC 6864).
    pub identification: u16,
    /// GUE: the UDP source port, host order.
    pub source_port: u16,
    /// Whether the DF of a client's IPv4 packet holds for the outer IPv4 header as well.
    pub keep_df: bool,
}

/// How many bytes the tunnel puts before a packet. A packet that fits the way to the server is at most the MTU less
/// this.
#[must_use]
pub const fn overhead(tunnel: &Tunnel, outer_v6: bool) -> usize {
    ip_header_len(outer_v6) + shim_len(tunnel)
}

const fn ip_header_len(v6: bool) -> usize {
    if v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN }
}

/// The length in bytes of what stands between the outer IP header and the packet.
const fn shim_len(tunnel: &Tunnel) -> usize {
    match tunnel.kind {
        TunnelKind::Ipip => 0,
        TunnelKind::Gue { .. } => gue::HEADER_LEN,
        TunnelKind::Gre => gre::header_len(has_checksum(tunnel)),
    }
}

const fn has_checksum(tunnel: &Tunnel) -> bool {
    !matches!(tunnel.checksum, TunnelChecksum::None)
}

/// Puts the packet, whose TTL or hop limit it lowers by one, behind the outer header. Both MAC addresses are left
/// zero for the resolve stage, and link padding is cut off: the frame then ends with the IP packet, and `headers`
/// hold no longer.
///
/// False when the buffer has no headroom, when the result would be longer than an IP packet can be, or when
/// `outer` mixes families; then nothing has changed.
#[must_use]
pub fn wrap<P: Packet>(packet: &mut P, headers: &Headers, tunnel: &Tunnel, outer: &Outer) -> bool {
    let Some(inner) = Inner::read(packet.bytes(), headers) else {
        return false;
    };
    let outer_v6 = outer.destination.is_ipv6();
    let added = overhead(tunnel, outer_v6);
    let Ok(total_len) = u16::try_from(inner.len + added) else {
        return false;
    };
    let grow = (ethernet::HEADER_LEN + added).checked_sub(usize::from(headers.l3));
    if outer.source.is_ipv6() != outer_v6 || !grow.is_some_and(|grow| packet.prepend(grow)) {
        return false;
    }
    let shorter = packet.resize(ethernet::HEADER_LEN + usize::from(total_len));
    debug_assert!(shorter, "cutting needs no room");

    let frame = packet.bytes_mut();
    let ethertype = if outer_v6 { ethernet::IPV6 } else { ethernet::IPV4 };
    ethernet::write(frame, MacAddr::default(), MacAddr::default(), ethertype);
    let ip = &mut frame[ethernet::HEADER_LEN..];
    inner.lower_ttl(&mut ip[added..]);
    let carried = write_shim(
        &mut ip[ip_header_len(outer_v6)..],
        tunnel,
        &inner,
        outer.source_port,
    );
    write_header(ip, &inner, outer, carried, total_len);
    if matches!(tunnel.kind, TunnelKind::Gue { .. }) && has_checksum(tunnel) {
        let (ip, datagram) = ip.split_at_mut(ip_header_len(outer_v6));
        // Both families end their header with the addresses.
        udp::fill_checksum(datagram, &ip[if outer_v6 { 8 } else { 12 }..]);
    }
    true
}

/// What the outer header takes from the packet.
#[derive(Clone, Copy)]
struct Inner {
    v6: bool,
    /// The packet's length in bytes, IP header included.
    len: usize,
    /// Type of service or traffic class.
    tos: u8,
    /// TTL or hop limit on the way on.
    ttl: u8,
    /// IPv4: DF.
    dont_fragment: bool,
}

impl Inner {
    fn read(frame: &[u8], headers: &Headers) -> Option<Inner> {
        let packet = frame.get(usize::from(headers.l3)..usize::from(headers.end))?;
        let v6 = match packet.first()? >> 4 {
            4 => false,
            6 => true,
            _ => return None,
        };
        if packet.len() < ip_header_len(v6) {
            return None;
        }
        let (tos, ttl, dont_fragment) = if v6 {
            (ipv6::traffic_class(packet), ipv6::hop_limit(packet), false)
        } else {
            (ipv4::tos(packet), ipv4::ttl(packet), ipv4::dont_fragment(packet))
        };
        Some(Inner {
            v6,
            len: packet.len(),
            tos,
            ttl: ttl.saturating_sub(1),
            dont_fragment,
        })
    }

    fn lower_ttl(&self, packet: &mut [u8]) {
        if self.v6 {
            ipv6::set_hop_limit(packet, self.ttl);
        } else {
            ipv4::set_ttl(packet, self.ttl);
        }
    }
}

/// Writes what stands before the packet in `payload`, the outer header's payload; returns the protocol number of the
/// whole for the outer header.
fn write_shim(payload: &mut [u8], tunnel: &Tunnel, inner: &Inner, source_port: u16) -> u8 {
    let inside = if inner.v6 {
        ipv4::IPV6_INSIDE
    } else {
        ipv4::IPV4_INSIDE
    };
    match tunnel.kind {
        TunnelKind::Ipip => inside,
        TunnelKind::Gue { port } => {
            gue::write(payload, source_port, port, inside);
            ipv4::UDP
        }
        TunnelKind::Gre => {
            let ethertype = if inner.v6 { ethernet::IPV6 } else { ethernet::IPV4 };
            gre::write(payload, ethertype, has_checksum(tunnel));
            gre::PROTOCOL
        }
    }
}

/// Writes the outer header for a payload of protocol `carried`.
fn write_header(ip: &mut [u8], inner: &Inner, outer: &Outer, carried: u8, total_len: u16) {
    match (outer.source, outer.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let dont_fragment = inner.dont_fragment && outer.keep_df;
            let fields = ipv4::Fields {
                tos: outer_tos(inner.tos),
                total_len,
                identification: if dont_fragment { 0 } else { outer.identification },
                dont_fragment,
                ttl: inner.ttl,
                protocol: carried,
                source,
                destination,
            };
            ipv4::write(ip, &fields);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let fields = ipv6::Fields {
                traffic_class: outer_tos(inner.tos),
                flow_label: 0,
                payload_len: total_len.saturating_sub(ipv6::HEADER_LEN as u16),
                next_header: carried,
                hop_limit: inner.ttl,
                source,
                destination,
            };
            ipv6::write(ip, &fields);
        }
        // Mixed families have been refused before anything was written.
        _ => {}
    }
}

/// The outer type of service: the packet's. "Congestion experienced" becomes ECT(0): what was met before the tunnel
/// must not be counted once more behind it (RFC 3168 9.1.1, full functionality).
const fn outer_tos(tos: u8) -> u8 {
    const ECN: u8 = 0b11;
    const ECT_0: u8 = 0b10;
    if tos & ECN == ECN { tos & !ECN | ECT_0 } else { tos }
}

#[cfg(test)]
mod tests;
