//! What can be reached, and through which port: connected prefixes and static routes.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use crate::config::read::network::RawPort;
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
    /// A port or a route could not be read, so that nothing can be said.
    Unknown,
}

/// Connected prefixes and routes, to be looked up by longest prefix: one map for each length.
pub(crate) struct Links {
    connected: HashMap<Prefix, usize>,
    routes: HashMap<Prefix, Reach>,
    lengths: [bool; 33],
    complete: bool,
}

impl Links {
    /// The connected prefixes of `ports`.
    pub(crate) fn new(ports: &[RawPort]) -> Links {
        let mut links = Links {
            connected: HashMap::new(),
            routes: HashMap::new(),
            lengths: [false; 33],
            complete: !ports.is_empty(),
        };
        for (index, port) in ports.iter().enumerate() {
            links.complete &= !port.incomplete;
            for (_, address) in port.addresses.iter() {
                let prefix = address.prefix();
                links.lengths[usize::from(prefix.length())] = true;
                links.connected.entry(prefix).or_insert(index);
            }
        }
        links
    }

    /// Adds a route, which leads to neighbours on a port, or to a gateway there.
    pub(crate) fn add_route(&mut self, to: Prefix, reach: Reach) {
        self.lengths[usize::from(to.length())] = true;
        self.routes.entry(to).or_insert(reach);
    }

    /// Notes that a port or route is missing here.
    pub(crate) fn set_incomplete(&mut self) {
        self.complete = false;
    }

    /// Whether all ports and routes could be read.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// The connected prefix that holds `address`, and its port.
    pub(crate) fn connected(&self, address: Ipv4Addr) -> Option<(Prefix, usize)> {
        self.prefixes(address)
            .find_map(|prefix| Some((prefix, *self.connected.get(&prefix)?)))
    }

    /// Whether `prefix` itself is connected.
    pub(crate) fn is_connected(&self, prefix: Prefix) -> bool {
        self.connected.contains_key(&prefix)
    }

    /// Whether a prefix of port `port` holds `address`. Connected prefixes of two ports do not overlap.
    pub(crate) fn is_on(&self, address: Ipv4Addr, port: usize) -> bool {
        self.connected(address).is_some_and(|(_, found)| found == port)
    }

    /// How `address` is reached.
    pub(crate) fn reach(&self, address: Ipv4Addr) -> Reach {
        if !self.complete {
            return Reach::Unknown;
        }
        let of = |prefix| match self.connected.get(&prefix) {
            Some(port) => Some(Reach::OnLink(*port)),
            None => self.routes.get(&prefix).copied(),
        };
        self.prefixes(address).find_map(of).unwrap_or(Reach::Nowhere)
    }

    /// The prefixes of the lengths in use that hold `address`, longest first.
    fn prefixes(&self, address: Ipv4Addr) -> impl Iterator<Item = Prefix> {
        let lengths = (0..=32u8)
            .rev()
            .filter(|length| self.lengths[usize::from(*length)]);
        lengths.map(move |length| Prefix::new(address, length))
    }
}
