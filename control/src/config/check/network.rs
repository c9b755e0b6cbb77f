//! Routes and neighbours that fit together.

use std::collections::HashMap;

use super::links::{Links, Reach};
use super::names::Names;
use crate::config::Place;
use crate::config::read::At;
use crate::config::read::address::is_link_local;
use crate::config::read::network::{RawHop, RawNeighbour, RawRoute};
use crate::config::read::port::RawPort;
use crate::config::report::{Fault, Report};
use crate::config::types::{Neighbour, Prefix, Route};

/// Routes: gateways that are neighbours, each destination once; and the destinations to which none leads. Enters the
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
    let mut complete = true;
    for (index, route) in raw.iter().enumerate() {
        let path = format!("routes[{index}]");
        let checked = if route.unreachable {
            refuse_way(route, &path, report);
            unreachable.extend(route.to.as_ref().map(|to| to.value));
            complete &= route.to.is_some();
            Vec::new()
        } else {
            let checked = routes_of(route, &path, ports, links, report);
            complete &= checked.is_some();
            checked.unwrap_or_default()
        };
        if let Some(to) = &route.to {
            if let Some(first) = seen.get(&to.value) {
                let problem = format!(
                    "a second route to {}, the first is on line {}",
                    to.value, first.line
                );
                let remedy = match checked.iter().any(|route| route.via.is_some()) {
                    true => {
                        "keep one of them; several gateways that share the flows are a list: `via: [A, B]`"
                    }
                    false => "keep one of them",
                };
                report.error(to.place, format!("{path}.to"), Fault::new(problem, remedy));
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
    if !complete {
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
    if !route.via.items.is_empty() || route.port.is_some() {
        let fault = Fault::new(
            "an unreachable destination has no way to it",
            "remove `via` and `port`, or `unreachable`",
        );
        report.error(route.place, path, fault);
    }
}

/// The route, once for each of its gateways; none when anything is wrong with it.
fn routes_of(
    route: &RawRoute,
    path: &str,
    ports: &Names<'_>,
    links: &Links,
    report: &mut Report,
) -> Option<Vec<Route>> {
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
    if route.via.items.is_empty() {
        if named.is_none() {
            let remedy =
                "write `via:` with the address of a gateway, or `port:` when all of it is on the link itself";
            report.error(route.place, path, Fault::new("neither `via` nor `port`", remedy));
        }
        return Some(vec![Route {
            to,
            via: None,
            port: named?,
            weight: 1,
            place: route.place,
        }]);
    }
    let mut routes: Vec<Route> = Vec::new();
    let mut complete = true;
    for (item, hop) in route.via.iter() {
        let path = route.via.path(&format!("{path}.via"), item);
        let port = match &hop.port {
            Some(name) => ports.find(name, format!("{path}.port"), report),
            None => named,
        };
        let readable = hop.port.is_none() || port.is_some();
        let port = readable
            .then(|| gateway_port(to, hop, port, &path, links, report))
            .flatten();
        let Some(port) = port else {
            complete = false;
            continue;
        };
        let via = Some(hop.address.value);
        if routes.iter().any(|known| (known.via, known.port) == (via, port)) {
            let problem = format!("gateway {} is there twice", hop.address.value);
            let fault = Fault::new(problem, "keep one of them, and write its share as `weight`");
            report.error(hop.address.place, path, fault);
            complete = false;
            continue;
        }
        routes.push(Route {
            to,
            via,
            port,
            weight: hop.weight,
            place: route.place,
        });
    }
    complete.then_some(routes)
}

/// The port that a gateway of a route to `to` is behind; `named` where the file says one.
fn gateway_port(
    to: Prefix,
    hop: &RawHop,
    named: Option<usize>,
    path: &str,
    links: &Links,
    report: &mut Report,
) -> Option<usize> {
    let via = hop.address;
    if via.value.is_ipv6() != to.address().is_ipv6() {
        let problem = format!("{to} and its gateway {} are of two families", via.value);
        let fault = Fault::new(problem, "write a gateway of the same family as the destinations");
        report.error(via.place, path, fault);
        return None;
    }
    if is_link_local(via.value) {
        if named.is_none() {
            let problem = format!(
                "gateway {} is link-local, and does not tell on which port",
                via.value
            );
            report.error(via.place, path, Fault::new(problem, "write `port:` as well"));
        }
        return named;
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
        let fault = Fault::new(problem, "write the address of a router there");
        report.error(via.place, path, fault);
        return None;
    }
    Some(port)
}

/// Routes of the kernel: from a table, by devices that stand for ports. A server may be behind a route that only the
/// kernel knows.
pub(crate) fn kernel_routes(
    table: Option<&At<u32>>,
    ports: &[RawPort],
    links: &mut Links,
    report: &mut Report,
) -> Option<u32> {
    let table = table?;
    if !stands_for_any(ports) {
        let fault = Fault::new(
            "no device of the kernel stands for a port, so no route of it can be used",
            "write `exception:` or `kernel_device:` for a port, or remove this",
        );
        report.error(table.place, "kernel_routes", fault);
    }
    links.set_learning();
    Some(table.value)
}

/// Whether a device of the kernel stands for any port.
pub(crate) fn stands_for_any(ports: &[RawPort]) -> bool {
    let mut ports = ports.iter();
    ports.any(|port| port.kernel_device.is_some() || port.exception.is_some())
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
