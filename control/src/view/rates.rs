//! Rates of services and their servers.

use crate::gateway::{Gateway, Rates};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What happens to a service in a second.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServiceRates {
    /// Its name.
    pub name: String,
    /// The service in the file that it is a queue of, if it is one.
    pub queue_of: Option<String>,
    /// Where it listens.
    pub listen: String,
    /// All of its servers together, also removed ones.
    #[serde(flatten)]
    pub rates: Rates,
    /// Its servers.
    pub servers: Vec<ServerRates>,
}

/// What happens to a server of one service in a second.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServerRates {
    /// The server's address.
    pub address: IpAddr,
    /// The server's port, host order.
    pub port: u16,
    /// What happens.
    #[serde(flatten)]
    pub rates: Rates,
}

/// Every service, or those that are called so, in the order of VIP, port and protocol.
#[must_use]
pub fn rates(gateway: &Gateway, service: Option<&str>) -> Vec<ServiceRates> {
    let state = gateway.state();
    let wanted = gateway.rates(&state, |entry| service.is_none_or(|text| entry.is_called(text)));
    let view = wanted.into_iter().map(|(entry, rates, servers)| {
        let servers = entry.service.servers.iter().zip(servers);
        ServiceRates {
            name: entry.name.clone(),
            queue_of: entry.queue_of.clone(),
            listen: entry.service.key.to_string(),
            rates,
            servers: servers
                .map(|(server, rates)| ServerRates {
                    address: server.address,
                    port: server.port,
                    rates,
                })
                .collect(),
        }
    });
    view.collect()
}
