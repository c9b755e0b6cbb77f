//! How long a packet is on the other side, and what becomes of one that is too long there: fragments where it may be
//! cut, else word to its sender in the sender's own terms (RFC 7915 4 and 5).

use crate::fragment;
use crate::packet::{Headers, Kind, ipv4, ipv6};

/// What IPv6's header has more than IPv4's, in bytes.
pub(super) const HEADERS_DIFFER: u16 = (ipv6::HEADER_LEN - ipv4::HEADER_LEN) as u16;
/// The same for a fragment, which in IPv6 has a header of its own.
pub(super) const FRAGMENTS_DIFFER: u16 = HEADERS_DIFFER + ipv6::FRAGMENT_LEN as u16;
/// The MTU of every IPv6 link, in bytes.
pub(super) const IPV6_LEAST: u16 = ipv6::LEAST_MTU as u16;
/// What IPv6's least MTU carries of IPv4, in bytes.
pub(super) const IPV4_LEAST: u16 = IPV6_LEAST - HEADERS_DIFFER;
/// The MTU of every IPv4 link, in bytes (RFC 791 3.2).
const IPV4_LINK_LEAST: u16 = 68;

/// How a translated packet goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// As it is.
    Whole,
    /// In fragments of at most so many bytes, IP header included.
    Fragments(u16),
    /// Not at all: its sender is told this MTU, which is one of the sender's own family.
    TooBig(u16),
}

/// How a packet of TCP, UDP or SCTP goes on once it is translated, by a link whose MTU is `mtu` bytes. `headers` are
/// those of the packet as it came, from `frame`: what came in fragments goes on in fragments that are no larger. ICMP
/// errors are made so short that they always go.
///
/// IPv4 that may be cut is cut to IPv6's least MTU, since IPv6 routers do not cut it further and its sender would
/// not listen to them; with "don't fragment", and from IPv6, the sender is told instead.
#[must_use]
pub fn fit(frame: &[u8], headers: &Headers, mtu: u16) -> Fit {
    let l4_len = headers.end.saturating_sub(headers.l4);
    let largest = headers.largest_fragment;
    if headers.kind == Kind::Flow {
        let length = l4_len.saturating_add(ipv6::HEADER_LEN as u16);
        let ip = frame
            .get(usize::from(headers.l3)..)
            .and_then(|ip| ip.first_chunk::<{ ipv4::HEADER_LEN }>());
        let may_be_cut = largest != 0 || !ip.is_some_and(|ip| ipv4::dont_fragment(ip));
        to_v6(length, largest, may_be_cut, mtu)
    } else {
        let length = l4_len.saturating_add(ipv4::HEADER_LEN as u16);
        to_v4(length, largest, mtu)
    }
}

/// For an IPv6 packet of `length` bytes, made of IPv4.
fn to_v6(length: u16, largest: u16, may_be_cut: bool, mtu: u16) -> Fit {
    if may_be_cut {
        let largest = match largest {
            0 => 0,
            largest => largest.saturating_add(FRAGMENTS_DIFFER),
        };
        return cut(length, fragment::limit6(mtu.min(IPV6_LEAST), largest));
    }
    match length {
        _ if length <= mtu => Fit::Whole,
        // No link of IPv6 may be so narrow; whoever has one cuts (RFC 8200 5).
        _ if length <= IPV6_LEAST => Fit::Fragments(mtu),
        _ => Fit::TooBig(mtu.max(IPV6_LEAST) - HEADERS_DIFFER),
    }
}

/// For an IPv4 packet of `length` bytes, made of IPv6.
fn to_v4(length: u16, largest: u16, mtu: u16) -> Fit {
    if largest != 0 {
        // The fragments of a sender that has gone mad are still no reason to go below what every link carries.
        let largest = largest.saturating_sub(FRAGMENTS_DIFFER).max(IPV4_LINK_LEAST);
        return cut(length, fragment::limit4(mtu, largest));
    }
    match length {
        _ if length <= mtu => Fit::Whole,
        // The sender could be told of nothing smaller.
        _ if length <= IPV4_LEAST => Fit::Fragments(mtu),
        _ => Fit::TooBig(mtu.saturating_add(HEADERS_DIFFER).max(IPV6_LEAST)),
    }
}

fn cut(length: u16, limit: u16) -> Fit {
    if length <= limit {
        Fit::Whole
    } else {
        Fit::Fragments(limit)
    }
}
