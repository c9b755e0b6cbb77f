//! What packets of known connections cost, beside the plainest forwarder and the bare loop.

use super::floor::{Floor, MacSwap};
use super::flows;
use super::io::{Clients, Generator, Servers};
use super::measure::{Cost, interleave};
use super::report::{Mode, Path, Row, Table, print};
use super::request::Family;
use super::{Options, setup};
use crate::engine::{RteIndex, TickClock};
use anyhow::{Context, Result, bail};
use dataplane::flow::{FlowIndex, TagIndex};
use dataplane::worker::{BURST, Worker};
use dpdk::{Eal, Mempool, clock};

/// Room in the connection table: the default of the configuration, or what is asked for.
pub(super) const CONNECTIONS: u32 = 1_000_000;
/// Packets of a window: some milliseconds.
pub(super) const WINDOW: u64 = 1 << 16;

/// The measurements, and what they share.
pub(super) struct Packets<'a> {
    pub(super) options: &'a Options,
    pub(super) eal: &'a Eal,
    pub(super) pool: Mempool,
    /// Tables of `rte_hash` made so far: their names are unique.
    tables: u32,
}

impl<'a> Packets<'a> {
    /// They measure in mbufs of `pool`.
    pub(super) fn new(options: &'a Options, eal: &'a Eal, pool: &Mempool) -> Packets<'a> {
        Packets {
            options,
            eal,
            pool: pool.clone(),
            tables: 0,
        }
    }

    /// Measures, and prints each row as soon as it is known.
    ///
    /// # Errors
    /// Too little memory, or packets have been dropped.
    pub(super) fn run(&mut self) -> Result<()> {
        let Options { mode, family, .. } = *self.options;
        if mode.is_some_and(|mode| !Path { mode, family }.is_possible()) {
            bail!("--family 64 is for FULLNAT only: no other mode leads from IPv6 to IPv4");
        }
        if self.options.stages {
            return self.run_stages();
        }
        if !self.options.json {
            println!("\nknown connections (UDP)\n{}", Row::HEADING);
        }
        let first = mode.unwrap_or(Mode::Fullnat);
        for table in self.tables() {
            for &flows in &self.options.flows {
                self.known(first, table, flows)?;
            }
        }
        if mode.is_none() && family != Family::V64 {
            let largest = self.options.flows.iter().copied().max().unwrap_or(1);
            for other in [Mode::Nat, Mode::Dr, Mode::Tun] {
                self.known(other, self.tables()[0], largest)?;
            }
        }
        if !self.options.no_openings {
            self.run_openings()?;
        }
        Ok(())
    }

    pub(super) fn tables(&self) -> Vec<Table> {
        let given = self.options.table;
        given.map_or(vec![Table::Tag, Table::RteHash], |table| vec![table])
    }

    fn known(&mut self, mode: Mode, table: Table, flows: u32) -> Result<()> {
        let connections = flows.max(CONNECTIONS);
        let row = match table {
            Table::Tag => self.known_over(mode, table, flows, self.tag_index(connections)?),
            Table::RteHash => {
                let index = self.rte_index(connections)?;
                self.known_over(mode, table, flows, index)
            }
        }?;
        print(self.options.json, &row)
    }

    pub(super) fn tag_index(&self, connections: u32) -> Result<TagIndex> {
        TagIndex::new(2 * connections as usize, self.eal.has_hugepages()).context("no memory for the index")
    }

    pub(super) fn rte_index(&mut self, connections: u32) -> Result<RteIndex> {
        self.tables += 1;
        RteIndex::new(self.eal, &format!("flows{}", self.tables), 2 * connections)
    }

    /// The way of packets in that mode.
    pub(super) fn path(&self, mode: Mode) -> Path {
        Path {
            mode,
            family: self.options.family,
        }
    }

    /// Cycles of the time stamp counter, which runs at a rate of its own whatever that of the processor is.
    pub(super) fn cycles(&self, ns: f64) -> f64 {
        ns * clock::hz(self.eal) as f64 / 1e9
    }

    /// Packets of known connections, at random.
    fn known_over<X: FlowIndex>(&self, mode: Mode, table: Table, flows: u32, index: X) -> Result<Row> {
        let (path, servers, shape) = (self.path(mode), Servers::of(mode), self.options.shape());
        let order = flows::random(flows, self.options.distribution, shape);
        let random = || Generator::with_shape(&self.pool, shape, Clients::Order(order.clone(), 0), servers);
        let hugepages = self.eal.has_hugepages();
        let connections = flows.max(CONNECTIONS);

        let every = flows::each(flows, shape);
        // Replies included, and what is under way at the end.
        let packets = every.len() as u64 * if mode.has_replies() { 2 } else { 1 };
        let io = Generator::with_shape(&self.pool, shape, Clients::Order(every, 0), servers)?;
        let mut worker = setup::worker(path, connections, hugepages, index, io)?;
        let mut ticks = TickClock::start(self.eal);
        let mut pipeline = |worker: &mut Worker<Generator, X>, packets| {
            drive(packets, || worker.turn(ticks.at(clock::now())))
        };
        pipeline(&mut worker, packets + 4 * BURST as u64);
        worker.io_mut().set_clients(Clients::Order(order.clone(), 0));

        let mut swap = MacSwap { io: random()? };
        let mut floor = match path.has_floor() {
            true => Some(Floor::new(random()?, flows, connections, hugepages)?),
            false => None,
        };
        let costs = interleave(
            self.options.windows as usize,
            WINDOW,
            [
                &mut |packets| pipeline(&mut worker, packets),
                &mut |packets| drive(packets, || swap.turn()),
                &mut |packets| match &mut floor {
                    Some(floor) => drive(packets, || floor.turn()),
                    None => 0,
                },
            ],
        );
        let row = Row {
            mode,
            family: path.family,
            table,
            flows,
            distribution: self.options.distribution,
            frame: shape.len(),
            pipeline: costs[0],
            cycles: self.cycles(costs[0].best),
            floor: floor.is_some().then_some(costs[2]),
            mac_swap: costs[1],
            bytes_per_connection: worker.table_memory().0 as f64 / f64::from(connections),
        };
        setup::finish(&worker)?;
        Ok(row)
    }
}

/// Turns until so many packets have been moved, or none move any more.
pub(super) fn drive(packets: u64, mut turn: impl FnMut() -> usize) -> u64 {
    let mut moved = 0;
    while moved < packets {
        match turn() {
            0 => break,
            count => moved += count as u64,
        }
    }
    moved
}

impl Cost {
    /// The cost of so many.
    pub(super) fn times(self, count: f64) -> Cost {
        Cost {
            best: self.best * count,
            median: self.median * count,
        }
    }
}
