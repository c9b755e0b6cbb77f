//! Prefixes of both families, as the file writes them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 or IPv6 prefix; the bits after its length are zero. In order, IPv4 comes before IPv6.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Prefix {
    network: IpAddr,
    length: u8,
}

impl Prefix {
    /// All of IPv4: `0.0.0.0/0`.
    pub const DEFAULT: Prefix = Prefix {
        network: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        length: 0,
    };
    /// All of IPv6: `::/0`.
    pub const DEFAULT6: Prefix = Prefix {
        network: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        length: 0,
    };

    /// The prefix of `length` bits that holds `address`. More bits than the family has count as all of them.
    #[must_use]
    pub fn new(address: IpAddr, length: u8) -> Prefix {
        match address {
            IpAddr::V4(address) => {
                let length = length.min(32);
                let network = Ipv4Addr::from_bits(address.to_bits() & mask4(length)).into();
                Prefix { network, length }
            }
            IpAddr::V6(address) => {
                let length = length.min(128);
                let network = Ipv6Addr::from_bits(address.to_bits() & mask6(length)).into();
                Prefix { network, length }
            }
        }
    }

    /// Its first address.
    #[must_use]
    pub fn network(self) -> IpAddr {
        self.network
    }

    /// Its last address: in IPv4 the directed broadcast address up to /30.
    #[must_use]
    pub fn last(self) -> IpAddr {
        match self.network {
            IpAddr::V4(network) => Ipv4Addr::from_bits(network.to_bits() | !mask4(self.length)).into(),
            IpAddr::V6(network) => Ipv6Addr::from_bits(network.to_bits() | !mask6(self.length)).into(),
        }
    }

    /// Its length, at most 32 in IPv4 and 128 in IPv6.
    #[must_use]
    pub fn length(self) -> u8 {
        self.length
    }

    /// Whether it is one of IPv6.
    #[must_use]
    pub fn is_ipv6(self) -> bool {
        self.network.is_ipv6()
    }

    /// Whether it holds `address`; never one of the other family.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv6() == self.is_ipv6() && Prefix::new(address, self.length) == self
    }

    /// Whether any address lies in both.
    #[must_use]
    pub fn overlaps(self, other: Prefix) -> bool {
        self.contains(other.network) || other.contains(self.network)
    }

    /// Whether `address` is the network or the broadcast address of an IPv4 prefix, which no host has (RFC 1122
    /// section 3.2.1.3); a /31 (RFC 3021), a /32 and IPv6 have neither.
    #[must_use]
    pub fn is_reserved(self, address: IpAddr) -> bool {
        !self.is_ipv6() && self.length < 31 && (address == self.network || address == self.last())
    }
}

fn mask4(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
}

fn mask6(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(address: &str, length: u8) -> Prefix {
        Prefix::new(address.parse().unwrap(), length)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_at_the_ends_of_their_lengths() {
        let all = prefix("10.1.2.3", 0);
        assert_eq!((all, all.last()), (Prefix::DEFAULT, Ipv4Addr::BROADCAST.into()));
        assert!(all.contains(Ipv4Addr::BROADCAST.into()));
        let one = prefix("10.1.2.3", 33);
        assert_eq!(
            (one.to_string(), one.last()),
            ("10.1.2.3/32".to_owned(), one.network())
        );
        assert!(!one.is_reserved(one.network()));
        let pair = prefix("10.1.2.3", 31);
        assert!(!pair.is_reserved(pair.network()) && !pair.is_reserved(pair.last()));
        let four = prefix("10.1.2.3", 30);
        assert!(four.is_reserved(address("10.1.2.3")) && !four.is_reserved(address("10.1.2.2")));
        assert!(all.overlaps(four) && four.overlaps(pair) && !four.overlaps(prefix("10.1.2.4", 30)));
    }

    #[test]
    fn ipv6_prefixes_hold_no_ipv4() {
        let all = prefix("2001:db8::1", 0);
        assert_eq!((all, all.to_string()), (Prefix::DEFAULT6, "::/0".to_owned()));
        assert!(all.contains(address("ff02::1")) && !all.contains(address("10.0.0.1")));
        assert!(!Prefix::DEFAULT.contains(address("::")) && !all.overlaps(Prefix::DEFAULT));
        let net = prefix("2001:db8:0:1::5", 64);
        assert_eq!(net.to_string(), "2001:db8:0:1::/64");
        assert_eq!(net.last(), address("2001:db8:0:1:ffff:ffff:ffff:ffff"));
        assert!(net.contains(address("2001:db8:0:1::")) && !net.contains(address("2001:db8:0:2::")));
        assert!(!net.is_reserved(net.network()) && !net.is_reserved(net.last()));
        assert_eq!(prefix("::1", 200).length(), 128);
        assert!(Prefix::DEFAULT < Prefix::DEFAULT6);
    }
}
