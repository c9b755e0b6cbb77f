//! Rules of SNAT.

use dataplane::flow::Timeouts;
use dataplane::packet::ipv4::{ICMP, SCTP, TCP, UDP};
use dataplane::packet::ipv6::ICMP as ICMPV6;

use super::{PortRange, Prefix};
use crate::config::Place;

/// Whose packets to the outside get a local address as their source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnatRule {
    /// Its name, which is its identity: a reload goes by it.
    pub name: String,
    /// Where packets come from: prefixes of one family, never empty.
    pub sources: Vec<Prefix>,
    /// Where they go to, of the same family; empty = anywhere.
    pub destinations: Vec<Prefix>,
    /// Of which protocols; empty = all that can be translated.
    pub protocols: Vec<SnatProtocol>,
    /// To which ports; empty = to all. A rule that has any is not for echo.
    pub ports: Vec<PortRange>,
    /// Leave such packets as they are, and route them on.
    pub exempt: bool,
    /// Local addresses: indices into `local_addresses`. Empty only when exempt.
    pub local_addresses: Vec<usize>,
    /// Timeouts of the rule's own, complete; none = those of the settings.
    pub timeouts: Option<Timeouts>,
    /// Connections that one inside address may have at once; 0 = no limit.
    pub client_limit: u32,
    /// Where it stands.
    pub place: Place,
}

impl SnatRule {
    /// Whether the rule is for IPv6.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.sources
            .first()
            .is_some_and(|source| source.address().is_ipv6())
    }
}

/// A protocol that SNAT translates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SnatProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// Echo of ICMP, or of ICMPv6 in a rule for IPv6.
    Icmp,
}

impl SnatProtocol {
    /// All of them.
    pub const ALL: [SnatProtocol; 4] = [
        SnatProtocol::Tcp,
        SnatProtocol::Udp,
        SnatProtocol::Sctp,
        SnatProtocol::Icmp,
    ];

    /// The IP protocol number in that family.
    #[must_use]
    pub const fn number(self, ipv6: bool) -> u8 {
        match self {
            SnatProtocol::Tcp => TCP,
            SnatProtocol::Udp => UDP,
            SnatProtocol::Sctp => SCTP,
            SnatProtocol::Icmp if ipv6 => ICMPV6,
            SnatProtocol::Icmp => ICMP,
        }
    }

    /// Its name in the file and in listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SnatProtocol::Tcp => "tcp",
            SnatProtocol::Udp => "udp",
            SnatProtocol::Sctp => "sctp",
            SnatProtocol::Icmp => "icmp",
        }
    }
}
