//! Ethernet ports and what is reached through them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Prefix;
use crate::config::Place;

/// An Ethernet port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Where its frames come from and go to.
    pub link: Link,
    /// Its own addresses; the prefix of each is connected. Empty only on a port that nothing is reached through.
    pub addresses: Vec<InterfaceAddress>,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// MAC address to use instead of the device's own. A VLAN has that of its parent.
    pub mac: Option<[u8; 6]>,
    /// RX and TX queues; none gives each worker one, as far as the device has them.
    pub queues: Option<u16>,
    /// Whether to warn at start when the peer of a veth pair offloads checksums or segmentation.
    pub check_peer_offload: bool,
    /// Whether to send gratuitous ARP at start for the port's addresses, VIPs and local addresses.
    pub arp_announce: bool,
    /// The kernel's device that stands for the port: routes by it are routes by the port.
    pub kernel_device: Option<String>,
    /// How what arrives here and is the host's reaches the kernel.
    pub exception: Option<Exception>,
    /// Where it stands.
    pub place: Place,
}

impl Port {
    /// The device, unless the port is a VLAN of another one.
    #[must_use]
    pub fn device(&self) -> Option<&Device> {
        match &self.link {
            Link::Device(device) => Some(device),
            Link::Vlan { .. } => None,
        }
    }

    /// Its own addresses, with the length of the prefix of each.
    #[must_use]
    pub fn own_addresses(&self) -> Vec<(IpAddr, u8)> {
        self.addresses
            .iter()
            .map(|own| (own.address, own.length))
            .collect()
    }
}

/// A port's way to the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exception {
    /// The TAP device that the gateway makes for it.
    pub device: String,
    /// Packets of each kind, ordinary and vital, that the kernel gets in a second.
    pub rate: u32,
}

/// Who says whether an address is the gateway's now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Owner {
    /// The configuration: it always is.
    #[default]
    Gateway,
    /// The kernel: it is while a device that stands for a port has it, as keepalived sees to.
    Kernel,
}

/// Where the frames of a port come from and go to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Link {
    /// A device of its own.
    Device(Device),
    /// Another port's device, with a VLAN tag (IEEE 802.1Q).
    Vlan {
        /// The port with the device: an index into `ports`.
        parent: usize,
        /// The VLAN's number, 1 to 4094.
        id: u16,
    },
}

/// What DPDK opens for a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Device {
    /// A PCI device, by its full address `0000:03:00.0`.
    Pci(String),
    /// A software device: the argument of EAL's `--vdev`, such as `net_af_packet0,iface=wan0`.
    Vdev(String),
    /// Several devices as one.
    Bond(Bond),
}

/// Several devices that are one port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bond {
    /// How they share the work.
    pub mode: BondMode,
    /// The devices, none of them a bond; at least one. The first gives the bond its MAC address.
    pub members: Vec<Device>,
    /// The one that sends whenever it can, in active-backup: an index into `members`.
    pub primary: Option<usize>,
    /// Mode and members as the operator reads them.
    pub label: String,
}

/// How the members of a bond share the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BondMode {
    /// One sends; another one when its link is down.
    ActiveBackup,
    /// Each flow by one of them, by its addresses and ports, as far as the switch agrees by LACP (IEEE 802.1AX, once 802.3ad).
    Lacp,
}

impl BondMode {
    /// Each with its word in the file.
    pub const WORDS: [(&'static str, BondMode); 2] = [
        ("active-backup", BondMode::ActiveBackup),
        ("802.3ad", BondMode::Lacp),
    ];

    /// Its word in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BondMode::ActiveBackup => "active-backup",
            BondMode::Lacp => "802.3ad",
        }
    }
}

impl Device {
    /// The device as EAL's `-a` or `--vdev` takes it; of a bond, what it is made of.
    #[must_use]
    pub fn argument(&self) -> &str {
        match self {
            Device::Pci(argument) | Device::Vdev(argument) => argument,
            Device::Bond(bond) => &bond.label,
        }
    }

    /// The devices that it is made of: the members of a bond, or itself.
    #[must_use]
    pub fn parts(&self) -> &[Device] {
        match self {
            Device::Bond(bond) => &bond.members,
            Device::Pci(_) | Device::Vdev(_) => std::slice::from_ref(self),
        }
    }

    /// What tells it from others: the address, or the name that EAL knows a vdev by.
    #[must_use]
    pub fn name(&self) -> &str {
        self.argument().split(',').next().unwrap_or_default()
    }
}

/// An address of a port, with the length of its connected prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceAddress {
    /// The address itself.
    pub address: IpAddr,
    /// The prefix length, 1 to 32 or 128.
    pub length: u8,
    /// Where it stands.
    pub place: Place,
}

impl InterfaceAddress {
    /// The connected prefix.
    #[must_use]
    pub fn prefix(&self) -> Prefix {
        Prefix::around(self.address, self.length)
    }
}

/// A static route. Several to the same destinations, all of them by gateways, share the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The destinations.
    pub to: Prefix,
    /// The gateway, inside a connected prefix of `port`; none when the destinations are on the link themselves.
    pub via: Option<IpAddr>,
    /// The port that it leaves by: an index into `ports`.
    pub port: usize,
    /// Its share of the flows, against the weights of the other routes to the same destinations.
    pub weight: u16,
    /// Where it stands.
    pub place: Place,
}

/// A neighbour whose MAC address is not asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// Its MAC address: a unicast one.
    pub mac: [u8; 6],
    /// The port that it is behind: an index into `ports`.
    pub port: usize,
    /// Where it stands.
    pub place: Place,
}

/// A named group of local addresses, from which FULLNAT takes the source of what it sends to servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalAddresses {
    /// Its name.
    pub name: String,
    /// The Ethernet port that answers ARP and neighbour discovery for them: an index into `ports`.
    pub port: usize,
    /// The addresses, as they were written. No address is in two ranges, of this or another group; never empty.
    pub ranges: Vec<AddressRange>,
    /// The local ports to use of each address.
    pub ports: PortRange,
    /// Whether servers reach them by a route, whatever port they are behind.
    pub routed: bool,
    /// Who says whether they are the gateway's.
    pub owner: Owner,
    /// Where it stands.
    pub place: Place,
}

impl LocalAddresses {
    /// The addresses one by one, in the order in which they were written.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.ranges.iter().flat_map(|range| range.addresses())
    }
}

/// Addresses `first` to `last` of one family, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressRange {
    /// The lowest.
    pub first: IpAddr,
    /// The highest.
    pub last: IpAddr,
    /// Where it stands.
    pub place: Place,
}

impl AddressRange {
    /// The addresses one by one.
    pub fn addresses(self) -> impl Iterator<Item = IpAddr> {
        let (first, count) = (self.first, self.count());
        (0..count).map(move |number| match first {
            // Neither overflows: the last one is an address too.
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() + number as u32).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() + number).into(),
        })
    }

    /// How many there are; of all IPv6 addresses, one less.
    #[must_use]
    pub fn count(self) -> u128 {
        match (self.first, self.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => u128::from(last.to_bits().abs_diff(first.to_bits())) + 1,
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                last.to_bits().abs_diff(first.to_bits()).saturating_add(1)
            }
            _ => 0,
        }
    }

    /// Whether `address` lies in it.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        (self.first..=self.last).contains(&address)
    }
}

/// L4 ports `first` to `last`, both included, host order, never 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortRange {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_where_addresses_do() {
        let range = |first: IpAddr, last: IpAddr| AddressRange {
            first,
            last,
            place: Place::default(),
        };
        for last in [
            IpAddr::V4(Ipv4Addr::BROADCAST),
            Ipv6Addr::from_bits(u128::MAX).into(),
        ] {
            assert_eq!(range(last, last).addresses().collect::<Vec<_>>(), [last]);
        }
        let four: Vec<_> = range(
            "2001:db8::fffe".parse().unwrap(),
            "2001:db8::1:1".parse().unwrap(),
        )
        .addresses()
        .map(|address| address.to_string())
        .collect();
        assert_eq!(
            four,
            [
                "2001:db8::fffe",
                "2001:db8::ffff",
                "2001:db8::1:0",
                "2001:db8::1:1"
            ]
        );
        let all = range(
            Ipv6Addr::UNSPECIFIED.into(),
            Ipv6Addr::from_bits(u128::MAX).into(),
        );
        assert_eq!(all.count(), u128::MAX);
    }
}
