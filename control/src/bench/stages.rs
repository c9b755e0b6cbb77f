//! What each stage of the worker costs a packet of a known connection, in a build whose workers time their stages.

use super::flows;
use super::io::{Clients, Generator, Servers};
use super::measure::{Cost, cost_of};
use super::packets::{CONNECTIONS, Packets, WINDOW, drive};
use super::report::{Mode, Path, print};
use super::request::Family;
use super::setup;
use crate::engine::TickClock;
use anyhow::{Context, Result};
use dataplane::worker::{BURST, Stage};
use dpdk::clock;
use std::fmt;

const STAGES: usize = Stage::ALL.len();

impl Packets<'_> {
    /// Measures each number of flows over our own index, and prints each row as soon as it is known.
    ///
    /// # Errors
    /// Too little memory, packets have been dropped, or this build does not time stages.
    pub(super) fn run_stages(&mut self) -> Result<()> {
        let path = self.path(self.options.mode.unwrap_or(Mode::Fullnat));
        if !self.options.json {
            println!("\nstages, ns/packet in the best window\n{}", Row::heading());
        }
        for &flows in &self.options.flows {
            print(self.options.json, &self.stages(path, flows)?)?;
        }
        Ok(())
    }

    fn stages(&self, path: Path, flows: u32) -> Result<Row> {
        let (servers, shape) = (Servers::of(path.mode), self.options.shape());
        let connections = flows.max(CONNECTIONS);
        let every = flows::each(flows, shape);
        let packets = 2 * every.len() as u64;
        let io = Generator::with_shape(&self.pool, shape, Clients::Order(every, 0), servers)?;
        let index = self.tag_index(connections)?;
        let mut worker = setup::worker(path, connections, self.eal.has_hugepages(), index, io)?;
        let mut ticks = TickClock::start(self.eal);
        drive(packets + 4 * BURST as u64, || worker.turn(ticks.at(clock::now())));
        let order = flows::random(flows, self.options.distribution, shape);
        worker.io_mut().set_clients(Clients::Order(order, 0));

        let mut windows = Vec::new();
        for _ in 0..self.options.windows {
            drive(WINDOW / 8, || worker.turn(ticks.at(clock::now())));
            let before = worker.stage_cycles().context(MISSING)?;
            let moved = drive(WINDOW, || worker.turn(ticks.at(clock::now())));
            let after = worker.stage_cycles().context(MISSING)?;
            windows.push(each(&before, &after, moved, clock::hz(self.eal)));
        }
        setup::finish(&worker)?;
        Ok(Row::new(path, flows, &windows))
    }
}

/// What to do where the build lacks it.
pub(super) const MISSING: &str = "this build does not time stages: build it with `cargo build --release -p tidegate --features stages`, on x86-64";

/// ns of each stage for each packet.
fn each(before: &[u64; STAGES], after: &[u64; STAGES], packets: u64, hz: u64) -> [f64; STAGES] {
    let ns = 1e9 / hz as f64 / packets.max(1) as f64;
    std::array::from_fn(|stage| (after[stage] - before[stage]) as f64 * ns)
}

/// One stage.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct Part {
    stage: &'static str,
    /// ns for each packet, each stage's own best and median window.
    cost: Cost,
}

/// The stages of packets of known connections.
#[derive(Clone, Debug, serde::Serialize)]
struct Row {
    mode: Mode,
    family: Family,
    flows: u32,
    stages: [Part; STAGES],
    /// All of a turn, ns for each packet.
    all: Cost,
}

impl Row {
    fn heading() -> String {
        let stages = Stage::ALL.map(|stage| format!("{:>14}", stage.label()));
        format!("mode    ip     flows  {}{:>9}", stages.concat(), "all")
    }

    fn new(path: Path, flows: u32, windows: &[[f64; STAGES]]) -> Row {
        let stages = std::array::from_fn(|at| Part {
            stage: Stage::ALL[at].label(),
            cost: cost_of(windows.iter().map(|window| window[at]).collect()),
        });
        Row {
            mode: path.mode,
            family: path.family,
            flows,
            stages,
            all: cost_of(windows.iter().map(|window| window.iter().sum()).collect()),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mode, family) = (self.mode.to_string(), self.family.text());
        write!(f, "{mode:<7} {family:>2}  {:>8}  ", self.flows)?;
        for part in &self.stages {
            write!(f, "{:>14.1}", part.cost.best)?;
        }
        write!(f, "{:>9.1}", self.all.best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_s_cost_is_of_a_window_s_packets() {
        let (before, mut after) = ([1000; STAGES], [1000; STAGES]);
        after[3] += 6000;
        // 2 GHz: 3,000 ns for 100 packets.
        let window = each(&before, &after, 100, 2_000_000_000);
        assert_eq!(window, [0.0, 0.0, 0.0, 30.0, 0.0, 0.0]);
        let mut other = [1.0; STAGES];
        other[3] = 20.0;
        let row = Row::new(Path::v4(Mode::Fullnat), 7, &[window, other]);
        assert_eq!((row.stages[3].cost.best, row.all.best), (20.0, 25.0));
        assert_eq!(Row::heading().len(), row.to_string().len());
    }
}
