//! Asking the workers for what only they know: connections and neighbours. They answer in slices between
//! bursts, so a listing of millions takes a while and delays no packet.

use super::Gateway;
use dataplane::flow::Connection;
use dataplane::local::AddressUse;
use dataplane::neighbour::NeighbourView;
use dataplane::worker::{Listing, Order};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Entries under way between a worker and control.
const ROOM: usize = 4096;
/// How long a worker may stay silent before the listing is given up.
const PATIENCE: Duration = Duration::from_secs(10);

impl Gateway {
    /// Calls `each` for every connection of every worker; each live connection at most once. False when a worker
    /// fell silent. Blocks; not for an async task.
    pub fn connections(&self, each: impl FnMut(Connection)) -> bool {
        self.list(Order::ListConnections, each)
    }

    /// Calls `each` for every neighbour of every worker. False when a worker fell silent. Blocks.
    pub fn neighbours(&self, each: impl FnMut(NeighbourView)) -> bool {
        self.list(Order::ListNeighbours, each)
    }

    /// Calls `each` for every local address that a worker has used, with what that worker counts of it. False when
    /// a worker fell silent. Blocks.
    pub fn local_addresses(&self, each: impl FnMut(AddressUse)) -> bool {
        self.list(Order::ListLocalAddresses, each)
    }

    fn list<T>(&self, order: fn(Arc<Listing<T>>) -> Order, mut each: impl FnMut(T)) -> bool {
        for worker in &self.workers {
            let listing = Arc::new(Listing::new(ROOM));
            worker.post(order(Arc::clone(&listing)));
            let mut heard = Instant::now();
            loop {
                // Complete first, then empty: what was said before completion is not missed.
                let complete = listing.is_complete();
                while let Some(entry) = listing.entries.pop() {
                    heard = Instant::now();
                    each(entry);
                }
                if complete {
                    break;
                }
                if heard.elapsed() > PATIENCE {
                    return false;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            worker.collect();
        }
        true
    }
}
