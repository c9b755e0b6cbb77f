//! Local addresses that have left their group while connections may still use them. They stay the gateway's: answers
//! of servers find their connections, and ARP is answered. No service takes a port of them any more. When the last
//! connection has ended they are let go.

use super::{LocalGroup, Model, ModelError};
use crate::config::Config;
use dataplane::local::PortRange;
use dataplane::packet::PortId;
use std::collections::HashSet;
use std::net::IpAddr;
use std::time::Duration;

/// A local address that is in no group any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draining {
    /// The address.
    pub address: IpAddr,
    /// The name of the group that it was in.
    pub group: String,
    /// The Ethernet port that it is on.
    pub port: PortId,
    /// Its local ports.
    pub ports: PortRange,
    /// The time since the start at which workers were told; none before the next snapshot.
    pub since: Option<Duration>,
}

impl Model {
    /// The local addresses that drain, the longest draining first.
    #[must_use]
    pub fn draining(&self) -> &[Draining] {
        &self.draining
    }

    /// Lets go of the draining addresses of which `is_unused` says that no connection has them; returns them. The
    /// caller publishes the model.
    ///
    /// # Errors
    /// The addresses that are left contradict each other; then nothing has changed.
    pub fn release_drained(&mut self, is_unused: impl Fn(IpAddr) -> bool) -> Result<Vec<IpAddr>, ModelError> {
        let before = self.draining.clone();
        self.draining.retain(|draining| !is_unused(draining.address));
        match self.addresses(None) {
            Ok(addresses) => self.network.addresses = addresses,
            Err(error) => {
                self.draining = before;
                return Err(error.into());
            }
        }
        let gone = before.iter().filter(|draining| !self.draining.contains(draining));
        Ok(gone.map(|draining| draining.address).collect())
    }

    /// Lets drain what the groups before have and those now have not; what has come back drains no longer.
    pub(super) fn drain_removed(&mut self, before: &[LocalGroup]) {
        let kept = self.locals.iter().flat_map(|group| group.pool.addresses());
        let kept: HashSet<IpAddr> = kept.copied().collect();
        self.draining.retain(|draining| !kept.contains(&draining.address));
        for group in before {
            let removed = group.pool.addresses().iter();
            let removed = removed.filter(|address| !kept.contains(address));
            self.draining.extend(removed.map(|&address| Draining {
                address,
                group: group.name.clone(),
                port: group.port,
                ports: group.pool.ports(),
                since: None,
            }));
        }
    }

    /// Refuses a file that gives an address another use while it drains: the connections that have it would be cut.
    pub(super) fn refuse_drained_elsewhere(&self, config: &Config) -> Result<(), ModelError> {
        if self.draining.is_empty() {
            return Ok(());
        }
        let own = config
            .ports
            .iter()
            .flat_map(|port| port.own_addresses())
            .map(|(own, _)| own);
        let listeners = config.services.iter().flat_map(|service| &service.listeners);
        let servers = config.pools.iter().flat_map(|pool| &pool.servers);
        let marked = config.marks.iter().flat_map(|mark| &mark.destinations);
        own.chain(listeners.filter_map(|listener| listener.key.address()))
            .chain(
                marked
                    .filter(|prefix| prefix.is_host())
                    .map(|prefix| prefix.address()),
            )
            .chain(config.vips.iter().map(|vip| vip.address))
            .chain(servers.map(|server| server.address))
            .chain(config.routes.iter().filter_map(|route| route.via))
            .chain(config.neighbours.iter().map(|neighbour| neighbour.address))
            .try_for_each(|address| self.refuse_drained(address))
    }

    /// Refuses `address` as anything else while it drains.
    pub(super) fn refuse_drained(&self, address: IpAddr) -> Result<(), ModelError> {
        match self.draining.iter().any(|draining| address == draining.address) {
            true => Err(ModelError::Draining(address)),
            false => Ok(()),
        }
    }
}
