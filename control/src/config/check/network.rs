//! Routes and neighbours that fit together.

use std::collections::HashMap;

use super::links::{Links, Reach};
use super::names::Names;
use crate::config::Place;
use crate::config::read::address::is_link_local;
use crate::config::read::network::{RawNeighbour, RawRoute};
use crate::config::report::{Fault, Report};
use crate::config::types::{Neighbour, Prefix, Route};

/// Routes: a gateway that is a neighbour, each destination once; and the destinations to which none leads. Enters the
/// routes into `links`.
pub(crate) fn routes(
    raw: &[RawRoute],
    ports: &Names<'_>,
    links: &mut Links,
    report: &mut Report,
) -> (Vec<Route>, Vec<Prefix>) {
    let mut seen: HashMap<Prefix, Place> = HashMap::new();
    let mut routes = Vec::new();
    let mut unreachable = Vec::new();
    for (index, route) in raw.iter().enumerate() {
        let path = format!("routes[{index}]");
        let checked = if route.unreachable {
            refuse_way(route, &path, report);
            unreachable.extend(route.to.as_ref().map(|to| to.value));
            None
        } else {
            route_of(route, &path, ports, links, report)
        };
        if let Some(to) = &route.to {
            if let Some(first) = seen.get(&to.value) {
                let problem = format!(
                    "a second route to {}, the first is on line {}",
                    to.value, first.line
                );
                report.error(
                    to.place,
                    format!("{path}.to"),
                    Fault::new(problem, "keep one of them"),
                );
            }
            if links.is_connected(to.value) {
                let problem = format!("{} is connected, so this route is never used", to.value);
                report.warn(to.place, format!("{path}.to"), Fault::new(problem, "remove it"));
            }
            seen.entry(to.value).or_insert(to.place);
        }
        routes.extend(checked);
    }
    // Only now: the gateway of one route is never behind another route.
    if routes.len() + unreachable.len() < raw.len() {
        links.set_incomplete();
    }
    for route in &routes {
        let reach = route
            .via
            .map_or(Reach::OnLink(route.port), |_| Reach::Routed(route.port));
        links.add_route(route.to, reach);
    }
    (routes, unreachable)
}

/// Where nothing leads there is neither a gateway nor a port.
fn refuse_way(route: &RawRoute, path: &str, report: &mut Report) {
    if route.via.is_some() || route.port.is_some() {
        let fault = Fault::new(
            "an unreachable destination has no way to it",
            "remove `via` and `port`, or `unreachable`",
        );
        report.error(route.place, path, fault);
    }
}

fn route_of(
    route: &RawRoute,
    path: &str,
    ports: &Names<'_>,
    links: &Links,
    report: &mut Report,
) -> Option<Route> {
    let named = match &route.port {
        Some(name) => Some(ports.find(name, format!("{path}.port"), report)?),
        None => None,
    };
    if route.incomplete {
        return None;
    }
    let to = route.to.as_ref()?.value;
    if is_link_local(to.address()) {
        let fault = Fault::new(
            "link-local addresses are on every link and never routed",
            "remove the route",
        );
        report.error(route.place, path, fault);
        return None;
    }
    let place = route.place;
    let Some(via) = route.via else {
        if named.is_none() {
            let remedy =
                "write `via:` with the address of a gateway, or `port:` when all of it is on the link itself";
            report.error(place, path, Fault::new("neither `via` nor `port`", remedy));
        }
        return Some(Route {
            to,
            via: None,
            port: named?,
            place,
        });
    };
    if via.value.is_ipv6() != to.address().is_ipv6() {
        let problem = format!("{to} and its gateway {} are of two families", via.value);
        let fault = Fault::new(problem, "write a gateway of the same family as the destinations");
        report.error(via.place, format!("{path}.via"), fault);
        return None;
    }
    let path = format!("{path}.via");
    if is_link_local(via.value) {
        if named.is_none() {
            let problem = format!(
                "gateway {} is link-local, and does not tell on which port",
                via.value
            );
            report.error(via.place, path, Fault::new(problem, "write `port:` as well"));
        }
        return Some(Route {
            to,
            via: Some(via.value),
            port: named?,
            place,
        });
    }
    let found = links.connected(via.value);
    let on_other = named.is_some_and(|port| !links.is_on(via.value, port));
    let Some((prefix, port)) = found.filter(|_| !on_other) else {
        if links.is_complete() {
            let problem = match found {
                Some((prefix, port)) => format!(
                    "gateway {} is in {prefix} of ports[{port}], not on `port`",
                    via.value
                ),
                None => format!(
                    "gateway {} is in no network of a port, so it cannot be asked for its MAC",
                    via.value
                ),
            };
            let remedy =
                "write a gateway inside one of `ports[].addresses`, or give the port an address beside it";
            report.error(via.place, path, Fault::new(problem, remedy));
        }
        return None;
    };
    if !prefix.has_host(via.value) {
        let problem = format!("{} is the network or broadcast address of {prefix}", via.value);
        report.error(
            via.place,
            path,
            Fault::new(problem, "write the address of a router there"),
        );
        return None;
    }
    Some(Route {
        to,
        via: Some(via.value),
        port,
        place,
    })
}

/// Static neighbours: on the link, each once.
pub(crate) fn neighbours(
    raw: &[RawNeighbour],
    ports: &Names<'_>,
    links: &Links,
    report: &mut Report,
) -> Vec<Neighbour> {
    let mut seen = HashMap::new();
    let mut neighbours = Vec::new();
    for (index, neighbour) in raw.iter().enumerate() {
        let path = format!("neighbours[{index}]");
        let named = neighbour
            .port
            .as_ref()
            .map(|name| ports.find(name, format!("{path}.port"), report));
        let Some(address) = neighbour.address else {
            continue;
        };
        let path = format!("{path}.address");
        // A link-local address is another host on each port.
        let link = neighbour.port.as_ref().filter(|_| is_link_local(address.value));
        let key = (address.value, link.map(|name| &*name.value));
        if let Some(first) = seen.insert(key, address.place.line) {
            let problem = format!("{} is a neighbour already, on line {first}", address.value);
            report.error(address.place, path, Fault::new(problem, "keep one of them"));
            continue;
        }
        let found = links.connected(address.value).map(|(_, port)| port);
        let port = match named {
            None if neighbour.names_port => continue,
            None => found,
            Some(None) => continue,
            Some(port) => port,
        };
        // A neighbour outside of every prefix is one all the same when its port is named: a route may lead there.
        if port.is_none() || found.is_some_and(|found| Some(found) != port) {
            if links.is_complete() {
                let problem = match found {
                    Some(found) => format!(
                        "{} is in a network of ports[{found}], not on `port`",
                        address.value
                    ),
                    None if is_link_local(address.value) => {
                        format!("{} is link-local, and does not tell on which port", address.value)
                    }
                    None => format!("{} is in no network of a port", address.value),
                };
                let remedy = match is_link_local(address.value) {
                    true => "write `port:` with the port it is behind",
                    false => {
                        "write an address inside one of `ports[].addresses`, or `port:` with the port it is behind"
                    }
                };
                report.error(address.place, path, Fault::new(problem, remedy));
            }
            continue;
        }
        if let (Some(mac), Some(port)) = (neighbour.mac, port) {
            neighbours.push(Neighbour {
                address: address.value,
                mac,
                port,
                place: neighbour.place,
            });
        }
    }
    neighbours
}
