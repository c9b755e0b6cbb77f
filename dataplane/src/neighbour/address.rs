//! Which addresses are ours: looked up for the destination of every packet by the steer stage, and for the target
//! of every ARP request. Built by `control`, part of the snapshot.

use super::route::Connected;
use crate::packet::PortId;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

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
}

/// Where ARP requests for a VIP are answered.
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
    pub address: Ipv4Addr,
    /// Where ARP requests for it are answered.
    pub arp: VipArp,
}

/// What is wrong with a set of addresses. `control` words it with the place in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AddressError {
    /// Two ports, as own or as local address.
    #[error("{address} is on ports {} and {}: give it to one", .first.0, .second.0)]
    TwoPorts {
        /// The address.
        address: Ipv4Addr,
        /// The port given first.
        first: PortId,
        /// The other one.
        second: PortId,
    },
    /// A local address that has another use: its ports belong to FULLNAT alone.
    #[error("local address {address} is also a VIP or a port's own address: use another one")]
    LocalInUse {
        /// The address.
        address: Ipv4Addr,
    },
    /// More addresses than the table's two 16-bit hashes can place.
    #[error("too many addresses: no more than about 100,000 fit")]
    TooMany,
}

/// Four addresses in half a cache line. Addresses and facts stand apart, so that a compare is one vector
/// instruction of any x86-64 or ARM. A slot whose facts are 0 is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(align(32))]
struct Bucket {
    addresses: [u32; 4],
    facts: [u32; 4],
}

/// What a slot says: class in bits 0-7 (0: none), the class' port in 8-15, the port that answers ARP in 16-23,
/// whether one does in bit 24.
type Facts = u32;

const PORT: Facts = 1;
const VIP: Facts = 2;
const LOCAL: Facts = 3;
const ANSWERED: Facts = 1 << 24;

/// The gateway's addresses, in two-choice buckets at half load: a lookup compares the eight addresses of two buckets
/// without a branch, whether it hits or misses. Equal tables come of equal addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressTable {
    buckets: Box<[Bucket]>,
    mask: usize,
    multiplier: u64,
    answered: Box<[(PortId, Ipv4Addr)]>,
}

/// No address at all.
impl Default for AddressTable {
    fn default() -> AddressTable {
        AddressTable {
            buckets: Box::new([Bucket::default()]),
            mask: 0,
            multiplier: 1,
            answered: Box::new([]),
        }
    }
}

impl AddressTable {
    /// Builds the table from the ports' own addresses, the VIPs, the local addresses with the port each is on,
    /// and the ports' connected prefixes. An address given twice in the same way counts once.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn new(
        own: &[(PortId, Ipv4Addr)],
        vips: &[Vip],
        local: &[(PortId, Ipv4Addr)],
        connected: &[Connected],
    ) -> Result<AddressTable, AddressError> {
        // Ordered, so that equal input gives equal tables and the announcements a fixed order.
        let mut entries = BTreeMap::new();
        for (class, list) in [(PORT, own), (LOCAL, local)] {
            for &(port, address) in list {
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
        let answered = entries
            .iter()
            .filter_map(|(address, facts)| Some((answering_port(*facts)?, *address)))
            .collect();
        let (buckets, multiplier) = place(&entries).ok_or(AddressError::TooMany)?;
        Ok(AddressTable {
            mask: buckets.len() - 1,
            buckets: buckets.into_boxed_slice(),
            multiplier,
            answered,
        })
    }

    /// What `address` is.
    #[inline]
    #[must_use]
    pub fn class(&self, address: Ipv4Addr) -> AddressClass {
        let facts = self.lookup(address);
        match class_of(facts) {
            PORT => AddressClass::Port(class_port(facts)),
            VIP => AddressClass::Vip,
            LOCAL => AddressClass::Local,
            _ => AddressClass::None,
        }
    }

    /// The one port on which ARP requests for `address` are answered. The answer does not depend on the asker:
    /// probes (sender 0.0.0.0, RFC 5227) are answered as any request.
    #[must_use]
    pub fn arp_owner(&self, address: Ipv4Addr) -> Option<PortId> {
        answering_port(self.lookup(address))
    }

    /// What to announce by gratuitous ARP, and on which port: every address that ARP is answered for.
    pub fn announcements(&self) -> impl ExactSizeIterator<Item = (PortId, Ipv4Addr)> + '_ {
        self.answered.iter().copied()
    }

    /// The announcement of that index.
    pub(super) fn announcement(&self, index: usize) -> Option<(PortId, Ipv4Addr)> {
        self.answered.get(index).copied()
    }

    #[inline]
    fn lookup(&self, address: Ipv4Addr) -> Facts {
        let bits = address.to_bits();
        let (first, second) = places(bits, self.multiplier, self.mask);
        // Not short-circuited, and both may be the same bucket.
        self.buckets[first].facts_of(bits) | self.buckets[second].facts_of(bits)
    }
}

impl Bucket {
    fn taken(&self) -> usize {
        self.facts.iter().filter(|f| **f != 0).count()
    }

    /// The facts of an address, 0 when it is not here. A free slot may match 0.0.0.0: its facts are 0.
    #[inline]
    fn facts_of(&self, bits: u32) -> Facts {
        let kept = |i: usize| {
            if self.addresses[i] == bits {
                self.facts[i]
            } else {
                0
            }
        };
        (kept(0) | kept(2)) | (kept(1) | kept(3))
    }
}

fn facts(class: Facts, port: PortId, answered: Option<PortId>) -> Facts {
    let answered = answered.map_or(0, |p| ANSWERED | u32::from(p.0) << 16);
    class | u32::from(port.0) << 8 | answered
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

fn enter_on_port(
    entries: &mut BTreeMap<Ipv4Addr, Facts>,
    class: Facts,
    port: PortId,
    address: Ipv4Addr,
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

/// The two buckets of an address. Bits from 32 up of the product depend on every bit of the address.
#[inline]
fn places(bits: u32, multiplier: u64, mask: usize) -> (usize, usize) {
    let product = u64::from(bits).wrapping_mul(multiplier);
    (
        (product >> 48) as usize & mask,
        (product >> 32) as usize & 0xffff & mask,
    )
}

/// Places every entry in the emptier of its two buckets; tries other multipliers, then more buckets.
fn place(entries: &BTreeMap<Ipv4Addr, Facts>) -> Option<(Vec<Bucket>, u64)> {
    let mut count = entries.len().div_ceil(2).next_power_of_two();
    while count <= 1 << 16 {
        let mut multiplier = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..8 {
            if let Some(buckets) = try_place(entries, count, multiplier) {
                return Some((buckets, multiplier));
            }
            // Any odd number will do; this walks through well mixed ones.
            multiplier = multiplier.wrapping_mul(0xd134_2543_de82_ef95) | 1;
        }
        count *= 2;
    }
    None
}

fn try_place(entries: &BTreeMap<Ipv4Addr, Facts>, count: usize, multiplier: u64) -> Option<Vec<Bucket>> {
    let mut buckets = vec![Bucket::default(); count];
    for (address, &facts) in entries {
        let bits = address.to_bits();
        let (first, second) = places(bits, multiplier, count - 1);
        let emptier = if buckets[second].taken() < buckets[first].taken() {
            second
        } else {
            first
        };
        let bucket = &mut buckets[emptier];
        let slot = bucket.facts.iter().position(|f| *f == 0)?;
        (bucket.addresses[slot], bucket.facts[slot]) = (bits, facts);
    }
    Some(buckets)
}

#[cfg(test)]
mod tests;
