//! Services and their servers.

use crate::gateway::{Gateway, ServerTotals, State};
use crate::model::VirtualService;
use dataplane::service;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A service, with the sums over its servers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Service {
    /// Its name in the file; empty when it was made by a command.
    pub name: String,
    /// VIP, port and protocol, such as `203.0.113.100:80/tcp`.
    pub listen: String,
    /// The VIP.
    pub address: IpAddr,
    /// The port, host order.
    pub port: u16,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The scheduler's name.
    pub scheduler: String,
    /// Whether each datagram is scheduled on its own.
    pub one_packet: bool,
    /// Its groups of local addresses, by name.
    pub local_addresses: Vec<String>,
    /// How many servers it has.
    pub servers: usize,
    /// Traffic, also that of servers that are gone, and connections of the servers that it has.
    #[serde(flatten)]
    pub totals: ServerTotals,
}

impl Service {
    /// Whether that is its name, or where it listens.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.listen == name
    }
}

/// A server of one service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Server {
    /// The service's name.
    pub service: String,
    /// Where the service listens.
    pub listen: String,
    /// The server's address.
    pub address: IpAddr,
    /// The server's port, host order.
    pub port: u16,
    /// The forwarding mode.
    pub mode: String,
    /// Its share of new connections; 0 = quiesced.
    pub weight: u32,
    /// Connections at which it gets no new ones; 0 = no limit.
    pub upper_threshold: u32,
    /// Connections below which it gets new ones again; 0 = three quarters of the upper threshold.
    pub lower_threshold: u32,
    /// Traffic and connections.
    #[serde(flatten)]
    pub totals: ServerTotals,
    /// What the operator should know, if anything.
    pub warning: Option<String>,
}

/// A service with its servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// The service.
    pub service: Service,
    /// Its servers, in the order of LVS: the one added last comes first.
    pub servers: Vec<Server>,
}

/// Every service with its servers, in the order of VIP, port and protocol.
#[must_use]
pub fn table(gateway: &Gateway) -> Vec<Table> {
    each(gateway, |state, entry, listen| {
        let servers = entry.service.servers.iter();
        let view = |server| {
            server_view(
                &entry.name,
                listen,
                server,
                gateway.server_totals(state, server.slot),
            )
        };
        servers.map(view).collect()
    })
}

/// Every service without its servers: many strings fewer where there are many servers. In the same order.
#[must_use]
pub fn services(gateway: &Gateway) -> Vec<Service> {
    let tables = each(gateway, |_, _, _| Vec::new());
    tables.into_iter().map(|table| table.service).collect()
}

/// Every service, with what `servers` makes of its servers.
fn each(gateway: &Gateway, servers: impl Fn(&State, &VirtualService, &str) -> Vec<Server>) -> Vec<Table> {
    let state = gateway.state();
    let departed = gateway.departed_totals(&state);
    let tables = state.model.services().map(|entry| {
        let service = &entry.service;
        let listen = service.key.to_string();
        let mut totals = departed.get(&service.key).copied().unwrap_or_default();
        for server in &service.servers {
            totals += gateway.server_totals(&state, server.slot);
        }
        let servers = servers(&state, entry, &listen);
        Table {
            service: service_view(&state, &entry.name, listen, service, totals),
            servers,
        }
    });
    tables.collect()
}

fn service_view(
    state: &State,
    name: &str,
    listen: String,
    service: &service::Service,
    totals: ServerTotals,
) -> Service {
    let groups = state.model.local_groups();
    let used = groups
        .iter()
        .filter(|group| group.serves(service))
        .map(|group| group.name.clone());
    Service {
        name: name.to_owned(),
        listen,
        address: service.key.address,
        port: service.key.port,
        protocol: service.key.protocol.name().to_owned(),
        scheduler: service.scheduler.name().to_owned(),
        one_packet: service.one_packet,
        local_addresses: used.collect(),
        servers: service.servers.len(),
        totals,
    }
}

fn server_view(name: &str, listen: &str, server: &service::Server, totals: ServerTotals) -> Server {
    Server {
        service: name.to_owned(),
        listen: listen.to_owned(),
        address: server.address,
        port: server.port,
        mode: server.mode.name().to_owned(),
        weight: server.weight,
        upper_threshold: server.upper_threshold,
        lower_threshold: server.lower_threshold,
        totals,
        warning: warning(server, totals),
    }
}

fn warning(server: &service::Server, totals: ServerTotals) -> Option<String> {
    let (now, upper) = (totals.active + totals.inactive, u64::from(server.upper_threshold));
    (upper > 0 && now >= upper)
        .then(|| format!("{now} connections reach the upper threshold: gets no new ones"))
}
