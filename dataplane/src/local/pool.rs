//! Pools of several local addresses, used in rotation. The pool is part of the snapshot and never changes; the
//! cursor is the worker's, one for each service.

use std::net::Ipv4Addr;

use super::ports::Miss;
use super::{LocalPorts, Pair, PortRange, TakeError, Taken};
use crate::worker::shard::{Shard, ShardSet};

/// The local addresses that a service may show to its servers. An address that is in several pools has the same
/// ports in each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LipPool {
    /// The addresses, in the configured order.
    pub addresses: Vec<Ipv4Addr>,
    /// The ports of each address.
    pub ports: PortRange,
}

/// A server as its pairs know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Server {
    /// The server's address.
    pub address: Ipv4Addr,
    /// The server's port, in host order.
    pub port: u16,
    /// The IP protocol number.
    pub protocol: u8,
}

impl Server {
    /// The pair of this server and a local address.
    #[must_use]
    pub const fn pair(&self, local: Ipv4Addr) -> Pair {
        Pair {
            local,
            server: self.address,
            server_port: self.port,
            protocol: self.protocol,
        }
    }
}

impl LocalPorts {
    /// Takes a port towards `server` from the next address of the pool that has one: in the shard `wanted` if any
    /// address has one there, else in another of `mine`, the caller's shards. `cursor` is where the rotation
    /// stands; it begins as 0. The work is one or two look-ups for each address that is dry.
    ///
    /// # Errors
    /// As [`LocalPorts::take`]; a pool without addresses is exhausted.
    pub fn take_from_pool(
        &mut self,
        pool: &LipPool,
        cursor: &mut u32,
        server: &Server,
        wanted: Shard,
        mine: ShardSet,
    ) -> Result<Taken, TakeError> {
        let count = pool.addresses.len();
        let start = (*cursor as usize).min(count);
        let (behind, ahead) = pool.addresses.split_at(start);
        // Fall-backs, in this order: another shard of the first address that has one free, the first closing
        // connection, and what went wrong.
        let (mut elsewhere, mut recyclable, mut memory) = (None, None, false);
        for (step, local) in ahead.iter().chain(behind).enumerate() {
            let pair = server.pair(*local);
            match self.attempt(&pair, pool.ports, wanted, ShardSet::EMPTY) {
                Ok(taken) => {
                    *cursor = ((start + step + 1) % count) as u32;
                    return Ok(taken);
                }
                Err(Miss::Memory) => memory = true,
                Err(Miss::Dry { free, .. }) if !free.and(mine).is_empty() => {
                    elsewhere = elsewhere.or(Some((step, pair)));
                }
                Err(Miss::Dry { closing, .. }) => recyclable = recyclable.or(closing),
            }
        }
        if let Some((step, pair)) = elsewhere {
            *cursor = ((start + step + 1) % count) as u32;
            match self.attempt(&pair, pool.ports, wanted, mine) {
                Ok(taken) => return Ok(taken),
                Err(_) => memory = true,
            }
        }
        Err(self.refuse(
            pool.addresses.iter().map(|local| server.pair(*local)),
            recyclable,
            memory,
        ))
    }
}
