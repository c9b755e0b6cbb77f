//! Counters set to zero, as `ipvsadm -Z` does: workers and metrics count on, and what operators are shown is less what
//! there was.

use super::totals::Counted;
use super::{Gateway, GatewayError, ServerTotals};
use crate::model::SlotOwner;
use dataplane::service::ServiceKey;
use std::collections::HashMap;

/// Where counters stood when they were set to zero.
#[derive(Debug, Default)]
pub(crate) struct Zeroes {
    slots: HashMap<u32, ServerTotals>,
    /// Of servers that are gone, by service.
    departed: HashMap<ServiceKey, ServerTotals>,
}

impl Zeroes {
    pub(super) fn of(&self, slot: u32) -> ServerTotals {
        self.slots.get(&slot).copied().unwrap_or_default()
    }

    pub(super) fn departed_of(&self, service: &ServiceKey) -> ServerTotals {
        self.departed.get(service).copied().unwrap_or_default()
    }

    /// The slot gets another user: what was not shown of a server there is not shown of its service.
    pub(super) fn restart(&mut self, owner: &SlotOwner, slot: u32) {
        let Some(zero) = self.slots.remove(&slot) else {
            return;
        };
        if let SlotOwner::Server(server) = owner {
            *self.departed.entry(server.service).or_default() += zero;
        }
    }

    pub(super) fn keep_services(&mut self, exists: impl Fn(&ServiceKey) -> bool) {
        self.departed.retain(|key, _| exists(key));
    }
}

impl Gateway {
    /// Sets the counters of that service and its servers to zero, or those of all services and rules of SNAT; how many
    /// services these are. Connections that exist count as before.
    ///
    /// # Errors
    /// There is no such service.
    pub fn zero(&self, service: Option<&str>) -> Result<usize, GatewayError> {
        let mut locked = self.state.lock();
        let state = &mut *locked;
        let named = |text: &str| {
            let services = state.model.services().filter(|entry| entry.is_called(text));
            services.map(|entry| entry.service.key).collect::<Vec<_>>()
        };
        let keys = match service {
            Some(text) => named(text),
            None => state.model.services().map(|entry| entry.service.key).collect(),
        };
        if let (Some(text), []) = (service, &*keys) {
            return Err(GatewayError::NoService(text.to_owned()));
        }
        let mut slots: Vec<u32> = Vec::new();
        if service.is_none() {
            slots.extend(state.model.snat().map(|(_, rule)| rule.slot));
        }
        let departing = state.model.departing_servers();
        let wanted: std::collections::HashSet<_> = keys.iter().copied().collect();
        slots.extend(departing.filter_map(|(server, slot)| wanted.contains(&server.service).then_some(slot)));
        for entry in keys.iter().filter_map(|key| state.model.service(key)) {
            slots.extend(entry.service.servers.iter().map(|server| server.slot));
        }
        for slot in slots {
            let totals = self.server_totals(state, slot, Counted::Ever);
            state.baselines.zeroes.slots.insert(slot, totals);
        }
        for key in &keys {
            let departed = state.baselines.departed_of(key);
            state.baselines.zeroes.departed.insert(*key, departed);
        }
        Ok(keys.len())
    }
}
