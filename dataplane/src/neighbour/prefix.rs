//! IPv4 and IPv6 prefixes, as routes and the ports' networks are written.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// What was written is no prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PrefixError {
    /// Not `address/length`.
    #[error(
        "not a prefix: write an address, a slash and a length up to 32 (IPv4) or 128 (IPv6), such as 10.0.0.0/24 or \
         2001:db8::/64"
    )]
    Syntax,
    /// Bits are set behind the length.
    #[error("{written} names an address inside the prefix: write {}", Prefix::around(*.written, *.length))]
    HostBits {
        /// The address that was written.
        written: IpAddr,
        /// The length that was written.
        length: u8,
    },
}

/// A prefix of either family; no bit is set behind its length. In order, IPv4 comes first, then the lower address,
/// then the shorter length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// Every IPv4 address.
    pub const DEFAULT: Prefix = Prefix::around(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    /// Every IPv6 address.
    pub const DEFAULT6: Prefix = Prefix::around(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

    /// The prefix of that length that holds `address`, such as the network of a port's address. Lengths beyond
    /// the family's 32 or 128 bits count as those.
    #[must_use]
    pub const fn around(address: IpAddr, length: u8) -> Prefix {
        let width = width(address);
        let length = if length > width { width } else { length };
        let address = match address {
            IpAddr::V4(a) => IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() & mask4(length))),
            IpAddr::V6(a) => IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() & mask6(length))),
        };
        Prefix { address, length }
    }

    /// The first address.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// The length in bits, at most 32 for IPv4 and 128 for IPv6.
    #[must_use]
    pub const fn length(self) -> u8 {
        self.length
    }

    /// Whether it is one address.
    #[must_use]
    pub const fn is_host(self) -> bool {
        self.length == width(self.address)
    }

    /// The last address: the directed broadcast where the prefix is an IPv4 network of more than two hosts.
    #[must_use]
    pub const fn last(self) -> IpAddr {
        match self.address {
            IpAddr::V4(a) => IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() | !mask4(self.length))),
            IpAddr::V6(a) => IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() | !mask6(self.length))),
        }
    }

    /// Whether `address` is inside; none of the other family is.
    #[must_use]
    pub const fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(first), IpAddr::V4(a)) => a.to_bits() & mask4(self.length) == first.to_bits(),
            (IpAddr::V6(first), IpAddr::V6(a)) => a.to_bits() & mask6(self.length) == first.to_bits(),
            _ => false,
        }
    }

    /// Whether every address of `other` is inside.
    #[must_use]
    pub const fn covers(self, other: Prefix) -> bool {
        self.length <= other.length && self.contains(other.address)
    }

    /// Whether the first and the last address are no hosts of the connected network: in IPv4, unless it is a /31
    /// (RFC 3021) or a single address. IPv6 has no broadcast, and its all-zeros address is that of a router
    /// (RFC 4291 2.6.1).
    #[must_use]
    pub const fn has_edges(self) -> bool {
        matches!(self.address, IpAddr::V4(_)) && self.length < 31
    }

    /// Whether `address` can be a host of the connected network: inside, and not one of its edges.
    #[must_use]
    pub const fn has_host(self, address: IpAddr) -> bool {
        let edge = match (self.address, self.last(), address) {
            (IpAddr::V4(first), IpAddr::V4(last), IpAddr::V4(a)) => {
                a.to_bits() == first.to_bits() || a.to_bits() == last.to_bits()
            }
            _ => false,
        };
        self.contains(address) && !(self.has_edges() && edge)
    }
}

/// The bits of an address of that family.
const fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

const fn mask4(length: u8) -> u32 {
    // A shift by 32 overflows, and is right as 0.
    match u32::MAX.checked_shl(32 - length as u32) {
        Some(mask) => mask,
        None => 0,
    }
}

const fn mask6(length: u8) -> u128 {
    match u128::MAX.checked_shl(128 - length as u32) {
        Some(mask) => mask,
        None => 0,
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// Reads `10.0.0.0/24` and `2001:db8::/64`; refuses bits behind the length.
    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let (address, length) = text.split_once('/').ok_or(PrefixError::Syntax)?;
        let written: IpAddr = address.parse().map_err(|_| PrefixError::Syntax)?;
        let length = match length.parse::<u8>() {
            Ok(n) if n <= width(written) && n.to_string() == length => n,
            _ => return Err(PrefixError::Syntax),
        };
        let prefix = Prefix::around(written, length);
        if prefix.address == written {
            Ok(prefix)
        } else {
            Err(PrefixError::HostBits { written, length })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn text_is_read_exactly() {
        for (text, address, length) in [
            ("10.0.0.0/24", "10.0.0.0", 24),
            ("2001:db8::/64", "2001:db8::", 64),
            ("2001:db8::1/128", "2001:db8::1", 128),
        ] {
            let prefix: Prefix = text.parse().unwrap();
            assert_eq!((prefix.address(), prefix.length()), (ip(address), length));
            assert_eq!(prefix.to_string(), text);
        }
        assert_eq!("0.0.0.0/0".parse(), Ok(Prefix::DEFAULT));
        assert_eq!("::/0".parse(), Ok(Prefix::DEFAULT6));
        for text in [
            "",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/08",
            "10.0.0/8",
            "::",
            "::/129",
            "[::]/0",
            "fe80::%eth0/64",
        ] {
            assert_eq!(text.parse::<Prefix>(), Err(PrefixError::Syntax), "{text}");
        }
        let error = |text: &str| text.parse::<Prefix>().unwrap_err().to_string();
        assert_eq!(
            error("10.0.0.1/24"),
            "10.0.0.1 names an address inside the prefix: write 10.0.0.0/24"
        );
        assert_eq!(
            error("2001:db8::1/64"),
            "2001:db8::1 names an address inside the prefix: write 2001:db8::/64"
        );
    }

    #[test]
    fn hosts_are_told_from_the_edges() {
        let net = Prefix::around(ip("10.0.0.77"), 24);
        assert!(net.has_host(ip("10.0.0.1")));
        assert!(!net.has_host(ip("10.0.0.0")));
        assert!(!net.has_host(ip("10.0.0.255")));
        assert!(!net.has_host(ip("10.0.1.1")));
        // RFC 3021: both addresses of a /31 are hosts.
        let link = Prefix::around(ip("10.0.0.1"), 31);
        assert!(link.has_host(ip("10.0.0.0")) && link.has_host(ip("10.0.0.1")));
        assert!(Prefix::DEFAULT.contains(ip("255.255.255.255")));
        assert_eq!(Prefix::around(ip("255.255.255.255"), 99).length(), 32);
    }

    #[test]
    fn every_address_of_an_ipv6_network_can_be_a_host() {
        let net = Prefix::around(ip("2001:db8::77"), 64);
        assert_eq!(net.to_string(), "2001:db8::/64");
        assert_eq!(net.last(), ip("2001:db8::ffff:ffff:ffff:ffff"));
        assert!(net.has_host(net.address()) && net.has_host(net.last()));
        assert!(!net.has_host(ip("2001:db8:0:1::")));
        assert_eq!(Prefix::around(ip("::1"), 200).length(), 128);
        assert_eq!(
            Prefix::DEFAULT6.last(),
            ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
        );
    }

    #[test]
    fn the_families_are_apart() {
        assert!(!Prefix::DEFAULT.contains(ip("::")));
        assert!(!Prefix::DEFAULT6.contains(ip("0.0.0.0")));
        assert!(!Prefix::DEFAULT6.covers(Prefix::DEFAULT));
        let (wide, narrow) = (
            Prefix::around(ip("fe80::"), 10),
            Prefix::around(ip("fe80::1"), 64),
        );
        assert!(wide.covers(narrow) && wide.covers(wide) && !narrow.covers(wide));
    }
}
