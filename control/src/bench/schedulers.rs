//! What a scheduler costs by the number of servers: for each new connection a pick, after which the server has one more,
//! and for each that ends the count down, after which servers are ranked anew. Over the worker's own view of its servers.

use super::flows::Draws;
use super::measure::{Cost, cost_of};
use super::report::print;
use super::servers::service;
use anyhow::{Result, bail};
use dataplane::scheduler::{Arrival, Loads, Scheduler, SchedulerKind, SchedulerState, Seat};
use dataplane::service::Service;
use dataplane::worker::{ServerLoads, ServerState, WorkerStats};
use std::fmt;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// Connections of each server, on average.
const CONNECTIONS: usize = 100;
/// Connections that end, and as many that begin, between two readings of the clock: one of so many, so that servers have
/// as much to do as before, whatever their number; and how many they are at least and at most.
const BATCH_SHARE: usize = 64;
const BATCH: (usize, usize) = (16, 256);
/// A window ends when so much time has been measured in it.
const WINDOW: Duration = Duration::from_millis(2);
/// Addresses that clients want; only `dh`, `lblc` and `lblcr` look at them.
const DESTINATIONS: usize = 4096;
/// What the other sizes are compared with.
const FEW: u32 = 10;

/// Measures every scheduler at these numbers of servers.
///
/// # Errors
/// A scheduler finds no server, which would make the figures wrong.
pub(super) fn run(servers: &[u32], windows: u32, json: bool) -> Result<()> {
    if !json {
        println!(
            "\nschedulers, {CONNECTIONS} connections a server\n{}",
            Row::HEADING
        );
    }
    let real = SchedulerKind::ALL.iter().copied().map(Some);
    for kind in real.chain([None]) {
        for row in measure(kind, servers, windows, WINDOW)? {
            print(json, &row)?;
        }
    }
    Ok(())
}

/// One scheduler at each size. Sizes take turns, window after window, so that whatever else the machine does meets all
/// of them alike.
fn measure(kind: Option<SchedulerKind>, servers: &[u32], windows: u32, window: Duration) -> Result<Vec<Row>> {
    let mut rigs: Vec<Rig> = servers.iter().map(|count| Rig::new(kind, *count)).collect();
    let mut costs = vec![Measured::default(); rigs.len()];
    for rig in &mut rigs {
        rig.window(window)?;
    }
    for _ in 0..windows {
        for (rig, costs) in rigs.iter_mut().zip(&mut costs) {
            let [pick, end, both] = rig.window(window)?;
            costs.picks.push(pick);
            costs.ends.push(end);
            costs.both.push(both);
        }
    }
    let few = servers.iter().position(|count| *count == FEW);
    let few = few.map(|at| cost_of(costs[at].both.clone()).best);
    let row = |(count, costs): (&u32, Measured)| Row {
        scheduler: kind.map_or("linear wlc", SchedulerKind::name),
        servers: *count,
        pick: cost_of(costs.picks),
        end: cost_of(costs.ends),
        both: cost_of(costs.both),
        ratio: None,
    };
    let rows = servers.iter().zip(costs).map(row);
    Ok(rows.map(|row| row.compared(few)).collect())
}

/// ns by window.
#[derive(Clone, Default)]
struct Measured {
    picks: Vec<f64>,
    ends: Vec<f64>,
    both: Vec<f64>,
}

/// A scheduler at one number of servers.
#[derive(Clone, Debug, serde::Serialize)]
struct Row {
    scheduler: &'static str,
    servers: u32,
    /// ns for a pick with its count up.
    pick: Cost,
    /// ns for a count down.
    end: Cost,
    /// ns for one of each, in turn.
    both: Cost,
    /// `both` in units of what it is with few servers.
    ratio: Option<f64>,
}

impl Row {
    const HEADING: &'static str = "\
scheduler   servers   ns/pick  median    ns/end  median      both  median   /10 servers";

    fn compared(self, few: Option<f64>) -> Row {
        Row {
            ratio: few.map(|few| self.both.best / few),
            ..self
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<10} {:>8}", self.scheduler, self.servers)?;
        for cost in [self.pick, self.end, self.both] {
            write!(f, "  {:>8.1} {:>7.1}", cost.best, cost.median)?;
        }
        match self.ratio {
            Some(ratio) => write!(f, "  {ratio:>12.2}"),
            None => write!(f, "  {:>12}", "-"),
        }
    }
}

/// A service on a worker, and its connections.
struct Rig {
    service: Service,
    /// None: the reference, which looks at all servers for each pick.
    state: Option<SchedulerState>,
    servers: Vec<ServerState>,
    stats: WorkerStats,
    /// By connection: the position of its server.
    open: Vec<u32>,
    draws: Draws,
}

impl Rig {
    /// A service that has its connections, shared out by weight.
    fn new(kind: Option<SchedulerKind>, count: u32) -> Rig {
        let service = service(kind.unwrap_or(SchedulerKind::Wlc), count);
        service.prepare(1);
        let stats = WorkerStats::new(1, count as usize);
        let weights: u64 = service
            .servers
            .iter()
            .map(|server| u64::from(server.weight))
            .sum();
        let connections = u64::from(count) * CONNECTIONS as u64;
        let mut open = Vec::new();
        for (server, position) in service.servers.iter().zip(0u32..) {
            let own = (u64::from(server.weight) * connections / weights) as u32;
            stats.servers[server.slot as usize].active.set(own);
            open.extend(std::iter::repeat_n(position, own as usize));
        }
        let mut rig = Rig {
            state: kind.map(|_| SchedulerState::adopt(None, &service, Seat::ALONE)),
            service,
            servers: vec![ServerState::default(); count as usize],
            stats,
            open,
            draws: Draws::new(),
        };
        let loads = ServerLoads::new(&rig.servers, &rig.stats);
        if let Some(state) = &mut rig.state {
            state.loads_changed(&rig.service, &loads);
        }
        rig
    }

    /// Connections that end and begin for that long: ns for each pick and for each end, many of one kind in a row, and
    /// for both together, in turn.
    fn window(&mut self, length: Duration) -> Result<[f64; 3]> {
        let batch = (self.open.len() / BATCH_SHARE).clamp(BATCH.0, BATCH.1);
        // What reading the clock twice takes by itself: much, where batches are small.
        let clock = (0..100)
            .map(|_| Instant::now().elapsed())
            .min()
            .unwrap_or_default();
        let before = self.open.len();
        let (mut took, mut batches) = ([Duration::ZERO; 3], 0u32);
        while batches == 0 || took.iter().sum::<Duration>() < length {
            let (ends, arrivals) = self.drawn(batch);
            let start = Instant::now();
            ends.iter().for_each(|position| self.count(*position, false));
            took[1] += start.elapsed().saturating_sub(clock);
            let start = Instant::now();
            arrivals.iter().for_each(|arrival| self.begin(arrival));
            took[0] += start.elapsed().saturating_sub(clock);

            let (ends, arrivals) = self.drawn(batch);
            let start = Instant::now();
            for (position, arrival) in ends.iter().zip(&arrivals) {
                self.count(*position, false);
                self.begin(arrival);
            }
            took[2] += start.elapsed().saturating_sub(clock);
            if self.open.len() < before {
                bail!("{} finds no server", self.service.scheduler.name());
            }
            batches += 1;
        }
        let each = f64::from(batches) * batch as f64;
        Ok(took.map(|took| took.as_nanos() as f64 / each))
    }

    /// Takes so many connections out, at random, before the clock runs: where their servers are, and who comes instead.
    fn drawn(&mut self, count: usize) -> (Vec<u32>, Vec<Arrival>) {
        let mut end = |_| {
            let at = self.draws.below(self.open.len());
            self.open.swap_remove(at)
        };
        let ends = (0..count).map(&mut end).collect();
        (ends, (0..count).map(|_| self.arrival()).collect())
    }

    fn arrival(&mut self) -> Arrival {
        let (draws, base) = (&mut self.draws, Ipv4Addr::new(172, 16, 0, 0).to_bits());
        let destination = base + draws.below(DESTINATIONS) as u32;
        Arrival {
            source: Ipv4Addr::from_bits(draws.next()).into(),
            source_port: draws.next() as u16,
            destination: Ipv4Addr::from_bits(destination).into(),
            random: u64::from(draws.next()) << 32 | u64::from(draws.next()),
            ..Arrival::default()
        }
    }

    /// One connection more, where the scheduler says.
    #[inline]
    fn begin(&mut self, arrival: &Arrival) {
        let loads = ServerLoads::new(&self.servers, &self.stats);
        let position = match &mut self.state {
            Some(state) => state.pick(&self.service, &loads, arrival),
            None => linear(&self.service, &loads),
        };
        if let Some(position) = position {
            self.count(position as u32, true);
            self.open.push(position as u32);
        }
    }

    /// One connection more or less of the server at that position, and the scheduler is told, as by a worker.
    #[inline]
    fn count(&mut self, position: u32, up: bool) {
        let server = &self.service.servers[position as usize];
        let gauge = &self.stats.servers[server.slot as usize].active;
        if up {
            gauge.up();
        } else {
            gauge.down();
        }
        if let Some(state) = &mut self.state {
            let loads = ServerLoads::new(&self.servers, &self.stats);
            state.load_changed(
                position,
                server.slot,
                loads.load(server),
                loads.overloaded(server),
            );
        }
    }
}

/// Weighted least connections by a look at every server, as LVS does it.
fn linear(service: &Service, loads: &ServerLoads<'_>) -> Option<usize> {
    let mut best: Option<(usize, u64, u64)> = None;
    for (position, server) in service.servers.iter().enumerate() {
        if !loads.usable(server) {
            continue;
        }
        let load = loads.load(server);
        let (load, weight) = (
            (u64::from(load.active) << 8) + u64::from(load.inactive),
            u64::from(server.weight),
        );
        if best.is_none_or(|(_, least, its)| load * its < least * weight) {
            best = Some((position, load, weight));
        }
    }
    best.map(|(position, ..)| position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheduler_is_measured_at_every_size() {
        for kind in SchedulerKind::ALL.iter().copied().map(Some).chain([None]) {
            let rows = measure(kind, &[2, FEW, 30], 2, Duration::ZERO).unwrap();
            let sizes: Vec<u32> = rows.iter().map(|row| row.servers).collect();
            assert_eq!(sizes, [2, FEW, 30]);
            for row in &rows {
                let all = [row.pick, row.end, row.both];
                assert!(all.iter().all(|cost| cost.best > 0.0), "{row:?}");
            }
            assert_eq!(rows[1].ratio, Some(1.0));
            assert_eq!(rows[2].ratio, Some(rows[2].both.best / rows[1].both.best));
        }
    }

    #[test]
    fn without_ten_servers_nothing_is_compared() {
        let rows = measure(Some(SchedulerKind::Wlc), &[4], 1, Duration::ZERO).unwrap();
        assert!(rows[0].ratio.is_none() && rows[0].to_string().ends_with('-'));
    }

    /// What is measured is the right choice: the reference and the scheduler go the same way.
    #[test]
    fn the_reference_picks_as_wlc_does() {
        let (mut wlc, mut reference) = (Rig::new(Some(SchedulerKind::Wlc), 21), Rig::new(None, 21));
        for _ in 0..5 {
            wlc.window(Duration::ZERO).unwrap();
            reference.window(Duration::ZERO).unwrap();
            assert_eq!(wlc.open, reference.open);
        }
        assert_eq!(wlc.open.len(), 21 * CONNECTIONS);
    }

    #[test]
    fn connections_stay_as_many_as_they_are() {
        let mut rig = Rig::new(Some(SchedulerKind::Sed), 7);
        let before = rig.open.len();
        rig.window(Duration::ZERO).unwrap();
        let counted: u64 = rig.stats.servers.iter().map(|stats| stats.now()).sum();
        assert_eq!((rig.open.len(), counted), (before, before as u64));
    }
}
