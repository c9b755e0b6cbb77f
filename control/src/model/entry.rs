//! What the model holds: services with what only operators see of them, and groups of local addresses.

use dataplane::flow::Mode;
use dataplane::local::LipPool;
use dataplane::packet::PortId;
use dataplane::service::{Server, Service, ServiceKey};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What identifies a server: its service, and its own address and port (host order).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ServerKey {
    /// The service.
    pub service: ServiceKey,
    /// The server's address.
    pub address: IpAddr,
    /// The server's port, host order.
    pub port: u16,
}

/// What has a slot among those of servers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum SlotOwner {
    /// A server.
    Server(ServerKey),
    /// The rule of SNAT of that name.
    Snat(Arc<str>),
}

/// A service with what only operators see of it.
#[derive(Clone, Debug)]
pub struct VirtualService {
    /// Its name in the file; empty when it was made by a command.
    pub name: String,
    /// The name in the file of the service that it is a queue of, if it is one.
    pub queue_of: Option<String>,
    /// What workers see of it.
    pub service: Arc<Service>,
    /// The ports that commands have named for DR and TUN servers, which get the service's port whatever is named.
    pub(super) ignored_ports: BTreeMap<SocketAddr, u16>,
}

impl VirtualService {
    /// Whether an operator means it by that text: its name, where it listens, or the service that it is a queue of.
    #[must_use]
    pub fn is_called(&self, text: &str) -> bool {
        self.name == text || self.queue_of.as_deref() == Some(text) || self.service.key.to_string() == text
    }

    /// A port that is said of `server` without effect, host order: nothing changes ports on the way to a DR or TUN
    /// server.
    #[must_use]
    pub fn ignored_port(&self, server: &Server) -> Option<u16> {
        if !matches!(server.mode, Mode::Dr | Mode::Tun) {
            return None;
        }
        let end = SocketAddr::new(server.address, server.port);
        let own = Some(server.port).filter(|port| *port != self.service.key.port());
        self.ignored_ports.get(&end).copied().or(own)
    }
}

/// A named group of local addresses.
#[derive(Clone, Debug)]
pub struct LocalGroup {
    /// Its name.
    pub name: String,
    /// The Ethernet port that it is on.
    pub port: PortId,
    /// Whether servers reach it by a route, whatever port they are behind.
    pub routed: bool,
    /// What workers see of it.
    pub pool: Arc<LipPool>,
}

impl LocalGroup {
    /// Whether `service` takes local addresses from the group.
    #[must_use]
    pub fn serves(&self, service: &Service) -> bool {
        service
            .local_pools
            .iter()
            .any(|pool| Arc::ptr_eq(pool, &self.pool))
    }
}
