//! What identifies a service.

use super::Protocol;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// What identifies a service: VIP, port and protocol, or a firewall mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum ServiceKey {
    /// An endpoint that clients connect to.
    Endpoint {
        /// The virtual address.
        address: IpAddr,
        /// The virtual port, host order; 0 = every port that no other service has.
        port: u16,
        /// The transport protocol.
        protocol: Protocol,
    },
    /// Whatever packets have this mark, of any protocol.
    Mark {
        /// The mark, never 0.
        mark: u32,
        /// Whether it is the service of IPv6 packets; those of IPv4 have another.
        ipv6: bool,
    },
}

impl ServiceKey {
    /// The key of the service on an endpoint; `port` in host order.
    #[must_use]
    pub const fn new(address: IpAddr, port: u16, protocol: Protocol) -> ServiceKey {
        ServiceKey::Endpoint {
            address,
            port,
            protocol,
        }
    }

    /// The key in words, which take less to hash and to compare. No two keys have the same ones.
    #[inline]
    pub(super) const fn words(&self) -> (u128, u32) {
        match *self {
            ServiceKey::Endpoint {
                address,
                port,
                protocol,
            } => {
                let (bits, family) = match address {
                    IpAddr::V4(address) => (address.to_bits() as u128, 4),
                    IpAddr::V6(address) => (address.to_bits(), 6),
                };
                (bits, (port as u32) << 16 | family << 8 | protocol as u32)
            }
            ServiceKey::Mark { mark, ipv6 } => (mark as u128, (ipv6 as u32) << 8),
        }
    }

    /// The VIP; none for a mark, whose packets go to many.
    #[must_use]
    pub const fn address(&self) -> Option<IpAddr> {
        match *self {
            ServiceKey::Endpoint { address, .. } => Some(address),
            ServiceKey::Mark { .. } => None,
        }
    }

    /// The virtual port, host order; 0 = more than one.
    #[must_use]
    pub const fn port(&self) -> u16 {
        match *self {
            ServiceKey::Endpoint { port, .. } => port,
            ServiceKey::Mark { .. } => 0,
        }
    }

    /// The transport protocol; none for a mark, whose packets may have any.
    #[must_use]
    pub const fn protocol(&self) -> Option<Protocol> {
        match *self {
            ServiceKey::Endpoint { protocol, .. } => Some(protocol),
            ServiceKey::Mark { .. } => None,
        }
    }

    /// The firewall mark, if it is one that identifies the service.
    #[must_use]
    pub const fn mark(&self) -> Option<u32> {
        match *self {
            ServiceKey::Endpoint { .. } => None,
            ServiceKey::Mark { mark, .. } => Some(mark),
        }
    }

    /// Whether its clients have IPv6 addresses.
    #[must_use]
    pub const fn is_ipv6(&self) -> bool {
        match self {
            ServiceKey::Endpoint { address, .. } => address.is_ipv6(),
            ServiceKey::Mark { ipv6, .. } => *ipv6,
        }
    }
}

/// As operators write it: `203.0.113.100:80/tcp`, `[2001:db8::1]:80/tcp`; a mark as ipvsadm lists it, `FWM 6666`,
/// `FWM 6666 IPv6`.
impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ServiceKey::Endpoint {
                address,
                port,
                protocol,
            } => write!(f, "{}/{protocol}", SocketAddr::new(address, port)),
            ServiceKey::Mark { mark, ipv6: false } => write!(f, "FWM {mark}"),
            ServiceKey::Mark { mark, ipv6: true } => write!(f, "FWM {mark} IPv6"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_operators_do() {
        let key = |address: &str| ServiceKey::new(address.parse().unwrap(), 80, Protocol::Tcp).to_string();
        assert_eq!(key("203.0.113.100"), "203.0.113.100:80/tcp");
        assert_eq!(key("2001:db8::1"), "[2001:db8::1]:80/tcp");
        let mark = |ipv6| ServiceKey::Mark { mark: 6666, ipv6 }.to_string();
        assert_eq!((&*mark(false), &*mark(true)), ("FWM 6666", "FWM 6666 IPv6"));
    }

    #[test]
    fn no_two_keys_have_the_same_words() {
        let mut keys = vec![];
        for address in ["0.0.0.1", "::1", "::ffff:0.0.0.1", "203.0.113.100", "2001:db8::1"] {
            for port in [0, 1, 80, u16::MAX] {
                for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
                    keys.push(ServiceKey::new(address.parse().unwrap(), port, protocol));
                }
            }
        }
        for mark in [1, 80, u32::MAX] {
            keys.extend([false, true].map(|ipv6| ServiceKey::Mark { mark, ipv6 }));
        }
        let words: std::collections::HashSet<_> = keys.iter().map(ServiceKey::words).collect();
        assert_eq!(words.len(), keys.len());
    }
}
