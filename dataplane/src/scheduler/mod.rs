//! Which server the next connection goes to. One file per algorithm, one trait; the worker keeps one
//! [`SchedulerState`] per service slot and tells it of changes to the service and to the loads of its servers.
//! Nothing here allocates, but for [`SchedulerTables`], which control makes with the snapshot.

mod bound;
mod destinations;
mod dh;
mod fo;
mod hash;
mod kind;
mod lblc;
mod lblcr;
mod lc;
mod mh;
mod nq;
mod ovf;
mod ranked;
mod ranking;
mod rr;
mod sed;
mod sh;
mod state;
mod tables;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod twos;
mod wlc;
mod wrr;

pub(crate) use bound::Bound;
pub use kind::{SchedulerFlags, SchedulerKind};
pub use rr::RoundRobin;
pub use state::SchedulerState;
pub use tables::SchedulerTables;
pub use wrr::WeightedRoundRobin;

use crate::service::{Server, Service};
use crate::time::Tick;
use std::net::{IpAddr, Ipv4Addr};

/// What a server has to do now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Connections that count as active.
    pub active: u32,
    /// Connections that count as inactive.
    pub inactive: u32,
}

impl Load {
    /// This and that together.
    #[inline]
    #[must_use]
    pub const fn and(self, other: Load) -> Load {
        Load {
            active: self.active.saturating_add(other.active),
            inactive: self.inactive.saturating_add(other.inactive),
        }
    }

    /// Connections, whatever they do.
    pub(crate) fn connections(self) -> u64 {
        u64::from(self.active) + u64::from(self.inactive)
    }

    /// What LVS weighs: an active connection costs as much as 256 inactive ones.
    pub(crate) fn overhead(self) -> u64 {
        (u64::from(self.active) << 8) + u64::from(self.inactive)
    }
}

/// What a scheduler may know of a server beyond the snapshot: the worker's view of its load.
pub trait Loads {
    /// Whether the server has passed its upper threshold and not yet come back below the lower one, or the operator has
    /// marked it so.
    fn overloaded(&self, server: &Server) -> bool;

    /// The server's connections.
    fn load(&self, server: &Server) -> Load;

    /// Whether new connections may go to the server at all: the same test for every scheduler.
    fn usable(&self, server: &Server) -> bool {
        server.weight > 0 && !self.overloaded(server)
    }
}

/// Which of a gateway's workers keeps a state. Each takes its turns from another server on, so that their first picks do
/// not meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seat {
    /// Its number, from 0 on.
    pub worker: u8,
    /// How many there are.
    pub workers: u8,
}

impl Seat {
    /// The only worker.
    pub const ALONE: Seat = Seat {
        worker: 0,
        workers: 1,
    };

    /// Where in `of` things this worker begins.
    pub(super) fn first(self, of: usize) -> usize {
        of * usize::from(self.worker) / usize::from(self.workers.max(1))
    }
}

/// The packet that asks for a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The client's address.
    pub source: IpAddr,
    /// The client's port, host order.
    pub source_port: u16,
    /// The address that the client wants.
    pub destination: IpAddr,
    /// The worker's clock.
    pub now: Tick,
    /// 64 random bits, drawn for this packet if the algorithm heeds them.
    pub random: u64,
}

impl Default for Arrival {
    fn default() -> Arrival {
        Arrival {
            source: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            source_port: 0,
            destination: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            now: Tick(0),
            random: 0,
        }
    }
}

/// A scheduling algorithm with its state for one service on one worker.
pub trait Scheduler {
    /// Picks a server for a new connection: its position in `service.servers`, or `None` when none is usable.
    fn pick(&mut self, service: &Service, loads: &impl Loads, arrival: &Arrival) -> Option<usize>;

    /// The service's servers have changed from `old` (none for a new service) to `new`: carry positions over.
    fn servers_changed(&mut self, _old: &[Server], _new: &[Server]) {}
}
