//! What a scheduler costs: nanoseconds for a pick, one connection more and one less, by the number of servers.
//!
//! `cargo run --release -p dataplane --example scheduler_bench [ROUNDS]`

use dataplane::flow::Mode;
use dataplane::neighbour::{AddressTable, RouteTable};
use dataplane::scheduler::{
    Arrival, Load, Loads, Scheduler, SchedulerFlags, SchedulerKind, SchedulerState, SchedulerTables, Seat,
};
use dataplane::service::{
    Network, Policy, Protocol, Server, Service, ServiceKey, Settings, Snapshot, Tunnel,
};
use dataplane::time::Tick;
use dataplane::worker::shard::ShardMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

const SERVERS: [u32; 4] = [10, 100, 1000, 10_000];
/// Connections for each server that are open while it runs: fewer than the mean weight, so that `ovf` finds room, and
/// has full servers at any number.
const OPEN: usize = 8;

/// Measurements of each, of which the best counts.
const TURNS: usize = 10;

/// Loads by slot.
struct Counts(Vec<Load>);

impl Loads for Counts {
    fn overloaded(&self, _: &Server) -> bool {
        false
    }

    fn load(&self, server: &Server) -> Load {
        self.0[server.slot as usize]
    }
}

fn snapshot(kind: SchedulerKind, servers: u32) -> Snapshot {
    let server = |slot: u32| Server {
        slot,
        address: IpAddr::V4((0x0a00_0000 + slot).into()),
        port: 80,
        weight: 6 + slot % 7,
        table_weight: 6 + slot % 7,
        hash_share: 100,
        mode: Mode::Dr,
        tunnel: Tunnel::default(),
        upper_threshold: 0,
        lower_threshold: 0,
        overloaded: false,
    };
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
        client_address: dataplane::service::ClientAddress::None,
        timeouts: None,
        policy: Policy::default(),
        local_pools: Vec::new(),
        servers: (0..servers).map(server).collect(),
        revision: 0,
    };
    let network = Network {
        shards: ShardMap::even(1),
        addresses: Arc::new(AddressTable::default()),
        routes: Arc::new(RouteTable::default()),
        neighbours: Arc::new([]),
        ports: Arc::new([]),
        vips: Arc::default(),
        snat: Arc::default(),
        marks: Arc::default(),
    };
    Snapshot::new(1, Settings::default(), network, vec![Some(Arc::new(service))])
}

/// Nanoseconds for a round: a pick, the count of the picked server up, the count of a server with an old connection
/// down.
fn round(kind: SchedulerKind, servers: u32, rounds: usize) -> f64 {
    let snapshot = snapshot(kind, servers);
    let Some(service) = snapshot.service(0) else {
        return f64::NAN;
    };
    let mut counts = Counts(vec![Load::default(); servers as usize]);
    let mut state = SchedulerState::adopt(None, service, Seat::ALONE);
    state.loads_changed(service, &counts);
    let mut random = 1_u64;
    let mut step = |state: &mut SchedulerState, counts: &mut Counts, closing: Option<u32>| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let arrival = Arrival {
            source: IpAddr::V4(((random >> 32) as u32).into()),
            source_port: (random >> 16) as u16,
            destination: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
            now: Tick(1),
            random: random ^ random << 32,
        };
        let picked = state.pick(service, counts, &arrival).map_or(0, |at| at as u32);
        counts.0[picked as usize].active += 1;
        state.load_changed(picked, picked, counts.0[picked as usize], false);
        if let Some(closing) = closing {
            counts.0[closing as usize].active -= 1;
            state.load_changed(closing, closing, counts.0[closing as usize], false);
        }
        (picked, random)
    };
    let mut open: Vec<u32> = Vec::new();
    for _ in 0..servers as usize * OPEN {
        open.push(step(&mut state, &mut counts, None).0);
    }
    let mut at = 0;
    let begin = Instant::now();
    for _ in 0..rounds {
        let (picked, random) = step(&mut state, &mut counts, Some(open[at]));
        open[at] = picked;
        at = ((random >> 33) as usize) % open.len();
    }
    begin.elapsed().as_nanos() as f64 / rounds as f64
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok());
    let rounds: usize = rounds.unwrap_or(1_000_000);
    println!("scheduler  ns at {SERVERS:?} servers, and how many times that of 10 it is at 1000");
    for kind in SchedulerKind::ALL {
        // The best of several turns, since other work may come between.
        let mut best = [f64::INFINITY; SERVERS.len()];
        for _ in 0..TURNS {
            for (best, servers) in best.iter_mut().zip(SERVERS) {
                *best = best.min(round(*kind, servers, rounds / TURNS));
            }
        }
        let [ten, hundred, thousand, most] = best;
        let name = kind.name();
        println!(
            "{name:>9} {ten:9.1} {hundred:9.1} {thousand:9.1} {most:9.1} {:9.2}",
            thousand / ten
        );
    }
    for servers in [100, 1000] {
        let begin = Instant::now();
        let bytes = snapshot(SchedulerKind::Mh, servers)
            .service(0)
            .map_or(0, |service| service.tables.shared_bytes());
        println!(
            "a Maglev table of {servers} servers: {} bytes in {:?}",
            bytes,
            begin.elapsed()
        );
    }
}
