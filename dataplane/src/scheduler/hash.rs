//! What the hashing schedulers share: addresses as 32 bits, the multiplicative hash, and the picking from a table
//! that control has built.

use super::{Arrival, Loads, Scheduler, SchedulerFlags, SchedulerKind, dh, mh, sh};
use crate::service::{Server, Service};
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
        let bound = Bound::of(self.0, service, loads);
        let usable = |place: usize| {
            let position = *table.get(place)? as usize;
            let server = service.servers.get(position)?;
            (loads.usable(server) && bound.is_none_or(|bound| bound.has_room(server, loads)))
                .then_some(position)
        };
        let first = self.place(arrival, port, 0, table.len());
        if let Some(position) = usable(first) {
            return Some(position);
        }
        if self.0 == SchedulerKind::Dh || !(flags.has(SchedulerFlags::FALLBACK) || bound.is_some()) {
            return None;
        }
        // Each offset hashes to a place of its own, so that the clients of a lost server spread over all others.
        let slots = table.len();
        (0..slots).find_map(|step| {
            let offset = (first + step) % slots;
            usable(self.place(arrival, port, offset as u32, slots))
        })
    }
}

/// How much each server may have (Mirrokni, Thorup and Zadimoghaddam, "Consistent Hashing with Bounded Loads", 2018).
#[derive(Clone, Copy)]
struct Bound {
    /// Connections of all usable servers, the new one counted in, times the bound in percent.
    connections: u128,
    /// The weights of all of these, times 100.
    weights: u128,
}

impl Bound {
    /// That of a service, if it has one. It looks at every server: only services that ask for it pay for that.
    fn of(kind: SchedulerKind, service: &Service, loads: &impl Loads) -> Option<Bound> {
        let percent = service.policy.bound;
        if kind != SchedulerKind::Mh || percent == 0 {
            return None;
        }
        let (mut connections, mut weights) = (1, 0);
        for server in service.servers.iter().filter(|server| loads.usable(server)) {
            connections += connections_of(server, loads);
            weights += u64::from(server.weight);
        }
        Some(Bound {
            connections: u128::from(connections) * u128::from(percent),
            weights: u128::from(weights) * 100,
        })
    }

    /// Whether the server has room for one more: with it, no more than its share of all times the bound, rounded up.
    fn has_room(self, server: &Server, loads: &impl Loads) -> bool {
        let share = (self.connections * u128::from(server.weight)).div_ceil(self.weights.max(1));
        u128::from(connections_of(server, loads)) < share
    }
}

fn connections_of(server: &Server, loads: &impl Loads) -> u64 {
    let load = loads.load(server);
    u64::from(load.active) + u64::from(load.inactive)
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
