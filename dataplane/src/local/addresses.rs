//! The local addresses that have been used: their port ranges and their counters.

use std::io;
use std::net::IpAddr;
use std::ops::{Index, IndexMut};

use super::PortRange;
use super::pairs::PairHasher;
use crate::flow::TagIndex;

/// What one local address has done for this worker since it was first used. Counters only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressUse {
    /// The local address.
    pub address: IpAddr,
    /// The ports that are handed out, towards each server.
    pub ports: PortRange,
    /// Ports in use now, towards all servers.
    pub used: u32,
    /// The most ports that were in use towards any one server. Near the number of ports, the address runs dry.
    pub peak: u16,
    /// Pairs that are remembered now.
    pub pairs: u32,
    /// Ports handed out.
    pub taken: u64,
    /// Of these, ports of another shard than the client's.
    pub borrowed: u64,
    /// How often a closing connection had to give up its port.
    pub recycled: u64,
    /// How often no port was free and none could be recycled.
    pub exhausted: u64,
    /// How often memory was missing.
    pub out_of_memory: u64,
    /// Ports within `ports` of the worker's shards; 0 while that was not needed.
    pub(super) capacity: u32,
    /// Changes with `ports`.
    pub(super) generation: u8,
}

impl AddressUse {
    /// Counts a port that was handed out; its pair now has `in_pair` in use.
    pub(super) fn count_taken(&mut self, in_pair: u16, borrowed: bool) {
        self.used += 1;
        self.taken += 1;
        self.borrowed += u64::from(borrowed);
        self.peak = self.peak.max(in_pair);
    }
}

/// All addresses, by their place in a table or by address.
pub(super) struct Addresses {
    entries: Vec<AddressUse>,
    index: TagIndex,
    hasher: PairHasher,
}

impl Addresses {
    pub(super) fn new(capacity: u16, hasher: PairHasher) -> io::Result<Addresses> {
        let capacity = usize::from(capacity);
        Ok(Addresses {
            entries: Vec::with_capacity(capacity),
            index: TagIndex::sparse(capacity)?,
            hasher,
        })
    }

    /// The place of `address`. A new one takes the place of one that has no pairs when the table is full; none
    /// when all have.
    pub(super) fn find_or_add(&mut self, address: IpAddr, ports: PortRange) -> Option<u16> {
        if let Some(place) = self.find(address) {
            return Some(place);
        }
        let entry = AddressUse {
            address,
            ports,
            used: 0,
            peak: 0,
            pairs: 0,
            taken: 0,
            borrowed: 0,
            recycled: 0,
            exhausted: 0,
            out_of_memory: 0,
            capacity: 0,
            generation: 0,
        };
        let place = if self.entries.len() < self.entries.capacity() {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let place = self.entries.iter().position(|entry| entry.pairs == 0)?;
            let old = std::mem::replace(&mut self.entries[place], entry);
            self.index.remove(self.hasher.address(old.address), place as u32);
            place
        };
        // It cannot be full: it has no more entries than the table.
        self.index
            .insert(self.hasher.address(address), place as u32)
            .ok()?;
        Some(place as u16)
    }

    /// Notes the range that is in force; its generation.
    #[inline]
    pub(super) fn follow(&mut self, place: u16, ports: PortRange) -> u8 {
        let entry = &mut self[place];
        if entry.ports != ports {
            entry.ports = ports;
            entry.capacity = 0;
            entry.generation = entry.generation.wrapping_add(1);
        }
        entry.generation
    }

    /// The ports of `address` that the worker's shards have of `ports`; by `count` where that is not known.
    pub(super) fn capacity(&mut self, address: IpAddr, ports: PortRange, count: impl Fn() -> u32) -> u32 {
        match self.find(address).map(|place| &mut self[place]) {
            Some(entry) if entry.ports == ports => {
                if entry.capacity == 0 {
                    entry.capacity = count();
                }
                entry.capacity
            }
            // Never used yet, or not with this range.
            _ => count(),
        }
    }

    /// Adds one to a counter of `address`, if that was ever used.
    pub(super) fn count(&mut self, address: IpAddr, counter: impl Fn(&mut AddressUse) -> &mut u64) {
        if let Some(place) = self.find(address) {
            *counter(&mut self[place]) += 1;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &AddressUse> {
        self.entries.iter()
    }

    /// The worker's shards have changed.
    pub(super) fn forget_capacities(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.capacity = 0);
    }

    pub(super) fn reset_peaks(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.peak = 0);
    }

    fn find(&self, address: IpAddr) -> Option<u16> {
        let is = |place| self.entries[place as usize].address == address;
        self.index
            .find(self.hasher.address(address), is)
            .map(|place| place as u16)
    }
}

impl Index<u16> for Addresses {
    type Output = AddressUse;

    fn index(&self, place: u16) -> &AddressUse {
        &self.entries[usize::from(place)]
    }
}

impl IndexMut<u16> for Addresses {
    fn index_mut(&mut self, place: u16) -> &mut AddressUse {
        &mut self.entries[usize::from(place)]
    }
}
