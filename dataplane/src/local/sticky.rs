//! Local addresses of SNAT: each host inside has one of its own in a pool (RFC 4787 REQ-2, "paired"), since there are
//! servers that take a host with two addresses for two hosts.
//!
//! Which one it is follows from a keyed hash of host and address, the highest of all (rendezvous hashing): all workers
//! say the same without asking each other, and with an address that is added or removed only those hosts move that it
//! gets or had.

use std::net::IpAddr;

use super::ports::Miss;
use super::{LipPool, LocalPorts, Pair, Server, TakeError, Taken};
use crate::worker::shard::{Shard, ShardSet};

impl LocalPorts {
    /// The local address that `host` has of a pool, of its own family; none when the pool has none of that. The work is
    /// a hash for each address.
    #[must_use]
    pub fn address_of(&self, pool: &LipPool, host: IpAddr) -> Option<IpAddr> {
        let score = |local: &IpAddr| {
            self.hasher.pair(&Pair {
                local: *local,
                server: host,
                server_port: 0,
                protocol: 0,
            })
        };
        pool.towards(host.is_ipv6()).iter().copied().max_by_key(score)
    }

    /// Takes a port towards `server` for `host`: of the host's own address, in the shard `wanted` or else in another of
    /// `mine`, the caller's shards. When that address is dry, of another one: each host begins at another place among
    /// them, so that they share what the dry one cannot carry.
    ///
    /// # Errors
    /// As [`LocalPorts::take`]; a pool without addresses of that family is exhausted.
    pub fn take_sticky(
        &mut self,
        pool: &LipPool,
        host: IpAddr,
        server: &Server,
        wanted: Shard,
        mine: ShardSet,
    ) -> Result<Taken, TakeError> {
        let Some(own) = self.address_of(pool, host) else {
            return Err(TakeError::Exhausted { recyclable: None });
        };
        let addresses = pool.towards(host.is_ipv6());
        let start = self.hasher.address(host) as usize % addresses.len();
        let (behind, ahead) = addresses.split_at(start);
        let others = ahead.iter().chain(behind).copied().filter(|local| *local != own);
        let pairs = std::iter::once(own).chain(others).map(|local| server.pair(local));
        let (mut recyclable, mut memory) = (None, false);
        for pair in pairs.clone() {
            match self.attempt(&pair, pool.ports(), wanted, mine) {
                Ok(taken) => return Ok(taken),
                Err(Miss::Memory) => memory = true,
                Err(Miss::Dry { closing, .. }) => recyclable = recyclable.or(closing),
            }
        }
        Err(self.refuse(pairs, recyclable, memory))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};
    use std::net::Ipv4Addr;

    use super::super::tests::{ports_of, range, small};
    use super::*;

    const OUTSIDE: Server = Server {
        address: IpAddr::V4(Ipv4Addr::new(198, 51, 100, 9)),
        port: 443,
        protocol: 6,
    };

    fn pool(addresses: u8) -> LipPool {
        let address = |n: u8| IpAddr::from([192, 0, 2, n]);
        LipPool::new((1..=addresses).map(address), range(10_000, 10_009))
    }

    fn host(n: u16) -> IpAddr {
        let [high, low] = n.to_be_bytes();
        [10, 1, high, low].into()
    }

    fn mapping(ports: &LocalPorts, pool: &LipPool) -> HashMap<IpAddr, IpAddr> {
        let own = |n| (host(n), ports.address_of(pool, host(n)).unwrap());
        (0..4000).map(own).collect()
    }

    #[test]
    fn hosts_are_spread_over_all_addresses() {
        let ports = ports_of(&small());
        let mut hosts = HashMap::new();
        for local in mapping(&ports, &pool(8)).into_values() {
            *hosts.entry(local).or_insert(0u32) += 1;
        }
        assert_eq!(hosts.len(), 8);
        assert!(
            hosts.values().all(|count| (400..=600).contains(count)),
            "{hosts:?}"
        );
    }

    #[test]
    fn an_address_more_or_less_moves_its_own_hosts_only() {
        let ports = ports_of(&small());
        let (few, many) = (mapping(&ports, &pool(7)), mapping(&ports, &pool(8)));
        let last = IpAddr::from([192, 0, 2, 8]);
        let moved = few.iter().filter(|(host, local)| many[*host] != **local);
        let to: HashSet<_> = moved.clone().map(|(host, _)| many[host]).collect();
        assert_eq!(to, HashSet::from([last]));
        assert!((400..=600).contains(&moved.count()));
    }

    #[test]
    fn a_pool_without_the_family_has_nothing() {
        let mut ports = ports_of(&small());
        let host: IpAddr = "2001:db8::1".parse().unwrap();
        let server = Server {
            address: "2001:db8:9::1".parse().unwrap(),
            ..OUTSIDE
        };
        assert_eq!(ports.address_of(&pool(2), host), None);
        assert_eq!(
            ports.take_sticky(&pool(2), host, &server, Shard::default(), ShardSet::ALL),
            Err(TakeError::Exhausted { recyclable: None })
        );
    }

    #[test]
    fn all_ports_of_the_own_address_come_before_any_of_another() {
        let mut ports = ports_of(&small());
        let pool = pool(3);
        let own = ports.address_of(&pool, host(1)).unwrap();
        let mut take = || ports.take_sticky(&pool, host(1), &OUTSIDE, Shard::default(), ShardSet::ALL);
        let taken: Vec<_> = (0..30).map(|_| take().unwrap()).collect();
        assert!(taken[..10].iter().all(|taken| taken.local == own));
        assert!(taken[10..].iter().all(|taken| taken.local != own));
        let ends: HashSet<_> = taken.iter().map(|taken| (taken.local, taken.port)).collect();
        assert_eq!(ends.len(), 30);
        assert_eq!(take(), Err(TakeError::Exhausted { recyclable: None }));
        assert!(ports.addresses().all(|address| address.exhausted == 1));
    }

    /// Whom the dry address cannot serve goes to all the others.
    #[test]
    fn what_one_address_cannot_carry_is_shared_by_the_others() {
        let ports = &mut ports_of(&small());
        let pool = pool(4);
        let local = pool.addresses()[0];
        let hosts: Vec<_> = (0..4000)
            .map(host)
            .filter(|host| ports.address_of(&pool, *host) == Some(local))
            .collect();
        let mut take = |host| ports.take_sticky(&pool, host, &OUTSIDE, Shard::default(), ShardSet::ALL);
        for host in &hosts[..10] {
            assert_eq!(take(*host).unwrap().local, local);
        }
        let others: HashSet<_> = hosts[10..30]
            .iter()
            .map(|host| take(*host).unwrap().local)
            .collect();
        assert_eq!(others.len(), 3, "{others:?}");
    }
}
