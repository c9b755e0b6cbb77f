//! The gateway's Ethernet ports and the neighbours that are configured on them, as part of the snapshot.

use crate::neighbour::Prefix;
use crate::packet::{MacAddr, PortId};
use std::net::{IpAddr, Ipv6Addr};

/// A port that is a VLAN of another one (IEEE 802.1Q).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vlan {
    /// The port whose frames carry the tag.
    pub parent: PortId,
    /// The VLAN's number, 1 to 4094.
    pub id: u16,
}

/// An Ethernet port as the packet path sees it; its index is its [`crate::packet::PortId`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortSettings {
    /// The port's MAC address.
    pub mac: MacAddr,
    /// Take unicast frames whatever their destination MAC: for devices that have no MAC of their own.
    pub any_mac: bool,
    /// The VLAN that the port is; none for a port with queues of its own. Those come first, VLANs after them.
    pub vlan: Option<Vlan>,
    /// Largest IP packet that may leave through it, in bytes.
    pub mtu: u16,
    /// The port's own addresses, with the length of the prefix of each.
    pub addresses: Vec<(IpAddr, u8)>,
    /// A software device whose peer may leave partial checksums: look for them.
    pub check_partial: bool,
    /// Packets of each kind, ordinary ones and those that keep routing and failover alive, that the kernel gets in a
    /// second of what arrives here and is the host's; 0 = the port has no way to the kernel.
    pub exception_rate: u32,
}

impl PortSettings {
    /// Which of the port's addresses asks `neighbour`, or sends to it what is the gateway's own: the one in the
    /// longest prefix that holds `neighbour`, else the first of its family. A link-local neighbour sees the link-local
    /// address. None when the port has no other address of that family.
    #[must_use]
    pub fn source_for(&self, neighbour: IpAddr) -> Option<IpAddr> {
        if let IpAddr::V6(address) = neighbour
            && address.is_unicast_link_local()
        {
            return Some(self.link_local().into());
        }
        let usable = |own: &IpAddr| own.is_ipv4() == neighbour.is_ipv4() && link_local(own).is_none();
        let near = self
            .addresses
            .iter()
            .filter(|(own, length)| usable(own) && Prefix::around(*own, *length).contains(neighbour))
            .max_by_key(|(_, length)| *length)
            .map(|(own, _)| *own);
        near.or_else(|| self.addresses.iter().map(|(own, _)| *own).find(usable))
    }

    /// The port's IPv6 link-local address: the first that is configured, else the one that is made of the MAC with a
    /// modified EUI-64 (RFC 4291 2.5.1 and appendix A).
    #[must_use]
    pub fn link_local(&self) -> Ipv6Addr {
        let configured = self.addresses.iter().find_map(|(own, _)| link_local(own));
        configured.unwrap_or_else(|| {
            let [a, b, c, d, e, f] = self.mac.0;
            let word = |high, low| u16::from_be_bytes([high, low]);
            // The bit that tells a universal from a local MAC is inverted.
            let tail = [word(a ^ 2, b), word(c, 0xff), word(0xfe, d), word(e, f)];
            Ipv6Addr::new(0xfe80, 0, 0, 0, tail[0], tail[1], tail[2], tail[3])
        })
    }

    /// Whether a link-local address is the port's. Another port may have the same: VLANs share the MAC of their
    /// device.
    #[must_use]
    pub fn has_link_local(&self, address: Ipv6Addr) -> bool {
        let configured = |(own, _): &(IpAddr, u8)| *own == address && address.is_unicast_link_local();
        address == self.link_local() || self.addresses.iter().any(configured)
    }
}

fn link_local(address: &IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V6(address) if address.is_unicast_link_local() => Some(*address),
        _ => None,
    }
}

/// A neighbour whose MAC address is configured and never asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StaticNeighbour {
    /// The port that it is behind.
    pub port: PortId,
    /// Its address.
    pub address: IpAddr,
    /// Its MAC address.
    pub mac: MacAddr,
}
