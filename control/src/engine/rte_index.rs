//! DPDK's hash table as the index of the connection table: the baseline that our own index is measured against.
//! `tidegate bench` runs the whole pipeline on it; a gateway in service never does.

use anyhow::{Context, Result};
use dataplane::flow::{FlowIndex, Query, Record};
use dataplane::memory::Pages;
use dpdk::hash::{BULK_MAX, Hash, KEY_LEN};
use dpdk::{Eal, hash};

/// The index. It keeps keys of its own, as `rte_hash` does.
pub(crate) struct RteIndex {
    table: Hash,
    bytes: usize,
    pages: Pages,
}

impl RteIndex {
    /// An empty index for this many entries, each of which fits for certain. `name` is DPDK's, and unique.
    ///
    /// # Errors
    /// DPDK has too little memory.
    pub(crate) fn new(eal: &Eal, name: &str, entries: u32) -> Result<RteIndex> {
        let table = Hash::new(eal, name, entries, true, None)
            .context("give DPDK more memory, or measure fewer connections")?;
        Ok(RteIndex {
            table,
            bytes: bytes_for(entries as usize),
            pages: if eal.has_hugepages() {
                Pages::Huge
            } else {
                Pages::Plain
            },
        })
    }
}

/// What DPDK takes for a table with extendable buckets, by its layout: it does not tell.
fn bytes_for(entries: usize) -> usize {
    /// Eight entries in a cache line; as many buckets again to extend them.
    const BUCKET: usize = 64;
    const ENTRIES: usize = 8;
    /// A key and a pointer's worth of data, aligned to 16 bytes.
    const STORED: usize = 32;
    let rounded = entries.next_power_of_two();
    let buckets = 2 * rounded / ENTRIES;
    // The last term is the ring of free places.
    buckets * BUCKET + entries * STORED + rounded * size_of::<u32>()
}

#[inline]
fn key_of(query: &Query) -> [u8; KEY_LEN] {
    let [source, destination, ports] = query.key.words();
    let words = [source, destination, ports, u32::from(query.protocol)].map(u32::to_ne_bytes);
    let mut key = [0; KEY_LEN];
    for (part, word) in key.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *part = word;
    }
    key
}

impl FlowIndex for RteIndex {
    /// The keys are compared inside; `hash::MISS` is the same value as the table's own "not found".
    #[inline]
    fn lookup_burst(&self, queries: &[Query], _records: &[Record], found: &mut [u32]) {
        for (queries, found) in queries.chunks(BULK_MAX).zip(found.chunks_mut(BULK_MAX)) {
            let mut keys = [[0; KEY_LEN]; BULK_MAX];
            for (key, query) in keys.iter_mut().zip(queries) {
                *key = key_of(query);
            }
            self.table.lookup_bulk(&keys[..queries.len()], found);
        }
    }

    fn lookup(&self, query: &Query, _records: &[Record]) -> Option<u32> {
        self.table.lookup(&key_of(query))
    }

    fn insert(&mut self, query: &Query, id: u32) -> bool {
        self.table.add(&key_of(query), id).is_ok()
    }

    fn remove(&mut self, query: &Query, id: u32) {
        // Two connections never share a key, so the entry is that of `id`.
        if self.table.lookup(&key_of(query)) == Some(id) {
            self.table.remove(&key_of(query));
        }
    }

    fn memory(&self) -> (usize, Pages) {
        (self.bytes, self.pages)
    }
}

const _: () = assert!(hash::MISS == u32::MAX && hash::MISS == dataplane::flow::table::NOT_FOUND);
