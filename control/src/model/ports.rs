//! VLANs as the packet path sees them: ports that use another one's device.

use crate::config::{self, Config, Link};
use dataplane::packet::PortId;
use dataplane::service::{PortSettings, Vlan};

/// The settings of all ports: `devices`, those of the ports with a device, and after them those of the VLANs.
#[must_use]
pub fn with_vlans(config: &Config, devices: Vec<PortSettings>) -> Vec<PortSettings> {
    let mut ports = devices;
    for port in &config.ports {
        let Link::Vlan { parent, id } = port.link else {
            continue;
        };
        let Some(device) = ports.get(parent) else { continue };
        let settings = PortSettings {
            mac: device.mac,
            any_mac: device.any_mac,
            vlan: Some(Vlan {
                parent: PortId(parent as u8),
                id,
            }),
            mtu: device.mtu.min(port.mtu),
            addresses: port.own_addresses(),
            check_partial: device.check_partial,
            exception_rate: exception_rate(port),
        };
        ports.push(settings);
    }
    ports
}

/// Packets that the kernel gets of a port in a second; 0 = it has no way there.
pub(crate) fn exception_rate(port: &config::Port) -> u32 {
    port.exception.as_ref().map_or(0, |exception| exception.rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::packet::MacAddr;

    #[test]
    fn a_vlan_is_a_port_with_the_mac_of_its_parent() {
        let config = config::parse(
            "t",
            "ports:
  - { name: dmz, parent: lan, vlan: 20, addresses: [10.20.0.1/24, 2001:db8:20::1/64], mtu: 1400 }
  - { name: wan, device: net_null0, addresses: 203.0.113.1/24 }
  - { name: lan, device: net_null1, addresses: 10.0.0.1/24, mtu: 9000 }
  - { name: all, parent: lan, vlan: 4094 }
",
        )
        .unwrap();
        let device = |number: u8, mtu| PortSettings {
            mac: MacAddr([2, 0, 0, 0, 0, number]),
            any_mac: false,
            vlan: None,
            mtu,
            addresses: config.ports[usize::from(number)].own_addresses(),
            check_partial: number == 1,
            exception_rate: 0,
        };
        // The device cannot do all that the file asks for.
        let ports = with_vlans(&config, vec![device(0, 1500), device(1, 8000)]);
        let vlan = |id| {
            Some(Vlan {
                parent: PortId(1),
                id,
            })
        };
        let of = |port: &PortSettings| (port.mac.0[5], port.vlan, port.mtu, port.check_partial);
        let told: Vec<_> = ports.iter().map(of).collect();
        assert_eq!(
            told,
            [
                (0, None, 1500, false),
                (1, None, 8000, true),
                (1, vlan(20), 1400, true),
                (1, vlan(4094), 8000, true)
            ]
        );
        let own = ports[2].addresses.clone();
        assert_eq!(
            own,
            [
                ("10.20.0.1".parse().unwrap(), 24),
                ("2001:db8:20::1".parse().unwrap(), 64)
            ]
        );
    }
}
