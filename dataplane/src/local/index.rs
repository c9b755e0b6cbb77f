//! From hashes to slots: the same calls as the flow index.

use std::collections::HashMap;
use std::io;

/// No room.
pub(super) struct Full;

/// A map from hashes to ids.
pub(super) struct TagIndex(HashMap<u64, u32>);

impl TagIndex {
    pub(super) fn new(entries: usize, _hugepages: bool) -> io::Result<TagIndex> {
        Ok(TagIndex(HashMap::with_capacity(entries)))
    }

    pub(super) fn find(&self, hash: u64, mut accept: impl FnMut(u32) -> bool) -> Option<u32> {
        self.0.get(&hash).copied().filter(|id| accept(*id))
    }

    pub(super) fn insert(&mut self, hash: u64, id: u32) -> Result<(), Full> {
        match self.0.insert(hash, id) {
            None => Ok(()),
            Some(_) => Err(Full),
        }
    }

    pub(super) fn remove(&mut self, hash: u64, id: u32) -> bool {
        self.0.get(&hash) == Some(&id) && self.0.remove(&hash).is_some()
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * 17
    }
}
