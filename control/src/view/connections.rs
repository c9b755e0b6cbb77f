//! Connections: perhaps millions, so they are told one by one.

use super::Silent;
use crate::gateway::Gateway;
use dataplane::flow::{self, Template};
use dataplane::service::{MarkQuery, MarkRules, Protocol, ServiceKey};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Connection {
    /// The version of this description.
    pub version: u32,
    /// `tcp`, `udp` or `sctp`; with SNAT also `icmp` or `icmpv6`, which is echo; `ip` for the template of a firewall mark.
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
    /// The TCP or SCTP state, or the protocol's name; of a template, `NONE` or `ASSURED`.
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
    services: Option<Named>,
    server: Option<End>,
    client: Option<End>,
}

/// An address, or an address and port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// On any port.
    Address(IpAddr),
    /// On that port, in host order.
    Port(SocketAddr),
}

impl End {
    /// What a key says, if it is there.
    ///
    /// # Errors
    /// It is no address.
    pub fn parse(key: &'static str, text: Option<&String>) -> Result<Option<End>, FilterError> {
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

    /// Whether it is that one.
    #[must_use]
    pub fn is(self, address: &SocketAddr) -> bool {
        match self {
            End::Address(wanted) => address.ip() == wanted,
            End::Port(wanted) => *address == wanted,
        }
    }
}

impl Selection {
    fn has(&self, connection: &flow::Connection) -> bool {
        self.services
            .as_ref()
            .is_none_or(|services| services.has(connection))
            && self.server.is_none_or(|end| end.is(&connection.server))
            && self.client.is_none_or(|end| end.is(&connection.client))
    }
}

/// The services of that name, or the one that listens there.
fn named(gateway: &Gateway, name: &str) -> Result<Named, FilterError> {
    let state = gateway.state();
    let keys = || state.model.services().map(|entry| entry.service.key);
    let services = state.model.services();
    let found = services.filter(|entry| entry.is_called(name));
    let wanted: HashSet<_> = found.map(|entry| entry.service.key).collect();
    if wanted.is_empty() {
        return Err(FilterError::NoService(name.to_owned()));
    }
    Ok(Named {
        wanted,
        all: keys().collect(),
        marks: Arc::clone(&state.model.network().marks),
    })
}

/// Services that are asked for, and what tells whose a connection is.
#[derive(Clone, Debug)]
struct Named {
    wanted: HashSet<ServiceKey>,
    all: HashSet<ServiceKey>,
    marks: Arc<MarkRules>,
}

impl Named {
    /// Whether a connection is one of these services: as a new one between its ends would be, but for the port that it
    /// comes in by.
    fn has(&self, connection: &flow::Connection) -> bool {
        let end = connection.virtual_address;
        let ipv6 = end.is_ipv6();
        let Some(protocol) = Protocol::from_number(connection.protocol) else {
            let shown = |key: &ServiceKey| {
                let mark = key.mark().filter(|_| key.is_ipv6() == ipv6);
                mark.is_some_and(|mark| Template::address_of_mark(mark, ipv6) == end.ip())
            };
            return self.wanted.iter().any(shown);
        };
        let marked = self.marks.find(&MarkQuery {
            source: connection.client.ip(),
            destination: end.ip(),
            protocol,
            port: end.port(),
            input: None,
        });
        let at = |port| ServiceKey::new(end.ip(), port, protocol);
        let candidates = [
            marked.map(|mark| ServiceKey::Mark { mark, ipv6 }),
            Some(at(end.port())),
            Some(at(21)).filter(|_| protocol == Protocol::Tcp && (end.port() == 20 || end.port() >= 1024)),
            Some(at(0)),
        ];
        let mut known = candidates
            .into_iter()
            .flatten()
            .filter(|key| self.all.contains(key));
        known.next().is_some_and(|key| self.wanted.contains(&key))
    }
}
