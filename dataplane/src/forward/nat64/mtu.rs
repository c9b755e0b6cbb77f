//! The MTU that an ICMP error tells, on the other side (RFC 7915 4.2, 5.2).

use super::length::{FRAGMENTS_DIFFER, HEADERS_DIFFER, IPV6_LEAST};

/// What routers that tell no MTU may have met (RFC 1191 7.1), in bytes, as far as IPv6's least MTU allows.
const PLATEAUS: [u16; 7] = [65_535, 32_000, 17_914, 8_166, 4_352, 2_002, 1_492];

/// The MTUs of the gateway's own links on both sides of a connection, in bytes: what it tells is never more than
/// passes through itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mtus {
    /// Of the link that its IPv4 packets go out by.
    pub v4: u16,
    /// Of the link that its IPv6 packets go out by.
    pub v6: u16,
}

impl Mtus {
    /// For a "packet too big": a router has `told` of its MTU about an IPv4 packet of `length` bytes, or told 0
    /// because it does not know RFC 1191.
    pub(super) fn to_v6(self, told: u16, length: u16) -> u16 {
        let told = match told {
            0 => plateau_below(length),
            told => told,
        };
        told.min(self.v4)
            .saturating_add(HEADERS_DIFFER)
            .min(self.v6)
            .max(IPV6_LEAST)
    }

    /// For a "fragmentation needed": a router has `told` of its MTU about an IPv6 packet, a `fragment` or not. Word of
    /// less than IPv6's least MTU is not believed (RFC 8201 4).
    pub(super) fn to_v4(self, told: u32, fragment: bool) -> u16 {
        let grown = if fragment {
            FRAGMENTS_DIFFER
        } else {
            HEADERS_DIFFER
        };
        let told = u16::try_from(told).unwrap_or(u16::MAX).min(self.v6);
        (told.max(IPV6_LEAST) - grown).min(self.v4)
    }
}

/// The MTU that a router seems to have that did not let `length` bytes pass: the next of the usual ones below. Below
/// the last of them IPv6's least MTU decides.
fn plateau_below(length: u16) -> u16 {
    let below = PLATEAUS.into_iter().find(|plateau| *plateau < length);
    below.unwrap_or(IPV6_LEAST - HEADERS_DIFFER)
}
