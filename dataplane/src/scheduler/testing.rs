//! Servers, loads and a small worker for the tests of the algorithms.

use super::*;
use crate::flow::Mode;
use crate::service::{Policy, Protocol, ServiceKey, Tunnel};
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// Overloaded slots; nobody has a connection.
pub(crate) struct Overloaded(pub(crate) Vec<u32>);

impl Loads for Overloaded {
    fn overloaded(&self, server: &Server) -> bool {
        self.0.contains(&server.slot)
    }

    fn load(&self, _: &Server) -> Load {
        Load::default()
    }
}

/// A server of that slot and weight.
pub(crate) fn server(slot: u32, weight: u32) -> Server {
    Server {
        slot,
        address: Ipv4Addr::new(10, 0, (slot >> 8) as u8, slot as u8).into(),
        port: 80,
        weight,
        table_weight: weight,
        hash_share: 100,
        mode: Mode::Dr,
        tunnel: Tunnel::default(),
        upper_threshold: 0,
        lower_threshold: 0,
        overloaded: false,
    }
}

/// A service over those servers, head of the list first, with its tables for one worker.
pub(crate) fn service(kind: SchedulerKind, servers: Vec<Server>) -> Service {
    let service = Service {
        slot: 0,
        key: ServiceKey::new(Ipv4Addr::new(192, 0, 2, 1).into(), 80, Protocol::Tcp),
        scheduler: kind,
        scheduler_flags: SchedulerFlags::NONE,
        tables: SchedulerTables::default(),
        persistence: None,
        engine: None,
        one_packet: false,
        translate_replies: false,
        hairpin_snat: false,
        mss_clamp: 0,
        client_address: crate::service::ClientAddress::None,
        timeouts: None,
        policy: Policy::default(),
        local_pools: Vec::new(),
        servers,
        revision: 0,
    };
    service.prepare(1);
    service
}

/// Fresh state for a service.
pub(crate) fn state(service: &Service) -> SchedulerState {
    SchedulerState::adopt(None, service, Seat::ALONE)
}

/// The slots of `count` picks in a row.
pub(crate) fn picks(
    state: &mut SchedulerState,
    service: &Service,
    loads: &Overloaded,
    count: usize,
) -> Vec<u32> {
    let mut pick = || state.pick(service, loads, &Arrival::default()).unwrap();
    (0..count).map(|_| service.servers[pick()].slot).collect()
}

/// Loads by slot.
#[derive(Default)]
pub(crate) struct Known(HashMap<u32, (Load, bool)>);

impl Loads for Known {
    fn overloaded(&self, server: &Server) -> bool {
        self.0
            .get(&server.slot)
            .is_some_and(|(_, overloaded)| *overloaded)
    }

    fn load(&self, server: &Server) -> Load {
        self.0
            .get(&server.slot)
            .map_or_else(Load::default, |(load, _)| *load)
    }
}

/// A service with its state and its loads, as a worker keeps them.
pub(crate) struct Rig {
    pub(crate) service: Service,
    pub(crate) state: SchedulerState,
    pub(crate) loads: Known,
}

impl Rig {
    pub(crate) fn new(kind: SchedulerKind, servers: Vec<Server>) -> Rig {
        Rig::with_flags(kind, SchedulerFlags::NONE, servers)
    }

    pub(crate) fn with_flags(kind: SchedulerKind, flags: SchedulerFlags, servers: Vec<Server>) -> Rig {
        let mut service = service(kind, servers);
        service.scheduler_flags = flags;
        let loads = Known::default();
        let mut state = state(&service);
        state.loads_changed(&service, &loads);
        Rig {
            service,
            state,
            loads,
        }
    }

    /// Changes the list of servers, as a snapshot does.
    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut Vec<Server>)) {
        let mut new = self.service.clone();
        change(&mut new.servers);
        new.revision += 1;
        new.prepare(1);
        let old = std::mem::replace(&mut self.service, new);
        let state = std::mem::replace(&mut self.state, state(&service(SchedulerKind::Rr, Vec::new())));
        self.state = SchedulerState::adopt(Some((state, &old)), &self.service, Seat::ALONE);
        self.state.loads_changed(&self.service, &self.loads);
        assert!(
            old.tables.take(0).is_some() || old.scheduler.rank().is_none(),
            "it has been put back"
        );
    }

    fn change(&mut self, slot: u32, change: impl FnOnce(&mut (Load, bool))) {
        let known = self.loads.0.entry(slot).or_default();
        change(known);
        let (load, overloaded) = *known;
        if let Some(position) = self.service.servers.iter().position(|server| server.slot == slot) {
            self.state.load_changed(position as u32, slot, load, overloaded);
        }
    }

    pub(crate) fn set_load(&mut self, slot: u32, active: u32, inactive: u32) {
        self.change(slot, |(load, _)| *load = Load { active, inactive });
    }

    /// So many active and inactive connections more.
    pub(crate) fn shift(&mut self, slot: u32, active: i32, inactive: i32) {
        self.change(slot, |(load, _)| {
            load.active = load.active.strict_add_signed(active);
            load.inactive = load.inactive.strict_add_signed(inactive);
        });
    }

    pub(crate) fn overload(&mut self, slot: u32, overloaded: bool) {
        self.change(slot, |(_, known)| *known = overloaded);
    }

    /// The slot that is picked for a packet.
    pub(crate) fn pick_for(&mut self, arrival: &Arrival) -> Option<u32> {
        let position = self.state.pick(&self.service, &self.loads, arrival)?;
        Some(self.service.servers[position].slot)
    }

    pub(crate) fn pick(&mut self) -> Option<u32> {
        self.pick_for(&Arrival::default())
    }

    /// As [`Rig::pick_for`], and the server has one more active connection.
    pub(crate) fn open_for(&mut self, arrival: &Arrival) -> Option<u32> {
        let slot = self.pick_for(arrival)?;
        self.change(slot, |(load, _)| load.active += 1);
        Some(slot)
    }

    /// So many connections, and where they go.
    pub(crate) fn open(&mut self, count: usize) -> Vec<u32> {
        (0..count)
            .filter_map(|_| self.open_for(&Arrival::default()))
            .collect()
    }
}

impl Rig {
    /// Active connections of a server.
    pub(crate) fn load_of(&self, slot: u32) -> u32 {
        self.loads.0.get(&slot).map_or(0, |(load, _)| load.active)
    }
}
