//! Pools of several local addresses, used in rotation. The pool is part of the snapshot and never changes; where the
//! rotation stands is the worker's to know, for each server.

use std::net::IpAddr;

use super::ports::Miss;
use super::{LocalPorts, Pair, PortRange, TakeError, Taken};
use crate::worker::shard::{Shard, ShardSet};

/// The local addresses that a service may show to its servers: to each those of its own family. An address that is in
/// several pools has the same ports in each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LipPool {
    /// Those of IPv4, then those of IPv6, each in the configured order.
    addresses: Vec<IpAddr>,
    /// How many are IPv4's.
    v4: usize,
    ports: PortRange,
}

impl LipPool {
    /// A pool of these addresses, each with these ports.
    #[must_use]
    pub fn new(addresses: impl IntoIterator<Item = IpAddr>, ports: PortRange) -> LipPool {
        let mut addresses: Vec<IpAddr> = addresses.into_iter().collect();
        addresses.sort_by_key(IpAddr::is_ipv6);
        LipPool {
            v4: addresses.partition_point(IpAddr::is_ipv4),
            addresses,
            ports,
        }
    }

    /// The addresses: those of IPv4, then those of IPv6, each in the configured order.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// The addresses that may be shown to a server of that family, in the configured order.
    #[inline]
    #[must_use]
    pub fn towards(&self, ipv6: bool) -> &[IpAddr] {
        let (v4, v6) = self.addresses.split_at(self.v4);
        if ipv6 { v6 } else { v4 }
    }

    /// The ports of each address.
    #[must_use]
    pub const fn ports(&self) -> PortRange {
        self.ports
    }
}

/// A server as its pairs know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Server {
    /// The server's address.
    pub address: IpAddr,
    /// The server's port, in host order.
    pub port: u16,
    /// The IP protocol number.
    pub protocol: u8,
}

impl Server {
    /// The pair of this server and a local address.
    #[must_use]
    pub const fn pair(&self, local: IpAddr) -> Pair {
        Pair {
            local,
            server: self.address,
            server_port: self.port,
            protocol: self.protocol,
        }
    }
}

/// Where a server's rotation over the local addresses of its family stands: the next one, or beyond the last, which is
/// the first again. It begins as zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rotation(u32);

impl Rotation {
    /// The place of the next one of these addresses.
    fn place(self, addresses: &[IpAddr]) -> usize {
        let next = self.0 as usize;
        if next < addresses.len() { next } else { 0 }
    }

    /// After the address at that place.
    const fn behind(place: usize) -> Rotation {
        Rotation(place as u32 + 1)
    }
}

impl LocalPorts {
    /// Takes a port towards `server` from the next address of the pool, of the server's family, that has one: in the
    /// shard `wanted` if any address has one there, else in another of `mine`, the caller's shards. The work is one or
    /// two look-ups for each address that is dry.
    ///
    /// # Errors
    /// As [`LocalPorts::take`]; a pool without addresses of that family is exhausted.
    #[inline(always)]
    pub fn take_from_pool(
        &mut self,
        pool: &LipPool,
        rotation: &mut Rotation,
        server: &Server,
        wanted: Shard,
        mine: ShardSet,
    ) -> Result<Taken, TakeError> {
        let addresses = pool.towards(server.address.is_ipv6());
        let at = rotation.place(addresses);
        if let Some(local) = addresses.get(at)
            && let Ok(taken) = self.attempt_here(&server.pair(*local), pool.ports, wanted, ShardSet::EMPTY)
        {
            *rotation = Rotation::behind(at);
            return Ok(taken);
        }
        self.take_from_others(pool, rotation, server, wanted, mine)
    }

    /// As [`LocalPorts::take_from_pool`], where the next address has no port in the shard `wanted`.
    #[cold]
    fn take_from_others(
        &mut self,
        pool: &LipPool,
        rotation: &mut Rotation,
        server: &Server,
        wanted: Shard,
        mine: ShardSet,
    ) -> Result<Taken, TakeError> {
        let addresses = pool.towards(server.address.is_ipv6());
        // Fall-backs, in this order: another shard of the first address that has one free, the first closing
        // connection, and what went wrong.
        let (mut elsewhere, mut recyclable, mut memory) = (None, None, false);
        let mut next = *rotation;
        for _ in addresses {
            let at = next.place(addresses);
            next = Rotation::behind(at);
            let pair = server.pair(addresses[at]);
            match self.attempt(&pair, pool.ports, wanted, ShardSet::EMPTY) {
                Ok(taken) => {
                    *rotation = next;
                    return Ok(taken);
                }
                Err(Miss::Memory) => memory = true,
                Err(Miss::Dry { free, .. }) if !free.and(mine).is_empty() => {
                    elsewhere = elsewhere.or(Some((next, pair)));
                }
                Err(Miss::Dry { closing, .. }) => recyclable = recyclable.or(closing),
            }
        }
        if let Some((next, pair)) = elsewhere {
            *rotation = next;
            match self.attempt(&pair, pool.ports, wanted, mine) {
                Ok(taken) => return Ok(taken),
                Err(_) => memory = true,
            }
        }
        Err(self.refuse(
            addresses.iter().map(|local| server.pair(*local)),
            recyclable,
            memory,
        ))
    }
}
