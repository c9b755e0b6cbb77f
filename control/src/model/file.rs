//! The YAML file as an operation on the model: a diff by identity. What the file does not change keeps its slot,
//! its counters, its connections and its scheduler's state.

use super::{LocalGroup, Model, ModelError, ServiceSpec, position};
use crate::config::{self, Config};
use dataplane::flow::Timeouts;
use dataplane::local::{LipPool, PortRange};
use dataplane::neighbour::Prefix;
use dataplane::packet::{MacAddr, PortId};
use dataplane::service::{MarkRule, MarkRules, Server, ServiceKey, StaticNeighbour};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// What an application of a file has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Changes {
    /// Services that are new.
    pub services_added: usize,
    /// Services whose own settings are different now.
    pub services_changed: usize,
    /// Services that are gone.
    pub services_removed: usize,
    /// Servers that are new.
    pub servers_added: usize,
    /// Servers whose settings are different now.
    pub servers_changed: usize,
    /// Servers that are gone.
    pub servers_removed: usize,
    /// Rules of SNAT that are new.
    #[serde(default)]
    pub snat_added: usize,
    /// Rules of SNAT that are different now, or stand elsewhere among the others.
    #[serde(default)]
    pub snat_changed: usize,
    /// Rules of SNAT that are gone.
    #[serde(default)]
    pub snat_removed: usize,
    /// Routes, neighbours, local addresses, port addresses, timeouts or settings are different now.
    pub network_changed: bool,
    /// Local addresses that this has taken out of use, and that stay until the last connection on them ends.
    #[serde(default)]
    pub locals_draining: usize,
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Changes::default() {
            return f.write_str("nothing has changed");
        }
        write!(
            f,
            "services: {} added, {} changed, {} removed; servers: {} added, {} changed, {} removed",
            self.services_added,
            self.services_changed,
            self.services_removed,
            self.servers_added,
            self.servers_changed,
            self.servers_removed,
        )?;
        let (added, changed, removed) = (self.snat_added, self.snat_changed, self.snat_removed);
        if added + changed + removed > 0 {
            write!(
                f,
                "; SNAT rules: {added} added, {changed} changed, {removed} removed"
            )?;
        }
        if self.network_changed {
            f.write_str("; network or settings changed")?;
        }
        match self.locals_draining {
            0 => Ok(()),
            1 => f.write_str("; 1 local address drains"),
            count => write!(f, "; {count} local addresses drain"),
        }
    }
}

impl Model {
    /// Makes the model what the file says: all of it, or nothing.
    ///
    /// # Errors
    /// A limit is reached, or addresses or routes contradict each other.
    pub fn apply_file(&mut self, config: &Config) -> Result<Changes, ModelError> {
        let mut next = self.clone();
        let mut changes = Changes {
            network_changed: next.apply_network(config)?,
            ..Changes::default()
        };
        next.refuse_drained_elsewhere(config)?;
        next.apply_services(config, &mut changes)?;
        next.apply_snat(config, &mut changes)?;
        next.network.addresses = next.addresses(None)?;
        let drained_before = |address| self.draining.iter().any(|before| before.address == address);
        let draining = next.draining.iter();
        changes.locals_draining = draining.filter(|new| !drained_before(new.address)).count();
        *self = next;
        Ok(changes)
    }

    fn apply_network(&mut self, config: &Config) -> Result<bool, ModelError> {
        let mut changed = set(&mut self.settings, config.settings.clone());

        let mut ports = self.network.ports.to_vec();
        for (port, wanted) in ports.iter_mut().zip(&config.ports) {
            port.addresses = wanted.own_addresses();
        }
        if ports[..] != self.network.ports[..] {
            self.network.ports = ports.into();
            changed = true;
        }

        changed |= self.apply_routes(config)?;
        changed |= self.apply_owners(config);

        let neighbours: Vec<_> = config.neighbours.iter().map(static_neighbour).collect();
        if neighbours[..] != self.network.neighbours[..] {
            self.network.neighbours = neighbours.into();
            changed = true;
        }

        let marks = MarkRules::new(mark_rules(config));
        if marks != *self.network.marks {
            self.network.marks = Arc::new(marks);
            changed = true;
        }

        let vips = config.vips.iter().map(|vip| (vip.address, vip.policy)).collect();
        if vips != *self.network.vips {
            self.network.vips = Arc::new(vips);
            changed = true;
        }

        let groups: Vec<_> = config
            .local_addresses
            .iter()
            .map(|group| self.local_group(group))
            .collect();
        let same = groups.len() == self.locals.len()
            && groups
                .iter()
                .zip(&self.locals)
                .all(|(new, old)| Arc::ptr_eq(&new.pool, &old.pool));
        let before = std::mem::replace(&mut self.locals, groups);
        self.drain_removed(&before);
        Ok(changed || !same)
    }

    /// The group as the model keeps it: the very one that it has, when that is equal.
    fn local_group(&self, group: &config::LocalAddresses) -> LocalGroup {
        let ports = PortRange::new(group.ports.first, group.ports.last).unwrap_or_default();
        let pool = LipPool::new(group.addresses(), ports);
        let known = self
            .locals
            .iter()
            .find(|known| known.name == group.name && *known.pool == pool);
        LocalGroup {
            name: group.name.clone(),
            port: PortId(group.port as u8),
            routed: group.routed,
            pool: known.map_or_else(|| Arc::new(pool), |known| Arc::clone(&known.pool)),
        }
    }

    fn apply_services(&mut self, config: &Config, changes: &mut Changes) -> Result<(), ModelError> {
        let listeners = || {
            let services = config.services.iter();
            services.flat_map(|service| {
                service
                    .listeners
                    .iter()
                    .map(move |listener| (service, listener.key, listener))
            })
        };
        let wanted: HashSet<ServiceKey> = listeners().map(|(_, key, _)| key).collect();
        let gone: Vec<ServiceKey> = self
            .services
            .keys()
            .filter(|key| !wanted.contains(key))
            .copied()
            .collect();
        for key in gone {
            changes.servers_removed += self.services[&key].service.servers.len();
            self.remove_service(&key);
            changes.services_removed += 1;
        }
        for (service, key, listener) in listeners() {
            let local_pools = service
                .local_addresses
                .iter()
                .map(|&group| Arc::clone(&self.locals[group].pool))
                .collect();
            let spec = ServiceSpec {
                key,
                scheduler: service.scheduler,
                scheduler_flags: service.scheduler_flags,
                persistence: service.persistence,
                engine: service.engine,
                one_packet: service.one_packet,
                translate_replies: service.translate_replies,
                hairpin_snat: service.hairpin_snat,
                mss_clamp: service.mss_clamp,
                client_address: service.client_address,
                timeouts: self.service_timeouts(key, service),
                policy: service.policy,
                local_pools,
            };
            if let Some(entry) = self.services.get_mut(&key) {
                entry.name.clone_from(&service.name);
                entry.ignored_ports.clear();
                changes.services_changed += usize::from(self.edit_service(spec));
            } else {
                self.insert_service(service.name.clone(), spec)?;
                changes.services_added += 1;
            }
            if let Some(entry) = self.services.get_mut(&key) {
                entry.queue_of.clone_from(&service.queue_of);
            }
            self.apply_servers(config, service, listener, changes)?;
        }
        Ok(())
    }

    /// A service's own timeouts: the very ones that it has, when they are equal.
    fn service_timeouts(&self, key: ServiceKey, wanted: &config::Service) -> Option<Arc<Timeouts>> {
        let wanted = wanted.timeouts?;
        let present = self
            .services
            .get(&key)
            .and_then(|entry| entry.service.timeouts.clone());
        Some(
            present
                .filter(|own| **own == wanted)
                .unwrap_or_else(|| Arc::new(wanted)),
        )
    }

    fn apply_servers(
        &mut self,
        config: &Config,
        service: &config::Service,
        listener: &config::Listener,
        changes: &mut Changes,
    ) -> Result<(), ModelError> {
        let key = listener.key;
        let wanted = config.pools[service.pool]
            .servers
            .iter()
            .map(|server| server_of(service, server, listener));
        let wanted: Vec<Server> = wanted.collect();
        let ends: HashMap<_, _> = wanted
            .iter()
            .map(|server| ((server.address, server.port), ()))
            .collect();
        let present = Arc::clone(&self.services[&key].service);
        for (at, server) in present.servers.iter().enumerate().rev() {
            if !ends.contains_key(&(server.address, server.port)) {
                self.remove_server(key, at);
                changes.servers_removed += 1;
            }
        }
        for server in wanted {
            let service = &self.services[&key].service;
            match position(service, server.address, server.port) {
                None => {
                    self.insert_server(key, server)?;
                    changes.servers_added += 1;
                }
                Some(at)
                    if (Server {
                        slot: service.servers[at].slot,
                        // The same, or about to be: it follows the weight.
                        table_weight: service.servers[at].table_weight,
                        ..server.clone()
                    }) != service.servers[at] =>
                {
                    self.edit_server(key, at, server);
                    changes.servers_changed += 1;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// Replaces a value; whether it is another one now.
fn set<T: PartialEq>(old: &mut T, new: T) -> bool {
    let changed = *old != new;
    *old = new;
    changed
}

fn server_of(service: &config::Service, server: &config::Server, listener: &config::Listener) -> Server {
    Server {
        slot: 0,
        address: server.address,
        port: server.port_for(listener),
        weight: server.weight,
        table_weight: server.weight,
        hash_share: 100,
        mode: service.mode_of(server),
        tunnel: service.tunnel_of(server),
        upper_threshold: server.upper_threshold,
        lower_threshold: server.lower_threshold,
        overloaded: server.overloaded,
    }
}

/// The rules of firewall marks, one for each pair of destination and source.
fn mark_rules(config: &Config) -> Vec<MarkRule> {
    let mut rules = Vec::new();
    for mark in &config.marks {
        for &destination in &mark.destinations {
            let of_family = |source: &&Prefix| source.address().is_ipv6() == destination.address().is_ipv6();
            let rule = |source: Option<Prefix>| MarkRule {
                mark: mark.mark,
                destination,
                source,
                protocol: mark.protocol,
                ports: mark.ports.iter().map(|ports| ports.first..=ports.last).collect(),
                input: mark.input.map(|port| PortId(port as u8)),
            };
            if mark.sources.is_empty() {
                rules.push(rule(None));
            }
            let sources = mark.sources.iter().filter(of_family);
            rules.extend(sources.map(|source| rule(Some(*source))));
        }
    }
    rules
}

fn static_neighbour(neighbour: &config::Neighbour) -> StaticNeighbour {
    StaticNeighbour {
        port: PortId(neighbour.port as u8),
        address: neighbour.address,
        mac: MacAddr(neighbour.mac),
    }
}
