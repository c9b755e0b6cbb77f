//! ipvsadm's commands as operations on the model, with what the kernel refuses, in its words.

use super::{Model, ModelError, ServiceSpec, position};
use crate::ipvsadm::{self, Command, Endpoint, Forwarding, Refusal, ServiceId};
use dataplane::flow::Mode;
use dataplane::local::LipPool;
use dataplane::scheduler::SchedulerKind;
use dataplane::service::{Protocol, Server, ServiceKey, Tunnel};
use std::net::{IpAddr, Ipv4Addr};
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
                self.known(&service.id, Refusal::NoSuchService)?;
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
            Command::EditServer(id, server) => {
                let key = self.known(id, Refusal::ServiceNotDefined)?;
                let server = self.server_of(&key, server)?;
                let at = position(&self.services[&key].service, server.address, server.port);
                self.edit_server(key, at.ok_or(Refusal::NoSuchServer)?, server);
                Ok(())
            }
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
        let addresses = self.addresses(Some(spec.key.address)).map_err(ModelError::from)?;
        self.insert_service(String::new(), spec)?;
        self.network.addresses = addresses;
        Ok(())
    }

    fn add_server(&mut self, id: &ServiceId, server: &ipvsadm::Server) -> Result<(), CommandError> {
        let key = self.known(id, Refusal::ServiceNotDefined)?;
        let server = self.server_of(&key, server)?;
        if position(&self.services[&key].service, server.address, server.port).is_some() {
            return Err(Refusal::ServerExists.into());
        }
        Ok(self.insert_server(key, server)?)
    }

    fn delete_server(&mut self, id: &ServiceId, endpoint: &Endpoint) -> Result<(), CommandError> {
        let key = self.known(id, Refusal::ServiceNotDefined)?;
        let at = position(&self.services[&key].service, endpoint.address, endpoint.port);
        self.remove_server(key, at.ok_or(Refusal::NoSuchServer)?);
        Ok(())
    }

    /// The key of a service that exists.
    fn known(&self, id: &ServiceId, otherwise: Refusal) -> Result<ServiceKey, CommandError> {
        let key = key_of(id)?;
        if self.services.contains_key(&key) {
            Ok(key)
        } else {
            Err(otherwise.into())
        }
    }

    fn spec_of(&self, service: &ipvsadm::Service) -> Result<ServiceSpec, CommandError> {
        if service.persistence.is_some() {
            return Err(CommandError::Unsupported("persistence (-p)"));
        }
        let key = key_of(&service.id)?;
        let scheduler = SchedulerKind::from_name(&service.scheduler);
        let scheduler = match (scheduler, ipvsadm::is_scheduler(&service.scheduler)) {
            (Some(scheduler), _) => scheduler,
            (None, true) => return Err(CommandError::Unsupported("this scheduler (there are rr and wrr)")),
            (None, false) => return Err(Refusal::NoSuchScheduler.into()),
        };
        let local_pools = match &service.local_addresses {
            Some(name) => vec![self.group(name)?],
            None => Vec::new(),
        };
        Ok(ServiceSpec {
            key,
            scheduler,
            one_packet: service.one_packet,
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

    fn server_of(&self, key: &ServiceKey, server: &ipvsadm::Server) -> Result<Server, CommandError> {
        let mode = match server.forwarding {
            Forwarding::Dr => Mode::Dr,
            Forwarding::Fullnat => Mode::Fullnat,
            Forwarding::Nat => return Err(CommandError::Unsupported("forwarding by NAT (-m)")),
            Forwarding::Tun(_) => return Err(CommandError::Unsupported("forwarding by tunnel (-i)")),
        };
        if mode == Mode::Fullnat && self.services[key].service.local_pools.is_empty() {
            return Err(CommandError::NoLocalAddresses);
        }
        if mode == Mode::Fullnat && self.services[key].service.one_packet {
            return Err(CommandError::Unsupported("one-packet scheduling (-o) by FULLNAT"));
        }
        let IpAddr::V4(address) = server.endpoint.address else {
            return Err(CommandError::Unsupported("an IPv6 server"));
        };
        if !can_be_server(address) {
            return Err(Refusal::NotUnicast.into());
        }
        if server.lower_threshold > server.upper_threshold {
            return Err(Refusal::OutOfRange.into());
        }
        Ok(Server {
            slot: 0,
            address: address.into(),
            port: server.endpoint.port,
            weight: server.weight,
            mode,
            tunnel: Tunnel::default(),
            upper_threshold: server.upper_threshold,
            lower_threshold: server.lower_threshold,
        })
    }
}

fn key_of(id: &ServiceId) -> Result<ServiceKey, CommandError> {
    match *id {
        ServiceId::Mark { .. } => Err(CommandError::Unsupported("a firewall-mark service (-f)")),
        ServiceId::Address {
            address: IpAddr::V6(_),
            ..
        } => Err(CommandError::Unsupported("an IPv6 service")),
        ServiceId::Address { port: 0, .. } => {
            Err(CommandError::Unsupported("a service on every port (port 0)"))
        }
        ServiceId::Address {
            protocol,
            address: IpAddr::V4(address),
            port,
        } => {
            let protocol = match protocol {
                ipvsadm::Protocol::Tcp => Protocol::Tcp,
                ipvsadm::Protocol::Udp => Protocol::Udp,
                ipvsadm::Protocol::Sctp => return Err(CommandError::Unsupported("an SCTP service")),
            };
            Ok(ServiceKey {
                address: address.into(),
                port,
                protocol,
            })
        }
    }
}

fn can_be_server(address: Ipv4Addr) -> bool {
    !(address.is_multicast() || address.is_broadcast() || address.is_unspecified())
}
