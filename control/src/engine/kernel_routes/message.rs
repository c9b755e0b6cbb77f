//! What a message of the kernel about a route means (rtnetlink(7)), and which routes of many count.

use super::super::netlink::{attribute, attributes, number};
use crate::model::{LearntHop, LearntRoute};
use dataplane::neighbour::Prefix;
use dataplane::packet::PortId;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Bytes of a route's own header.
pub(super) const HEADER: usize = 12;
/// AF_INET and AF_INET6.
pub(super) const FAMILIES: [u8; 2] = [V4, V6];
const V4: u8 = 2;
const V6: u8 = 10;
/// Bytes of the header of each of several next hops.
const HOP_HEADER: usize = 8;

const NEW_ROUTE: u16 = 24;
const UNICAST: u8 = 1;
/// A route that the kernel has made of another one for itself.
const CLONED: u32 = 0x200;
/// The next hop is not to be used: dead, or its link is down.
const DEAD: u32 = 0x1 | 0x10;

const DESTINATION: u16 = 1;
const DEVICE: u16 = 4;
const GATEWAY: u16 = 5;
const METRIC: u16 = 6;
const SEVERAL: u16 = 9;
const TABLE: u16 = 15;
/// A gateway of another family.
const VIA: u16 = 18;
/// What packets are to be wrapped in.
const WRAPPING: u16 = 21;

/// The routes of one table, as they come.
pub(super) struct Collector {
    table: u32,
    /// By the number of the device that stands for each.
    ports: HashMap<u32, PortId>,
    /// With the metric of each.
    found: BTreeMap<Prefix, (u32, Vec<LearntHop>)>,
}

impl Collector {
    pub(super) fn new(table: u32, ports: HashMap<u32, PortId>) -> Collector {
        Collector {
            table,
            ports,
            found: BTreeMap::new(),
        }
    }

    /// Takes a message. Of the routes to one prefix that leave by our ports, the one with the lowest metric counts, and
    /// of equal ones the first, as in the kernel.
    pub(super) fn take(&mut self, kind: u16, payload: &[u8]) {
        if kind != NEW_ROUTE {
            return;
        }
        if let Some((to, metric, hops)) = self.read(payload)
            && self.found.get(&to).is_none_or(|known| metric < known.0)
        {
            self.found.insert(to, (metric, hops));
        }
    }

    /// What has been found, in the order of prefixes.
    pub(super) fn routes(self) -> Vec<LearntRoute> {
        let found = self.found.into_iter();
        found.map(|(to, (_, hops))| LearntRoute { to, hops }).collect()
    }

    /// A route of the table by one of our ports: destinations, metric and ways.
    fn read(&self, payload: &[u8]) -> Option<(Prefix, u32, Vec<LearntHop>)> {
        let (head, attributes) = payload.split_at_checked(HEADER)?;
        let &[family, length, source_length, tos, table, _, _, kind, ..] = head else {
            return None;
        };
        let flags = number(head, 8)?;
        let value = |kind| attribute(attributes, kind).and_then(|value| number(value, 0));
        let ours = value(TABLE).unwrap_or(table.into()) == self.table;
        // Routes for some sources or types of service alone are none that we can follow.
        let plain = kind == UNICAST && source_length == 0 && tos == 0 && flags & CLONED == 0;
        if !ours || !plain {
            return None;
        }
        let zero = match family {
            V4 => IpAddr::from([0; 4]),
            V6 => IpAddr::from([0; 16]),
            _ => return None,
        };
        let to = match attribute(attributes, DESTINATION) {
            Some(bytes) => address(bytes)?,
            None => zero,
        };
        if to.is_ipv4() != zero.is_ipv4() {
            return None;
        }
        let to = Prefix::around(to, length);
        if is_link_local(to) {
            return None;
        }
        let mut hops = match attribute(attributes, SEVERAL) {
            Some(bytes) => self.several(bytes),
            None => {
                let device = value(DEVICE)?;
                self.hop(device, flags, 0, attributes).into_iter().collect()
            }
        };
        hops.retain(|hop| hop.via.is_none_or(|via| via.is_ipv4() == zero.is_ipv4()));
        hops.sort_unstable();
        hops.dedup_by_key(|hop| (hop.port, hop.via));
        (!hops.is_empty()).then(|| (to, value(METRIC).unwrap_or(0), hops))
    }

    /// Several next hops, each with a header and attributes of its own; ends where they make no sense.
    fn several(&self, mut bytes: &[u8]) -> Vec<LearntHop> {
        let mut hops = Vec::new();
        while let Some(&[low, high, flags, weight]) = bytes.first_chunk()
            && let len = usize::from(u16::from_ne_bytes([low, high]))
            && let Some(inner) = bytes.get(HOP_HEADER..len)
            && let Some(device) = number(bytes, 4)
        {
            hops.extend(self.hop(device, flags.into(), weight, inner));
            bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        hops
    }

    /// One next hop, if it is by one of our ports and can be used. The kernel counts weights from 0.
    fn hop(&self, device: u32, flags: u32, weight: u8, bytes: &[u8]) -> Option<LearntHop> {
        let port = *self.ports.get(&device)?;
        let strange = attributes(bytes).any(|(kind, _)| kind == VIA || kind == WRAPPING);
        if flags & DEAD != 0 || strange {
            return None;
        }
        let via = match attribute(bytes, GATEWAY) {
            Some(bytes) => Some(address(bytes)?),
            None => None,
        };
        let weight = u16::from(weight) + 1;
        Some(LearntHop { port, via, weight })
    }
}

/// RFC 4291 2.5.6: every device has these, and nobody routes them.
fn is_link_local(prefix: Prefix) -> bool {
    matches!(prefix.address(), IpAddr::V6(address) if address.is_unicast_link_local())
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
