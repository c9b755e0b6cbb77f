//! Ethernet ports and what is reached through them.

use std::fmt;
use std::net::Ipv4Addr;

use crate::config::Place;

/// An Ethernet port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// What DPDK opens.
    pub device: Device,
    /// Its own addresses; the prefix of each is connected. Empty only on a port that nothing is reached through.
    pub addresses: Vec<InterfaceAddress>,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// MAC address to use instead of the device's own.
    pub mac: Option<[u8; 6]>,
    /// RX and TX queues; none gives each worker one, as far as the device has them.
    pub queues: Option<u16>,
    /// Whether to warn at start when the peer of a veth pair offloads checksums or segmentation.
    pub check_peer_offload: bool,
    /// Whether to send gratuitous ARP at start for the port's addresses, VIPs and local addresses.
    pub arp_announce: bool,
    /// Where it stands.
    pub place: Place,
}

/// What DPDK opens for a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Device {
    /// A PCI device, by its full address `0000:03:00.0`.
    Pci(String),
    /// A software device: the argument of EAL's `--vdev`, such as `net_af_packet0,iface=wan0`.
    Vdev(String),
}

impl Device {
    /// The device as EAL's `-a` or `--vdev` takes it.
    #[must_use]
    pub fn argument(&self) -> &str {
        match self {
            Device::Pci(argument) | Device::Vdev(argument) => argument,
        }
    }
}

/// An address of a port, with the length of its connected prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceAddress {
    /// The address itself.
    pub address: Ipv4Addr,
    /// The prefix length, 1 to 32.
    pub length: u8,
    /// Where it stands.
    pub place: Place,
}

impl InterfaceAddress {
    /// The connected prefix.
    #[must_use]
    pub fn prefix(&self) -> Prefix {
        Prefix::new(self.address, self.length)
    }
}

/// An IPv4 prefix; the bits after its length are zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Prefix {
    network: Ipv4Addr,
    length: u8,
}

impl Prefix {
    /// The prefix of `length` bits (more than 32 count as 32) that holds `address`.
    #[must_use]
    pub fn new(address: Ipv4Addr, length: u8) -> Prefix {
        let length = length.min(32);
        let network = Ipv4Addr::from_bits(address.to_bits() & Self::mask_of(length));
        Prefix { network, length }
    }

    /// Its first address.
    #[must_use]
    pub fn network(self) -> Ipv4Addr {
        self.network
    }

    /// Its last address: the directed broadcast address up to /30.
    #[must_use]
    pub fn last(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network.to_bits() | !Self::mask_of(self.length))
    }

    /// Its length, 0 to 32.
    #[must_use]
    pub fn length(self) -> u8 {
        self.length
    }

    /// Whether it holds `address`.
    #[must_use]
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address.to_bits() & Self::mask_of(self.length) == self.network.to_bits()
    }

    /// Whether any address lies in both.
    #[must_use]
    pub fn overlaps(self, other: Prefix) -> bool {
        self.contains(other.network) || other.contains(self.network)
    }

    /// Whether `address` is the network or the broadcast address, which no host has (RFC 1122 section 3.2.1.3);
    /// a /31 (RFC 3021) and a /32 have neither.
    #[must_use]
    pub fn is_reserved(self, address: Ipv4Addr) -> bool {
        self.length < 31 && (address == self.network || address == self.last())
    }

    fn mask_of(length: u8) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.length)
    }
}

/// A static route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The destinations.
    pub to: Prefix,
    /// The gateway, inside a connected prefix of `port`; none when the destinations are on the link themselves.
    pub via: Option<Ipv4Addr>,
    /// The port that it leaves by: an index into `ports`.
    pub port: usize,
    /// Where it stands.
    pub place: Place,
}

/// A neighbour whose MAC address is not asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// Its address.
    pub address: Ipv4Addr,
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
    /// The Ethernet port that answers ARP for them: an index into `ports`.
    pub port: usize,
    /// The addresses, as they were written. No address is in two ranges, of this or another group; never empty.
    pub ranges: Vec<AddressRange>,
    /// The local ports to use of each address.
    pub ports: PortRange,
    /// Where it stands.
    pub place: Place,
}

impl LocalAddresses {
    /// The addresses one by one, in the order in which they were written.
    pub fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        self.ranges.iter().flat_map(|range| range.addresses())
    }
}

/// Addresses `first` to `last`, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressRange {
    /// The lowest.
    pub first: Ipv4Addr,
    /// The highest.
    pub last: Ipv4Addr,
    /// Where it stands.
    pub place: Place,
}

impl AddressRange {
    /// The addresses one by one.
    pub fn addresses(self) -> impl Iterator<Item = Ipv4Addr> {
        (self.first.to_bits()..=self.last.to_bits()).map(Ipv4Addr::from_bits)
    }

    /// Whether `address` lies in it.
    #[must_use]
    pub fn contains(self, address: Ipv4Addr) -> bool {
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
    fn prefixes_at_the_ends_of_their_lengths() {
        let all = Prefix::new(Ipv4Addr::new(10, 1, 2, 3), 0);
        assert_eq!(
            (all.network(), all.last()),
            (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST)
        );
        assert!(all.contains(Ipv4Addr::BROADCAST));
        let one = Prefix::new(Ipv4Addr::new(10, 1, 2, 3), 33);
        assert_eq!(
            (one.to_string(), one.last()),
            ("10.1.2.3/32".to_owned(), one.network())
        );
        assert!(!one.is_reserved(one.network()));
        let pair = Prefix::new(Ipv4Addr::new(10, 1, 2, 3), 31);
        assert!(!pair.is_reserved(pair.network()) && !pair.is_reserved(pair.last()));
        let four = Prefix::new(Ipv4Addr::new(10, 1, 2, 3), 30);
        assert!(
            four.is_reserved(Ipv4Addr::new(10, 1, 2, 3)) && !four.is_reserved(Ipv4Addr::new(10, 1, 2, 2))
        );
        assert!(
            all.overlaps(four)
                && four.overlaps(pair)
                && !four.overlaps(Prefix::new(Ipv4Addr::new(10, 1, 2, 4), 30))
        );
    }

    #[test]
    fn ranges_end_where_addresses_do() {
        let last = Ipv4Addr::BROADCAST;
        let range = AddressRange {
            first: last,
            last,
            place: Place::default(),
        };
        assert_eq!(range.addresses().collect::<Vec<_>>(), [last]);
    }
}
