//! What can be reached, and through which port: connected prefixes and static routes.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::config::read::address::is_link_local;
use crate::config::read::port::RawPort;
use crate::config::types::Prefix;

/// How an address is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// It is a neighbour on this port.
    OnLink(usize),
    /// It is behind a gateway on this port.
    Routed(usize),
    /// No prefix holds it.
    Nowhere,
    /// A port or a route could not be read, or may come from the kernel, so that nothing can be said.
    Unknown,
}

/// Connected prefixes and routes, to be looked up by longest prefix: one map for each length. Without link-local
/// ones, which every port is on.
pub(crate) struct Links {
    connected: HashMap<Prefix, usize>,
    routes: HashMap<Prefix, Reach>,
    /// Of IPv4 and IPv6.
    lengths: [[bool; 129]; 2],
    complete: bool,
    /// More routes come from the kernel, while the gateway runs.
    learning: bool,
}

impl Links {
    /// The connected prefixes of `ports`.
    pub(crate) fn new(ports: &[RawPort]) -> Links {
        let mut links = Links {
            connected: HashMap::new(),
            routes: HashMap::new(),
            lengths: [[false; 129]; 2],
            complete: !ports.is_empty(),
            learning: false,
        };
        for (index, port) in ports.iter().enumerate() {
            links.complete &= !port.incomplete;
            for (_, address) in port.addresses.iter() {
                if is_link_local(address.address) {
                    continue;
                }
                let prefix = address.prefix();
                links.note_length(prefix);
                links.connected.entry(prefix).or_insert(index);
            }
        }
        links
    }

    /// Adds a route, which leads to neighbours on a port, or to a gateway there.
    pub(crate) fn add_route(&mut self, to: Prefix, reach: Reach) {
        self.note_length(to);
        self.routes.entry(to).or_insert(reach);
    }

    fn note_length(&mut self, prefix: Prefix) {
        self.lengths[usize::from(prefix.address().is_ipv6())][usize::from(prefix.length())] = true;
    }

    /// Notes that a port or route is missing here.
    pub(crate) fn set_incomplete(&mut self) {
        self.complete = false;
    }

    /// Notes that more routes come while the gateway runs: then nothing is out of reach for certain.
    pub(crate) fn set_learning(&mut self) {
        self.learning = true;
    }

    /// Whether all ports and routes could be read.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// The connected prefix that holds `address`, and its port.
    pub(crate) fn connected(&self, address: IpAddr) -> Option<(Prefix, usize)> {
        self.prefixes(address)
            .find_map(|prefix| Some((prefix, *self.connected.get(&prefix)?)))
    }

    /// Whether a port has an address of that family.
    pub(crate) fn has_family(&self, ipv6: bool) -> bool {
        self.connected
            .keys()
            .any(|prefix| prefix.address().is_ipv6() == ipv6)
    }

    /// Whether `prefix` itself is connected.
    pub(crate) fn is_connected(&self, prefix: Prefix) -> bool {
        self.connected.contains_key(&prefix)
    }

    /// Whether a prefix of port `port` holds `address`. Connected prefixes of two ports do not overlap.
    pub(crate) fn is_on(&self, address: IpAddr, port: usize) -> bool {
        self.connected(address).is_some_and(|(_, found)| found == port)
    }

    /// How `address` is reached.
    pub(crate) fn reach(&self, address: IpAddr) -> Reach {
        if !self.complete {
            return Reach::Unknown;
        }
        let mut prefixes = self.prefixes(address);
        prefixes
            .find_map(|prefix| self.reach_of(prefix))
            .unwrap_or(self.beyond())
    }

    /// How the most of `prefix` is reached: by what holds all of it.
    pub(crate) fn reach_all(&self, prefix: Prefix) -> Reach {
        if !self.complete {
            return Reach::Unknown;
        }
        let holding = self
            .prefixes(prefix.address())
            .filter(|holding| holding.length() <= prefix.length());
        holding
            .into_iter()
            .find_map(|holding| self.reach_of(holding))
            .unwrap_or(self.beyond())
    }

    /// How what no prefix holds is reached.
    fn beyond(&self) -> Reach {
        match self.learning {
            true => Reach::Unknown,
            false => Reach::Nowhere,
        }
    }

    /// The way that a connected prefix or a route is.
    fn reach_of(&self, prefix: Prefix) -> Option<Reach> {
        match self.connected.get(&prefix) {
            Some(port) => Some(Reach::OnLink(*port)),
            None => self.routes.get(&prefix).copied(),
        }
    }

    /// The prefixes of the lengths in use that hold `address`, longest first.
    fn prefixes(&self, address: IpAddr) -> impl Iterator<Item = Prefix> {
        let lengths = &self.lengths[usize::from(address.is_ipv6())];
        let used = (0..=128u8).rev().filter(|length| lengths[usize::from(*length)]);
        used.map(move |length| Prefix::around(address, length))
    }
}
