//! What marking servers overloaded has done.

use crate::model::Marked;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The answer to a mark.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Overload {
    /// The epoch that all workers use now.
    pub epoch: u64,
    /// Whether the servers are marked now.
    pub overloaded: bool,
    /// The servers.
    pub servers: Vec<MarkedServer>,
}

/// A server of one service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MarkedServer {
    /// The service's name.
    pub service: String,
    /// Where the service listens.
    pub listen: String,
    /// The server's address and port.
    pub server: SocketAddr,
}

impl From<Marked> for MarkedServer {
    fn from(marked: Marked) -> MarkedServer {
        MarkedServer {
            service: marked.name,
            listen: marked.service.to_string(),
            server: marked.server,
        }
    }
}

/// How many services begin to count anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Zeroed {
    /// Services, each listener and queue for itself.
    pub services: usize,
}
