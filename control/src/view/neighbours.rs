//! Neighbours.

use super::Silent;
use crate::gateway::Gateway;
use dataplane::neighbour::NeighbourView;
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

/// Every neighbour, in the order of port and address. Each worker has a table of its own; of what several know, that is
/// told which was confirmed last, and the packets that wait for it with all of them. Blocks.
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
    let mut found: Vec<NeighbourView> = Vec::new();
    let complete = gateway.neighbours(|neighbour| found.push(neighbour));
    if !complete {
        return Err(Silent);
    }
    let found = merged(found);
    let view = |neighbour: NeighbourView| Neighbour {
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

/// One entry for each neighbour, in order.
fn merged(mut found: Vec<NeighbourView>) -> Vec<NeighbourView> {
    found.sort_by_key(|entry| (entry.port, entry.address, entry.mac.is_none(), entry.age));
    found.dedup_by(|worse, best| {
        let same = (worse.port, worse.address) == (best.port, best.address);
        if same {
            best.waiting = best.waiting.saturating_add(worse.waiting);
        }
        same
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::neighbour::NeighbourState;
    use dataplane::packet::{MacAddr, PortId};

    #[test]
    fn what_several_workers_know_is_told_once() {
        let entry = |last: u8, known: bool, age, waiting| NeighbourView {
            address: [10, 0, 0, last].into(),
            port: PortId(0),
            mac: known.then_some(MacAddr([2, 0, 0, 0, 0, last])),
            state: if known {
                NeighbourState::Reachable
            } else {
                NeighbourState::Incomplete
            },
            age,
            waiting,
        };
        let found = vec![
            entry(2, false, 1, 3),
            entry(1, true, 9, 0),
            entry(2, true, 5, 0),
            entry(1, true, 4, 0),
        ];
        assert_eq!(merged(found), [entry(1, true, 4, 0), entry(2, true, 5, 3)]);
    }
}
