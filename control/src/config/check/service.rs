//! Services: each listener once, what they name exists, and nothing is there without a use.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use dataplane::flow::Mode;
use dataplane::service::ServiceKey;

use super::links::Links;
use super::local;
use super::marks;
use super::names::Names;
use super::option;
use super::policy;
use super::pool::KnownPool;
use super::queues;
use super::server;
use crate::config::Place;
use crate::config::read::service::RawService;
use crate::config::read::{At, Raw};
use crate::config::report::{Fault, Report};
use crate::config::types::Service;

/// What is looked at from service to service.
struct Checker<'r> {
    raw: &'r Raw,
    pools: &'r [KnownPool],
    links: &'r Links,
    pool_names: &'r Names<'r>,
    group_names: &'r Names<'r>,
    used_pools: HashSet<usize>,
    used_groups: HashSet<usize>,
    /// Servers (pool, index) that were reported: one message for a server, not one for each service that uses it.
    reported: HashSet<(usize, usize)>,
    /// Servers (pool, index) that a service reaches by tunnel.
    tunnelled: HashSet<(usize, usize)>,
}

/// Checks the services, and with them what they use.
pub(crate) fn services(
    raw: &Raw,
    pool_names: &Names<'_>,
    group_names: &Names<'_>,
    pools: &[KnownPool],
    links: &Links,
    report: &mut Report,
) -> Vec<Service> {
    let mut checker = Checker {
        raw,
        pools,
        links,
        pool_names,
        group_names,
        used_pools: HashSet::new(),
        used_groups: HashSet::new(),
        reported: HashSet::new(),
        tunnelled: HashSet::new(),
    };
    repeated_listeners(&raw.services, report);
    queues::names(&raw.services, report);
    let services: Vec<Service> = raw
        .services
        .iter()
        .enumerate()
        .flat_map(|(index, service)| checker.service(index, service, report))
        .collect();
    checker.limits(&services, report);
    checker.unused(report);
    services
}

fn repeated_listeners(services: &[RawService], report: &mut Report) {
    let mut seen: HashMap<ServiceKey, (usize, Place)> = HashMap::new();
    let mut marks: HashMap<u32, (usize, Place)> = HashMap::new();
    for (index, service) in services.iter().enumerate() {
        for (listener, path) in queues::listeners(service, index) {
            if let Some((first, place)) = seen.get(&listener.key) {
                let problem = format!(
                    "{listener} is where services[{first}] listens already, on line {}",
                    place.line
                );
                let fault = Fault::new(problem, "write another address or port, or remove one");
                report.error(listener.place, path, fault);
            } else {
                seen.insert(listener.key, (index, listener.place));
            }
        }
        let Some(mark) = service.mark else { continue };
        if let Some((first, place)) = marks.get(&mark.value) {
            let problem = format!(
                "services[{first}] is for mark {} already, on line {}",
                mark.value, place.line
            );
            let fault = Fault::new(problem, "write another mark, or remove one");
            report.error(mark.place, format!("services[{index}].mark"), fault);
        } else {
            marks.insert(mark.value, (index, mark.place));
        }
    }
}

impl Checker<'_> {
    /// The service that stands there, or one for each of its queues.
    fn service(&mut self, index: usize, raw: &RawService, report: &mut Report) -> Vec<Service> {
        let path = format!("services[{index}]");
        let groups = self.groups(raw, &path, report);
        let mut services = Vec::new();
        for part in queues::parts(raw, &path) {
            let pool = part.pool;
            let pool =
                pool.and_then(|name| self.pool_names.find(name, format!("{}.pool", part.path), report));
            self.used_pools.extend(pool);
            services.extend(self.one(raw, &part, pool, &groups, report));
        }
        if services.is_empty() {
            return services;
        }
        let servers = |service: &Service| self.pools.get(service.pool).map_or(&[][..], |pool| &pool.servers);
        let modes = option::Modes::of(services.iter().map(|service| (service, servers(service))));
        option::check(raw, &modes, &path, report);
        policy::check(raw, &path, report);
        for service in &services {
            marks::persistence(raw, service, &path, report);
            self.local_addresses(raw, service, &modes, &path, report);
            if let Some(names) = &raw.local_addresses {
                let path = format!("{path}.local_addresses");
                local::usable(service, servers(service), self.raw, names.place, &path, report);
            }
        }
        for service in &services {
            self.servers(service, report);
        }
        services
    }

    /// A service, or a queue of one.
    fn one(
        &self,
        raw: &RawService,
        part: &queues::Part<'_>,
        pool: Option<usize>,
        groups: &[usize],
        report: &mut Report,
    ) -> Option<Service> {
        let name = raw.name.as_ref()?.value.clone();
        let (name, queue_of) = match part.port {
            None => (name, None),
            Some(port) => (queues::name_of(&name, port), Some(name)),
        };
        Some(Service {
            name,
            queue_of,
            listeners: match part.port {
                None => marks::listeners(self.raw, raw, &part.path, report),
                Some(port) => raw.queue_listeners(port).map(|(_, listener)| listener).collect(),
            },
            pool: pool?,
            mode: raw.mode?,
            tunnel: raw.tunnel.map(|at| at.value).unwrap_or_default(),
            scheduler: part.scheduler,
            scheduler_flags: part.scheduler_flags,
            local_addresses: groups.to_vec(),
            persistence: raw.persistence.map(|raw| raw.persistence),
            engine: raw.persistence.and_then(|raw| Some(raw.engine?.value)),
            one_packet: is_set(raw.one_packet),
            translate_replies: is_set(raw.translate_replies),
            hairpin_snat: is_set(raw.hairpin_snat),
            mss_clamp: raw.mss_clamp.map_or(0, |at| at.value),
            client_address: raw.client_address.map(|at| at.value).unwrap_or_default(),
            timeouts: raw.policy.timeouts,
            policy: raw.policy.policy,
            place: raw.place,
        })
    }

    /// The groups of local addresses that the service names.
    fn groups(&mut self, raw: &RawService, path: &str, report: &mut Report) -> Vec<usize> {
        let Some(names) = &raw.local_addresses else {
            return Vec::new();
        };
        let path = format!("{path}.local_addresses");
        let groups = self.group_names.find_each(&names.value, &path, report);
        self.used_groups.extend(&groups);
        groups
    }

    /// FULLNAT and hairpins have local addresses, and nothing else does.
    fn local_addresses(
        &self,
        raw: &RawService,
        service: &Service,
        modes: &option::Modes,
        path: &str,
        report: &mut Report,
    ) {
        let fullnat = modes.has(Mode::Fullnat);
        let user = raw.hairpin_snat.filter(|at| at.value && modes.has(Mode::Nat));
        let (place, ending, what) = match user {
            Some(at) if !fullnat => (at.place, ".hairpin_snat", "`hairpin_snat`"),
            _ => (raw.place, "", "`fullnat`"),
        };
        let used = fullnat || user.is_some();
        match &raw.local_addresses {
            None if used => {
                let remedy = match self.group_names.first() {
                    Some(name) => format!("write `local_addresses: {name}`, say"),
                    None => "define a group under `local_addresses` of the file, and write its name here"
                        .to_owned(),
                };
                let problem = format!("{what} without `local_addresses`: nothing can be sent to a server");
                report.error(place, format!("{path}{ending}"), Fault::new(problem, remedy));
            }
            Some(names) if names.value.items.is_empty() && used => {
                let remedy = format!("write the name of a group: {what} needs local addresses");
                let fault = Fault::new("an empty list", remedy);
                report.error(names.place, format!("{path}.local_addresses"), fault);
            }
            Some(names) if !used => {
                let fault = Fault::new(
                    "not used: no server of this service is `fullnat`",
                    "remove the key",
                );
                report.warn(names.place, format!("{path}.local_addresses"), fault);
            }
            Some(names) if service.local_addresses.len() == names.value.items.len() => {
                let groups: Vec<_> = service
                    .local_addresses
                    .iter()
                    .filter_map(|group| self.raw.local_addresses.get(*group))
                    .collect();
                let servers = self.pools.get(service.pool).map_or(&[][..], |pool| &pool.servers);
                local::families(&groups, service, servers, (names.place, path), report);
            }
            _ => {}
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
            if service.mode_of(&known.server) == Mode::Tun {
                self.tunnelled.insert(key);
            }
            let has_source = |ipv6: bool| {
                let settings = &self.raw.settings;
                let own = [settings.tunnel_source, settings.tunnel_source6];
                own[usize::from(ipv6)].is_some() || self.links.has_family(ipv6) || !self.links.is_complete()
            };
            let (place, ending, fault) = match server::fault_of(service, known, has_source) {
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
            let Some(listener) = service
                .listeners
                .iter()
                .find(|listener| listener.key.port() == *port)
            else {
                continue;
            };
            let problem = format!(
                "{address} without a port is {} too, for service `{}`",
                SocketAddr::new(*address, *port),
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
        // A rule of SNAT is counted, and named by connections, as a server is.
        let rules = self.raw.snat.len();
        let with_rules = if rules == 0 { "" } else { ", and rules of `snat`" };
        let what_servers =
            format!("servers, counting each once for each listener of its services{with_rules}");
        for (key, what, used, limit) in [
            (
                "services",
                "services, counting each listener",
                listeners,
                limits.services,
            ),
            ("servers", &*what_servers, servers + rules, limits.servers),
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
        for (index, pool) in self
            .pools
            .iter()
            .enumerate()
            .filter(|(index, _)| self.used_pools.contains(index))
        {
            for known in &pool.servers {
                let Some(place) = known
                    .tunnel_place
                    .filter(|_| !self.tunnelled.contains(&(index, known.index)))
                else {
                    continue;
                };
                let fault = Fault::new(
                    "not used: no service reaches this server by `tun`",
                    "remove the key",
                );
                report.warn(
                    place,
                    format!("pools[{index}].servers[{}].tunnel", known.index),
                    fault,
                );
            }
        }
        let rules = self.raw.snat.iter();
        let named = rules.flat_map(|rule| rule.local_addresses.iter().flat_map(|names| names.value.iter()));
        let by_rules: HashSet<&str> = named.map(|(_, name)| &*name.value).collect();
        for (index, group) in self.raw.local_addresses.iter().enumerate() {
            let is_named = |name: &At<String>| by_rules.contains(&*name.value);
            if !self.used_groups.contains(&index) && !group.name.as_ref().is_some_and(is_named) {
                let fault = Fault::new(
                    "no service and no rule of `snat` uses this group",
                    "name it in a `fullnat` service or in a rule, or remove it",
                );
                report.warn(group.place, format!("local_addresses[{index}]"), fault);
            }
        }
    }
}

fn is_set(flag: Option<At<bool>>) -> bool {
    flag.is_some_and(|at| at.value)
}
