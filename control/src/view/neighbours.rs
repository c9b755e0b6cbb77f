//! Neighbours.

use super::Silent;
use crate::gateway::Gateway;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A neighbour.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// The name of the port it is on.
    pub port: String,
    /// Its MAC address, when one is usable.
    pub mac: Option<String>,
    /// `reachable`, `stale`, `probing`, `static`, `incomplete` or `failed`.
    pub state: String,
    /// Seconds since it was last confirmed, or since the entry was made when it never was.
    pub age: u32,
    /// Packets that wait for it.
    pub waiting: u8,
}

/// Every neighbour of every worker, in the order of port and address. Blocks.
///
/// # Errors
/// A worker does not answer.
pub fn neighbours(gateway: &Gateway) -> Result<Vec<Neighbour>, Silent> {
    let names: Vec<String> = gateway
        .state()
        .config
        .ports
        .iter()
        .map(|port| port.name.clone())
        .collect();
    let mut found = Vec::new();
    let complete = gateway.neighbours(|neighbour| found.push(neighbour));
    if !complete {
        return Err(Silent);
    }
    found.sort_unstable_by_key(|neighbour| (neighbour.port, neighbour.address));
    let view = |neighbour: dataplane::neighbour::NeighbourView| Neighbour {
        address: neighbour.address,
        port: names
            .get(usize::from(neighbour.port.0))
            .cloned()
            .unwrap_or_default(),
        mac: neighbour.mac.map(|mac| mac.to_string()),
        state: neighbour.state.name().to_owned(),
        age: neighbour.age,
        waiting: neighbour.waiting,
    };
    Ok(found.into_iter().map(view).collect())
}
