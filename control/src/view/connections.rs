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
    /// `tcp`, `udp` or `sctp`; with SNAT also `icmp` or `icmpv6`, which is echo.
    pub protocol: String,
    /// The client's address and port.
    pub client: SocketAddr,
    /// The virtual address and port that it asked for; with SNAT the server itself.
    #[serde(rename = "virtual")]
    pub virtual_address: SocketAddr,
    /// The server's address and port.
    pub server: SocketAddr,
    /// FULLNAT and SNAT: the local address and port that the server sees.
    pub local: Option<SocketAddr>,
    /// The forwarding mode, or `snat`.
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
            mode: connection.mode_name().to_owned(),
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

impl ConnectionFilter {
    /// Looks up what the filter names.
    ///
    /// # Errors
    /// It names what does not exist.
    pub fn resolve(&self, gateway: &Gateway) -> Result<Selection, FilterError> {
        Ok(Selection {
            limit: self.limit.unwrap_or(u64::MAX),
            services: self
                .service
                .as_ref()
                .map(|name| named(gateway, name))
                .transpose()?,
            server: End::parse("server", self.server.as_ref())?,
            client: End::parse("client", self.client.as_ref())?,
        })
    }
}

/// Tells every connection of `selection` to `each`, until that breaks off. Blocks, also as long as `each` does.
///
/// # Errors
/// A worker does not answer; what came before has been told.
pub fn connections(
    gateway: &Gateway,
    selection: &Selection,
    mut each: impl FnMut(Connection) -> ControlFlow<()>,
) -> Result<(), Silent> {
    let mut left = selection.limit;
    if left == 0 {
        return Ok(());
    }
    let complete = gateway.connections(|connection| {
        if !selection.has(&connection) {
            return ControlFlow::Continue(());
        }
        left -= 1;
        each(Connection::from(&connection))?;
        if left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    if complete { Ok(()) } else { Err(Silent) }
}

/// A filter whose names have been looked up.
#[derive(Clone, Debug)]
pub struct Selection {
    limit: u64,
    /// Protocol number and virtual address.
    services: Option<HashSet<(u8, SocketAddr)>>,
    server: Option<End>,
    client: Option<End>,
}

/// An address, or an address and port.
#[derive(Clone, Copy, Debug)]
enum End {
    Address(IpAddr),
    Port(SocketAddr),
}

impl End {
    fn parse(key: &'static str, text: Option<&String>) -> Result<Option<End>, FilterError> {
        let Some(text) = text else { return Ok(None) };
        let end = text
            .parse()
            .map(End::Address)
            .or_else(|_| text.parse().map(End::Port));
        end.map(Some).map_err(|_| FilterError::Address {
            key,
            text: text.clone(),
        })
    }

    fn is(self, address: &SocketAddr) -> bool {
        match self {
            End::Address(wanted) => address.ip() == wanted,
            End::Port(wanted) => *address == wanted,
        }
    }
}

impl Selection {
    fn has(&self, connection: &flow::Connection) -> bool {
        let service = (connection.protocol, connection.virtual_address);
        self.services
            .as_ref()
            .is_none_or(|services| services.contains(&service))
            && self.server.is_none_or(|end| end.is(&connection.server))
            && self.client.is_none_or(|end| end.is(&connection.client))
    }
}

/// The services of that name, or the one that listens there.
fn named(gateway: &Gateway, name: &str) -> Result<HashSet<(u8, SocketAddr)>, FilterError> {
    let state = gateway.state();
    let services = state.model.services();
    let found = services.filter(|entry| entry.name == name || entry.service.key.to_string() == name);
    let ends = found
        .map(|entry| entry.service.key)
        .filter_map(|key| Some((key.protocol()? as u8, (key.address()?, key.port()).into())));
    let ends: HashSet<_> = ends.collect();
    if ends.is_empty() {
        Err(FilterError::NoService(name.to_owned()))
    } else {
        Ok(ends)
    }
}
