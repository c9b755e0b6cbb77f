//! What packets cost: those of known connections, and connections that come and go, beside the plainest forwarder and
//! the bare loop.

use super::floor::{Floor, MacSwap};
use super::flows;
use super::io::{Clients, Generator, Servers};
use super::measure::{Cost, interleave};
use super::report::{Mode, Opening, Row, Table, print};
use super::{Options, setup, tcp};
use crate::engine::{RteIndex, TickClock};
use anyhow::{Context, Result, bail};
use dataplane::flow::{FlowIndex, TagIndex};
use dataplane::time::Tick;
use dataplane::worker::{BURST, Worker};
use dpdk::{Eal, Mempool, clock};

/// Room in the connection table: the default of the configuration, or what is asked for.
pub(super) const CONNECTIONS: u32 = 1_000_000;
/// Packets of a window: some milliseconds.
const WINDOW: u64 = 1 << 16;
/// New connections of a window.
const OPENINGS: u64 = 8192;
/// Connections of a window that open, speak and close.
const LIVES: u64 = 4096;
/// Ticks for each turn while connections open and close: so much faster does time pass that TIME_WAIT's two
/// minutes end within some thousand turns.
const HASTE: u32 = 8;
/// Connections that may be there then: twice what TIME_WAIT holds.
const MOST_LEFT: u64 = 20_000;

/// The measurements, and what they share.
pub(super) struct Packets<'a> {
    options: &'a Options,
    eal: &'a Eal,
    pool: Mempool,
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
        if !self.options.json {
            println!("\nknown connections (UDP)\n{}", Row::HEADING);
        }
        for table in self.tables() {
            for &flows in &self.options.flows {
                if self.options.mode != Some(Mode::Dr) {
                    self.known(Mode::Fullnat, table, flows)?;
                }
            }
        }
        let largest = self.options.flows.iter().copied().max().unwrap_or(1);
        match self.options.mode {
            None => self.known(Mode::Dr, self.tables()[0], largest)?,
            Some(Mode::Fullnat) => {}
            Some(Mode::Dr) => {
                for table in self.tables() {
                    for &flows in &self.options.flows {
                        self.known(Mode::Dr, table, flows)?;
                    }
                }
            }
        }
        if !self.options.no_openings {
            self.run_openings()?;
        }
        Ok(())
    }

    fn run_openings(&mut self) -> Result<()> {
        if !self.options.json {
            println!("\nconnections that come and go\n{}", Opening::HEADING);
        }
        let modes = self
            .options
            .mode
            .map_or(vec![Mode::Fullnat, Mode::Dr], |mode| vec![mode]);
        for mode in modes {
            for table in self.tables() {
                self.opened(mode, table)?;
            }
        }
        if self.options.mode != Some(Mode::Dr) {
            for table in self.tables() {
                self.lived(table)?;
            }
        }
        Ok(())
    }

    fn tables(&self) -> Vec<Table> {
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

    fn opened(&mut self, mode: Mode, table: Table) -> Result<()> {
        let row = match table {
            Table::Tag => self.opened_over(mode, table, self.tag_index(CONNECTIONS)?),
            Table::RteHash => {
                let index = self.rte_index(CONNECTIONS)?;
                self.opened_over(mode, table, index)
            }
        }?;
        print(self.options.json, &row)
    }

    fn lived(&mut self, table: Table) -> Result<()> {
        let row = match table {
            Table::Tag => self.lived_over(table, self.tag_index(CONNECTIONS)?),
            Table::RteHash => {
                let index = self.rte_index(CONNECTIONS)?;
                self.lived_over(table, index)
            }
        }?;
        print(self.options.json, &row)
    }

    fn tag_index(&self, connections: u32) -> Result<TagIndex> {
        TagIndex::new(2 * connections as usize, self.eal.has_hugepages()).context("no memory for the index")
    }

    fn rte_index(&mut self, connections: u32) -> Result<RteIndex> {
        self.tables += 1;
        RteIndex::new(self.eal, &format!("flows{}", self.tables), 2 * connections)
    }

    /// Packets of known connections, at random.
    fn known_over<X: FlowIndex>(&self, mode: Mode, table: Table, flows: u32, index: X) -> Result<Row> {
        let servers = match mode {
            Mode::Fullnat => Servers::Answer,
            Mode::Dr => Servers::Silent,
        };
        let order = flows::random(flows);
        let random = || Generator::new(&self.pool, Clients::Order(order.clone(), 0), servers);
        let hugepages = self.eal.has_hugepages();
        let connections = flows.max(CONNECTIONS);

        let every = flows::each(flows);
        // Replies included, and what is under way at the end.
        let packets = every.len() as u64 * if mode == Mode::Fullnat { 2 } else { 1 };
        let io = Generator::new(&self.pool, Clients::Order(every, 0), servers)?;
        let mut worker = setup::worker(mode, connections, hugepages, index, io)?;
        let mut ticks = TickClock::start(self.eal);
        let mut pipeline = |worker: &mut Worker<Generator, X>, packets| {
            drive(packets, || worker.turn(ticks.at(clock::now())))
        };
        pipeline(&mut worker, packets + 4 * BURST as u64);
        worker.io_mut().set_clients(Clients::Order(order.clone(), 0));

        let mut swap = MacSwap { io: random()? };
        let mut floor = match mode {
            Mode::Fullnat => Some(Floor::new(random()?, flows, connections, hugepages)?),
            Mode::Dr => None,
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
            table,
            flows,
            pipeline: costs[0],
            floor: floor.is_some().then_some(costs[2]),
            mac_swap: costs[1],
            bytes_per_connection: worker.table_memory().0 as f64 / f64::from(connections),
        };
        setup::finish(&worker)?;
        Ok(row)
    }

    /// The first packet of each of many connections.
    fn opened_over<X: FlowIndex>(&self, mode: Mode, table: Table, index: X) -> Result<Opening> {
        let new = || Generator::new(&self.pool, Clients::New(0), Servers::Silent);
        let mut worker = setup::worker(mode, CONNECTIONS, self.eal.has_hugepages(), index, new()?)?;
        let mut ticks = TickClock::start(self.eal);
        let mut swap = MacSwap { io: new()? };
        let [connection, mac_swap] = interleave(
            self.options.windows as usize,
            OPENINGS,
            [
                &mut |packets| drive(packets, || worker.turn(ticks.at(clock::now()))),
                &mut |packets| drive(packets, || swap.turn()),
            ],
        );
        setup::finish(&worker)?;
        Ok(Opening {
            what: "first packet of a UDP connection",
            mode,
            table,
            packets: 1,
            connection,
            mac_swap,
        })
    }

    /// TCP connections from their SYN to the end of their TIME_WAIT.
    fn lived_over<X: FlowIndex>(&self, table: Table, index: X) -> Result<Opening> {
        let mode = Mode::Fullnat;
        let tcp = || {
            let clients = Clients::Connections(tcp::Script::new(0));
            Generator::new(&self.pool, clients, Servers::Answer)
        };
        let mut worker = setup::worker(mode, CONNECTIONS, self.eal.has_hugepages(), index, tcp()?)?;
        let mut swap = MacSwap { io: tcp()? };
        let mut now = Tick(0);
        let mut pipeline = |packets| {
            drive(packets, || {
                now = now.after(HASTE);
                worker.turn(now)
            })
        };
        // Until as many end as begin.
        pipeline(50_000 * tcp::PACKETS);
        let costs = interleave(
            self.options.windows as usize,
            LIVES * tcp::PACKETS,
            [&mut pipeline, &mut |packets| drive(packets, || swap.turn())],
        );
        setup::finish(&worker)?;
        let left = worker.stats().connections.get();
        if left > MOST_LEFT {
            bail!("{left} connections are left: they end more slowly than they begin");
        }
        let [connection, mac_swap] = costs.map(|cost| cost.times(tcp::PACKETS as f64));
        Ok(Opening {
            what: "TCP connection: handshake, request, answer, close, expiry",
            mode,
            table,
            packets: tcp::PACKETS,
            connection,
            mac_swap,
        })
    }
}

/// Turns until so many packets have been moved, or none move any more.
fn drive(packets: u64, mut turn: impl FnMut() -> usize) -> u64 {
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
    fn times(self, count: f64) -> Cost {
        Cost {
            best: self.best * count,
            median: self.median * count,
        }
    }
}
