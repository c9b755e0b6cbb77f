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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::with_vlans;
    use dataplane::neighbour::AddressClass;
    use dataplane::packet::MacAddr;
    use dataplane::service::PortSettings;

    const NODES: &str =
        "ports: [{ name: wan, device: net_null0, addresses: [203.0.113.2/24], exception: tg0 }]\n";

    /// A model of that file, and its configuration.
    fn model(rest: &str) -> (Model, Config) {
        let config = crate::config::parse("t", &format!("{NODES}{rest}")).unwrap();
        let ports = config.ports.iter().map(|port| PortSettings {
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            any_mac: false,
            vlan: None,
            mtu: 1500,
            addresses: port.own_addresses(),
            check_partial: false,
            exception_rate: 1,
        });
        let mut model = Model::new(with_vlans(&config, ports.collect()), 1, 16, 16);
        model.apply_file(&config).unwrap();
        (model, config)
    }

    fn address(last: u8) -> IpAddr {
        [203, 0, 113, last].into()
    }

    #[test]
    fn an_address_of_the_kernels_is_ours_while_it_is_held() {
        let (mut model, config) = model(
            "vips: [{ address: 203.0.113.100, owner: kernel }, { address: 203.0.113.101 }]
local_addresses: [{ name: dip, port: wan, addresses: [203.0.113.200-201], owner: kernel }]
pools: [{ name: web, servers: [{ address: 203.0.113.11, port: 80 }] }]
services: [{ name: web, listen: \"203.0.113.100:80/tcp\", pool: web, mode: fullnat, local_addresses: dip }]\n",
        );
        let classes = |model: &Model| {
            [2, 100, 101, 200, 201].map(|last| model.network().addresses.class_of(address(last)))
        };
        let own = AddressClass::Port(dataplane::packet::PortId(0));
        let (vip, local, standby) = (AddressClass::Vip, AddressClass::Local, AddressClass::Standby);
        assert_eq!(classes(&model), [own, standby, vip, standby, standby]);
        let held = BTreeSet::from([address(2), address(100), address(200)]);
        assert!(model.hold(held.clone()).unwrap());
        assert_eq!(classes(&model), [own, vip, vip, local, standby]);
        assert!(!model.hold(held).unwrap(), "nothing new");
        // A reload knows what is held.
        model.apply_file(&config).unwrap();
        assert_eq!(classes(&model), [own, vip, vip, local, standby]);
        assert!(model.hold(BTreeSet::new()).unwrap());
        assert_eq!(classes(&model), [own, standby, vip, standby, standby]);
    }

    #[test]
    fn a_vip_is_usable_with_a_server_for_new_connections() {
        let (model, config) = model(
            "announce: loopback
vips: [{ address: 203.0.113.103, announce: \"off\" }, { address: 203.0.113.104, owner: kernel }]
pools:
  - { name: web, servers: [{ address: 203.0.113.11, port: 80 }] }
  - { name: quiesced, servers: [{ address: 203.0.113.12, port: 80, weight: 0 }] }
  - { name: marked, servers: [{ address: 203.0.113.13 }] }
marks: [{ mark: 7, destination: 203.0.113.105 }]
services:
  - { name: a, listen: [\"203.0.113.100:80/tcp\", \"203.0.113.103:80/tcp\", \"203.0.113.104:80/tcp\"], pool: web, mode: nat }
  - { name: b, listen: \"203.0.113.101:80/tcp\", pool: quiesced, mode: nat }
  - { name: c, listen: \"203.0.113.100:81/tcp\", pool: quiesced, mode: nat }
  - { name: d, mark: 7, pool: marked, mode: dr }\n",
        );
        let usable = model.usable_vips();
        assert_eq!(usable, BTreeSet::from([100, 103, 104, 105].map(address)));
        let announces = config.announces();
        let announced: Vec<IpAddr> = usable.into_iter().filter(|vip| announces(*vip)).collect();
        assert_eq!(announced, [100, 105].map(address));
    }
}
