//! Persistence: which clients are kept on their server, and how long.

use crate::neighbour::Prefix;
use std::net::{IpAddr, Ipv4Addr};

/// How a service keeps clients on the server that they got first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Persistence {
    /// How long a client's server is remembered after its last connection was opened, in ticks.
    pub timeout: u32,
    /// The bits of an IPv4 client's address that count. Any mask will do; 0.0.0.0 makes all clients one.
    pub netmask: Ipv4Addr,
    /// How many leading bits of an IPv6 client's address count, 1 to 128.
    pub prefix: u8,
    /// How many connections the server of a client with many may have, in percent of its share of all: beyond that the
    /// client's new connections are scheduled. 0 = any number.
    pub bound: u32,
}

impl Persistence {
    /// Each client by itself, remembered for that many ticks.
    #[must_use]
    pub const fn new(timeout: u32) -> Persistence {
        Persistence {
            timeout,
            netmask: Ipv4Addr::BROADCAST,
            prefix: 128,
            bound: 0,
        }
    }

    /// What of a client's address counts.
    #[must_use]
    pub fn masked(&self, client: IpAddr) -> IpAddr {
        match client {
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & self.netmask.to_bits()).into(),
            IpAddr::V6(_) => Prefix::around(client, self.prefix).address(),
        }
    }
}

/// What of a packet makes a client beside its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum PersistenceEngine {
    /// The Call-ID of a SIP message over UDP (RFC 3261 8.1.1.4). Datagrams without one are dropped.
    Sip,
}

impl PersistenceEngine {
    /// As in commands, configuration and listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PersistenceEngine::Sip => "sip",
        }
    }

    /// The engine of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<PersistenceEngine> {
        (name == PersistenceEngine::Sip.name()).then_some(PersistenceEngine::Sip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_mask_says_which_bits_count() {
        let masked = |netmask: [u8; 4], prefix, client: &str| {
            let persistence = Persistence {
                netmask: netmask.into(),
                prefix,
                ..Persistence::new(1)
            };
            persistence.masked(client.parse().unwrap()).to_string()
        };
        assert_eq!(masked([255, 255, 255, 0], 1, "198.51.100.99"), "198.51.100.0");
        assert_eq!(masked([255, 0, 255, 0], 1, "198.51.100.99"), "198.0.100.0");
        assert_eq!(masked([0; 4], 1, "198.51.100.99"), "0.0.0.0");
        assert_eq!(masked([255; 4], 64, "2001:db8:1:2::9"), "2001:db8:1:2::");
        assert_eq!(masked([255; 4], 128, "2001:db8:1:2::9"), "2001:db8:1:2::9");
    }
}
