//! Reassembly: received fragments go in, whole packets come out (RFC 791 3.2, RFC 8200 4.5). The worker owns one and
//! puts in what its parser has named a fragment.
//!
//! Memory is bounded by the number of datagrams and by the caller's buffers, work by one copy and one search through
//! at most 64 runs a fragment. When there is no room, the oldest datagram gives way: one that is whole comes out at
//! once, so that the oldest is the least likely to become so. An overlap ends its datagram (RFC 5722), whatever the
//! IP version; bytes that come twice and are the same are ignored.

#[cfg(test)]
mod tests;

use super::datagram::Datagram;
use super::key::DatagramKey;
use super::piece::Piece;
use super::table::Table;
use crate::drops::DropReason;
use crate::packet::{AddressDigest, Headers, Packet, PortId};
use crate::time::Tick;

/// What became of a fragment.
#[derive(PartialEq, Eq, Debug)]
pub enum Added<P> {
    /// It is held until the others come.
    Held {
        /// Fragments of an older datagram that gave way to it, which are held no longer: they are lost by
        /// [`DropReason::FragmentTableFull`]. Mostly 0.
        gave_way: u32,
    },
    /// It was the last one missing.
    Whole {
        /// The packet in an Ethernet frame, as the first fragment came.
        packet: P,
        /// The length in bytes of the longest fragment, its IP header (and fragment header) included.
        largest: u16,
        /// Fragments that it was put together from, this one included; the others are held no longer.
        fragments: u32,
        /// The identification that the fragments had, host order. That of IPv4 is also in the header.
        identification: u32,
        /// Where the fragments arrived.
        port: PortId,
    },
    /// It is lost, and perhaps others of the same datagram with it.
    Lost {
        /// Fragments lost, this one included; the others are held no longer.
        fragments: u32,
        /// Why.
        reason: DropReason,
    },
}

/// The datagrams of which one worker holds fragments.
pub struct Reassembly<P> {
    table: Table<Datagram<P>>,
    digest: AddressDigest,
    held: usize,
}

impl<P: Packet> Reassembly<P> {
    /// Room for fragments of `capacity` datagrams (1 to 32,768). `seed` keys the hash. All memory but the packets'
    /// is taken here.
    #[must_use]
    pub fn new(capacity: u16, seed: u64) -> Reassembly<P> {
        Reassembly {
            table: Table::new(capacity),
            digest: AddressDigest::from_seed(seed),
            held: 0,
        }
    }

    /// Fragments that are held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Copies a parsed fragment that arrived at `port`; the caller may free it then. A new datagram takes a buffer of
    /// [`LARGE`](crate::worker::LARGE) bytes from `allocate`, and is given up after `timeout` ticks.
    pub fn add(
        &mut self,
        fragment: &P,
        headers: &Headers,
        port: PortId,
        now: Tick,
        timeout: u32,
        allocate: impl FnOnce() -> Option<P>,
    ) -> Added<P> {
        let piece = match Piece::read(fragment.bytes(), headers, port) {
            Ok(piece) => piece,
            Err(reason) => return lost(1, reason),
        };
        // RFC 6946: it has nothing to do with others, even those of its name.
        if piece.is_whole() {
            return alone(&piece, now, allocate);
        }
        let hash = piece.key.hash(&self.digest);
        match self.table.find(&piece.key, hash) {
            Some(at) => self.extend(at, &piece),
            None => self.open(&piece, hash, now.after(timeout), allocate),
        }
    }

    /// Gives up datagrams that are due, oldest first and at most `budget` of them, and tells `lost` of each how many
    /// fragments that were ([`DropReason::FragmentTimeout`]). After the timeout has become shorter, those that are
    /// here keep theirs, and newer ones wait for them.
    pub fn expire(&mut self, now: Tick, budget: usize, mut lost: impl FnMut(u32)) {
        for _ in 0..budget {
            match self.table.oldest() {
                Some((at, datagram)) if now.reached(datagram.deadline) => {
                    if let Some((_, datagram)) = self.close(at) {
                        lost(datagram.fragments);
                    }
                }
                _ => return,
            }
        }
    }

    /// The first fragment of a datagram.
    fn open(
        &mut self,
        piece: &Piece,
        hash: u64,
        deadline: Tick,
        allocate: impl FnOnce() -> Option<P>,
    ) -> Added<P> {
        if !Datagram::<P>::admits(piece) {
            return lost(1, DropReason::FragmentTooLong);
        }
        let fresh = if self.table.is_full() { None } else { allocate() };
        // A stranger's datagrams that are never completed must not keep all buffers until they time out.
        let (packet, gave_way) = match fresh {
            Some(packet) => (packet, 0),
            None => match self
                .table
                .oldest()
                .map(|(at, _)| at)
                .and_then(|at| self.close(at))
            {
                Some((_, old)) => {
                    let fragments = old.fragments;
                    (old.into_packet(), fragments)
                }
                None => return lost(1, DropReason::NoBuffer),
            },
        };
        let mut datagram = Datagram::new(packet, deadline);
        if let Err(reason) = datagram.take(piece) {
            return lost(1 + gave_way, reason);
        }
        match self.table.insert(piece.key, hash, datagram) {
            Ok(()) => {
                self.held += 1;
                Added::Held { gave_way }
            }
            Err(_) => lost(1 + gave_way, DropReason::FragmentTableFull),
        }
    }

    /// Another fragment of a datagram.
    fn extend(&mut self, at: u16, piece: &Piece) -> Added<P> {
        let Some((_, datagram)) = self.table.get_mut(at) else {
            return lost(1, DropReason::FragmentTableFull);
        };
        let taken = datagram.take(piece);
        match taken {
            Ok(false) => {
                self.held += 1;
                return Added::Held { gave_way: 0 };
            }
            Err(DropReason::FragmentDuplicate) => return lost(1, DropReason::FragmentDuplicate),
            Ok(true) => self.held += 1,
            Err(_) => {}
        }
        match (self.close(at), taken) {
            (Some((key, datagram)), Ok(_)) => whole(&key, datagram),
            (Some((_, datagram)), Err(reason)) => lost(datagram.fragments + 1, reason),
            (None, _) => lost(1, DropReason::FragmentTableFull),
        }
    }

    /// Takes a datagram out, whose fragments are then held no longer.
    fn close(&mut self, at: u16) -> Option<(DatagramKey, Datagram<P>)> {
        let entry = self.table.remove(at)?;
        self.held -= entry.1.fragments as usize;
        Some(entry)
    }
}

fn lost<P>(fragments: u32, reason: DropReason) -> Added<P> {
    Added::Lost { fragments, reason }
}

/// A datagram that came whole behind a fragment header.
fn alone<P: Packet>(piece: &Piece, now: Tick, allocate: impl FnOnce() -> Option<P>) -> Added<P> {
    let Some(packet) = allocate() else {
        return lost(1, DropReason::NoBuffer);
    };
    let mut datagram = Datagram::new(packet, now);
    match datagram.take(piece) {
        Ok(_) => whole(&piece.key, datagram),
        Err(reason) => lost(1, reason),
    }
}

fn whole<P: Packet>(key: &DatagramKey, datagram: Datagram<P>) -> Added<P> {
    let (largest, fragments) = (datagram.largest, datagram.fragments);
    match datagram.finish(key.is_v6()) {
        Ok(packet) => Added::Whole {
            packet,
            largest,
            fragments,
            identification: key.identification(),
            port: key.port(),
        },
        Err(reason) => lost(fragments, reason),
    }
}
