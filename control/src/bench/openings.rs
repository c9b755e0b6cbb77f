//! What connections cost that come and go: the first packet of each, and TCP connections from their SYN until the record
//! is free again.

use super::floor::MacSwap;
use super::io::{Clients, Generator, Servers};
use super::measure::interleave;
use super::packets::{CONNECTIONS, Packets, drive};
use super::report::{Mode, Opening, Table, print};
use super::request::Shape;
use super::setup;
use super::tcp::{Life, Script};
use crate::engine::TickClock;
use anyhow::{Result, bail};
use dataplane::flow::FlowIndex;
use dataplane::time::{Tick, seconds};
use dpdk::clock;

/// New connections of a window.
const OPENINGS: u64 = 8192;
/// Connections of a window that open, speak and close.
const LIVES: u64 = 4096;
/// How long a connection stays that both sides have closed.
const TIME_WAIT: u32 = seconds(120);
/// Connections in TIME_WAIT beside whole lives: few enough for the caches.
const FEW: u32 = 10_000;
/// How much of the table those take that a short life is measured among, in per cent.
const FILL: u64 = 80;

impl Packets<'_> {
    /// Measures, and prints each row as soon as it is known.
    ///
    /// # Errors
    /// Too little memory, packets have been dropped, or connections do not end as fast as they begin.
    pub(super) fn run_openings(&mut self) -> Result<()> {
        if !self.options.json {
            println!("\nconnections that come and go\n{}", Opening::HEADING);
        }
        let modes = match self.options.mode {
            Some(mode) => vec![mode],
            None => vec![Mode::Fullnat, Mode::Dr],
        };
        let modes = modes.into_iter().filter(|mode| self.path(*mode).is_possible());
        let modes: Vec<Mode> = modes.collect();
        for &mode in &modes {
            for table in self.tables() {
                self.opened(mode, table)?;
            }
        }
        let records = self.options.records;
        let among = (u64::from(records) * FILL / 100) as u32;
        for &mode in modes.iter().filter(|mode| mode.has_replies()) {
            for (life, records, among) in [(Life::Whole, CONNECTIONS, FEW), (Life::Short, records, among)] {
                for table in self.tables() {
                    self.lived(mode, table, life, (records, among))?;
                }
            }
        }
        Ok(())
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

    fn lived(&mut self, mode: Mode, table: Table, life: Life, (records, among): (u32, u32)) -> Result<()> {
        let row = match table {
            Table::Tag => {
                let index = self.tag_index(records)?;
                self.lived_over(mode, table, life, (records, among), index)
            }
            Table::RteHash => {
                let index = self.rte_index(records)?;
                self.lived_over(mode, table, life, (records, among), index)
            }
        }?;
        print(self.options.json, &row)
    }

    /// The first packet of each of many connections.
    fn opened_over<X: FlowIndex>(&self, mode: Mode, table: Table, index: X) -> Result<Opening> {
        let (path, shape) = (self.path(mode), self.options.shape());
        let new = || Generator::with_shape(&self.pool, shape, Clients::New(0), Servers::Silent);
        let mut worker = setup::worker(path, CONNECTIONS, self.eal.has_hugepages(), index, new()?)?;
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
            family: path.family,
            table,
            packets: 1,
            present: worker.stats().connections.get(),
            connection,
            cycles: self.cycles(connection.best),
            mac_swap,
        })
    }

    /// TCP connections from their SYN to the end of their TIME_WAIT, in a table with room for `records`, among so many
    /// others in TIME_WAIT.
    fn lived_over<X: FlowIndex>(
        &self,
        mode: Mode,
        table: Table,
        life: Life,
        (records, among): (u32, u32),
        index: X,
    ) -> Result<Opening> {
        let path = self.path(mode);
        // Segments without data, whatever `--size` says.
        let shape = Shape {
            family: path.family,
            ..Shape::default()
        };
        let tcp = || {
            let clients = Clients::Connections(Script::new(life, 0));
            Generator::with_shape(&self.pool, shape, clients, Servers::Answer)
        };
        let mut worker = setup::worker(path, records, self.eal.has_hugepages(), index, tcp()?)?;
        let mut swap = MacSwap { io: tcp()? };
        let (haste, mut time) = (haste(life, among), 0.0);
        let mut pipeline = |packets| {
            drive(packets, || {
                time += haste;
                worker.turn(Tick(time as u32))
            })
        };
        // Until as many end as begin: once around, and half as much again.
        let packets = life.packets();
        pipeline(u64::from(among) * packets * 3 / 2);
        let costs = interleave(
            self.options.windows as usize,
            LIVES * packets,
            [&mut pipeline, &mut |packets| drive(packets, || swap.turn())],
        );
        setup::finish(&worker)?;
        let present = worker.stats().connections.get();
        if !is_near(present, among) {
            bail!(
                "{present} connections are there instead of {among}: they do not end as fast as they begin"
            );
        }
        let [connection, mac_swap] = costs.map(|cost| cost.times(packets as f64));
        Ok(Opening {
            what: life.text(),
            mode,
            family: path.family,
            table,
            packets,
            present,
            connection,
            cycles: self.cycles(connection.best),
            mac_swap,
        })
    }
}

/// Ticks of a turn: time passes so fast that so many connections are in TIME_WAIT.
fn haste(life: Life, among: u32) -> f64 {
    f64::from(TIME_WAIT) * life.a_turn() / f64::from(among.max(1))
}

/// Whether so many are as many as there should be; those that are not closed yet come on top.
fn is_near(present: u64, among: u32) -> bool {
    let among = u64::from(among);
    (among * 3 / 4..=among * 5 / 4 + 4096).contains(&present)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 connections a turn, and 3,200,000 of them in 12,000 ticks.
    #[test]
    fn time_passes_so_fast_that_the_table_is_as_full_as_it_should_be() {
        assert_eq!(haste(Life::Short, 3_200_000), 0.03);
        assert_eq!(haste(Life::Whole, 9_600), 8.0);
        let near = [7_000, 8_000, 10_000, 16_000, 17_000].map(|present| is_near(present, 10_000));
        assert_eq!(near, [false, true, true, true, false]);
    }
}
