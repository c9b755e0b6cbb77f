//! Services of any number of servers, for measurements of schedulers alone.

use dataplane::flow::Mode;
use dataplane::scheduler::{SchedulerFlags, SchedulerKind, SchedulerTables};
use dataplane::service::{ClientAddress, Policy, Protocol, Server, Service, ServiceKey, Tunnel};
use std::net::Ipv4Addr;

/// Weights that servers have in turn.
const WEIGHTS: [u32; 3] = [100, 200, 300];

/// A service of that scheduler, without flags, with so many servers of weights 100, 200 and 300. Slots run against
/// positions, as where servers are added at the head of a list. The scheduler's memory has still to be made.
pub(super) fn service(kind: SchedulerKind, servers: u32) -> Service {
    let server = |position: u32| {
        let weight = WEIGHTS[position as usize % WEIGHTS.len()];
        Server {
            slot: servers - 1 - position,
            address: Ipv4Addr::from_bits(Ipv4Addr::new(10, 64, 0, 1).to_bits() + position).into(),
            port: 80,
            weight,
            table_weight: weight,
            hash_share: 100,
            overloaded: false,
            mode: Mode::Dr,
            tunnel: Tunnel::default(),
            upper_threshold: 0,
            lower_threshold: 0,
        }
    };
    Service {
        slot: 0,
        key: ServiceKey::new(Ipv4Addr::new(192, 0, 2, 100).into(), 80, Protocol::Tcp),
        scheduler: kind,
        scheduler_flags: SchedulerFlags::NONE,
        tables: SchedulerTables::default(),
        persistence: None,
        engine: None,
        one_packet: false,
        translate_replies: false,
        hairpin_snat: false,
        mss_clamp: 0,
        client_address: ClientAddress::None,
        timeouts: None,
        policy: Policy::default(),
        local_pools: Vec::new(),
        servers: (0..servers).map(server).collect(),
        revision: 0,
    }
}
