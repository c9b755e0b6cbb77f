//! Routes.

use super::{Neighbour, Silent, neighbours};
use crate::config::Link;
use crate::gateway::Gateway;
use crate::model::{connected, own_prefixes};
use dataplane::neighbour::{Connected, Prefix};
use dataplane::packet::PortId;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// A way to a prefix: several of one prefix share its flows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Route {
    /// The destinations.
    pub to: String,
    /// The gateway; none when the destinations are on the link themselves, or nothing leads there.
    pub via: Option<IpAddr>,
    /// The name of the port that it leaves by; none when nothing leads there.
    pub port: Option<String>,
    /// Its share of the flows.
    pub weight: u16,
    /// `on link`, `unreachable`, `link down` where the port's link is, or the state of the gateway as a neighbour: `reachable`, `stale`, `probing`, `static`,
    /// `incomplete`, `failed`, `unknown` when nothing was sent to it lately, or `off link` when no network of the port
    /// holds it, so that the route is not used.
    pub state: String,
    /// `port` (one of its networks), `static` (of the file) or `kernel`.
    pub source: String,
}

/// A way before its state is known.
struct Way {
    to: Prefix,
    via: Option<IpAddr>,
    port: Option<PortId>,
    weight: u16,
    source: &'static str,
    off_link: bool,
}

/// Every route in force, in the order of prefix, port and gateway. Blocks.
///
/// # Errors
/// A worker does not answer.
pub fn routes(gateway: &Gateway) -> Result<Vec<Route>, Silent> {
    let neighbours = neighbours(gateway)?;
    Ok(routes_with(gateway, neighbours))
}

/// The same, where the neighbours are known.
pub(crate) fn routes_with(gateway: &Gateway, neighbours: Vec<Neighbour>) -> Vec<Route> {
    let (mut ways, names) = ways(gateway);
    let down = ports_down(gateway);
    let mut states: HashMap<(String, IpAddr), String> = HashMap::new();
    for neighbour in neighbours {
        let (key, state) = ((neighbour.port, neighbour.address), neighbour.state);
        // Each worker has neighbours of its own: one that finds it dead is worth telling.
        let known = states.entry(key).or_insert_with(|| state.clone());
        if state == "failed" {
            *known = state;
        }
    }
    ways.sort_by_key(|way| (way.to, way.port.map(|port| port.0), way.via));
    let view = |way: Way| {
        let port = way.port.and_then(|port| names.get(usize::from(port.0)).cloned());
        let state = match (&port, way.via) {
            (None, _) => "unreachable".to_owned(),
            _ if way.port.is_some_and(|port| down.contains(&port)) => "link down".to_owned(),
            (Some(_), None) => "on link".to_owned(),
            (Some(_), Some(_)) if way.off_link => "off link".to_owned(),
            (Some(port), Some(via)) => {
                let known = states.get(&(port.clone(), via));
                known.cloned().unwrap_or_else(|| "unknown".to_owned())
            }
        };
        Route {
            to: way.to.to_string(),
            via: way.via,
            port,
            weight: way.weight,
            state,
            source: way.source.to_owned(),
        }
    };
    ways.into_iter().map(view).collect()
}

/// The ports whose link is down; that of a VLAN is its parent's.
fn ports_down(gateway: &Gateway) -> HashSet<PortId> {
    let links = gateway.links();
    let state = gateway.state();
    let ports = state.config.ports.iter().enumerate();
    let down = ports.filter(|(number, port)| {
        let device = match port.link {
            Link::Vlan { parent, .. } => parent,
            Link::Device(_) => *number,
        };
        links.get(device).is_some_and(|link| !link.look.up)
    });
    down.map(|(number, _)| PortId(number as u8)).collect()
}

/// All ways, and the names of ports.
fn ways(gateway: &Gateway) -> (Vec<Way>, Vec<String>) {
    let state = gateway.state();
    let (config, network) = (&state.config, state.model.network());
    let names = config.ports.iter().map(|port| port.name.clone()).collect();
    let links = connected(&network.ports);
    let way = |to, via, port, source| Way {
        to,
        via,
        port,
        weight: 1,
        source,
        off_link: false,
    };
    let own = links
        .iter()
        .map(|&Connected { port, prefix }| way(prefix, None, Some(port), "port"));
    let routes = config.routes.iter().map(|route| Way {
        weight: route.weight,
        ..way(route.to, route.via, Some(PortId(route.port as u8)), "static")
    });
    let nowhere = config.unreachable.iter().map(|&to| way(to, None, None, "static"));
    let mut ways: Vec<Way> = own.chain(routes).chain(nowhere).collect();
    let known = own_prefixes(config, &links);
    let learnt = state.model.learnt_routes();
    for route in learnt.iter().filter(|route| !known.contains(&route.to)) {
        ways.extend(route.hops.iter().map(|hop| {
            Way {
                weight: hop.weight,
                off_link: hop
                    .via
                    .is_some_and(|via| !network.routes.is_on_link(hop.port, via)),
                ..way(route.to, hop.via, Some(hop.port), "kernel")
            }
        }));
    }
    (ways, names)
}
