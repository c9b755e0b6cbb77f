//! Rules of SNAT: whose packets to the outside get a local address as their source.

use crate::flow::Timeouts;
use crate::local::LipPool;
use crate::neighbour::Prefix;
use hashbrown::HashMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// One rule. A packet falls under it when each part that it has holds; an empty list holds for all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnatRule {
    /// Its stable slot, among those of servers: counters are indexed by it, and connection records name it.
    pub slot: u32,
    /// Where packets come from; of one family, which is that of the rule. Never empty.
    pub sources: Vec<Prefix>,
    /// Where they go to, of the same family.
    pub destinations: Vec<Prefix>,
    /// IP protocol numbers: TCP, UDP, SCTP, ICMP or ICMPv6 (echo).
    pub protocols: Vec<u8>,
    /// Destination ports, in host order; a rule that has any is not for echo.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Leave such packets as they are, and route them on. The rest of the rule has no meaning then.
    pub exempt: bool,
    /// Local addresses to take, tried in this order; those of the rule's family.
    pub local_pools: Vec<Arc<LipPool>>,
    /// Timeouts that differ from those of the settings; none = no such.
    pub timeouts: Option<Arc<Timeouts>>,
    /// Connections that one inside address may have at once under this rule; 0 = no limit.
    pub client_limit: u32,
}

/// What of a packet rules look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnatQuery {
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes to.
    pub destination: IpAddr,
    /// Its IP protocol number.
    pub protocol: u8,
    /// Its destination port, in host order; none for echo.
    pub port: Option<u16>,
}

impl SnatRule {
    /// Whether a packet falls under the rule.
    #[must_use]
    pub fn matches(&self, packet: &SnatQuery) -> bool {
        let holds = |prefixes: &[Prefix], address| {
            prefixes.is_empty() || prefixes.iter().any(|prefix| prefix.contains(address))
        };
        let port = match packet.port {
            Some(port) => self.ports.is_empty() || self.ports.iter().any(|ports| ports.contains(&port)),
            None => self.ports.is_empty(),
        };
        port && (self.protocols.is_empty() || self.protocols.contains(&packet.protocol))
            && holds(&self.sources, packet.source)
            && holds(&self.destinations, packet.destination)
    }
}

/// The rules in the order of the configuration: the first that a packet falls under decides.
#[derive(Clone, Debug, Default)]
pub struct SnatRules {
    rules: Vec<SnatRule>,
    by_slot: HashMap<u32, usize>,
}

impl SnatRules {
    /// These rules, in this order.
    #[must_use]
    pub fn new(rules: Vec<SnatRule>) -> SnatRules {
        let by_slot = rules
            .iter()
            .enumerate()
            .map(|(at, rule)| (rule.slot, at))
            .collect();
        SnatRules { rules, by_slot }
    }

    /// All of them, in their order.
    #[must_use]
    pub fn rules(&self) -> &[SnatRule] {
        &self.rules
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule that a packet falls under.
    #[must_use]
    pub fn find(&self, packet: &SnatQuery) -> Option<&SnatRule> {
        self.rules.iter().find(|rule| rule.matches(packet))
    }

    /// The rule in that slot.
    #[must_use]
    pub fn by_slot(&self, slot: u32) -> Option<&SnatRule> {
        self.by_slot.get(&slot).map(|&at| &self.rules[at])
    }
}
