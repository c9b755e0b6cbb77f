//! Connections: perhaps millions, so they are told one by one.

use super::Silent;
use crate::gateway::Gateway;
use dataplane::flow;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;

/// A connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Connection {
    /// The version of this description.
    pub version: u32,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The client's address and port.
    pub client: SocketAddr,
    /// The virtual address and port that it asked for.
    #[serde(rename = "virtual")]
    pub virtual_address: SocketAddr,
    /// The server's address and port.
    pub server: SocketAddr,
    /// FULLNAT: the local address and port that the server sees.
    pub local: Option<SocketAddr>,
    /// The forwarding mode.
    pub mode: String,
    /// The TCP state, or the protocol's name.
    pub state: String,
    /// Whole seconds until it ends if no more packets come.
    pub expires: u32,
    /// Counted as inactive.
    pub inactive: bool,
    /// Not a connection, but the memory of a persistent client's server.
    pub template: bool,
}

impl From<&flow::Connection> for Connection {
    fn from(connection: &flow::Connection) -> Connection {
        Connection {
            version: flow::Connection::VERSION,
            protocol: connection.protocol_name().to_ascii_lowercase(),
            client: connection.client,
            virtual_address: connection.virtual_address,
            server: connection.server,
            local: connection.local,
            mode: connection.mode.name().to_owned(),
            state: connection.state.to_owned(),
            expires: connection.remaining,
            inactive: connection.inactive,
            template: connection.template,
        }
    }
}

/// Which connections to tell. What is missing does not limit.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionFilter {
    /// At most so many.
    pub limit: Option<u64>,
    /// A service's name, or where one listens: `203.0.113.100:80/tcp`.
    pub service: Option<String>,
    /// A server's address, with or without its port.
    pub server: Option<String>,
    /// A client's address, with or without its port.
    pub client: Option<String>,
}

/// Why a filter cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FilterError {
    /// There is no such service.
    #[error("no service is named {0} or listens there; see show services")]
    NoService(String),
    /// Not an address.
    #[error("{key} {text:?} is no address; write 192.0.2.1, or 192.0.2.1:80 with a port")]
    Address {
        /// The key.
        key: &'static str,
        /// What was written.
        text: String,
    },
}

/// Tells every connection that passes `filter` to `each`, until that breaks off. The error of the filter comes
/// before the first one; false when a worker fell silent. Blocks.
///
/// # Errors
/// The filter names what does not exist.
pub fn connections(
    gateway: &Gateway,
    filter: &ConnectionFilter,
    mut each: impl FnMut(Connection) -> ControlFlow<()>,
) -> Result<Result<(), Silent>, FilterError> {
    let wanted = Wanted::new(gateway, filter)?;
    let mut left = filter.limit.unwrap_or(u64::MAX);
    if left == 0 {
        return Ok(Ok(()));
    }
    let complete = gateway.connections(|connection| {
        if !wanted.has(&connection) {
            return ControlFlow::Continue(());
        }
        left -= 1;
        each(Connection::from(&connection))?;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    Ok(if complete { Ok(()) } else { Err(Silent) })
}

/// A filter that has been looked up.
struct Wanted {
    /// Protocol number and virtual address.
    services: Option<HashSet<(u8, SocketAddr)>>,
    server: Option<End>,
    client: Option<End>,
}

/// An address, or an address and port.
#[derive(Clone, Copy)]
enum End {
    Address(IpAddr),
    Port(SocketAddr),
}

impl End {
    fn parse(key: &'static str, text: Option<&String>) -> Result<Option<End>, FilterError> {
        let Some(text) = text else { return Ok(None) };
        let end = text.parse().map(End::Address).or_else(|_| text.parse().map(End::Port));
        end.map(Some).map_err(|_| FilterError::Address { key, text: text.clone() })
    }

    fn is(self, address: &SocketAddr) -> bool {
        match self {
            End::Address(wanted) => address.ip() == wanted,
            End::Port(wanted) => *address == wanted,
        }
    }
}

impl Wanted {
    fn new(gateway: &Gateway, filter: &ConnectionFilter) -> Result<Wanted, FilterError> {
        let services = filter.service.as_ref().map(|name| named(gateway, name)).transpose()?;
        Ok(Wanted {
            services,
            server: End::parse("server", filter.server.as_ref())?,
            client: End::parse("client", filter.client.as_ref())?,
        })
    }

    fn has(&self, connection: &flow::Connection) -> bool {
        let service = (connection.protocol, connection.virtual_address);
        self.services.as_ref().is_none_or(|services| services.contains(&service))
            && self.server.is_none_or(|end| end.is(&connection.server))
            && self.client.is_none_or(|end| end.is(&connection.client))
    }
}

/// The services of that name, or the one that listens there.
fn named(gateway: &Gateway, name: &str) -> Result<HashSet<(u8, SocketAddr)>, FilterError> {
    let state = gateway.state();
    let services = state.model.services();
    let found = services.filter(|entry| entry.name == name || entry.service.key.to_string() == name);
    let keys: HashSet<_> = found
        .map(|entry| entry.service.key)
        .map(|key| (key.protocol as u8, SocketAddr::from((key.address, key.port))))
        .collect();
    if keys.is_empty() { Err(FilterError::NoService(name.to_owned())) } else { Ok(keys) }
}
