//! Rules of SNAT.

use crate::config::SnatProtocol;
use crate::gateway::{Counted, Gateway, ServerTotals, State};
use dataplane::neighbour::Prefix;
use dataplane::service;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A rule of SNAT. An empty list of destinations, protocols or ports means all.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SnatRule {
    /// Its name.
    pub name: String,
    /// Where packets come from.
    pub source: Vec<String>,
    /// Where they go to.
    pub destination: Vec<String>,
    /// Of which protocols: `tcp`, `udp`, `sctp`, `icmp` (echo).
    pub protocol: Vec<String>,
    /// To which ports, such as `443` or `8000-8100`.
    pub ports: Vec<String>,
    /// Whether such packets go on as they are.
    pub exempt: bool,
    /// Its groups of local addresses, by name; those that have addresses of its family.
    pub local_addresses: Vec<String>,
    /// Connections that one inside address may have at once, if there is a limit.
    pub connections_per_client: Option<u32>,
    /// How often that limit has refused a new one.
    pub refused: u64,
    /// Traffic and connections: inbound is from inside hosts, outbound from those outside.
    #[serde(flatten)]
    pub totals: ServerTotals,
}

/// Every rule, in the order in which they are looked at.
#[must_use]
pub fn snat(gateway: &Gateway, counted: Counted) -> Vec<SnatRule> {
    let state = gateway.state();
    let rules = state.model.snat();
    rules
        .map(|(name, rule)| {
            let totals = gateway.server_totals(&state, rule.slot, counted);
            view(&state, name, rule, totals)
        })
        .collect()
}

fn view(state: &State, name: &str, rule: &service::SnatRule, totals: ServerTotals) -> SnatRule {
    let ipv6 = rule.sources.iter().any(|source| source.address().is_ipv6());
    let protocols = SnatProtocol::ALL
        .into_iter()
        .filter(|protocol| rule.protocols.contains(&protocol.number(ipv6)));
    let ports = rule.ports.iter().map(|ports| match (ports.start(), ports.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    });
    let groups = state.model.local_groups().iter();
    let groups = groups.filter(|group| rule.local_pools.iter().any(|pool| Arc::ptr_eq(pool, &group.pool)));
    SnatRule {
        name: name.to_owned(),
        source: texts(&rule.sources),
        destination: texts(&rule.destinations),
        protocol: protocols.map(|protocol| protocol.name().to_owned()).collect(),
        ports: ports.collect(),
        exempt: rule.exempt,
        local_addresses: groups.map(|group| group.name.clone()).collect(),
        connections_per_client: Some(rule.client_limit).filter(|limit| *limit > 0),
        refused: totals.refused,
        totals,
    }
}

fn texts(prefixes: &[Prefix]) -> Vec<String> {
    prefixes.iter().map(ToString::to_string).collect()
}
