//! Addresses that are the gateway's only while the kernel has them, and VIPs that routers are to be told of.

use super::{Model, ModelError};
use crate::config::Config;
use dataplane::service::{Service, ServiceKey};
use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Which addresses the kernel has to have, and which of these it has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ownership {
    owned: Arc<HashSet<IpAddr>>,
    held: Arc<BTreeSet<IpAddr>>,
}

impl Ownership {
    /// Whether an address is another node's now.
    pub(super) fn is_standby(&self, address: IpAddr) -> bool {
        self.owned.contains(&address) && !self.held.contains(&address)
    }
}

impl Model {
    /// Takes from the file which addresses the kernel has to have; true when they are others now. The caller brings the
    /// addresses up to date.
    pub(super) fn apply_owners(&mut self, config: &Config) -> bool {
        let owned: HashSet<IpAddr> = config.kernel_owned().collect();
        let changed = owned != *self.ownership.owned;
        if changed {
            self.ownership.owned = Arc::new(owned);
        }
        changed
    }

    /// Takes all addresses that the kernel has on devices that stand for ports; true when that makes an address ours,
    /// or another node's.
    ///
    /// # Errors
    /// Addresses contradict each other.
    pub fn hold(&mut self, held: BTreeSet<IpAddr>) -> Result<bool, ModelError> {
        let mut ownership = self.ownership.clone();
        ownership.held = Arc::new(held);
        let before = std::mem::replace(&mut self.ownership, ownership);
        let addresses = self.addresses(None).inspect_err(|_| self.ownership = before)?;
        let changed = !Arc::ptr_eq(&addresses, &self.network.addresses);
        self.network.addresses = addresses;
        Ok(changed)
    }

    /// Whether an address is one that the kernel has to have, and has not.
    #[must_use]
    pub fn is_standby(&self, address: IpAddr) -> bool {
        self.ownership.is_standby(address)
    }

    /// The VIPs that have a service with a server for new connections, directly or by their firewall mark.
    #[must_use]
    pub fn usable_vips(&self) -> BTreeSet<IpAddr> {
        let is_usable = |service: &Service| {
            let mut servers = service.servers.iter();
            servers.any(|server| server.weight > 0)
        };
        let services = self.services.values().map(|entry| &*entry.service);
        let direct = services.filter(|service| is_usable(service));
        let direct = direct.filter_map(|service| service.key.address());
        let marked = self.network.marks.rules().iter().filter_map(|rule| {
            let address = rule.address()?;
            let key = ServiceKey::Mark {
                mark: rule.mark,
                ipv6: address.is_ipv6(),
            };
            let entry = self.services.get(&key)?;
            is_usable(&entry.service).then_some(address)
        });
        direct.chain(marked).collect()
    }
}
