//! Routes: which port and which next hop lead to an address. Built by `control`, part of the snapshot, read by
//! the workers when a connection or a packet of the gateway's own needs a next hop; records then cache the
//! neighbour, so this is not on the path of every packet.

use super::prefix::Prefix;
use crate::packet::PortId;
use std::collections::HashSet;
use std::net::Ipv4Addr;

/// A prefix that a port is on, from one of the port's addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Connected {
    /// The port.
    pub port: PortId,
    /// The network of its address.
    pub prefix: Prefix,
}

/// A static route; [`Prefix::DEFAULT`] makes it the default gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Route {
    /// Where it leads.
    pub to: Prefix,
    /// The gateway, a host of a connected prefix.
    pub via: Ipv4Addr,
}

/// The next hop towards a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct NextHop {
    /// The port to send from.
    pub port: PortId,
    /// The neighbour: a gateway, or the destination itself where it is connected.
    pub address: Ipv4Addr,
}

/// What is wrong with a set of routes. `control` words it with the place in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RouteError {
    /// No port is on the gateway's network.
    #[error("route {to} via {via}: the gateway is no host of any port's network; name one that is")]
    GatewayOffLink {
        /// The route's destination.
        to: Prefix,
        /// Its gateway.
        via: Ipv4Addr,
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

/// Never forwarded (RFC 1812 5.3.7, RFC 1122 3.2.1.3), unless a route or port says so explicitly.
const MARTIANS: [Prefix; 4] = [
    Prefix::around(Ipv4Addr::new(0, 0, 0, 0), 8),
    Prefix::around(Ipv4Addr::new(127, 0, 0, 0), 8),
    Prefix::around(Ipv4Addr::new(224, 0, 0, 0), 4),
    Prefix::around(Ipv4Addr::BROADCAST, 32),
];

/// All routes, longest prefix first; equal tables send every packet the same way.
///
/// The prefixes are flattened into disjoint ranges, found by binary search: exact for any set, compact, and quick
/// for up to some thousand routes (13 steps for 4,000). For full BGP tables a DIR-24-8 trie takes its place, which
/// costs 64 MB and one or two loads a lookup, and takes single changes without a rebuild.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RouteTable {
    /// First addresses of the ranges, ascending; apart from the hops, so that a search stays in few lines.
    starts: Box<[u32]>,
    hops: Box<[Hop]>,
}

impl RouteTable {
    /// Builds the table. A connected prefix goes before a static route to the same prefix.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the arguments.
    pub fn new(connected: &[Connected], routes: &[Route]) -> Result<RouteTable, Vec<RouteError>> {
        let mut errors = Vec::new();
        let mut hops = Vec::with_capacity(connected.len() * 3 + routes.len() + MARTIANS.len());
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
        for c in connected.iter().filter(|c| c.prefix.length() < 31) {
            for edge in [c.prefix.address(), c.prefix.last()] {
                hops.push((Prefix::around(edge, 32), Hop::None));
            }
        }
        let mut seen = HashSet::new();
        for &Route { to, via } in routes {
            if !seen.insert(to) {
                errors.push(RouteError::Duplicate { to });
            }
            match on_link(connected, via) {
                Some(port) => hops.push((to, Hop::Gateway(NextHop { port, address: via }))),
                None => errors.push(RouteError::GatewayOffLink { to, via }),
            }
        }
        hops.extend(MARTIANS.map(|prefix| (prefix, Hop::None)));
        if errors.is_empty() {
            Ok(RouteTable::flatten(hops))
        } else {
            Err(errors)
        }
    }

    /// The next hop towards `destination`, or `None` when there is no route, or the destination is a broadcast,
    /// multicast, loopback or "this network" address.
    #[must_use]
    pub fn next_hop(&self, destination: Ipv4Addr) -> Option<NextHop> {
        let behind = self
            .starts
            .partition_point(|&start| start <= destination.to_bits());
        match self.hops.get(behind.wrapping_sub(1))? {
            Hop::None => None,
            Hop::Gateway(hop) => Some(*hop),
            Hop::Connected(port) => Some(NextHop {
                port: *port,
                address: destination,
            }),
        }
    }

    /// The connected port on whose network `address` is a host: where ARP for it is heard and asked.
    #[must_use]
    pub fn on_link(&self, address: Ipv4Addr) -> Option<PortId> {
        self.next_hop(address)
            .filter(|hop| hop.address == address)
            .map(|hop| hop.port)
    }

    /// Flattens nested prefixes into ranges. Of several hops for one prefix the first counts.
    fn flatten(mut hops: Vec<(Prefix, Hop)>) -> RouteTable {
        // By first address, the widest first, so that each prefix comes after those around it. The sort is
        // stable and keeps the order of equal prefixes.
        hops.sort_by_key(|(prefix, _)| *prefix);
        hops.dedup_by_key(|(prefix, _)| *prefix);
        let mut ranges: Vec<(u32, Hop)> = vec![(0, Hop::None)];
        // The prefixes around the current address, each with its last address.
        let mut around: Vec<(u32, Hop)> = vec![(u32::MAX, Hop::None)];
        for (prefix, hop) in hops {
            let start = prefix.address().to_bits();
            close(&mut around, &mut ranges, Some(start));
            begin(&mut ranges, start, hop);
            around.push((prefix.last().to_bits(), hop));
        }
        close(&mut around, &mut ranges, None);
        ranges.dedup_by_key(|(_, hop)| *hop);
        RouteTable {
            starts: ranges.iter().map(|(start, _)| *start).collect(),
            hops: ranges.iter().map(|(_, hop)| *hop).collect(),
        }
    }
}

/// Ends the prefixes that end before `start` (all, when there is none): behind each the one around it goes on.
fn close(around: &mut Vec<(u32, Hop)>, ranges: &mut Vec<(u32, Hop)>, start: Option<u32>) {
    while around.len() > 1
        && let Some(&(last, _)) = around.last()
        && start.is_none_or(|start| last < start)
    {
        around.pop();
        if let (Some(next), Some(&(_, hop))) = (last.checked_add(1), around.last()) {
            begin(ranges, next, hop);
        }
    }
}

/// A range begins; one that begins at the same place, and so would be empty, gives way to it.
fn begin(ranges: &mut Vec<(u32, Hop)>, start: u32, hop: Hop) {
    match ranges.last_mut() {
        Some(last) if last.0 == start => last.1 = hop,
        _ => ranges.push((start, hop)),
    }
}

/// The port whose connected prefix, the longest if several do, has `address` as a host.
fn on_link(connected: &[Connected], address: Ipv4Addr) -> Option<PortId> {
    let longest = connected
        .iter()
        .filter(|c| c.prefix.contains(address))
        .max_by_key(|c| c.prefix.length())?;
    longest.prefix.has_host(address).then_some(longest.port)
}

#[cfg(test)]
mod tests;
