//! Routes: which port and which next hop lead to an address. Built by `control`, part of the snapshot, read by
//! the workers when a connection or a packet of the gateway's own needs a next hop; records then cache the
//! neighbour, so this is not on the path of every packet.

use super::address::is_link_local;
use super::prefix::Prefix;
use crate::packet::PortId;
use ranges::Ranges;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

mod ranges;
mod several;
#[cfg(test)]
mod tests;

pub use several::{Hops, Several, WeightedHop};

/// A prefix that a port is on, from one of the port's addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Connected {
    /// The port.
    pub port: PortId,
    /// The network of its address.
    pub prefix: Prefix,
}

/// A route by one gateway; [`Prefix::DEFAULT`] and [`Prefix::DEFAULT6`] make it a default gateway. Several to the same
/// prefix share its flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Route {
    /// Where it leads.
    pub to: Prefix,
    /// The gateway, of the same family: a host of a connected prefix, or a link-local address.
    pub via: IpAddr,
    /// The port that the gateway is on: needed where its address is link-local, since that is on every link.
    pub port: Option<PortId>,
    /// Its share of the flows, against the weights of the other routes to the prefix.
    pub weight: u16,
}

/// The next hop towards a destination.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct NextHop {
    /// The port to send from.
    pub port: PortId,
    /// The neighbour: a gateway, or the destination itself where it is connected.
    pub address: IpAddr,
}

/// What is wrong with a set of routes. `control` words it with the place in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RouteError {
    /// No port is on the gateway's network, or not the one that was named.
    #[error("route {to} via {via}: the gateway is no host of any port's network; name one that is")]
    GatewayOffLink {
        /// The route's destination.
        to: Prefix,
        /// Its gateway.
        via: IpAddr,
    },
    /// The gateway's address does not tell on which link it is.
    #[error("route {to} via {via}: a link-local address is on every link; name the gateway's port as well")]
    GatewayWithoutPort {
        /// The route's destination.
        to: Prefix,
        /// Its gateway.
        via: IpAddr,
    },
    /// Destination and gateway are of two families.
    #[error("route {to} via {via}: the gateway is of another address family; name one of the same")]
    TwoFamilies {
        /// The route's destination.
        to: Prefix,
        /// Its gateway.
        via: IpAddr,
    },
    /// The destination is link-local.
    #[error("route {to}: link-local addresses are on every link and never routed; remove the route")]
    LinkLocal {
        /// The route's destination.
        to: Prefix,
    },
    /// Two routes have the same destination and the same gateway.
    #[error("two routes lead to {to} via {via}: remove one, and write its share of the flows as `weight`")]
    Duplicate {
        /// The destination of both.
        to: Prefix,
        /// The gateway of both.
        via: IpAddr,
    },
    /// Two ports are on the same network.
    #[error("ports {} and {} are both on {prefix}: give one of them another network", .first.0, .second.0)]
    SharedNetwork {
        /// The network.
        prefix: Prefix,
        /// The port given first.
        first: PortId,
        /// The other one.
        second: PortId,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hop {
    /// Not to be forwarded, or no route.
    None,
    Connected(PortId),
    Gateway(NextHop),
    /// The index of a set of next hops.
    Several(u32),
}

/// RFC 4291 2.5.6. Every port is on it, and no route leads there.
const LINK_LOCAL: Prefix = v6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10);

/// Never forwarded (RFC 1812 5.3.7, RFC 1122 3.2.1.3, RFC 4291 2.5 and 2.7), unless a route or port says so
/// explicitly. An IPv4-mapped IPv6 address stands for IPv4 inside a host and is never on a wire.
const MARTIANS: [Prefix; 9] = [
    v4(Ipv4Addr::new(0, 0, 0, 0), 8),
    v4(Ipv4Addr::new(127, 0, 0, 0), 8),
    v4(Ipv4Addr::new(224, 0, 0, 0), 4),
    v4(Ipv4Addr::BROADCAST, 32),
    v6(Ipv6Addr::UNSPECIFIED, 128),
    v6(Ipv6Addr::LOCALHOST, 128),
    v6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96),
    v6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
    LINK_LOCAL,
];

const fn v4(address: Ipv4Addr, length: u8) -> Prefix {
    Prefix::around(IpAddr::V4(address), length)
}

const fn v6(address: Ipv6Addr, length: u8) -> Prefix {
    Prefix::around(IpAddr::V6(address), length)
}

/// All routes of both families, longest prefix first; equal tables send every packet the same way.
///
/// The prefixes of each family are flattened into disjoint ranges, found by binary search: exact for any set,
/// compact, and quick for up to some thousand routes (13 steps for 4,000). For full BGP tables a DIR-24-8 trie takes
/// its place, which costs 64 MB and one or two loads a lookup, and takes single changes without a rebuild.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RouteTable {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
    /// Each in the order of port and address, and all of them in order, so that equal routes give equal tables.
    several: Box<[Box<[WeightedHop]>]>,
    /// Each next hop that is in one of them.
    shared: Box<[NextHop]>,
}

impl RouteTable {
    /// Builds the table. A connected prefix goes before a route to the same prefix; link-local ones are
    /// left out, since every port is on them. Nothing leads to the `unreachable` prefixes, unless a longer one has a
    /// route.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the arguments.
    pub fn new(
        connected: &[Connected],
        routes: &[Route],
        unreachable: &[Prefix],
    ) -> Result<RouteTable, Vec<RouteError>> {
        let mut errors = Vec::new();
        let links = Links::new(connected, &mut errors);
        let mut hops = links.hops();
        let mut ways: BTreeMap<Prefix, Vec<WeightedHop>> = BTreeMap::new();
        for route in routes {
            match links.gateway(route) {
                Ok(hop) => {
                    let several = ways.entry(route.to).or_default();
                    if several.iter().any(|known| known.hop == hop) {
                        let Route { to, via, .. } = *route;
                        errors.push(RouteError::Duplicate { to, via });
                    }
                    let weight = route.weight.max(1);
                    several.push(WeightedHop { hop, weight });
                }
                Err(error) => errors.push(error),
            }
        }
        ways.values_mut().for_each(|hops| hops.sort_unstable());
        let several: BTreeSet<&[WeightedHop]> = ways
            .values()
            .filter(|hops| hops.len() > 1)
            .map(|hops| &**hops)
            .collect();
        let shared: BTreeSet<NextHop> = several.iter().copied().flatten().map(|hop| hop.hop).collect();
        let numbers: HashMap<&[WeightedHop], u32> = several.iter().copied().zip(0..).collect();
        hops.extend(ways.iter().map(|(to, hops)| {
            let way = match (numbers.get(&**hops), hops.first()) {
                (Some(number), _) => Hop::Several(*number),
                (None, Some(only)) => Hop::Gateway(only.hop),
                (None, None) => Hop::None,
            };
            (*to, way)
        }));
        let nowhere = unreachable.iter().chain(&MARTIANS);
        hops.extend(nowhere.map(|&prefix| (prefix, Hop::None)));
        if !errors.is_empty() {
            return Err(errors);
        }
        let (v4, v6) = hops
            .into_iter()
            .partition(|(prefix, _)| prefix.address().is_ipv4());
        Ok(RouteTable {
            v4: Ranges::flatten(v4, u32::MAX.into(), |bits| bits as u32),
            v6: Ranges::flatten(v6, u128::MAX, |bits| bits),
            several: several.into_iter().map(Box::from).collect(),
            shared: shared.into_iter().collect(),
        })
    }

    /// The ways towards `destination`, or `None` when there is no route, or the destination is a broadcast,
    /// multicast, loopback, link-local or "this network" address.
    #[must_use]
    pub fn hops(&self, destination: IpAddr) -> Option<Hops<'_>> {
        let hop = match destination {
            IpAddr::V4(address) => self.v4.find(address.to_bits()),
            IpAddr::V6(address) => self.v6.find(address.to_bits()),
        };
        Some(match *hop? {
            Hop::None => return None,
            Hop::Gateway(hop) => Hops::One(hop),
            Hop::Connected(port) => Hops::One(NextHop {
                port,
                address: destination,
            }),
            Hop::Several(number) => Hops::Several(Several(self.several.get(number as usize)?)),
        })
    }

    /// As [`RouteTable::hops`], of several the first: for what concerns no one flow.
    #[must_use]
    pub fn next_hop(&self, destination: IpAddr) -> Option<NextHop> {
        self.hops(destination)?.first()
    }

    /// The next hops that share prefixes with others.
    #[must_use]
    pub fn shared_hops(&self) -> &[NextHop] {
        &self.shared
    }

    /// The next hop towards somebody who was heard on `port`: as [`RouteTable::next_hop`], but a link-local address
    /// is a neighbour on that port.
    #[must_use]
    pub fn next_hop_back(&self, port: PortId, destination: IpAddr) -> Option<NextHop> {
        if is_link_local(destination) {
            Some(NextHop {
                port,
                address: destination,
            })
        } else {
            self.next_hop(destination)
        }
    }

    /// The connected port on whose network `address` is a host. Link-local addresses are on no one port's.
    #[must_use]
    pub fn on_link(&self, address: IpAddr) -> Option<PortId> {
        match self.hops(address)? {
            Hops::One(hop) if hop.address == address => Some(hop.port),
            Hops::One(_) | Hops::Several(_) => None,
        }
    }

    /// Whether `address` can be a neighbour on `port`, so that it is believed there what it says of itself.
    #[must_use]
    pub fn is_on_link(&self, port: PortId, address: IpAddr) -> bool {
        is_link_local(address) || self.on_link(address) == Some(port)
    }
}

/// The connected prefixes, less link-local ones.
struct Links {
    /// Each once, in the order in which they were given.
    connected: Vec<Connected>,
    by_prefix: HashMap<Prefix, PortId>,
    /// The lengths in use, longest first.
    lengths: BTreeSet<std::cmp::Reverse<u8>>,
}

impl Links {
    fn new(connected: &[Connected], errors: &mut Vec<RouteError>) -> Links {
        let mut links = Links {
            connected: Vec::with_capacity(connected.len()),
            by_prefix: HashMap::new(),
            lengths: BTreeSet::new(),
        };
        for c in connected.iter().filter(|c| !LINK_LOCAL.covers(c.prefix)) {
            match links.by_prefix.get(&c.prefix).copied() {
                Some(first) if first != c.port => errors.push(RouteError::SharedNetwork {
                    prefix: c.prefix,
                    first,
                    second: c.port,
                }),
                Some(_) => {}
                None => {
                    links.by_prefix.insert(c.prefix, c.port);
                    links.lengths.insert(std::cmp::Reverse(c.prefix.length()));
                    links.connected.push(*c);
                }
            }
        }
        links
    }

    /// The connected prefixes and their edges.
    fn hops(&self) -> Vec<(Prefix, Hop)> {
        let networks = self.connected.iter().map(|c| (c.prefix, Hop::Connected(c.port)));
        let mut hops: Vec<_> = networks.collect();
        // RFC 2644: directed broadcasts are not forwarded; nor is the old form with all zeros.
        for c in self.connected.iter().filter(|c| c.prefix.has_edges()) {
            for edge in [c.prefix.address(), c.prefix.last()] {
                hops.push((Prefix::around(edge, 32), Hop::None));
            }
        }
        hops
    }

    /// Where the gateway of a route is.
    fn gateway(&self, route: &Route) -> Result<NextHop, RouteError> {
        let &Route { to, via, port, .. } = route;
        if LINK_LOCAL.covers(to) {
            return Err(RouteError::LinkLocal { to });
        }
        if to.address().is_ipv4() != via.is_ipv4() {
            return Err(RouteError::TwoFamilies { to, via });
        }
        let found = if is_link_local(via) {
            Some(port.ok_or(RouteError::GatewayWithoutPort { to, via })?)
        } else {
            self.on_link(via)
                .filter(|found| port.is_none_or(|port| port == *found))
        };
        let port = found.ok_or(RouteError::GatewayOffLink { to, via })?;
        Ok(NextHop { port, address: via })
    }

    /// The port whose connected prefix, the longest if several do, has `address` as a host.
    fn on_link(&self, address: IpAddr) -> Option<PortId> {
        let width = if address.is_ipv4() { 32 } else { 128 };
        let lengths = self.lengths.iter().filter(|length| length.0 <= width);
        let mut around = lengths.map(|length| Prefix::around(address, length.0));
        let (prefix, port) = around.find_map(|prefix| Some((prefix, *self.by_prefix.get(&prefix)?)))?;
        prefix.has_host(address).then_some(port)
    }
}
