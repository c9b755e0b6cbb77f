//! Asking the workers for what only they know: connections and neighbours. They answer in slices between
//! bursts, so a listing of millions takes a while and delays no packet.

use super::{Gateway, WorkerHandle};
use dataplane::flow::Connection;
use dataplane::local::{AddressUse, PairReport};
use dataplane::neighbour::NeighbourView;
use dataplane::worker::{Listing, Order};
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Entries under way between a worker and control.
const ROOM: usize = 4096;
/// How long a worker may stand still before the listing is given up. One that turns gets to its end.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whose turn it is: a worker tells one listing of each kind at a time, and a second one would end the first.
#[derive(Debug, Default)]
pub(super) struct Turns {
    connections: Mutex<()>,
    neighbours: Mutex<()>,
    locals: Mutex<()>,
    pairs: Mutex<()>,
}

impl Gateway {
    /// Calls `each` for every connection of every worker until it breaks off; each live connection at most once.
    /// While `each` blocks, the listing waits, and so does the next one. False when a worker fell silent.
    /// Blocks; not for an async task.
    pub fn connections(&self, each: impl FnMut(Connection) -> ControlFlow<()>) -> bool {
        let _turn = self.turns.connections.lock();
        self.list(Order::ListConnections, each)
    }

    /// Calls `each` for every neighbour of every worker. False when a worker fell silent. Blocks.
    pub fn neighbours(&self, mut each: impl FnMut(NeighbourView)) -> bool {
        let _turn = self.turns.neighbours.lock();
        self.list(Order::ListNeighbours, |entry| {
            each(entry);
            ControlFlow::Continue(())
        })
    }

    /// Calls `each` for every local address that a worker has used, with what that worker counts of it. False when
    /// a worker fell silent. Blocks.
    pub fn local_addresses(&self, mut each: impl FnMut(AddressUse)) -> bool {
        let _turn = self.turns.locals.lock();
        self.list(Order::ListLocalAddresses, |entry| {
            each(entry);
            ControlFlow::Continue(())
        })
    }

    /// Calls `each` for every local address and server that a worker has used ports of, or could not, with what that
    /// worker counts of them. False when a worker fell silent. Blocks.
    pub fn local_pairs(&self, mut each: impl FnMut(PairReport)) -> bool {
        let _turn = self.turns.pairs.lock();
        self.list(Order::ListLocalPairs, |entry| {
            each(entry);
            ControlFlow::Continue(())
        })
    }

    fn list<T>(
        &self,
        order: fn(Arc<Listing<T>>) -> Order,
        mut each: impl FnMut(T) -> ControlFlow<()>,
    ) -> bool {
        for worker in &self.workers {
            let listing = Arc::new(Listing::new(ROOM));
            worker.post(order(Arc::clone(&listing)));
            match hear(worker, &listing, &mut each) {
                // What is left of it stays with the worker until the next listing replaces it.
                Heard::Enough => return true,
                Heard::All => worker.collect(),
                Heard::Silence => return false,
            }
        }
        true
    }
}

/// How the listing of one worker ended.
enum Heard {
    All,
    Enough,
    Silence,
}

fn hear<T>(
    worker: &WorkerHandle,
    listing: &Listing<T>,
    each: &mut impl FnMut(T) -> ControlFlow<()>,
) -> Heard {
    let mut turned = (worker.stats.turns.get(), Instant::now());
    loop {
        // Complete first, then empty: what was said before completion is not missed.
        let complete = listing.is_complete();
        while let Some(entry) = listing.entries.pop() {
            if each(entry).is_break() {
                return Heard::Enough;
            }
        }
        if complete {
            return Heard::All;
        }
        let turns = worker.stats.turns.get();
        if turns != turned.0 {
            turned = (turns, Instant::now());
        } else if turned.1.elapsed() > PATIENCE {
            return Heard::Silence;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}
