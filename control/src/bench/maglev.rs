//! Maglev tables: how long control takes to build one, and whom the loss of a server moves.

use super::flows::Draws;
use super::measure::{Cost, cost_of, timed};
use super::report::print;
use super::servers::service;
use anyhow::Result;
use dataplane::scheduler::{Arrival, Loads, Scheduler, SchedulerKind, SchedulerState, Seat};
use dataplane::service::Service;
use dataplane::worker::{ServerLoads, ServerState, WorkerStats};
use std::fmt;
use std::net::Ipv4Addr;

/// Numbers of servers: the most that 65,521 places are for, near the 65,537 of the paper, and a thousand.
const SERVERS: [u32; 2] = [655, 1000];
/// Servers that leave, each from the whole, one after the other.
const LEAVERS: u32 = 10;
const CLIENTS: usize = 20_000;
/// Percent of its share that a server of the bounded table may have.
const BOUND: u32 = 125;
const NS_IN_MS: f64 = 1e6;

/// Measures tables with and without a bound.
///
/// # Errors
/// A row cannot be printed.
pub(super) fn run(windows: u32, json: bool) -> Result<()> {
    if !json {
        println!("\nMaglev tables\n{}", Row::HEADING);
    }
    for servers in SERVERS {
        for bounded in [false, true] {
            print(json, &measure(servers, bounded, windows, LEAVERS, CLIENTS))?;
        }
    }
    Ok(())
}

/// A table.
#[derive(Clone, Debug, serde::Serialize)]
struct Row {
    servers: u32,
    places: usize,
    /// Whether servers have a bound, and take their turns in the order of their addresses.
    bounded: bool,
    /// ms to build it.
    build: Cost,
    /// When a server leaves: the share of the places of all others that get another server.
    places_moved: f64,
    /// When a server leaves: the share of the clients of all others that get another server.
    clients_moved: f64,
}

impl Row {
    const HEADING: &'static str = "\
 servers    places  bounded  build, ms  median  moved of others: places  clients";
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bounded = if self.bounded { "yes" } else { "no" };
        write!(
            f,
            "{:>8}  {:>8}  {bounded:>7}  {:>9.2} {:>7.2}  {:>22.3}% {:>7.3}%",
            self.servers,
            self.places,
            self.build.best,
            self.build.median,
            self.places_moved * 100.0,
            self.clients_moved * 100.0,
        )
    }
}

fn measure(servers: u32, bounded: bool, windows: u32, leavers: u32, clients: usize) -> Row {
    let mut whole = service(SchedulerKind::Mh, servers);
    whole.policy.bound = if bounded { BOUND } else { 0 };
    let built = (0..windows.max(1)).map(|_| {
        // A clone has no tables yet.
        let fresh = whole.clone();
        timed(|| {
            fresh.prepare(1);
            1
        }) / NS_IN_MS
    });
    let build = cost_of(built.collect());
    whole.prepare(1);
    let sources = sources(clients);
    let (owners, picked) = (owners(&whole), picks(&whole, &sources));
    let (mut places_moved, mut clients_moved) = (Moved::default(), Moved::default());
    for leaver in 0..leavers {
        let position = (leaver * servers / leavers) as usize;
        let mut rest = whole.clone();
        let slot = rest.servers.remove(position).slot;
        rest.prepare(1);
        places_moved.count(&owners, &self::owners(&rest), slot);
        clients_moved.count(&picked, &picks(&rest, &sources), slot);
    }
    Row {
        servers,
        places: owners.len(),
        bounded,
        build,
        places_moved: places_moved.share(),
        clients_moved: clients_moved.share(),
    }
}

/// How many of those that another server had have moved.
#[derive(Clone, Copy, Default)]
struct Moved {
    moved: usize,
    all: usize,
}

impl Moved {
    /// Compares, place by place, the slots of servers with and without the one of slot `leaver`.
    fn count(&mut self, before: &[u32], after: &[u32], leaver: u32) {
        for (before, after) in before.iter().zip(after).filter(|(before, _)| **before != leaver) {
            self.all += 1;
            self.moved += usize::from(before != after);
        }
    }

    fn share(self) -> f64 {
        self.moved as f64 / self.all.max(1) as f64
    }
}

/// By place: the slot of its server.
fn owners(service: &Service) -> Vec<u32> {
    let table = service.tables.lookup().iter();
    table
        .map(|position| service.servers[*position as usize].slot)
        .collect()
}

fn sources(clients: usize) -> Vec<Arrival> {
    let mut draws = Draws::new();
    let arrival = |_| Arrival {
        source: Ipv4Addr::from_bits(draws.next()).into(),
        ..Arrival::default()
    };
    (0..clients).map(arrival).collect()
}

/// By client: the slot of its server.
fn picks(service: &Service, clients: &[Arrival]) -> Vec<u32> {
    let slots = service.servers.iter().map(|server| server.slot + 1).max();
    let servers = vec![ServerState::default(); slots.unwrap_or(0) as usize];
    let stats = WorkerStats::new(1, servers.len());
    let loads = ServerLoads::new(&servers, &stats);
    let mut state = SchedulerState::adopt(None, service, Seat::ALONE);
    let mut pick = |client| {
        let position = state.pick(service, &loads, client)?;
        let server = service.servers.get(position)?;
        loads.usable(server).then_some(server.slot)
    };
    clients
        .iter()
        .map(|client| pick(client).unwrap_or(u32::MAX))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_of_other_servers_count_as_moved() {
        let mut moved = Moved::default();
        // Server 7 leaves four places of eight; of the others one moves.
        moved.count(&[7, 7, 7, 7, 1, 2, 3, 1], &[1, 2, 3, 1, 1, 2, 1, 1], 7);
        assert_eq!((moved.moved, moved.all, moved.share()), (1, 4, 0.25));
        assert_eq!(Moved::default().share(), 0.0);
    }

    #[test]
    fn a_row_is_of_the_table_that_it_names() {
        for bounded in [false, true] {
            let row = measure(20, bounded, 2, 4, 500);
            assert_eq!((row.servers, row.places, row.bounded), (20, 4093, bounded));
            assert!(row.build.best > 0.0 && row.build.best <= row.build.median);
            // Some move, and few.
            assert!(row.places_moved > 0.0 && row.places_moved < 0.2, "{row}");
            assert!(row.clients_moved < 0.2, "{row}");
        }
    }

    /// Nobody is refused: a client without a server would count as one that stays.
    #[test]
    fn every_client_has_a_server() {
        let service = service(SchedulerKind::Mh, 20);
        service.prepare(1);
        let picked = picks(&service, &sources(500));
        assert!(picked.iter().all(|slot| *slot < 20));
    }
}
