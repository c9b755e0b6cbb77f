//! Pools: each server once, and how each is reached.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::links::{Links, Reach};
use crate::config::Place;
use crate::config::read::service::RawPool;
use crate::config::report::{Fault, Report};
use crate::config::types::{Pool, Server};

/// What services need to know of a pool's server.
pub(crate) struct KnownServer {
    /// Its index in the pool.
    pub(crate) index: usize,
    pub(crate) server: Server,
    pub(crate) reach: Reach,
    /// The place of its port, where it has one.
    pub(crate) port_place: Option<Place>,
    /// The place of its tunnel, where it has one.
    pub(crate) tunnel_place: Option<Place>,
}

/// What services need to know of a pool.
pub(crate) struct KnownPool {
    /// Its servers, less those that could not be read.
    pub(crate) servers: Vec<KnownServer>,
    /// Whether it has servers, readable or not.
    pub(crate) is_empty: bool,
    /// Addresses that are there both with a port and without one: the same server for a service on that port.
    pub(crate) doubtful: Vec<(IpAddr, u16, usize)>,
}

/// The pool itself, if all that it needs could be read.
pub(crate) fn pool(raw: RawPool) -> Option<Pool> {
    Some(Pool {
        servers: raw.servers.iter().filter_map(|server| server.server()).collect(),
        name: raw.name?.value,
        place: raw.place,
    })
}

/// Checks each pool by itself.
pub(crate) fn pools(raw: &[RawPool], links: &Links, report: &mut Report) -> Vec<KnownPool> {
    let mut pools = Vec::new();
    for (index, pool) in raw.iter().enumerate() {
        let known = |(index, raw): (usize, &crate::config::read::service::RawServer)| {
            let server = raw.server()?;
            Some(KnownServer {
                index,
                server,
                reach: links.reach(server.address),
                port_place: raw.port.map(|at| at.place),
                tunnel_place: raw.tunnel.map(|at| at.place),
            })
        };
        let servers: Vec<KnownServer> = pool.servers.iter().enumerate().filter_map(known).collect();
        repeated(index, &servers, report);
        pools.push(KnownPool {
            doubtful: doubtful(&servers),
            is_empty: pool.servers.is_empty(),
            servers,
        });
    }
    pools
}

fn repeated(pool: usize, servers: &[KnownServer], report: &mut Report) {
    let mut seen: HashMap<(IpAddr, Option<u16>), &KnownServer> = HashMap::new();
    for known in servers {
        let server = &known.server;
        let key = (server.address, server.port);
        if let Some(first) = seen.get(&key) {
            let line = first.server.place.line;
            let name = server.port.map_or(server.address.to_string(), |port| {
                SocketAddr::new(server.address, port).to_string()
            });
            let problem = format!(
                "{name} is servers[{}] of this pool already, on line {line}",
                first.index
            );
            let fault = Fault::new(
                problem,
                "keep one of them, with the sum of their weights to give it more",
            );
            report.error(
                server.place,
                format!("pools[{pool}].servers[{}]", known.index),
                fault,
            );
        } else {
            seen.insert(key, known);
        }
    }
}

fn doubtful(servers: &[KnownServer]) -> Vec<(IpAddr, u16, usize)> {
    let portless = servers.iter().filter(|known| known.server.port.is_none());
    let portless: HashMap<IpAddr, usize> = portless
        .map(|known| (known.server.address, known.index))
        .collect();
    let pair = |known: &KnownServer| {
        let port = known.server.port?;
        portless
            .contains_key(&known.server.address)
            .then_some((known.server.address, port, known.index))
    };
    servers.iter().filter_map(pair).collect()
}
