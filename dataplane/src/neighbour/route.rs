//! Routes: which port and which next hop lead to an address. Built by `control`, part of the snapshot, read by
//! the workers when a connection or a packet of the gateway's own needs a next hop; records then cache the
//! neighbour, so this is not on the path of every packet.

use super::address::is_link_local;
use super::prefix::Prefix;
use crate::packet::PortId;
use ranges::Ranges;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

mod ranges;
#[cfg(test)]
mod tests;

/// A prefix that a port is on, from one of the port's addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Connected {
    /// The port.
    pub port: PortId,
    /// The network of its address.
    pub prefix: Prefix,
}

/// A static route; [`Prefix::DEFAULT`] and [`Prefix::DEFAULT6`] make it a default gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Route {
    /// Where it leads.
    pub to: Prefix,
    /// The gateway, of the same family: a host of a connected prefix, or a link-local address.
    pub via: IpAddr,
    /// The port that the gateway is on: needed where its address is link-local, since that is on every link.
    pub port: Option<PortId>,
}

/// The next hop towards a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
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
    /// Two static routes have the same destination.
    #[error("two routes lead to {to}: remove one")]
    Duplicate {
        /// The destination of both.
        to: Prefix,
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
}

impl RouteTable {
    /// Builds the table. A connected prefix goes before a static route to the same prefix; link-local ones are
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
        let connected: Vec<Connected> = connected
            .iter()
            .filter(|c| !LINK_LOCAL.covers(c.prefix))
            .copied()
            .collect();
        let mut hops = connected_hops(&connected, &mut errors);
        let mut seen = HashSet::new();
        for route in routes {
            if !seen.insert(route.to) {
                errors.push(RouteError::Duplicate { to: route.to });
            }
            match gateway(&connected, route) {
                Ok(gateway) => hops.push((route.to, Hop::Gateway(gateway))),
                Err(error) => errors.push(error),
            }
        }
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
        })
    }

    /// The next hop towards `destination`, or `None` when there is no route, or the destination is a broadcast,
    /// multicast, loopback, link-local or "this network" address.
    #[must_use]
    pub fn next_hop(&self, destination: IpAddr) -> Option<NextHop> {
        let hop = match destination {
            IpAddr::V4(address) => self.v4.find(address.to_bits()),
            IpAddr::V6(address) => self.v6.find(address.to_bits()),
        };
        match *hop? {
            Hop::None => None,
            Hop::Gateway(hop) => Some(hop),
            Hop::Connected(port) => Some(NextHop {
                port,
                address: destination,
            }),
        }
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
        self.next_hop(address)
            .filter(|hop| hop.address == address)
            .map(|hop| hop.port)
    }

    /// Whether `address` can be a neighbour on `port`, so that it is believed there what it says of itself.
    #[must_use]
    pub fn is_on_link(&self, port: PortId, address: IpAddr) -> bool {
        is_link_local(address) || self.on_link(address) == Some(port)
    }
}

/// The connected prefixes and their edges.
fn connected_hops(connected: &[Connected], errors: &mut Vec<RouteError>) -> Vec<(Prefix, Hop)> {
    let mut hops = Vec::with_capacity(connected.len() * 3);
    for (i, c) in connected.iter().enumerate() {
        match connected[..i].iter().find(|earlier| earlier.prefix == c.prefix) {
            Some(earlier) if earlier.port != c.port => errors.push(RouteError::SharedNetwork {
                prefix: c.prefix,
                first: earlier.port,
                second: c.port,
            }),
            Some(_) => {}
            None => hops.push((c.prefix, Hop::Connected(c.port))),
        }
    }
    // RFC 2644: directed broadcasts are not forwarded; nor is the old form with all zeros.
    for c in connected.iter().filter(|c| c.prefix.has_edges()) {
        for edge in [c.prefix.address(), c.prefix.last()] {
            hops.push((Prefix::around(edge, 32), Hop::None));
        }
    }
    hops
}

/// Where the gateway of a route is.
fn gateway(connected: &[Connected], route: &Route) -> Result<NextHop, RouteError> {
    let &Route { to, via, port } = route;
    if LINK_LOCAL.covers(to) {
        return Err(RouteError::LinkLocal { to });
    }
    if to.address().is_ipv4() != via.is_ipv4() {
        return Err(RouteError::TwoFamilies { to, via });
    }
    let found = if is_link_local(via) {
        Some(port.ok_or(RouteError::GatewayWithoutPort { to, via })?)
    } else {
        on_link(connected, via).filter(|found| port.is_none_or(|port| port == *found))
    };
    let port = found.ok_or(RouteError::GatewayOffLink { to, via })?;
    Ok(NextHop { port, address: via })
}

/// The port whose connected prefix, the longest if several do, has `address` as a host.
fn on_link(connected: &[Connected], address: IpAddr) -> Option<PortId> {
    let longest = connected
        .iter()
        .filter(|c| c.prefix.contains(address))
        .max_by_key(|c| c.prefix.length())?;
    longest.prefix.has_host(address).then_some(longest.port)
}
