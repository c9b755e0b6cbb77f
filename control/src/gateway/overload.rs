//! Servers that the operator marks overloaded while the gateway runs. As with commands, the next reload makes the table
//! what the file says.

use super::{Gateway, GatewayError};
use crate::model::Marked;
use std::net::SocketAddr;

impl Gateway {
    /// Marks the servers of `service` that `is_meant` tells, or takes the mark from them. Returns when every worker knows, with
    /// the epoch and the servers. Blocks for milliseconds; not for an async task.
    ///
    /// # Errors
    /// There is no such service or server, or a worker is stuck.
    pub fn overload(
        &self,
        service: &str,
        is_meant: impl Fn(SocketAddr) -> bool,
        overloaded: bool,
    ) -> Result<(u64, Vec<Marked>), GatewayError> {
        let mut state = self.state.lock();
        if !state.model.services().any(|entry| entry.is_called(service)) {
            return Err(GatewayError::NoService(service.to_owned()));
        }
        let marked = state.model.mark_overloaded(service, is_meant, overloaded);
        if marked.is_empty() {
            return Err(GatewayError::NoServer(service.to_owned()));
        }
        let epoch = self.publish(&mut state.model);
        drop(state);
        self.wait_for(epoch)?;
        Ok((epoch, marked))
    }
}
