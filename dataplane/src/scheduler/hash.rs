//! What the hashing schedulers share: addresses as 32 bits, the multiplicative hash, and the picking from a table
//! that control has built.

use super::{Arrival, Bound, Loads, Scheduler, SchedulerFlags, SchedulerKind, dh, mh, sh};
use crate::service::Service;
use std::net::IpAddr;

/// An address as 32 bits, as LVS takes it: the four words of an IPv6 address in an exclusive or.
pub(super) fn folded(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            (bits >> 96) as u32 ^ (bits >> 64) as u32 ^ (bits >> 32) as u32 ^ bits as u32
        }
    }
}

/// The top 8 bits of a product with 2^32 over the golden ratio (Knuth's multiplicative hash).
pub(super) fn byte(value: u32) -> u8 {
    (value.wrapping_mul(0x61c8_8647) >> 24) as u8
}

/// The table of an algorithm over a service's servers: positions in the list, or nothing when there is no server to fill
/// it with.
pub(super) fn table(kind: SchedulerKind, service: &Service) -> Box<[u32]> {
    let servers = &service.servers;
    match kind {
        SchedulerKind::Mh if service.policy.bound != 0 => mh::table(servers, mh::Order::ByAddress),
        SchedulerKind::Sh => sh::table(servers),
        SchedulerKind::Dh => dh::table(servers),
        SchedulerKind::Mh => mh::table(servers, mh::Order::OfList),
        _ => Box::default(),
    }
}

/// One of `sh dh mh`: all that they know is in the service's table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashed(pub(super) SchedulerKind);

impl Hashed {
    /// Where in a table of `slots` entries the packet looks: at its place with `offset` 0, further on otherwise.
    fn place(self, arrival: &Arrival, port: u16, offset: u32, slots: usize) -> usize {
        match self.0 {
            SchedulerKind::Dh => dh::place(arrival.destination),
            SchedulerKind::Mh => mh::place(arrival.source, port, offset, slots),
            _ => sh::place(arrival.source, port, offset),
        }
    }
}

impl Scheduler for Hashed {
    fn pick(&mut self, service: &Service, loads: &impl Loads, arrival: &Arrival) -> Option<usize> {
        let table = service.tables.lookup();
        if table.is_empty() {
            return None;
        }
        let flags = service.scheduler_flags;
        let port = if flags.has(SchedulerFlags::PORT) {
            arrival.source_port
        } else {
            0
        };
        let bounded = self.0 == SchedulerKind::Mh && service.policy.bound != 0;
        let bound = bounded.then(|| Bound::of(service.policy.bound, service, loads));
        let usable = |place: usize| {
            let position = *table.get(place)? as usize;
            let server = service.servers.get(position)?;
            (loads.usable(server) && bound.is_none_or(|bound| bound.has_room(server, loads)))
                .then_some(position)
        };
        let takes =
            |position: &usize| service.servers[*position].hash_share > mh::percentile(arrival.source, port);
        let first = self.place(arrival, port, 0, table.len());
        let own = usable(first);
        if own.as_ref().is_some_and(takes) {
            return own;
        }
        let falls_back = flags.has(SchedulerFlags::FALLBACK) || bounded || own.is_some();
        if self.0 == SchedulerKind::Dh || !falls_back {
            return own;
        }
        // Each offset hashes to a place of its own, so that the clients of a lost server spread over all others.
        let slots = table.len();
        let places = (0..slots).map(|step| self.place(arrival, port, ((first + step) % slots) as u32, slots));
        places
            .clone()
            .filter_map(usable)
            .find(takes)
            // Nobody is there but servers that rise.
            .or_else(|| places.filter_map(usable).next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_is_folded_word_by_word() {
        assert_eq!(folded("10.1.2.3".parse().unwrap()), 0x0a01_0203);
        assert_eq!(
            folded("2001:db8:0:1:aaaa:bbbb:cccc:dddd".parse().unwrap()),
            0x2001_0db8 ^ 0x0000_0001 ^ 0xaaaa_bbbb ^ 0xcccc_dddd
        );
    }
}
