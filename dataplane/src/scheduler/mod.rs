//! Which server the next connection goes to. One file per algorithm, one trait; the worker keeps one
//! [`SchedulerState`] per service slot and tells it of changes to the service. Nothing here allocates.

mod rr;
mod wrr;

pub use rr::RoundRobin;
pub use wrr::WeightedRoundRobin;

use crate::service::{Server, Service};

/// What a scheduler may know of a server beyond the snapshot: the worker's view of its load.
pub trait Loads {
    /// Whether the server has passed its upper threshold and not yet come back below the lower one.
    fn overloaded(&self, server: &Server) -> bool;

    /// Whether new connections may go to the server at all: the same test for every scheduler.
    fn usable(&self, server: &Server) -> bool {
        server.weight > 0 && !self.overloaded(server)
    }
}

/// A scheduling algorithm with its state for one service on one worker.
pub trait Scheduler {
    /// Picks a server for a new connection: its position in `service.servers`, or `None` when none is usable.
    fn pick(&mut self, service: &Service, loads: &impl Loads) -> Option<usize>;

    /// The service's servers have changed from `old` (none for a new service) to `new`: carry positions over.
    fn servers_changed(&mut self, old: &[Server], new: &[Server]);
}

/// The algorithms by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SchedulerKind {
    /// Round robin.
    Rr,
    /// Weighted round robin.
    Wrr,
}

impl SchedulerKind {
    /// Every algorithm that exists.
    pub const ALL: &'static [SchedulerKind] = &[SchedulerKind::Rr, SchedulerKind::Wrr];

    /// The name that ipvsadm and the configuration use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SchedulerKind::Rr => "rr",
            SchedulerKind::Wrr => "wrr",
        }
    }

    /// The algorithm of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<SchedulerKind> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// The state of whichever algorithm a service uses.
#[derive(Clone, Debug)]
pub enum SchedulerState {
    /// State of round robin.
    Rr(RoundRobin),
    /// State of weighted round robin.
    Wrr(WeightedRoundRobin),
}

impl SchedulerState {
    /// Fresh state for a service with these servers.
    #[must_use]
    pub fn new(kind: SchedulerKind, servers: &[Server]) -> SchedulerState {
        let mut state = match kind {
            SchedulerKind::Rr => SchedulerState::Rr(RoundRobin::default()),
            SchedulerKind::Wrr => SchedulerState::Wrr(WeightedRoundRobin::default()),
        };
        state.servers_changed(&[], servers);
        state
    }
}

impl Scheduler for SchedulerState {
    fn pick(&mut self, service: &Service, loads: &impl Loads) -> Option<usize> {
        match self {
            SchedulerState::Rr(state) => state.pick(service, loads),
            SchedulerState::Wrr(state) => state.pick(service, loads),
        }
    }

    fn servers_changed(&mut self, old: &[Server], new: &[Server]) {
        match self {
            SchedulerState::Rr(state) => state.servers_changed(old, new),
            SchedulerState::Wrr(state) => state.servers_changed(old, new),
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Servers and loads for the tests of the algorithms.
    use super::*;
    use crate::flow::Mode;
    use crate::scheduler::SchedulerKind;
    use crate::service::{ClientAddress, Protocol, ServiceKey, Tunnel};
    use std::net::Ipv4Addr;

    /// Overloaded slots.
    pub(crate) struct Overloaded(pub(crate) Vec<u32>);

    impl Loads for Overloaded {
        fn overloaded(&self, server: &Server) -> bool {
            self.0.contains(&server.slot)
        }
    }

    /// A server of that slot and weight.
    pub(crate) fn server(slot: u32, weight: u32) -> Server {
        Server {
            slot,
            address: Ipv4Addr::new(10, 0, 0, slot as u8).into(),
            port: 80,
            weight,
            mode: Mode::Dr,
            tunnel: Tunnel::default(),
            upper_threshold: 0,
            lower_threshold: 0,
        }
    }

    /// A service over those servers, head of the list first.
    pub(crate) fn service(kind: SchedulerKind, servers: Vec<Server>) -> Service {
        Service {
            slot: 0,
            key: ServiceKey {
                address: Ipv4Addr::new(192, 0, 2, 1).into(),
                port: 80,
                protocol: Protocol::Tcp,
            },
            scheduler: kind,
            one_packet: false,
            translate_replies: false,
            hairpin_snat: false,
            mss_clamp: 0,
            client_address: ClientAddress::None,
            local_pools: Vec::new(),
            servers,
            revision: 0,
        }
    }

    /// The slots of `count` picks in a row.
    pub(crate) fn picks(
        state: &mut SchedulerState,
        service: &Service,
        loads: &Overloaded,
        count: usize,
    ) -> Vec<u32> {
        (0..count)
            .map(|_| service.servers[state.pick(service, loads).unwrap()].slot)
            .collect()
    }
}
