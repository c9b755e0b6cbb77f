//! The connection table of a worker: an arena of records and an index over both keys of each. The pipeline
//! looks packets up in bursts, the scheduler inserts, the wheel's owner removes. It never evicts: when it is
//! full, an insert fails, and the caller counts the drop.

use std::io;

use super::addresses::{Addresses6, Ends};
use super::extension::Extension;
use super::hash::FlowHasher;
use super::index::{Probe, TagIndex};
use super::lines::Lines;
use super::recent::Recent;
use super::record::{Direction, Flags, Record, RecordId};
use super::template::{self, Template};
use crate::arch::prefetch;
use crate::memory::{Pages, Slab};
use crate::packet::FlowKey;

/// Nothing found, in the answers of [`FlowIndex::lookup_burst`].
pub const NOT_FOUND: u32 = u32::MAX;
/// Within a burst lookup: not in the first bucket, yet perhaps elsewhere.
const ELSEWHERE: u32 = u32::MAX - 1;
/// Queries looked up together: a burst.
const BURST: usize = 32;

/// What to look up: the key of a packet, its protocol, and their hash by the table's hasher.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Query {
    /// Addresses and ports as the packet carries them.
    pub key: FlowKey,
    /// The IP protocol number.
    pub protocol: u8,
    /// [`FlowHasher::hash`] of both.
    pub hash: u64,
}

/// A lookup's answer: the connection, and which way the packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hit {
    /// The connection's record.
    pub id: RecordId,
    /// Whether the packet's key is the connection's inbound or its outbound one.
    pub direction: Direction,
}

/// Why a connection cannot be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InsertError {
    /// Every record is taken.
    #[error("the connection table is full; raise its capacity in the configuration")]
    TableFull,
}

/// An index over the keys of records: [`TagIndex`], or DPDK's hash as the baseline it is measured against.
pub trait FlowIndex {
    /// Looks up each query, and writes the id of what most likely is its record, or [`NOT_FOUND`], to the same place
    /// of `found`: whoever asks compares the key. The shorter slice bounds the work.
    fn lookup_burst(&self, queries: &[Query], records: &[Record], found: &mut [u32]);
    /// The id of the record that has this key.
    fn lookup(&self, query: &Query, records: &[Record]) -> Option<u32>;
    /// Adds an entry; false when there is no room, and nothing has changed.
    fn insert(&mut self, query: &Query, id: u32) -> bool;
    /// As [`FlowIndex::insert`], for an entry that only [`FlowIndex::lookup`] and [`FlowIndex::remove`] need to know
    /// before the next [`FlowIndex::settle`].
    fn insert_later(&mut self, query: &Query, id: u32) -> bool {
        self.insert(query, id)
    }
    /// Puts what was inserted for later into its place.
    fn settle(&mut self) {}
    /// Removes the entry of this key and id, if there is one.
    fn remove(&mut self, query: &Query, id: u32);
    /// Says that this key is about to be looked up, inserted or removed; an index may fetch what that needs.
    fn prefetch(&self, _query: &Query) {}
    /// Takes all the memory from the system now instead of at first use, where that makes a difference.
    fn touch(&mut self) {}
    /// Memory in bytes, and what kind it is.
    fn memory(&self) -> (usize, Pages);
}

#[inline(always)]
fn is_meant(records: &[Record], id: u32, query: &Query) -> bool {
    records
        .get(id as usize)
        .is_some_and(|record| record.direction_of(query).is_some())
}

impl FlowIndex for TagIndex {
    /// Each pass runs over the whole burst, and asks for the memory that the next one needs: first buckets, when
    /// the queries were announced, records of the candidates and second buckets, records of the second candidates.
    #[inline]
    fn lookup_burst(&self, queries: &[Query], records: &[Record], found: &mut [u32]) {
        let mut elsewhere = false;
        for (query, found) in queries.iter().zip(found.iter_mut()) {
            *found = match self.probe(query.hash) {
                Probe::Candidate(id) => {
                    prefetch(records, id as usize);
                    id
                }
                Probe::Absent => NOT_FOUND,
                Probe::Elsewhere => {
                    elsewhere = true;
                    ELSEWHERE
                }
            };
        }
        if elsewhere {
            for (query, found) in queries
                .iter()
                .zip(found.iter_mut())
                .filter(|(_, f)| **f == ELSEWHERE)
            {
                // What only the stash has is not here: it is looked up once more, on its own.
                *found = self.probe_second(query.hash).unwrap_or(ELSEWHERE);
                prefetch(records, *found as usize);
            }
        }
    }

    #[inline]
    fn lookup(&self, query: &Query, records: &[Record]) -> Option<u32> {
        self.find(query.hash, |id| is_meant(records, id, query))
    }

    #[inline]
    fn insert(&mut self, query: &Query, id: u32) -> bool {
        TagIndex::insert(self, query.hash, id).is_ok()
    }

    #[inline]
    fn insert_later(&mut self, query: &Query, id: u32) -> bool {
        TagIndex::insert_later(self, query.hash, id).is_ok()
    }

    #[inline]
    fn settle(&mut self) {
        TagIndex::settle(self);
    }

    fn remove(&mut self, query: &Query, id: u32) {
        TagIndex::remove(self, query.hash, id);
    }

    #[inline]
    fn prefetch(&self, query: &Query) {
        TagIndex::prefetch(self, query.hash);
    }

    fn touch(&mut self) {
        TagIndex::touch(self);
    }

    fn memory(&self) -> (usize, Pages) {
        TagIndex::memory(self)
    }
}

/// The connection table of one worker.
pub struct ConnectionTable<X: FlowIndex = TagIndex> {
    records: Slab<Record>,
    addresses: Lines<Addresses6>,
    extensions: Lines<Extension>,
    index: X,
    /// What has been inserted since [`ConnectionTable::forget_recent`].
    recent: Recent,
    hasher: FlowHasher,
    /// First of the free records that have been used before, linked through `next`; the last freed is the
    /// first reused, since it is still in the cache.
    free: u32,
    /// The highest id ever used: memory above it has never been touched.
    highest: u32,
    len: u32,
}

impl ConnectionTable<TagIndex> {
    /// An empty table for `capacity` connections, each with up to two keys.
    ///
    /// # Errors
    /// The system refuses the memory, or `capacity` is beyond 2^31 - 2.
    pub fn new(capacity: usize, hasher: FlowHasher, hugepages: bool) -> io::Result<Self> {
        let index = TagIndex::new(capacity.saturating_mul(2), hugepages)?;
        Self::with_index(capacity, hasher, index, hugepages)
    }
}

impl<X: FlowIndex> ConnectionTable<X> {
    /// An empty table over this empty index, which has room for `2 * capacity` entries.
    ///
    /// # Errors
    /// The system refuses the memory, or `capacity` is beyond 2^31 - 2.
    pub fn with_index(capacity: usize, hasher: FlowHasher, index: X, hugepages: bool) -> io::Result<Self> {
        // The wheel marks list heads by the top bit of a link.
        if capacity > i32::MAX as usize - 1 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "more than 2^31 - 2 connections",
            ));
        }
        let records = Slab::new(capacity + 1, hugepages)?;
        Ok(ConnectionTable {
            records,
            addresses: Lines::new(capacity)?,
            extensions: Lines::new(capacity)?,
            index,
            recent: Recent::default(),
            hasher,
            free: 0,
            highest: 0,
            len: 0,
        })
    }

    /// Takes all its memory from the system now, before packets come: the system clears 2 MB at a time, which is
    /// longer than a receive queue lasts at full rate.
    pub fn touch(&mut self) {
        self.records.touch();
        self.index.touch();
    }

    /// How many connections fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.records.len() - 1
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory of records and index in bytes, and what kind the records got.
    #[must_use]
    pub fn memory(&self) -> (usize, Pages) {
        (self.records.bytes() + self.index.memory().0, self.records.pages())
    }

    /// The memory that the system has given for records, and for what some connections have beside theirs.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn resident(&self) -> io::Result<(usize, usize)> {
        let beside = self.addresses.resident()? + self.extensions.resident()?;
        Ok((self.records.resident()?, beside))
    }

    /// The index, for reports.
    #[must_use]
    pub fn index(&self) -> &X {
        &self.index
    }

    /// The hash that queries of this table carry.
    #[inline]
    #[must_use]
    pub fn hasher(&self) -> &FlowHasher {
        &self.hasher
    }

    /// Asks the cache for what removing this connection takes beside its record.
    #[inline]
    pub fn announce_removal(&self, record: &Record) {
        self.index.prefetch(&self.query(record.inbound, record.protocol));
        if record.has_outbound() {
            self.index.prefetch(&self.query(record.outbound, record.protocol));
        }
    }

    /// The query for a key.
    #[inline]
    #[must_use]
    pub fn query(&self, key: FlowKey, protocol: u8) -> Query {
        Query {
            key,
            protocol,
            hash: self.hasher.hash(&key, protocol),
        }
    }

    /// As [`ConnectionTable::query`], for a key that is about to be looked up: the memory that takes is asked for.
    #[inline]
    #[must_use]
    pub fn announce(&self, key: FlowKey, protocol: u8) -> Query {
        let query = self.query(key, protocol);
        self.index.prefetch(&query);
        query
    }

    /// Looks up each query, and writes its answer to the same place of `hits`. The shorter slice bounds the
    /// work. Queries should have been announced, all of them before this.
    #[inline]
    pub fn lookup_burst(&mut self, queries: &[Query], hits: &mut [Option<Hit>]) {
        for (queries, hits) in queries.chunks(BURST).zip(hits.chunks_mut(BURST)) {
            let mut found = [NOT_FOUND; BURST];
            self.find_candidates(queries, &mut found);
            for ((query, &found), hit) in queries.iter().zip(found.iter()).zip(hits) {
                *hit = match found {
                    NOT_FOUND => None,
                    candidate => self.candidate(query, candidate).or_else(|| self.lookup(query)),
                };
            }
        }
    }

    /// The first half of a lookup: the id of what most likely is a query's record goes to the same place of `found`, or
    /// [`NOT_FOUND`], and its memory is asked for. The shorter slice bounds the work. Queries should have been announced,
    /// all of them before this.
    #[inline]
    pub fn find_candidates(&mut self, queries: &[Query], found: &mut [u32]) {
        self.index.settle();
        self.index.lookup_burst(queries, &self.records, found);
    }

    /// The hit on a candidate, if it has the query's key by now.
    #[inline]
    fn candidate(&self, query: &Query, candidate: u32) -> Option<Hit> {
        let direction = self.records.get(candidate as usize)?.direction_of(query)?;
        let id = RecordId(candidate);
        Some(Hit { id, direction })
    }

    /// The second half of a lookup: the candidate's record and which way the packet goes, if it has the query's key by now.
    /// Nothing is said of other records: that is [`ConnectionTable::confirm`].
    #[inline(always)]
    pub fn candidate_mut(&mut self, query: &Query, candidate: u32) -> Option<(&mut Record, Direction)> {
        let record = self.records.get_mut(candidate as usize)?;
        let direction = record.direction_of(query)?;
        Some((record, direction))
    }

    /// The second half of a lookup: what has the query's key by now, given its candidate. Since the first half records may
    /// have come and gone, provided that [`ConnectionTable::forget_recent`] was called between the two, and before that.
    #[must_use]
    pub fn confirm(&self, query: &Query, candidate: u32) -> Option<Hit> {
        match candidate {
            NOT_FOUND => self.lookup_recent(query),
            candidate => self.candidate(query, candidate).or_else(|| self.lookup(query)),
        }
    }

    /// Looks up one query.
    #[inline]
    #[must_use]
    pub fn lookup(&self, query: &Query) -> Option<Hit> {
        self.index
            .lookup(query, &self.records)
            .map(|id| self.hit(query, id))
    }

    /// From now on [`ConnectionTable::lookup_recent`] finds what is inserted from now on.
    #[inline]
    pub fn forget_recent(&mut self) {
        self.recent.clear();
    }

    /// Looks up a query that was not there before [`ConnectionTable::forget_recent`].
    #[inline]
    #[must_use]
    pub fn lookup_recent(&self, query: &Query) -> Option<Hit> {
        if self.recent.may_have(query.hash) {
            self.lookup(query)
        } else {
            None
        }
    }

    /// The hit on a record that is known to have the query's key.
    #[inline]
    fn hit(&self, query: &Query, id: u32) -> Hit {
        let inbound = self.records[id as usize].inbound == query.key;
        Hit {
            id: RecordId(id),
            direction: if inbound {
                Direction::Inbound
            } else {
                Direction::Outbound
            },
        }
    }

    /// Adds a connection under both its keys; a zero outbound key is not entered. It does not look for an
    /// equal one: the caller has just looked up the inbound key, and chose the outbound one to be new.
    ///
    /// # Errors
    /// [`InsertError::TableFull`], and nothing has changed.
    pub fn insert(&mut self, record: &Record) -> Result<RecordId, InsertError> {
        let id = if self.free != 0 {
            self.free
        } else {
            self.highest + 1
        };
        if id as usize >= self.records.len() {
            return Err(InsertError::TableFull);
        }
        let inbound = self.query(record.inbound, record.protocol);
        if !self.index.insert(&inbound, id) {
            return Err(InsertError::TableFull);
        }
        self.recent.add(inbound.hash);
        if record.has_outbound() {
            let outbound = self.query(record.outbound, record.protocol);
            if !self.index.insert_later(&outbound, id) {
                self.index.remove(&inbound, id);
                return Err(InsertError::TableFull);
            }
            self.recent.add(outbound.hash);
        }
        if id == self.free {
            self.free = self.records[id as usize].next;
            // Asked for now, so that the next connection finds its record in the cache.
            prefetch(&self.records, self.free as usize);
        } else {
            self.highest = id;
        }
        let place = &mut self.records[id as usize];
        *place = *record;
        place.flags.set(Flags::LIVE, true);
        (place.next, place.previous) = (0, 0);
        self.len += 1;
        Ok(RecordId(id))
    }

    /// As [`ConnectionTable::insert`], for a connection with an IPv6 key, or two: its addresses are kept beside it.
    ///
    /// # Errors
    /// [`InsertError::TableFull`], and nothing has changed.
    pub fn insert_v6(&mut self, record: &Record, addresses: &Addresses6) -> Result<RecordId, InsertError> {
        let mixed = record.has_outbound() && record.inbound.is_v6() != record.outbound.is_v6();
        let extension = self.addresses.put(*addresses).ok_or(InsertError::TableFull)?;
        let mut record = Record { extension, ..*record };
        record.flags.set(Flags::MIXED, mixed);
        let inserted = self.insert(&record);
        if inserted.is_err() {
            self.addresses.free(extension);
        }
        inserted
    }

    /// Adds a template, whose record has its key.
    ///
    /// # Errors
    /// [`InsertError::TableFull`], and nothing has changed.
    pub fn insert_template(&mut self, record: &Record, template: &Template) -> Result<RecordId, InsertError> {
        self.insert_v6(record, &template.addresses())
    }

    /// The template that is found by this key, which is its own.
    #[must_use]
    pub fn find_template(&self, template: &Template, key: FlowKey) -> Option<RecordId> {
        let Hit { id, .. } = self.lookup(&self.query(key, template::PROTOCOL))?;
        (*self.addresses(self.get(id)) == template.addresses()).then_some(id)
    }

    /// A template is not to be found any more; it stays until it ends, and is listed.
    pub fn retire_template(&mut self, id: RecordId) {
        let record = self.records[id.index()];
        self.index
            .remove(&self.query(record.inbound, record.protocol), id.0);
        self.records[id.index()].retire();
    }

    /// The template that a record is.
    #[must_use]
    pub fn template(&self, record: &Record) -> Option<Template> {
        record
            .is_template()
            .then(|| Template::of(record, self.addresses(record)))
    }

    /// The addresses of a connection with an IPv6 key.
    #[inline]
    #[must_use]
    pub fn addresses(&self, record: &Record) -> &Addresses6 {
        self.addresses.get(self.addresses_index(record))
    }

    #[inline]
    fn addresses_index(&self, record: &Record) -> u32 {
        match self.extension(record) {
            Some(extension) => extension.addresses,
            None => record.extension,
        }
    }

    /// The extension of a connection, if it has one.
    #[inline]
    #[must_use]
    pub fn extension(&self, record: &Record) -> Option<&Extension> {
        let extended = record.flags.has(Flags::EXTENDED);
        extended.then(|| self.extensions.get(record.extension))
    }

    /// The extension of a connection, to be changed: a zeroed one if it had none. None when there is no room.
    pub fn extend(&mut self, id: RecordId) -> Option<&mut Extension> {
        let record = &mut self.records[id.index()];
        if !record.flags.has(Flags::EXTENDED) {
            record.extension = self.extensions.put(Extension {
                addresses: record.extension,
                ..bytemuck::Zeroable::zeroed()
            })?;
            record.flags.set(Flags::EXTENDED, true);
        }
        Some(self.extensions.get_mut(record.extension))
    }

    /// A connection and its extension, both to be changed. None when it has none.
    #[inline]
    pub fn extended_mut(&mut self, id: RecordId) -> Option<(&mut Record, &mut Extension)> {
        let record = &mut self.records[id.index()];
        let index = record.extension;
        let extended = record.flags.has(Flags::EXTENDED);
        extended.then(|| (record, self.extensions.get_mut(index)))
    }

    /// The ends of a connection.
    #[must_use]
    pub fn ends(&self, record: &Record) -> Ends {
        let index = self.addresses_index(record);
        Ends::new(record, (index != 0).then(|| self.addresses.get(index)))
    }

    /// Removes a connection, which has to be off the wheel; returns it as it was. None when it is not live.
    pub fn remove(&mut self, id: RecordId) -> Option<Record> {
        let record = *self.records.get(id.index()).filter(|record| record.is_live())?;
        debug_assert!(record.previous == 0, "removed from the table while on the wheel");
        self.index
            .remove(&self.query(record.inbound, record.protocol), id.0);
        if record.has_outbound() {
            self.index
                .remove(&self.query(record.outbound, record.protocol), id.0);
        }
        let addresses = self.addresses_index(&record);
        if addresses != 0 {
            self.addresses.free(addresses);
        }
        if record.flags.has(Flags::EXTENDED) {
            self.extensions.free(record.extension);
        }
        self.records[id.index()] = Record {
            next: self.free,
            ..bytemuck::Zeroable::zeroed()
        };
        self.free = id.0;
        self.len -= 1;
        Some(record)
    }

    /// The record at an id that this table gave out; one that is not live is all zero but for its links.
    #[inline]
    #[must_use]
    pub fn get(&self, id: RecordId) -> &Record {
        &self.records[id.index()]
    }

    /// As [`ConnectionTable::get`], to be changed: everything but keys, protocol and [`Flags::LIVE`].
    #[inline]
    pub fn get_mut(&mut self, id: RecordId) -> &mut Record {
        &mut self.records[id.index()]
    }

    /// Every place of the arena, by [`RecordId::index`], as the wheel wants it.
    #[inline]
    pub fn records_mut(&mut self) -> &mut [Record] {
        &mut self.records
    }

    /// Shows the live records among the next `at_most` places from `cursor` on (0 at first); returns where to
    /// go on, or None at the end. Records never move, so a scan in slices shows each connection at most once,
    /// and each that lives throughout exactly once, whatever happens between the slices.
    pub fn scan(&self, cursor: u32, at_most: usize, mut show: impl FnMut(RecordId, &Record)) -> Option<u32> {
        let first = (cursor as usize).max(1);
        let end = (self.highest as usize + 1).min(first.saturating_add(at_most));
        for index in first..end {
            let record = &self.records[index];
            if record.is_live() {
                show(RecordId(index as u32), record);
            }
        }
        (end <= self.highest as usize).then_some(end as u32)
    }

    /// As [`ConnectionTable::scan`], to change what [`ConnectionTable::get_mut`] allows.
    pub fn scan_mut(
        &mut self,
        cursor: u32,
        at_most: usize,
        mut change: impl FnMut(&mut Record),
    ) -> Option<u32> {
        let first = (cursor as usize).max(1);
        let end = (self.highest as usize + 1).min(first.saturating_add(at_most));
        self.records[first.min(end)..end]
            .iter_mut()
            .filter(|record| record.is_live())
            .for_each(&mut change);
        (end <= self.highest as usize).then_some(end as u32)
    }
}

#[cfg(test)]
mod tests;
