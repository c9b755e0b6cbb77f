//! The routes of the data plane: connected prefixes, those of the file, and those that the kernel has told of since.

use super::{Model, ModelError, connected};
use crate::config::Config;
use dataplane::neighbour::{Connected, Prefix, Route, RouteError, RouteTable};
use dataplane::packet::PortId;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

/// A route that the kernel tells of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LearntRoute {
    /// The destinations.
    pub to: Prefix,
    /// The ways there; several share the flows.
    pub hops: Vec<LearntHop>,
}

/// One of its ways.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct LearntHop {
    /// The port that it leaves by.
    pub port: PortId,
    /// The gateway; none when the destinations are on the link themselves.
    pub via: Option<IpAddr>,
    /// Its share of the flows, 1 to 256.
    pub weight: u16,
}

impl Model {
    /// Takes the routes of the file, and nothing else of it; true when they have changed.
    ///
    /// # Errors
    /// They contradict each other, or the ports.
    pub fn apply_routes(&mut self, config: &Config) -> Result<bool, ModelError> {
        let connected = connected(&self.network.ports);
        let routes = routes_of(config, &connected, &self.learnt).map_err(ModelError::Routes)?;
        let changed = routes != *self.network.routes;
        if changed {
            self.network.routes = Arc::new(routes);
        }
        Ok(changed)
    }

    /// Takes what the kernel tells, all of it, each prefix once; true when the routes have changed. `config` is the
    /// file in force: on one prefix, it goes before the kernel.
    ///
    /// # Errors
    /// Routes of the file contradict each other, or the ports.
    pub fn learn_routes(&mut self, learnt: Vec<LearntRoute>, config: &Config) -> Result<bool, ModelError> {
        let before = std::mem::replace(&mut self.learnt, learnt.into());
        if self.learnt == before {
            return Ok(false);
        }
        self.apply_routes(config).inspect_err(|_| self.learnt = before)
    }

    /// The kernel's routes, those that are not used included.
    #[must_use]
    pub fn learnt_routes(&self) -> &[LearntRoute] {
        &self.learnt
    }
}

/// What the file and the ports say goes before the kernel. What the kernel says that cannot be is left out: a gateway
/// that is on no port's network cannot be asked for its MAC address.
fn routes_of(
    config: &Config,
    ports: &[Connected],
    learnt: &[LearntRoute],
) -> Result<RouteTable, Vec<RouteError>> {
    let mut connected = ports.to_vec();
    let mut routes = Vec::new();
    for route in &config.routes {
        let (to, port) = (route.to, PortId(route.port as u8));
        match route.via {
            Some(via) => routes.push(Route {
                to,
                via,
                port: Some(port),
                weight: route.weight,
            }),
            None => connected.push(Connected { port, prefix: to }),
        }
    }
    let own = own_prefixes(config, ports);
    let learnt = learnt.iter().filter(|route| !own.contains(&route.to));
    let mut by_gateway: HashMap<(Prefix, LearntHop), Route> = HashMap::new();
    for route in learnt {
        let gateways = route.hops.iter().filter(|hop| hop.via.is_some());
        let mut is_behind = false;
        for hop in gateways {
            let Some(via) = hop.via else { continue };
            is_behind = true;
            by_gateway.entry((route.to, *hop)).or_insert(Route {
                to: route.to,
                via,
                port: Some(hop.port),
                weight: hop.weight,
            });
        }
        if let Some(on_link) = route.hops.first().filter(|_| !is_behind) {
            connected.push(Connected {
                port: on_link.port,
                prefix: route.to,
            });
        }
    }
    let with = |learnt: &HashMap<_, Route>| {
        let all: Vec<Route> = routes.iter().chain(learnt.values()).copied().collect();
        RouteTable::new(&connected, &all, &config.unreachable)
    };
    with(&by_gateway).or_else(|errors| {
        for error in errors {
            if let Some((to, via)) = gateway_of(&error) {
                by_gateway.retain(|_, route| (route.to, route.via) != (to, via));
            }
        }
        with(&by_gateway)
    })
}

/// The prefixes of which the kernel is not asked.
pub(crate) fn own_prefixes(config: &Config, ports: &[Connected]) -> HashSet<Prefix> {
    let own = ports.iter().map(|connected| connected.prefix);
    own.chain(config.routes.iter().map(|route| route.to))
        .chain(config.unreachable.iter().copied())
        .collect()
}

/// The route that an error is about.
fn gateway_of(error: &RouteError) -> Option<(Prefix, IpAddr)> {
    match *error {
        RouteError::GatewayOffLink { to, via }
        | RouteError::GatewayWithoutPort { to, via }
        | RouteError::TwoFamilies { to, via }
        | RouteError::Duplicate { to, via } => Some((to, via)),
        RouteError::LinkLocal { .. } | RouteError::SharedNetwork { .. } => None,
    }
}
