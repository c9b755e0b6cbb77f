//! A worker in memory with very many connections, of which few have traffic.

use super::flows::{self, Flow};
use super::io::{Buffers, Clients, Generator, Servers};
use super::report::Path;
use super::request::Shape;
use super::setup;
use super::turns::Turns;
use anyhow::{Context, Result, bail};
use dataplane::flow::TagIndex;
use dataplane::time::{Tick, seconds};
use dataplane::worker::Worker;
use std::sync::Arc;

/// Flows whose traffic goes on.
pub(super) const KNOWN: u32 = 1024;
/// More than the timeout of a UDP connection.
const LATER: u32 = seconds(400);

/// A worker, and the time.
pub(super) struct Rig<B: Buffers> {
    pub(super) worker: Worker<Generator<B>, TagIndex>,
    known: Arc<[Flow]>,
    now: Tick,
}

impl<B: Buffers> Rig<B> {
    /// A worker that has so many connections without traffic, and some more with it.
    pub(super) fn new(
        path: Path,
        due: u32,
        connections: u32,
        hugepages: bool,
        buffers: &B,
    ) -> Result<Rig<B>> {
        let shape = Shape {
            family: path.family,
            ..Shape::default()
        };
        let index = TagIndex::new(2 * connections as usize, hugepages).context("no memory for the index")?;
        let new = Clients::New(u64::from(KNOWN));
        let io = Generator::with_shape(buffers, shape, new, Servers::of(path.mode))?;
        let worker = setup::worker(path, connections, hugepages, index, io)?;
        let mut rig = Rig {
            worker,
            known: flows::each(KNOWN, shape),
            now: Tick(1),
        };
        rig.open(due)?;
        let known = Clients::Order(rig.known.clone(), 0);
        rig.worker.io_mut().set_clients(known);
        let before = rig.connections();
        rig.open(before + KNOWN)?;
        // Each has had its answer.
        for _ in 0..KNOWN / 8 {
            rig.turn();
        }
        Ok(rig)
    }

    /// One turn of the worker.
    pub(super) fn turn(&mut self) -> usize {
        self.worker.turn(self.now)
    }

    /// How many there are.
    pub(super) fn connections(&self) -> u32 {
        self.worker.stats().connections.get() as u32
    }

    /// New clients from that number on until there are so many connections.
    pub(super) fn open_more(&mut self, first: u64, connections: u32) -> Result<()> {
        self.worker.io_mut().set_clients(Clients::New(first));
        self.open(connections)
    }

    /// Lets clients send until there are so many connections.
    fn open(&mut self, connections: u32) -> Result<()> {
        while self.connections() < connections {
            let before = self.worker.stats().received.get();
            self.turn();
            if self.worker.stats().received.get() == before {
                bail!("{} connections do not become {connections}", self.connections());
            }
        }
        Ok(())
    }

    /// Lets the timeout of all connections pass, and goes on until all but those with traffic have ended.
    pub(super) fn end_all(&mut self, due: u32, turns: &mut Turns) -> Result<()> {
        self.now = self.now.after(LATER);
        for _ in 0..=due {
            turns.time(|| self.turn());
            if self.connections() <= KNOWN {
                return Ok(());
            }
        }
        bail!("{} connections do not end", self.connections() - KNOWN)
    }
}
