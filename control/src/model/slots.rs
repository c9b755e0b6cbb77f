//! Stable numbers for things that have an identity. A slot stays with its identity while anything may still
//! name it: workers index counters and state by it, and connection records carry it.

use std::collections::HashMap;
use std::hash::Hash;

/// Slots of one kind of thing.
#[derive(Clone, Debug)]
pub(super) struct Slots<K> {
    live: HashMap<K, u32>,
    /// Deleted, but perhaps still named by connections: found again by identity.
    retired: HashMap<K, u32>,
    free: Vec<u32>,
    next: u32,
    limit: u32,
}

impl<K: Clone + Eq + Hash> Slots<K> {
    /// At most `limit` slots.
    pub(super) fn new(limit: u32) -> Slots<K> {
        Slots {
            live: HashMap::new(),
            retired: HashMap::new(),
            free: Vec::new(),
            next: 0,
            limit,
        }
    }

    /// The slot of `key`: its own, the one that it had before it was deleted, or a free one. `None` when all
    /// are taken.
    pub(super) fn take(&mut self, key: K) -> Option<u32> {
        if let Some(&slot) = self.live.get(&key) {
            return Some(slot);
        }
        let slot = self
            .retired
            .remove(&key)
            .or_else(|| self.free.pop())
            .or_else(|| {
                let fresh = (self.next < self.limit).then_some(self.next);
                self.next += u32::from(fresh.is_some());
                fresh
            })?;
        self.live.insert(key, slot);
        Some(slot)
    }

    /// `key` has been deleted; its slot waits until [`Slots::reclaim`] finds it unused.
    pub(super) fn retire(&mut self, key: &K) {
        if let Some((key, slot)) = self.live.remove_entry(key) {
            self.retired.insert(key, slot);
        }
    }

    /// Frees the slots of deleted things that `unused` says nothing names any more; returns these, with
    /// their last identity.
    pub(super) fn reclaim(&mut self, unused: impl Fn(&K, u32) -> bool) -> Vec<(K, u32)> {
        let freed: Vec<(K, u32)> = self.retired.extract_if(|key, slot| unused(key, *slot)).collect();
        self.free.extend(freed.iter().map(|(_, slot)| slot));
        freed
    }

    /// What has been deleted and still holds its slot.
    pub(super) fn retired(&self) -> impl Iterator<Item = (&K, u32)> {
        self.retired.iter().map(|(key, &slot)| (key, slot))
    }

    /// How many slots have ever been used: all slots lie below it.
    pub(super) fn span(&self) -> u32 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_identity_finds_its_slot_again_until_it_is_reclaimed() {
        let mut slots = Slots::new(2);
        assert_eq!(
            (slots.take("a"), slots.take("b"), slots.take("c")),
            (Some(0), Some(1), None)
        );
        slots.retire(&"a");
        assert_eq!((slots.take("c"), slots.take("a")), (None, Some(0)));
        slots.retire(&"a");
        assert_eq!(slots.reclaim(|_, slot| slot == 1), []);
        assert_eq!(slots.reclaim(|_, _| true), [("a", 0)]);
        assert_eq!((slots.take("c"), slots.take("a")), (Some(0), None));
        assert_eq!(slots.span(), 2);
    }
}
