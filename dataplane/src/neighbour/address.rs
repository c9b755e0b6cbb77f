//! Which addresses are ours: looked up for the destination of every packet by the steer stage, and for the target
//! of every ARP request and neighbour solicitation. Built by `control`, part of the snapshot.

use super::route::Connected;
use crate::packet::PortId;
use buckets::Buckets;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

mod buckets;
#[cfg(test)]
mod tests;

/// What an address is to the gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum AddressClass {
    /// Not ours.
    None,
    /// The address of a port.
    Port(PortId),
    /// A VIP; also when it is a port's address at the same time.
    Vip,
    /// A local address of FULLNAT.
    Local,
    /// A VIP or a local address that is another node's as long as the kernel does not have it.
    Standby,
}

impl AddressClass {
    /// Whether it is the gateway's own now: nobody else can be its sender.
    #[inline]
    #[must_use]
    pub const fn is_ours(self) -> bool {
        matches!(
            self,
            AddressClass::Port(_) | AddressClass::Vip | AddressClass::Local
        )
    }
}

/// Where ARP requests or neighbour solicitations for a VIP are answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum VipArp {
    /// On the port that has the VIP in its connected prefix; nowhere when none has, as for a routed VIP.
    #[default]
    ByPrefix,
    /// On this port.
    On(PortId),
    /// Nowhere: a router leads packets here, or another node is the active one.
    Nowhere,
}

/// A VIP and where it is answered for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Vip {
    /// The address.
    pub address: IpAddr,
    /// Where ARP requests or neighbour solicitations for it are answered.
    pub arp: VipArp,
}

/// What is wrong with a set of addresses. `control` words it with the place in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AddressError {
    /// Two ports, as own or as local address.
    #[error("{address} is on ports {} and {}: give it to one", .first.0, .second.0)]
    TwoPorts {
        /// The address.
        address: IpAddr,
        /// The port given first.
        first: PortId,
        /// The other one.
        second: PortId,
    },
    /// A local address that has another use: its ports belong to FULLNAT alone.
    #[error("local address {address} is also a VIP or a port's own address: use another one")]
    LocalInUse {
        /// The address.
        address: IpAddr,
    },
    /// More IPv4 addresses than the table's two 16-bit hashes can place.
    #[error("too many addresses: no more than about 100,000 fit")]
    TooMany,
}

/// What is known of an address: class in bits 0-7 (0: none), the class' port in 8-15, the port that answers for it
/// in 16-23, whether one does in bit 24.
type Facts = u32;

const PORT: Facts = 1;
const VIP: Facts = 2;
const LOCAL: Facts = 3;
const STANDBY: Facts = 4;
const ANSWERED: Facts = 1 << 24;

/// The gateway's addresses. Equal tables come of equal addresses.
///
/// Link-local addresses are none of the table's: each port has one of its own, and two ports, such as two VLANs of
/// one device, may have the same ([`crate::service::PortSettings::has_link_local`]).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AddressTable {
    v4: Buckets,
    /// By the address' bits. Its hash is keyed and takes one multiplication; a miss costs one probe.
    v6: HashMap<u128, Facts>,
    answered: Box<[(PortId, IpAddr)]>,
}

impl AddressTable {
    /// Builds the table from the ports' own addresses, the VIPs, the local addresses with the port each is on,
    /// and the ports' connected prefixes. An address given twice in the same way counts once; link-local ones
    /// are left out.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn new(
        own: &[(PortId, IpAddr)],
        vips: &[Vip],
        local: &[(PortId, IpAddr)],
        connected: &[Connected],
    ) -> Result<AddressTable, AddressError> {
        AddressTable::with_standby(own, vips, local, connected, |_| false)
    }

    /// As [`AddressTable::new`]; VIPs and local addresses that `is_standby` names are another node's now: nobody answers
    /// for them here, and nothing is to be sent on for them.
    ///
    /// # Errors
    /// As [`AddressTable::new`].
    pub fn with_standby(
        own: &[(PortId, IpAddr)],
        vips: &[Vip],
        local: &[(PortId, IpAddr)],
        connected: &[Connected],
        is_standby: impl Fn(IpAddr) -> bool,
    ) -> Result<AddressTable, AddressError> {
        // Ordered, so that equal input gives equal tables and the announcements a fixed order.
        let mut entries = BTreeMap::new();
        for (class, list) in [(PORT, own), (LOCAL, local)] {
            for &(port, address) in list.iter().filter(|(_, address)| !is_link_local(*address)) {
                enter_on_port(&mut entries, class, port, address)?;
            }
        }
        for vip in vips {
            let answered = match entries.get(&vip.address).copied() {
                Some(facts) if class_of(facts) == LOCAL => {
                    return Err(AddressError::LocalInUse { address: vip.address });
                }
                // A port's own address is answered for on its own port, whatever else it is.
                Some(facts) => answering_port(facts),
                None => vip_port(vip, connected),
            };
            entries.insert(vip.address, facts(VIP, PortId(0), answered));
        }
        for (address, entry) in &mut entries {
            if class_of(*entry) != PORT && is_standby(*address) {
                *entry = facts(STANDBY, PortId(0), None);
            }
        }
        let answered = entries
            .iter()
            .filter_map(|(address, facts)| Some((answering_port(*facts)?, *address)))
            .collect();
        let (mut v4, mut v6) = (Vec::new(), HashMap::new());
        for (address, facts) in entries {
            match address {
                IpAddr::V4(address) => v4.push((address, facts)),
                IpAddr::V6(address) => drop(v6.insert(address.to_bits(), facts)),
            }
        }
        let v4 = Buckets::place(&v4).ok_or(AddressError::TooMany)?;
        Ok(AddressTable { v4, v6, answered })
    }

    /// What `address` is.
    #[inline]
    #[must_use]
    pub fn class(&self, address: Ipv4Addr) -> AddressClass {
        as_class(self.v4.lookup(address))
    }

    /// As [`AddressTable::class`], for IPv6.
    #[inline]
    #[must_use]
    pub fn class6(&self, address: Ipv6Addr) -> AddressClass {
        as_class(self.v6.get(&address.to_bits()).copied().unwrap_or(0))
    }

    /// What an address of either family is.
    #[inline]
    #[must_use]
    pub fn class_of(&self, address: IpAddr) -> AddressClass {
        match address {
            IpAddr::V4(address) => self.class(address),
            IpAddr::V6(address) => self.class6(address),
        }
    }

    /// The one port on which ARP requests or neighbour solicitations for `address` are answered. The answer does
    /// not depend on the asker: probes (sender 0.0.0.0, RFC 5227; source ::, RFC 4862 5.4) are answered as any
    /// request.
    #[must_use]
    pub fn owner(&self, address: IpAddr) -> Option<PortId> {
        answering_port(match address {
            IpAddr::V4(address) => self.v4.lookup(address),
            IpAddr::V6(address) => self.v6.get(&address.to_bits()).copied().unwrap_or(0),
        })
    }

    /// What to announce to the neighbours, and on which port: every address that is answered for.
    pub fn announcements(&self) -> impl ExactSizeIterator<Item = (PortId, IpAddr)> + '_ {
        self.answered.iter().copied()
    }

    /// The announcement of that index.
    pub(super) fn announcement(&self, index: usize) -> Option<(PortId, IpAddr)> {
        self.answered.get(index).copied()
    }
}

fn facts(class: Facts, port: PortId, answered: Option<PortId>) -> Facts {
    let answered = answered.map_or(0, |p| ANSWERED | u32::from(p.0) << 16);
    class | u32::from(port.0) << 8 | answered
}

#[inline]
fn as_class(facts: Facts) -> AddressClass {
    match class_of(facts) {
        PORT => AddressClass::Port(class_port(facts)),
        VIP => AddressClass::Vip,
        LOCAL => AddressClass::Local,
        STANDBY => AddressClass::Standby,
        _ => AddressClass::None,
    }
}

#[inline]
fn class_of(facts: Facts) -> Facts {
    facts & 0xff
}

#[inline]
fn class_port(facts: Facts) -> PortId {
    PortId((facts >> 8) as u8)
}

fn answering_port(facts: Facts) -> Option<PortId> {
    (facts & ANSWERED != 0).then_some(PortId((facts >> 16) as u8))
}

/// Whether it means another host on every link (RFC 4291 2.5.6). IPv4's 169.254.0.0/16 is treated as any network.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

fn enter_on_port(
    entries: &mut BTreeMap<IpAddr, Facts>,
    class: Facts,
    port: PortId,
    address: IpAddr,
) -> Result<(), AddressError> {
    let new = facts(class, port, Some(port));
    match entries.insert(address, new) {
        Some(old) if class_of(old) != class => Err(AddressError::LocalInUse { address }),
        Some(old) if old != new => Err(AddressError::TwoPorts {
            address,
            first: class_port(old),
            second: port,
        }),
        _ => Ok(()),
    }
}

fn vip_port(vip: &Vip, connected: &[Connected]) -> Option<PortId> {
    match vip.arp {
        VipArp::Nowhere => None,
        VipArp::On(port) => Some(port),
        VipArp::ByPrefix => {
            let around = connected.iter().filter(|c| c.prefix.contains(vip.address));
            around.max_by_key(|c| c.prefix.length()).map(|c| c.port)
        }
    }
}
