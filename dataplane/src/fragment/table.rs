//! The datagrams that are being put together: a fixed number of slots, found by key, threaded in the order of their
//! creation. Used by [`Reassembly`](super::Reassembly) only; knows nothing of packets. Allocates once.

use super::key::DatagramKey;

const END: u16 = u16::MAX;

struct Slot<T> {
    entry: Option<(DatagramKey, T)>,
    /// The bucket that it is chained in.
    bucket: u16,
    /// The next slot in the same bucket, or the next free one.
    next: u16,
    older: u16,
    newer: u16,
}

/// At most `capacity` values by key.
pub(super) struct Table<T> {
    slots: Box<[Slot<T>]>,
    /// The first slot of each chain. There are as many as slots, rounded up to a power of two.
    buckets: Box<[u16]>,
    free: u16,
    oldest: u16,
    newest: u16,
}

impl<T> Table<T> {
    /// Room for `capacity` values: at least 1, at most 32,768.
    pub(super) fn new(capacity: u16) -> Table<T> {
        let capacity = capacity.clamp(1, 1 << 15);
        let slot = |i| Slot {
            entry: None,
            bucket: 0,
            next: if i + 1 < capacity { i + 1 } else { END },
            older: END,
            newer: END,
        };
        Table {
            slots: (0..capacity).map(slot).collect(),
            buckets: vec![END; usize::from(capacity).next_power_of_two()].into(),
            free: 0,
            oldest: END,
            newest: END,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.free == END
    }

    /// The slot of `key`, whose hash is `hash`.
    pub(super) fn find(&self, key: &DatagramKey, hash: u64) -> Option<u16> {
        let mut at = self.buckets[usize::from(self.bucket(hash))];
        while let Some(slot) = self.slots.get(usize::from(at)) {
            if slot.entry.as_ref().is_some_and(|(stored, _)| stored == key) {
                return Some(at);
            }
            at = slot.next;
        }
        None
    }

    /// What a slot holds.
    pub(super) fn get_mut(&mut self, at: u16) -> Option<(&DatagramKey, &mut T)> {
        let slot = self.slots.get_mut(usize::from(at))?;
        slot.entry.as_mut().map(|(key, value)| (&*key, value))
    }

    /// The value that has been here for the longest time, with its slot.
    pub(super) fn oldest(&self) -> Option<(u16, &T)> {
        let slot = self.slots.get(usize::from(self.oldest))?;
        slot.entry.as_ref().map(|(_, value)| (self.oldest, value))
    }

    /// Adds a value whose key is not here yet. Gives it back when the table is full.
    pub(super) fn insert(&mut self, key: DatagramKey, hash: u64, value: T) -> Result<(), T> {
        let (at, bucket) = (self.free, self.bucket(hash));
        let Some(slot) = self.slots.get_mut(usize::from(at)) else {
            return Err(value);
        };
        let head = &mut self.buckets[usize::from(bucket)];
        self.free = slot.next;
        *slot = Slot {
            entry: Some((key, value)),
            bucket,
            next: *head,
            older: self.newest,
            newer: END,
        };
        *head = at;
        match self.slots.get_mut(usize::from(self.newest)) {
            Some(before) => before.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
        Ok(())
    }

    /// Takes a value out.
    pub(super) fn remove(&mut self, at: u16) -> Option<(DatagramKey, T)> {
        let slot = self.slots.get_mut(usize::from(at))?;
        let entry = slot.entry.take()?;
        let (bucket, next, older, newer) = (slot.bucket, slot.next, slot.older, slot.newer);
        slot.next = self.free;
        self.free = at;
        self.unchain(bucket, at, next);
        match self.slots.get_mut(usize::from(older)) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(usize::from(newer)) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        Some(entry)
    }

    /// Lets whatever led to slot `at` in its chain lead to `next`.
    fn unchain(&mut self, bucket: u16, at: u16, next: u16) {
        let head = &mut self.buckets[usize::from(bucket)];
        if *head == at {
            *head = next;
            return;
        }
        let mut before = *head;
        while let Some(slot) = self.slots.get_mut(usize::from(before)) {
            if slot.next == at {
                slot.next = next;
                return;
            }
            before = slot.next;
        }
    }

    fn bucket(&self, hash: u64) -> u16 {
        hash as u16 & (self.buckets.len() - 1) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Headers, Kind, PortId};
    use proptest::prelude::*;

    fn key(identification: u8) -> DatagramKey {
        let mut frame = [0; 34];
        frame[19] = identification;
        let headers = Headers {
            kind: Kind::Fragment,
            ..Headers::NONE
        };
        DatagramKey::of(&frame, &headers, PortId(0)).unwrap()
    }

    proptest! {
        /// Against a list in order of creation. Few hashes, so that chains are long.
        #[test]
        fn it_agrees_with_a_list(
            capacity in 1u16..12,
            steps in proptest::collection::vec((0u8..20, any::<bool>()), 1..200),
        ) {
            let (mut table, mut list) = (Table::new(capacity), Vec::<(u8, u32)>::new());
            for (count, (name, remove)) in steps.into_iter().enumerate() {
                let hash = u64::from(name % 3);
                let found = table.find(&key(name), hash);
                let position = list.iter().position(|&(other, _)| other == name);
                prop_assert_eq!(found.is_some(), position.is_some());
                match (found, position) {
                    (Some(at), Some(position)) if remove => {
                        let (_, expected) = list.remove(position);
                        prop_assert_eq!(table.remove(at), Some((key(name), expected)));
                        prop_assert_eq!(table.remove(at), None);
                    }
                    (Some(at), Some(position)) => {
                        prop_assert_eq!(table.get_mut(at).map(|(_, value)| *value), Some(list[position].1));
                    }
                    _ => {
                        let value = count as u32;
                        let full = list.len() == usize::from(capacity);
                        prop_assert_eq!(table.is_full(), full);
                        prop_assert_eq!(table.insert(key(name), hash, value), if full { Err(value) } else { Ok(()) });
                        if !full {
                            list.push((name, value));
                        }
                    }
                }
                prop_assert_eq!(table.oldest().map(|(_, value)| *value), list.first().map(|&(_, value)| value));
            }
        }
    }
}
