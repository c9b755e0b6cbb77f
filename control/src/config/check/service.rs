//! Services: each listener once, servers that the forwarding mode can reach, local addresses for FULLNAT.

use std::collections::{HashMap, HashSet};

use dataplane::flow::Mode;
use dataplane::service::Protocol;

use super::links::Reach;
use super::names::Names;
use super::pool::{KnownPool, KnownServer};
use crate::config::Place;
use crate::config::read::Raw;
use crate::config::read::service::RawService;
use crate::config::report::{Fault, Report};
use crate::config::types::{Listener, Service};

/// What is looked at from service to service.
struct Checker<'r> {
    raw: &'r Raw,
    pools: &'r [KnownPool],
    pool_names: &'r Names<'r>,
    group_names: &'r Names<'r>,
    used_pools: HashSet<usize>,
    used_groups: HashSet<usize>,
    /// Servers (pool, index) that were reported: one message for a server, not one for each service that uses it.
    reported: HashSet<(usize, usize)>,
}

/// Checks the services, and with them what they use.
pub(crate) fn services(
    raw: &Raw,
    pool_names: &Names<'_>,
    group_names: &Names<'_>,
    pools: &[KnownPool],
    report: &mut Report,
) -> Vec<Service> {
    let mut checker = Checker {
        raw,
        pools,
        pool_names,
        group_names,
        used_pools: HashSet::new(),
        used_groups: HashSet::new(),
        reported: HashSet::new(),
    };
    repeated_listeners(&raw.services, report);
    let services: Vec<Service> = raw
        .services
        .iter()
        .enumerate()
        .filter_map(|(index, service)| checker.service(index, service, report))
        .collect();
    checker.limits(&services, report);
    checker.unused(report);
    services
}

fn repeated_listeners(services: &[RawService], report: &mut Report) {
    let mut seen: HashMap<(u32, u16, Protocol), (usize, Place)> = HashMap::new();
    for (index, service) in services.iter().enumerate() {
        for (item, listener) in service.listeners.iter() {
            let key = (listener.address.to_bits(), listener.port, listener.protocol);
            if let Some((first, place)) = seen.get(&key) {
                let problem = format!(
                    "{listener} is where services[{first}] listens already, on line {}",
                    place.line
                );
                let path = service.listeners.path(&format!("services[{index}].listen"), item);
                report.error(
                    listener.place,
                    path,
                    Fault::new(problem, "write another address or port, or remove one"),
                );
            } else {
                seen.insert(key, (index, listener.place));
            }
        }
    }
}

impl Checker<'_> {
    fn service(&mut self, index: usize, raw: &RawService, report: &mut Report) -> Option<Service> {
        let path = format!("services[{index}]");
        one_packet(raw, &path, report);
        let groups = self.groups(raw, &path, report);
        let pool = raw.pool.as_ref();
        let pool = pool.and_then(|name| self.pool_names.find(name, format!("{path}.pool"), report));
        self.used_pools.extend(pool);
        let service = Service {
            name: raw.name.as_ref()?.value.clone(),
            listeners: raw.listeners.iter().map(|(_, listener)| *listener).collect(),
            pool: pool?,
            mode: raw.mode?,
            scheduler: raw.scheduler,
            local_addresses: groups,
            one_packet: raw.one_packet.is_some_and(|at| at.value),
            place: raw.place,
        };
        self.local_addresses(&service, raw, &path, report);
        self.servers(&service, report);
        Some(service)
    }

    /// The groups of local addresses that the service names.
    fn groups(&mut self, raw: &RawService, path: &str, report: &mut Report) -> Vec<usize> {
        let mut groups = Vec::new();
        let Some(names) = &raw.local_addresses else {
            return groups;
        };
        let path = format!("{path}.local_addresses");
        for (item, name) in names.value.iter() {
            let path = names.value.path(&path, item);
            let Some(group) = self.group_names.find(name, &path, report) else {
                continue;
            };
            if groups.contains(&group) {
                let problem = format!("`{}` is there twice", name.value);
                report.error(name.place, path, Fault::new(problem, "write each group once"));
                continue;
            }
            groups.push(group);
        }
        self.used_groups.extend(&groups);
        groups
    }

    /// FULLNAT has local addresses, and nothing else does.
    fn local_addresses(&self, service: &Service, raw: &RawService, path: &str, report: &mut Report) {
        let servers = self.pools.get(service.pool).map_or(&[][..], |pool| &pool.servers);
        let of_server = |known: &KnownServer| service.mode_of(&known.server) == Mode::Fullnat;
        let fullnat = servers.iter().any(of_server) || servers.is_empty() && service.mode == Mode::Fullnat;
        match &raw.local_addresses {
            None if fullnat => {
                let remedy = match self.group_names.first() {
                    Some(name) => format!("write `local_addresses: {name}`, say"),
                    None => "define a group under `local_addresses` of the file, and write its name here"
                        .to_owned(),
                };
                let problem = "`fullnat` without `local_addresses`: nothing can be sent to a server";
                report.error(raw.place, path, Fault::new(problem, remedy));
            }
            Some(names) if names.value.items.is_empty() && fullnat => {
                let fault = Fault::new(
                    "an empty list",
                    "write the name of a group: `fullnat` needs local addresses",
                );
                report.error(names.place, format!("{path}.local_addresses"), fault);
            }
            Some(names) if !fullnat => {
                let fault = Fault::new(
                    "not used: no server of this service is `fullnat`",
                    "remove the key",
                );
                report.warn(names.place, format!("{path}.local_addresses"), fault);
            }
            _ => {}
        }
        if let Some(at) = raw.one_packet.filter(|at| at.value && fullnat) {
            let problem = "`one_packet` with `fullnat` comes with a later release";
            let remedy = "remove `one_packet`, or use `mode: dr`";
            report.error(
                at.place,
                format!("{path}.one_packet"),
                Fault::new(problem, remedy),
            );
        }
    }

    /// Servers that the forwarding mode reaches, each once.
    fn servers(&mut self, service: &Service, report: &mut Report) {
        let pools = self.pools;
        let Some(pool) = pools.get(service.pool) else {
            return;
        };
        for known in &pool.servers {
            let key = (service.pool, known.index);
            let (place, ending, fault) = match self.fault_of(service, known) {
                Some(found) if !self.reported.contains(&key) => found,
                _ => continue,
            };
            self.reported.insert(key);
            report.error(
                place,
                format!("pools[{}].servers[{}]{ending}", service.pool, known.index),
                fault,
            );
        }
        for (address, port, index) in &pool.doubtful {
            let Some(listener) = service.listeners.iter().find(|listener| listener.port == *port) else {
                continue;
            };
            let problem = format!(
                "{address} without a port is {address}:{port} too, for service `{}`",
                service.name
            );
            let Some(known) = pool.servers.iter().find(|known| known.index == *index) else {
                continue;
            };
            let fault = Fault::new(
                problem,
                format!("keep one of them: that service listens on {listener}"),
            );
            if self.reported.insert((service.pool, *index)) {
                report.error(
                    known.server.place,
                    format!("pools[{}].servers[{index}]", service.pool),
                    fault,
                );
            }
        }
    }

    /// What keeps `service` from using a server, and where that is said: its place and the end of its path.
    fn fault_of(&self, service: &Service, known: &KnownServer) -> Option<(Place, &'static str, Fault)> {
        let address = known.server.address;
        let place = known.server.place;
        let mode = service.mode_of(&known.server);
        if known.reach == Reach::Nowhere {
            let problem = format!("server {address} is in no network of a port, and no route leads to it");
            let remedy = match mode {
                Mode::Dr => "give a port an address in the server's network: `dr` reaches neighbours only",
                Mode::Fullnat | Mode::Nat | Mode::Tun => {
                    "write a route to it under `routes`, or give a port an address in its network"
                }
            };
            return Some((place, "", Fault::new(problem, remedy)));
        }
        if mode != Mode::Dr {
            return None;
        }
        if let Reach::Routed(_) = known.reach {
            let problem = format!(
                "server {address} is behind a gateway, and `dr` (service `{}`) keeps the VIP as destination: \
                 the gateway would send the packet back here",
                service.name
            );
            let remedy = "move the server into a network of a port, or use `mode: fullnat`";
            return Some((place, "", Fault::new(problem, remedy)));
        }
        let other = |listener: &&Listener| known.server.port_for(listener) != listener.port;
        let listener = service.listeners.iter().find(other)?;
        let port = known.server.port_for(listener);
        let problem = format!(
            "port {port}, but `dr` leaves packets as they are: the server would get those of service `{}` on port {}",
            service.name, listener.port
        );
        let remedy = format!(
            "remove `port` and let the server listen on {}, or use `mode: fullnat`",
            listener.port
        );
        Some((
            known.port_place.unwrap_or(place),
            ".port",
            Fault::new(problem, remedy),
        ))
    }

    /// Services and servers fit into their tables.
    fn limits(&self, services: &[Service], report: &mut Report) {
        let limits = self.raw.node.limits;
        let listeners: usize = services.iter().map(|service| service.listeners.len()).sum();
        let servers_of =
            |service: &Service| self.pools.get(service.pool).map_or(0, |pool| pool.servers.len());
        let servers: usize = services
            .iter()
            .map(|service| service.listeners.len() * servers_of(service))
            .sum();
        for (key, what, used, limit) in [
            (
                "services",
                "services, counting each listener",
                listeners,
                limits.services,
            ),
            (
                "servers",
                "servers, counting each once for each listener of its services",
                servers,
                limits.servers,
            ),
        ] {
            if used as u64 > u64::from(limit) {
                let problem = format!("{used} {what}, and there is room for {limit}");
                let fault = Fault::new(problem, format!("write `{key}: {used}` or more"));
                report.error(self.raw.node.place, format!("node.limits.{key}"), fault);
            }
        }
    }

    /// Warns of what has no effect. Not in a file with errors, where a name may be missing because of one.
    fn unused(&self, report: &mut Report) {
        if report.has_errors() {
            return;
        }
        for (index, pool) in self.raw.pools.iter().enumerate() {
            let path = format!("pools[{index}]");
            if !self.used_pools.contains(&index) {
                report.warn(
                    pool.place,
                    path,
                    Fault::new("no service uses this pool", "name it in a service, or remove it"),
                );
            } else if self.pools.get(index).is_some_and(|pool| pool.is_empty) {
                let problem = "a pool without servers: its services refuse all connections";
                report.warn(pool.place, path, Fault::new(problem, "write at least one server"));
            }
        }
        for (index, group) in self.raw.local_addresses.iter().enumerate() {
            if !self.used_groups.contains(&index) {
                let fault = Fault::new(
                    "no service uses this group",
                    "name it in a `fullnat` service, or remove it",
                );
                report.warn(group.place, format!("local_addresses[{index}]"), fault);
            }
        }
    }
}

/// One-packet scheduling is for datagrams.
fn one_packet(raw: &RawService, path: &str, report: &mut Report) {
    let Some(at) = raw.one_packet.filter(|at| at.value) else {
        return;
    };
    let tcp = raw
        .listeners
        .iter()
        .find(|(_, listener)| listener.protocol == Protocol::Tcp);
    if let Some((_, listener)) = tcp {
        let problem = format!("one-packet scheduling is for UDP only, and {listener} is TCP");
        let fault = Fault::new(
            problem,
            "remove `one_packet`, or put the UDP listeners into a service of their own",
        );
        report.error(at.place, format!("{path}.one_packet"), fault);
    }
}
