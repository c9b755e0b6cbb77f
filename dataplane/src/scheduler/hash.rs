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

/// The table of an algorithm over these servers: positions in the list, or nothing when there is no server to fill
/// it with.
pub(super) fn table(kind: SchedulerKind, servers: &[Server]) -> Box<[u32]> {
    match kind {
        SchedulerKind::Sh => sh::table(servers),
        SchedulerKind::Dh => dh::table(servers),
        SchedulerKind::Mh => mh::table(servers),
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
        let usable = |place: usize| {
            let position = *table.get(place)? as usize;
            let server = service.servers.get(position)?;
            loads.usable(server).then_some(position)
        };
        let first = self.place(arrival, port, 0, table.len());
        if let Some(position) = usable(first) {
            return Some(position);
        }
        if self.0 == SchedulerKind::Dh || !flags.has(SchedulerFlags::FALLBACK) {
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
