//! IPv4 prefixes, as routes and the ports' networks are written.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// What was written is no prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PrefixError {
    /// Not `address/length`.
    #[error("not a prefix: write an IPv4 address, a slash and a length up to 32, such as 10.0.0.0/24")]
    Syntax,
    /// Bits are set behind the length.
    #[error("{written} names an address inside the prefix: write {}", Prefix::around(*.written, *.length))]
    HostBits {
        /// The address that was written.
        written: Ipv4Addr,
        /// The length that was written.
        length: u8,
    },
}

/// An IPv4 prefix; no bit is set behind its length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Prefix {
    address: Ipv4Addr,
    length: u8,
}

impl Prefix {
    /// Everything.
    pub const DEFAULT: Prefix = Prefix {
        address: Ipv4Addr::UNSPECIFIED,
        length: 0,
    };

    /// The prefix of that length that holds `address`, such as the network of a port's address. Lengths beyond
    /// 32 count as 32.
    #[must_use]
    pub const fn around(address: Ipv4Addr, length: u8) -> Prefix {
        let length = if length > 32 { 32 } else { length };
        Prefix {
            address: Ipv4Addr::from_bits(address.to_bits() & mask(length)),
            length,
        }
    }

    /// The first address.
    #[must_use]
    pub const fn address(self) -> Ipv4Addr {
        self.address
    }

    /// The length in bits, at most 32.
    #[must_use]
    pub const fn length(self) -> u8 {
        self.length
    }

    /// The last address: the directed broadcast where the prefix is a network of more than two hosts.
    #[must_use]
    pub const fn last(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() | !mask(self.length))
    }

    /// Whether `address` is inside.
    #[must_use]
    pub const fn contains(self, address: Ipv4Addr) -> bool {
        address.to_bits() & mask(self.length) == self.address.to_bits()
    }

    /// Whether `address` can be a host of the connected network: inside, and neither its all-zeros nor its
    /// all-ones address, which RFC 3021 frees in a /31.
    #[must_use]
    pub const fn has_host(self, address: Ipv4Addr) -> bool {
        let bits = address.to_bits();
        let edge = bits == self.address.to_bits() || bits == self.last().to_bits();
        self.contains(address) && (self.length >= 31 || !edge)
    }
}

const fn mask(length: u8) -> u32 {
    // A shift by 32 overflows, and is right as 0.
    match u32::MAX.checked_shl(32 - length as u32) {
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

    /// Reads `10.0.0.0/24`; refuses bits behind the length.
    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let (address, length) = text.split_once('/').ok_or(PrefixError::Syntax)?;
        let written: Ipv4Addr = address.parse().map_err(|_| PrefixError::Syntax)?;
        let length = match length.parse::<u8>() {
            Ok(n) if n <= 32 && n.to_string() == length => n,
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

    #[test]
    fn text_is_read_exactly() {
        let prefix: Prefix = "10.0.0.0/24".parse().unwrap();
        assert_eq!(
            (prefix.address(), prefix.length()),
            (Ipv4Addr::new(10, 0, 0, 0), 24)
        );
        assert_eq!(prefix.to_string(), "10.0.0.0/24");
        assert_eq!("0.0.0.0/0".parse(), Ok(Prefix::DEFAULT));
        for text in [
            "",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/08",
            "10.0.0/8",
            "::/0",
        ] {
            assert_eq!(text.parse::<Prefix>(), Err(PrefixError::Syntax), "{text}");
        }
        let error = "10.0.0.1/24".parse::<Prefix>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "10.0.0.1 names an address inside the prefix: write 10.0.0.0/24"
        );
    }

    #[test]
    fn hosts_are_told_from_the_edges() {
        let net = Prefix::around(Ipv4Addr::new(10, 0, 0, 77), 24);
        assert!(net.has_host(Ipv4Addr::new(10, 0, 0, 1)));
        assert!(!net.has_host(Ipv4Addr::new(10, 0, 0, 0)));
        assert!(!net.has_host(Ipv4Addr::new(10, 0, 0, 255)));
        assert!(!net.has_host(Ipv4Addr::new(10, 0, 1, 1)));
        // RFC 3021: both addresses of a /31 are hosts.
        let link = Prefix::around(Ipv4Addr::new(10, 0, 0, 1), 31);
        assert!(link.has_host(Ipv4Addr::new(10, 0, 0, 0)) && link.has_host(Ipv4Addr::new(10, 0, 0, 1)));
        assert!(Prefix::DEFAULT.contains(Ipv4Addr::BROADCAST));
        assert_eq!(Prefix::around(Ipv4Addr::BROADCAST, 99).length(), 32);
    }
}
