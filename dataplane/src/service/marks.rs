//! Firewall marks: rules that gather packets to many addresses and ports under one number, for which there may be a
//! service. Asked for packets of no connection only.

use super::Protocol;
use crate::neighbour::Prefix;
use crate::packet::PortId;
use hashbrown::HashMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// One rule. A packet gets the mark when each part that the rule has holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarkRule {
    /// The mark, never 0.
    pub mark: u32,
    /// Where packets go to.
    pub destination: Prefix,
    /// Where they come from, of the same family; none = anywhere.
    pub source: Option<Prefix>,
    /// Their protocol; none = any that is balanced.
    pub protocol: Option<Protocol>,
    /// Their destination ports, in host order; empty = all.
    pub ports: Vec<RangeInclusive<u16>>,
    /// The Ethernet port that they come in by; none = any.
    pub input: Option<PortId>,
}

/// What of a packet rules look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MarkQuery {
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes to.
    pub destination: IpAddr,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its destination port, host order.
    pub port: u16,
    /// The Ethernet port that it came in by, if that is known.
    pub input: Option<PortId>,
}

impl MarkRule {
    /// Whether a packet falls under the rule.
    #[must_use]
    pub fn matches(&self, packet: &MarkQuery) -> bool {
        self.destination.contains(packet.destination)
            && self.source.is_none_or(|source| source.contains(packet.source))
            && self.protocol.is_none_or(|protocol| protocol == packet.protocol)
            && (self.ports.is_empty() || self.ports.iter().any(|ports| ports.contains(&packet.port)))
            && (self.input.is_none() || self.input == packet.input)
    }

    /// The destination, if it is one address: that is a VIP then.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.destination.is_host().then_some(self.destination.address())
    }
}

/// The rules in the order of the configuration: the first that a packet falls under decides. Looking one up takes a
/// probe for each length of their destinations.
#[derive(Clone, Debug, Default)]
pub struct MarkRules {
    rules: Vec<MarkRule>,
    /// Places in `rules`, ascending.
    by_destination: HashMap<Prefix, Vec<usize>>,
    /// The lengths of destinations, of IPv4 and IPv6.
    lengths: [Vec<u8>; 2],
}

/// What is derived from the rules says nothing more.
impl PartialEq for MarkRules {
    fn eq(&self, other: &MarkRules) -> bool {
        self.rules == other.rules
    }
}

impl MarkRules {
    /// These rules, in this order.
    #[must_use]
    pub fn new(rules: Vec<MarkRule>) -> MarkRules {
        let mut by_destination: HashMap<Prefix, Vec<usize>> = HashMap::new();
        let mut lengths: [Vec<u8>; 2] = Default::default();
        for (at, rule) in rules.iter().enumerate() {
            by_destination.entry(rule.destination).or_default().push(at);
            let lengths = &mut lengths[usize::from(rule.destination.address().is_ipv6())];
            if !lengths.contains(&rule.destination.length()) {
                lengths.push(rule.destination.length());
            }
        }
        MarkRules {
            rules,
            by_destination,
            lengths,
        }
    }

    /// All of them, in their order.
    #[must_use]
    pub fn rules(&self) -> &[MarkRule] {
        &self.rules
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether a destination is more than one address.
    #[must_use]
    pub fn has_prefixes(&self) -> bool {
        self.rules.iter().any(|rule| rule.address().is_none())
    }

    /// The mark of a packet.
    #[must_use]
    pub fn find(&self, packet: &MarkQuery) -> Option<u32> {
        let lengths = self.lengths[usize::from(packet.destination.is_ipv6())].iter();
        let around = lengths.map(|length| Prefix::around(packet.destination, *length));
        let matching = around.filter_map(|destination| {
            let mut places = self.by_destination.get(&destination)?.iter();
            places.find(|at| self.rules[**at].matches(packet))
        });
        matching.min().map(|at| self.rules[*at].mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(mark: u32, destination: &str) -> MarkRule {
        MarkRule {
            mark,
            destination: destination.parse().unwrap(),
            source: None,
            protocol: None,
            ports: Vec::new(),
            input: None,
        }
    }

    fn query(destination: &str, port: u16) -> MarkQuery {
        MarkQuery {
            source: [10, 1, 0, 1].into(),
            destination: destination.parse().unwrap(),
            protocol: Protocol::Tcp,
            port,
            input: Some(PortId(0)),
        }
    }

    #[test]
    fn each_part_that_a_rule_has_must_hold() {
        let whole = MarkRule {
            source: Some("10.1.0.0/16".parse().unwrap()),
            protocol: Some(Protocol::Tcp),
            ports: vec![21..=21, 10_000..=20_000],
            input: Some(PortId(0)),
            ..rule(7, "192.0.2.1/32")
        };
        assert!(whole.matches(&query("192.0.2.1", 21)) && whole.matches(&query("192.0.2.1", 15_000)));
        let right = query("192.0.2.1", 20_000);
        for wrong in [
            query("192.0.2.2", 21),
            query("192.0.2.1", 22),
            MarkQuery {
                source: [10, 2, 0, 1].into(),
                ..right
            },
            MarkQuery {
                protocol: Protocol::Udp,
                ..right
            },
            MarkQuery {
                input: Some(PortId(1)),
                ..right
            },
            MarkQuery { input: None, ..right },
        ] {
            assert!(!whole.matches(&wrong), "{wrong:?}");
        }
    }

    #[test]
    fn the_first_rule_decides_whatever_its_destination_is() {
        let rules = MarkRules::new(vec![
            MarkRule {
                ports: vec![443..=443],
                ..rule(1, "10.0.0.0/8")
            },
            rule(2, "10.9.0.1/32"),
            rule(3, "10.9.0.0/16"),
            rule(4, "fd09::/16"),
        ]);
        let find = |destination, port| rules.find(&query(destination, port));
        assert_eq!(find("10.9.0.1", 443), Some(1));
        assert_eq!(find("10.9.0.1", 80), Some(2));
        assert_eq!(find("10.9.0.2", 80), Some(3));
        assert_eq!(find("10.8.0.2", 80), None);
        assert_eq!(find("fd09::2", 80), Some(4));
        assert_eq!(find("fd08::2", 80), None);
        assert!(rules.has_prefixes());
        assert_eq!(rules.rules()[1].address(), Some([10, 9, 0, 1].into()));
        assert_eq!(MarkRules::default().find(&query("10.9.0.1", 80)), None);
    }
}
