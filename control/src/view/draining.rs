//! What has been removed while connections still have it: servers, and local addresses.

use super::Silent;
use crate::gateway::{Counted, Gateway};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A server or local address that has been removed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Draining {
    /// `server` or `local_address`.
    pub kind: String,
    /// The address, of a server with its port.
    pub address: String,
    /// The name of the service, or group of local addresses, that it was in; empty when that is gone too.
    pub of: String,
    /// Where the service of a server listens, or did.
    pub listen: Option<String>,
    /// What becomes of a server's connections: `keep`, `drain`, `reset` or `reschedule`.
    pub on_remove: Option<String>,
    /// Connections that are left.
    pub connections: u64,
    /// How many seconds ago it was removed.
    pub since: u64,
    /// In how many seconds those that are left are ended, if they are; 0 = they should have been.
    pub deadline: Option<u64>,
}

/// All of them, the longest draining first. A server without connections is not there. Blocks while local addresses drain.
///
/// # Errors
/// A worker does not answer.
pub fn draining(gateway: &Gateway) -> Result<Vec<Draining>, Silent> {
    let mut used: HashMap<IpAddr, u64> = HashMap::new();
    let drains = !gateway.state().model.draining().is_empty();
    if drains
        && !gateway.local_addresses(|worker| {
            *used.entry(worker.address).or_default() += u64::from(worker.used);
        })
    {
        return Err(Silent);
    }
    let state = gateway.state();
    let now = gateway.elapsed();
    let ago = |since: Option<Duration>| since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
    let servers = state.model.departing_servers().filter_map(|(server, slot)| {
        let totals = gateway.server_totals(&state, slot, Counted::Ever);
        let departure = state.model.departure(server)?;
        let (since, service) = (ago(departure.since), state.model.service(&server.service));
        Some(Draining {
            kind: "server".to_owned(),
            address: SocketAddr::new(server.address, server.port).to_string(),
            of: service.map_or_else(String::new, |entry| entry.name.clone()),
            listen: Some(server.service.to_string()),
            on_remove: Some(departure.on_remove.name().to_owned()),
            connections: totals.active + totals.inactive,
            since: since.as_secs(),
            deadline: departure
                .may_last
                .map(|may_last| seconds_up(may_last.saturating_sub(since))),
        })
    });
    let servers = servers.filter(|server| server.connections > 0);
    let locals = state.model.draining().iter().map(|local| Draining {
        kind: "local_address".to_owned(),
        address: local.address.to_string(),
        of: local.group.clone(),
        listen: None,
        on_remove: None,
        connections: used.get(&local.address).copied().unwrap_or_default(),
        since: ago(local.since).as_secs(),
        deadline: None,
    });
    let mut all: Vec<Draining> = servers.chain(locals).collect();
    all.sort_by(|one, other| {
        let since = other.since.cmp(&one.since);
        since.then_with(|| one.address.cmp(&other.address))
    });
    Ok(all)
}

/// Whole seconds, what is begun counted in: 0 is the end.
fn seconds_up(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
