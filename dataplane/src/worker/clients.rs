//! How many connections each client address has to each service that limits them, and how many it has opened in this
//! second. A client is known while it has a connection; nothing is allocated after the start.

use super::rate::RateLimit;
use crate::memory::Slab;
use crate::time::Tick;
use bytemuck::{Pod, Zeroable};
use std::io;
use std::net::IpAddr;

/// One client of one service. Zeroed, it is a free place.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Client {
    /// The address; an IPv4 one as IPv6 has it mapped (RFC 4291 2.5.5.2).
    address: [u8; 16],
    service: u32,
    /// Connections now; 0 = a free place.
    connections: u32,
    rate: RateLimit,
}

/// What a client may have; 0 = no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Allowed {
    pub(super) connections: u32,
    pub(super) rate: u32,
}

/// Why a client gets no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Denied {
    Connections,
    Rate,
    /// The table is full.
    Memory,
}

/// The clients, in a table of open addressing that is never more than half full.
pub(super) struct Clients {
    places: Slab<Client>,
    mask: usize,
    seed: u64,
    len: usize,
}

impl Clients {
    /// A table for as many clients as there may be connections. What none uses takes no memory.
    pub(super) fn new(connections: u32, seed: u64) -> io::Result<Clients> {
        let places = (connections as usize * 2).next_power_of_two().max(16);
        Ok(Clients {
            places: Slab::new(places, false)?,
            mask: places - 1,
            seed,
            len: 0,
        })
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the client may open one more connection to the service. If so, it is spent of what it may open in
    /// this second, when it has any connection: one that has none has opened none in this second, or one that ended
    /// within it.
    pub(super) fn allows(&mut self, client: IpAddr, service: u32, allowed: Allowed, now: Tick) -> Result<(), Denied> {
        let key = address_of(client);
        let Some(at) = self.find(&key, service) else {
            return if self.len > self.mask / 2 { Err(Denied::Memory) } else { Ok(()) };
        };
        let client = &mut self.places[at];
        if allowed.connections != 0 && client.connections >= allowed.connections {
            return Err(Denied::Connections);
        }
        if allowed.rate != 0 && !client.rate.allows(now, allowed.rate) {
            return Err(Denied::Rate);
        }
        Ok(())
    }

    /// A connection of the client to the service has been opened.
    pub(super) fn opened(&mut self, client: IpAddr, service: u32, now: Tick) {
        let key = address_of(client);
        if let Some(at) = self.find(&key, service) {
            let client = &mut self.places[at];
            client.connections = client.connections.saturating_add(1);
            return;
        }
        if self.len > self.mask / 2 {
            return;
        }
        let mut at = self.home(&key, service);
        while self.places[at].connections != 0 {
            at = (at + 1) & self.mask;
        }
        let mut rate = RateLimit::default();
        rate.allows(now, 1);
        self.places[at] = Client {
            address: key,
            service,
            connections: 1,
            rate,
        };
        self.len += 1;
    }

    /// A connection of the client to the service has ended. One that was opened before the service counted its
    /// clients may be taken for one that was counted: then the client may open one more than it should.
    pub(super) fn closed(&mut self, client: IpAddr, service: u32) {
        if self.len == 0 {
            return;
        }
        let Some(at) = self.find(&address_of(client), service) else {
            return;
        };
        self.places[at].connections -= 1;
        if self.places[at].connections == 0 {
            self.free(at);
        }
    }

    fn find(&self, address: &[u8; 16], service: u32) -> Option<usize> {
        let mut at = self.home(address, service);
        loop {
            let place = &self.places[at];
            if place.connections == 0 {
                return None;
            }
            if place.service == service && place.address == *address {
                return Some(at);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Where a client stands if no other is in its way. Keyed, so that nobody chooses who is in whose way.
    fn home(&self, address: &[u8; 16], service: u32) -> usize {
        let bits = u128::from_ne_bytes(*address);
        let mut hash = self.seed ^ u64::from(service);
        for word in [bits as u64, (bits >> 64) as u64] {
            let wide = u128::from(hash ^ word) * u128::from(self.seed | 1);
            hash = (wide as u64 ^ (wide >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        (hash >> 20) as usize & self.mask
    }

    /// Frees a place, and moves up what stands behind it only because it was taken.
    fn free(&mut self, mut hole: usize) {
        self.len -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let place = self.places[at];
            if place.connections == 0 {
                break;
            }
            let home = self.home(&place.address, place.service);
            let distance = |from: usize| at.wrapping_sub(from) & self.mask;
            if distance(home) >= distance(hole) {
                self.places[hole] = place;
                hole = at;
            }
        }
        self.places[hole].connections = 0;
    }
}

fn address_of(client: IpAddr) -> [u8; 16] {
    match client {
        IpAddr::V4(client) => client.to_ipv6_mapped().octets(),
        IpAddr::V6(client) => client.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::TICKS_PER_SECOND;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::net::Ipv4Addr;

    const ONE: Allowed = Allowed {
        connections: 2,
        rate: 0,
    };

    fn client(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    #[test]
    fn a_client_is_limited_for_each_service_by_itself() {
        let mut clients = Clients::new(8, 7).unwrap();
        let now = Tick(500);
        for _ in 0..2 {
            assert_eq!(clients.allows(client(1), 3, ONE, now), Ok(()));
            clients.opened(client(1), 3, now);
        }
        assert_eq!(clients.allows(client(1), 3, ONE, now), Err(Denied::Connections));
        assert_eq!(clients.allows(client(1), 4, ONE, now), Ok(()));
        assert_eq!(clients.allows(client(2), 3, ONE, now), Ok(()));
        clients.closed(client(1), 3);
        assert_eq!(clients.allows(client(1), 3, ONE, now), Ok(()));
    }

    #[test]
    fn a_second_has_its_budget() {
        let mut clients = Clients::new(8, 7).unwrap();
        let allowed = Allowed {
            connections: 0,
            rate: 3,
        };
        let open = |clients: &mut Clients, now| {
            let allows = clients.allows(client(1), 0, allowed, now);
            if allows.is_ok() {
                clients.opened(client(1), 0, now);
            }
            allows
        };
        for _ in 0..3 {
            assert_eq!(open(&mut clients, Tick(500)), Ok(()));
        }
        assert_eq!(open(&mut clients, Tick(599)), Err(Denied::Rate));
        assert_eq!(open(&mut clients, Tick(500 + TICKS_PER_SECOND)), Ok(()));
    }

    #[test]
    fn a_full_table_says_so() {
        let mut clients = Clients::new(8, 7).unwrap();
        for number in 0..8 {
            assert_eq!(clients.allows(client(number), 0, ONE, Tick(0)), Ok(()));
            clients.opened(client(number), 0, Tick(0));
        }
        assert_eq!(clients.allows(client(8), 0, ONE, Tick(0)), Err(Denied::Memory));
        assert_eq!(clients.allows(client(7), 0, ONE, Tick(0)), Ok(()));
    }

    proptest! {
        #[test]
        fn it_counts_as_a_map_does(steps in proptest::collection::vec((0u32..12, 0u32..2, any::<bool>()), 0..200)) {
            let mut clients = Clients::new(32, 11).unwrap();
            let mut model: HashMap<(u32, u32), u32> = HashMap::new();
            for (number, service, opens) in steps {
                let count = model.entry((number, service)).or_default();
                if opens {
                    clients.opened(client(number), service, Tick(0));
                    *count += 1;
                } else {
                    clients.closed(client(number), service);
                    *count = count.saturating_sub(1);
                }
                for (&(number, service), &count) in &model {
                    let counted = clients.find(&address_of(client(number)), service);
                    prop_assert_eq!(counted.map_or(0, |at| clients.places[at].connections), count);
                }
            }
        }
    }
}
