//! ipvsadm's commands as operations on the model, with what the kernel refuses, in its words.

use super::{LocalGroup, Model, ModelError, ServiceSpec, position};
use crate::ipvsadm::{self, Command, Endpoint, Family, Forwarding, Mask, Refusal, ServiceId};
use dataplane::flow::Mode;
use dataplane::local::LipPool;
use dataplane::scheduler::{SchedulerFlags, SchedulerKind};
use dataplane::service::{
    Persistence, PersistenceEngine, Protocol, Server, ServiceKey, Tunnel, TunnelChecksum, TunnelKind,
};
use dataplane::time::seconds;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Why the table does not take a command; then it has not changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CommandError {
    /// What the kernel would say too.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// What LVS can do, or may be asked to, and this gateway cannot yet.
    #[error("{0} is not supported yet")]
    Unsupported(&'static str),
    /// A service of LVS is one port, and so is a queue.
    #[error(
        "the scheduler mq is for the file, where a service lists its queues: add a service for each port instead, with \
         the scheduler of its servers, such as -s wlc"
    )]
    Queues,
    /// No group of local addresses has this name.
    #[error("no local addresses are named {name}; there are: {known}")]
    NoSuchGroup {
        /// The name that was given.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// FULLNAT needs local addresses.
    #[error("a FULLNAT server needs a service with --local-addresses NAME")]
    NoLocalAddresses,
    /// Servers see local addresses of their own family.
    #[error("the service's local addresses are not {0}: name a group that has {0} addresses")]
    OtherFamily(&'static str),
    /// FULLNAT needs local addresses that the server's answers come back to.
    #[error(
        "the server {server} is not behind the port that local addresses {group} are on, so that its answers to them \
         would not come back: name a group of its port, or say `routed: true` of the group where the server has a route"
    )]
    WrongPort {
        /// The server.
        server: IpAddr,
        /// The group's name.
        group: String,
    },
    /// The model has no room, or the addresses contradict each other.
    #[error("{0}")]
    Model(#[from] ModelError),
}

impl Model {
    /// Carries out one command.
    ///
    /// # Errors
    /// Why it is refused; then nothing has changed.
    pub fn apply_command(&mut self, command: &Command) -> Result<(), CommandError> {
        match command {
            Command::AddService(service) => self.add_service(service),
            Command::EditService(service) => {
                let spec = self.spec_of(service)?;
                let key = self.known(&service.id, Refusal::NoSuchService)?;
                for server in &self.services[&key].service.servers {
                    if server.mode == Mode::Fullnat {
                        self.can_reach(&spec.local_pools, server.address)?;
                    }
                }
                self.edit_service(spec);
                Ok(())
            }
            Command::DeleteService(id) => {
                let key = self.known(id, Refusal::NoSuchService)?;
                self.remove_service(&key);
                Ok(self.refresh_addresses()?)
            }
            Command::Clear => {
                let keys: Vec<ServiceKey> = self.services.keys().copied().collect();
                for key in keys {
                    self.remove_service(&key);
                }
                Ok(self.refresh_addresses()?)
            }
            Command::AddServer(id, server) => self.add_server(id, server),
            Command::EditServer(id, server) => self.change_server(id, server),
            Command::DeleteServer(id, endpoint) => self.delete_server(id, endpoint),
            &Command::SetTimeouts { tcp, tcp_fin, udp } => {
                self.settings.timeouts.set(tcp, tcp_fin, udp);
                Ok(())
            }
        }
    }

    fn refresh_addresses(&mut self) -> Result<(), ModelError> {
        self.network.addresses = self.addresses(None)?;
        Ok(())
    }

    fn add_service(&mut self, service: &ipvsadm::Service) -> Result<(), CommandError> {
        let spec = self.spec_of(service)?;
        if self.services.contains_key(&spec.key) {
            return Err(Refusal::ServiceExists.into());
        }
        if let Some(vip) = spec.key.address() {
            self.refuse_drained(vip)?;
        }
        let addresses = self.addresses(spec.key.address()).map_err(ModelError::from)?;
        self.insert_service(String::new(), spec)?;
        self.network.addresses = addresses;
        Ok(())
    }

    fn add_server(&mut self, id: &ServiceId, server: &ipvsadm::Server) -> Result<(), CommandError> {
        let key = self.known(id, Refusal::ServiceNotDefined)?;
        let ignored = server.ignored_port;
        let server = self.server_of(&key, server)?;
        if position(&self.services[&key].service, server.address, server.port).is_some() {
            return Err(Refusal::ServerExists.into());
        }
        let end = SocketAddr::new(server.address, server.port);
        self.insert_server(key, server)?;
        self.note_ignored_port(key, end, ignored);
        Ok(())
    }

    fn change_server(&mut self, id: &ServiceId, server: &ipvsadm::Server) -> Result<(), CommandError> {
        let key = self.known(id, Refusal::ServiceNotDefined)?;
        let ignored = server.ignored_port;
        let mut server = self.server_of(&key, server)?;
        let present = &self.services[&key].service;
        let at = position(present, server.address, server.port).ok_or(Refusal::NoSuchServer)?;
        // What has no option of ipvsadm stays.
        server.overloaded = present.servers[at].overloaded;
        let end = SocketAddr::new(server.address, server.port);
        self.edit_server(key, at, server);
        self.note_ignored_port(key, end, ignored);
        Ok(())
    }

    fn delete_server(&mut self, id: &ServiceId, endpoint: &Endpoint) -> Result<(), CommandError> {
        let key = self.known(id, Refusal::ServiceNotDefined)?;
        let at = position(&self.services[&key].service, endpoint.address, endpoint.port);
        self.remove_server(key, at.ok_or(Refusal::NoSuchServer)?);
        Ok(())
    }

    /// The key of a service that exists.
    fn known(&self, id: &ServiceId, otherwise: Refusal) -> Result<ServiceKey, CommandError> {
        let key = key_of(id);
        if self.services.contains_key(&key) {
            Ok(key)
        } else {
            Err(otherwise.into())
        }
    }

    fn spec_of(&self, service: &ipvsadm::Service) -> Result<ServiceSpec, CommandError> {
        let key = key_of(&service.id);
        if service.scheduler == "mq" {
            return Err(CommandError::Queues);
        }
        let scheduler = SchedulerKind::from_name(&service.scheduler).ok_or(Refusal::NoSuchScheduler)?;
        let engine = service.engine.as_ref();
        let engine = engine.map(|name| PersistenceEngine::from_name(name).ok_or(Refusal::NoSuchScheduler));
        let local_pools = match &service.local_addresses {
            Some(name) => vec![self.group(name)?],
            None => Vec::new(),
        };
        // What has no option of ipvsadm stays as the file has it.
        let present = self.services.get(&key).map(|entry| &entry.service);
        let bound = present.and_then(|service| service.persistence);
        let bound = bound.map_or(0, |persistence| persistence.bound);
        Ok(ServiceSpec {
            key,
            scheduler,
            scheduler_flags: SchedulerFlags::from_bits(service.flags.0),
            persistence: service.persistence.map(|persistence| Persistence {
                bound,
                ..persistence_of(persistence)
            }),
            engine: engine.transpose()?,
            one_packet: service.one_packet,
            translate_replies: present.is_some_and(|service| service.translate_replies),
            hairpin_snat: present.is_some_and(|service| service.hairpin_snat),
            mss_clamp: present.map_or(0, |service| service.mss_clamp),
            client_address: present.map(|service| service.client_address).unwrap_or_default(),
            timeouts: present.and_then(|service| service.timeouts.clone()),
            policy: present.map(|service| service.policy).unwrap_or_default(),
            local_pools,
        })
    }

    fn group(&self, name: &str) -> Result<Arc<LipPool>, CommandError> {
        let found = self.locals.iter().find(|group| group.name == name);
        found.map(|group| Arc::clone(&group.pool)).ok_or_else(|| {
            let known: Vec<&str> = self.locals.iter().map(|group| group.name.as_str()).collect();
            CommandError::NoSuchGroup {
                name: name.to_owned(),
                known: known.join(", "),
            }
        })
    }

    /// Whether these groups have local addresses of the family of `server`, and its answers come back to them.
    fn can_reach(&self, pools: &[Arc<LipPool>], server: IpAddr) -> Result<(), CommandError> {
        if pools.is_empty() {
            return Err(CommandError::NoLocalAddresses);
        }
        let ipv6 = server.is_ipv6();
        if pools.iter().all(|pool| pool.towards(ipv6).is_empty()) {
            return Err(CommandError::OtherFamily(if ipv6 { "IPv6" } else { "IPv4" }));
        }
        // A server without a way to it is refused elsewhere, or may get one.
        let Some(hop) = self.network.routes.next_hop(server) else {
            return Ok(());
        };
        // Only addresses of its own family are shown to it.
        let is_shown = |group: &LocalGroup| !group.pool.towards(ipv6).is_empty();
        let elsewhere = |group: &&LocalGroup| is_shown(group) && !group.routed && group.port != hop.port;
        let named = self.locals.iter();
        let mut named = named.filter(|group| pools.iter().any(|pool| Arc::ptr_eq(pool, &group.pool)));
        match named.find(elsewhere) {
            None => Ok(()),
            Some(group) => Err(CommandError::WrongPort {
                server,
                group: group.name.clone(),
            }),
        }
    }

    fn server_of(&self, key: &ServiceKey, server: &ipvsadm::Server) -> Result<Server, CommandError> {
        let (mode, tunnel) = match server.forwarding {
            Forwarding::Dr => (Mode::Dr, Tunnel::default()),
            Forwarding::Nat => (Mode::Nat, Tunnel::default()),
            Forwarding::Fullnat => (Mode::Fullnat, Tunnel::default()),
            Forwarding::Tun(tunnel) => (Mode::Tun, tunnel_of(tunnel)),
        };
        if mode == Mode::Fullnat {
            self.can_reach(&self.services[key].service.local_pools, server.endpoint.address)?;
        }
        if mode == Mode::Fullnat && self.services[key].service.one_packet {
            return Err(CommandError::Unsupported("one-packet scheduling (-o) by FULLNAT"));
        }
        let address = server.endpoint.address;
        if !can_be_server(address) {
            return Err(Refusal::NotUnicast.into());
        }
        self.refuse_drained(address)?;
        if server.lower_threshold > server.upper_threshold {
            return Err(Refusal::OutOfRange.into());
        }
        Ok(Server {
            slot: 0,
            address,
            port: server.endpoint.port,
            weight: server.weight,
            table_weight: server.weight,
            hash_share: 100,
            mode,
            tunnel,
            upper_threshold: server.upper_threshold,
            lower_threshold: server.lower_threshold,
            overloaded: false,
        })
    }
}

fn key_of(id: &ServiceId) -> ServiceKey {
    match *id {
        ServiceId::Mark { mark, family } => ServiceKey::Mark {
            mark,
            ipv6: family == Family::V6,
        },
        ServiceId::Address {
            protocol,
            address,
            port,
        } => {
            let protocol = match protocol {
                ipvsadm::Protocol::Tcp => Protocol::Tcp,
                ipvsadm::Protocol::Udp => Protocol::Udp,
                ipvsadm::Protocol::Sctp => Protocol::Sctp,
            };
            ServiceKey::new(address, port, protocol)
        }
    }
}

fn persistence_of(persistence: ipvsadm::Persistence) -> Persistence {
    let each = Persistence::new(seconds(persistence.timeout));
    match persistence.mask {
        Mask::V4(netmask) => Persistence { netmask, ..each },
        Mask::V6(prefix) => Persistence { prefix, ..each },
    }
}

fn tunnel_of(tunnel: ipvsadm::Tunnel) -> Tunnel {
    let checksum_of = |checksum| match checksum {
        ipvsadm::TunnelChecksum::None => TunnelChecksum::None,
        ipvsadm::TunnelChecksum::Full => TunnelChecksum::Outer,
        ipvsadm::TunnelChecksum::Remote => TunnelChecksum::Remote,
    };
    match tunnel {
        ipvsadm::Tunnel::Ipip => Tunnel::default(),
        ipvsadm::Tunnel::Gue { port, checksum } => Tunnel {
            kind: TunnelKind::Gue { port },
            checksum: checksum_of(checksum),
        },
        ipvsadm::Tunnel::Gre { checksum } => Tunnel {
            kind: TunnelKind::Gre,
            checksum: checksum_of(checksum),
        },
    }
}

/// Whether the kernel takes it: IPv4 but "this network", multicast and broadcast; IPv6 but unspecified, multicast,
/// link-local and IPv4-mapped.
fn can_be_server(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            !(address.octets()[0] == 0 || address.is_multicast() || address.is_broadcast())
        }
        IpAddr::V6(address) => {
            let other = address.is_unspecified() || address.is_multicast() || address.is_unicast_link_local();
            !other && address.to_ipv4_mapped().is_none()
        }
    }
}
