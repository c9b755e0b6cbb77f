//! The end of local addresses that drain.

use super::Gateway;
use std::collections::HashSet;
use std::net::IpAddr;

impl Gateway {
    /// Lets go of removed local addresses on which the last connection has ended; returns them. Costs nothing while
    /// none drains; else it blocks, and is not for an async task.
    pub fn release_drained(&self) -> Vec<IpAddr> {
        let epoch = {
            let state = self.state.lock();
            if state.model.draining().is_empty() {
                return Vec::new();
            }
            state.model.epoch()
        };
        // Workers take orders in turn: they have taken this epoch, in which no service has the address, before they
        // tell what is used. So what is unused now stays so.
        let mut used = HashSet::new();
        let complete = self.local_addresses(|worker| {
            if worker.used > 0 {
                used.insert(worker.address);
            }
        });
        let mut state = self.state.lock();
        if !complete || state.model.epoch() != epoch {
            return Vec::new();
        }
        match state.model.release_drained(|address| !used.contains(&address)) {
            Ok(gone) if !gone.is_empty() => {
                self.publish(&mut state.model);
                gone
            }
            Ok(_) => Vec::new(),
            Err(error) => {
                tracing::warn!("local addresses that have drained stay: {error}");
                Vec::new()
            }
        }
    }
}
