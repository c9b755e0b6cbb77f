//! Servers that the operator marks overloaded.

use super::Model;
use dataplane::service::{Server, ServiceKey};
use std::net::SocketAddr;

/// A server that has been marked, or whose mark has been taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marked {
    /// Its service.
    pub service: ServiceKey,
    /// The service's name.
    pub name: String,
    /// Its address and port.
    pub server: SocketAddr,
}

impl Model {
    /// Marks servers of the services that are called `service` as overloaded, or not: those that `is_meant` tells. The
    /// caller publishes the model.
    pub fn mark_overloaded(
        &mut self,
        service: &str,
        is_meant: impl Fn(SocketAddr) -> bool,
        overloaded: bool,
    ) -> Vec<Marked> {
        let mut marked = Vec::new();
        let mut edits: Vec<(ServiceKey, usize, Server)> = Vec::new();
        for entry in self.services().filter(|entry| entry.is_called(service)) {
            let key = entry.service.key;
            for (at, server) in entry.service.servers.iter().enumerate() {
                let end = SocketAddr::new(server.address, server.port);
                if !is_meant(end) {
                    continue;
                }
                marked.push(Marked {
                    service: key,
                    name: entry.name.clone(),
                    server: end,
                });
                if server.overloaded != overloaded {
                    let server = server.clone();
                    edits.push((key, at, Server { overloaded, ..server }));
                }
            }
        }
        for (key, at, server) in edits {
            self.edit_server(key, at, server);
        }
        marked
    }
}
