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

/// Four addresses in half a cache line. Each word: address in bits 0-31; class in 32-39 (0: the word is free);
/// the class' port in 40-47; port that answers ARP in 48-55; whether one does in bit 56.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(align(32))]
struct Bucket([u64; 4]);

const PORT: u64 = 1;
const VIP: u64 = 2;
const LOCAL: u64 = 3;
const ANSWERED: u64 = 1 << 56;

/// The gateway's addresses, in two-choice buckets at half load: a lookup compares the eight words of two buckets
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
        AddressTable { buckets: Box::new([Bucket::default()]), mask: 0, multiplier: 1, answered: Box::new([]) }
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
        let mut words = BTreeMap::new();
        for (class, list) in [(PORT, own), (LOCAL, local)] {
            for &(port, address) in list {
                enter_on_port(&mut words, class, port, address)?;
            }
        }
        for vip in vips {
            let answered = match words.get(&vip.address).copied() {
                Some(word) if class_of(word) == LOCAL => {
                    return Err(AddressError::LocalInUse { address: vip.address });
                }
                // A port's own address is answered for on its own port, whatever else it is.
                Some(word) if class_of(word) == PORT => answering_port(word),
                _ => vip_port(vip, connected),
            };
            words.insert(vip.address, word(vip.address, VIP, PortId(0), answered));
        }
        let answered = words
            .iter()
            .filter_map(|(a, w)| answering_port(*w).map(|p| (p, *a)));
        let answered = answered.collect();
        let words: Vec<u64> = words.into_values().collect();
        let (buckets, multiplier) = place(&words).ok_or(AddressError::TooMany)?;
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
        let word = self.lookup(address);
        match class_of(word) {
            PORT => AddressClass::Port(PortId((word >> 40) as u8)),
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
    fn lookup(&self, address: Ipv4Addr) -> u64 {
        let bits = address.to_bits();
        let (first, second) = places(bits, self.multiplier, self.mask);
        let (first, second) = (&self.buckets[first].0, &self.buckets[second].0);
        let mut found = 0;
        // A free word may match 0.0.0.0: it adds nothing, as its class is 0. Both buckets may be one.
        for word in first.iter().chain(second) {
            found |= if *word as u32 == bits { *word } else { 0 };
        }
        found
    }
}

fn word(address: Ipv4Addr, class: u64, port: PortId, answered: Option<PortId>) -> u64 {
    let answered = answered.map_or(0, |p| ANSWERED | u64::from(p.0) << 48);
    u64::from(address.to_bits()) | class << 32 | u64::from(port.0) << 40 | answered
}

#[inline]
fn class_of(word: u64) -> u64 {
    word >> 32 & 0xff
}

fn answering_port(word: u64) -> Option<PortId> {
    (word & ANSWERED != 0).then_some(PortId((word >> 48) as u8))
}

fn enter_on_port(
    words: &mut BTreeMap<Ipv4Addr, u64>,
    class: u64,
    port: PortId,
    address: Ipv4Addr,
) -> Result<(), AddressError> {
    let new = word(address, class, port, Some(port));
    match words.insert(address, new) {
        Some(old) if class_of(old) != class => Err(AddressError::LocalInUse { address }),
        Some(old) if old != new => Err(AddressError::TwoPorts {
            address,
            first: PortId((old >> 40) as u8),
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

/// Places all words, each in the emptier of its two buckets; tries other multipliers, then more buckets.
fn place(words: &[u64]) -> Option<(Vec<Bucket>, u64)> {
    let mut count = words.len().div_ceil(2).next_power_of_two();
    while count <= 1 << 16 {
        let mut multiplier = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..8 {
            if let Some(buckets) = try_place(words, count, multiplier) {
                return Some((buckets, multiplier));
            }
            // Any odd number will do; this walks through well mixed ones.
            multiplier = multiplier.wrapping_mul(0xd134_2543_de82_ef95) | 1;
        }
        count *= 2;
    }
    None
}

fn try_place(words: &[u64], count: usize, multiplier: u64) -> Option<Vec<Bucket>> {
    let mut buckets = vec![Bucket::default(); count];
    let taken = |b: &Bucket| b.0.iter().filter(|w| **w != 0).count();
    for &word in words {
        let (first, second) = places(word as u32, multiplier, count - 1);
        let at = if taken(&buckets[second]) < taken(&buckets[first]) {
            second
        } else {
            first
        };
        *buckets[at].0.iter_mut().find(|w| **w == 0)? = word;
    }
    Some(buckets)
}

#[cfg(test)]
mod tests;
