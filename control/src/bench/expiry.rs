//! Many connections that end at once: how long the worker's turns are meanwhile, with traffic going on.

use super::flows;
use super::io::{Buffers, Clients, Generator, Servers};
use super::report::{Mode, Path, print};
use super::request::Shape;
use super::turns::{Spread, Turns};
use super::{Options, setup};
use anyhow::{Context, Result, bail};
use dataplane::flow::TagIndex;
use dataplane::time::{Tick, seconds};
use dataplane::worker::{BURST, Worker};
use dpdk::{Eal, Mempool};
use std::fmt;

/// Flows whose traffic goes on.
const KNOWN: u32 = 1024;
/// Turns of traffic alone, to compare with.
const TRAFFIC: u32 = 10_000;
/// More than the timeout of a UDP connection.
const LATER: u32 = seconds(400);

/// Measures it in both modes.
///
/// # Errors
/// Too little memory, packets have been dropped, or connections do not end.
pub(super) fn run(options: &Options, eal: &Eal, pool: &Mempool) -> Result<()> {
    if !options.json {
        println!(
            "\nconnections that end at once\n{}{}",
            Row::HEADING,
            Spread::HEADING
        );
    }
    for mode in [Mode::Fullnat, Mode::Dr] {
        for row in measure(
            mode,
            (options.due, TRAFFIC),
            options.rounds,
            eal.has_hugepages(),
            pool,
        )? {
            print(options.json, &row)?;
        }
    }
    Ok(())
}

/// Turns with the same traffic, while connections end and while none do.
#[derive(Clone, Debug, serde::Serialize)]
struct Row {
    mode: Mode,
    /// Connections that end.
    connections: u32,
    /// Microseconds.
    turn: Spread,
}

impl Row {
    const HEADING: &'static str = "mode     that end";
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = self.mode.to_string();
        write!(f, "{mode:<8} {:>8}{}", self.connections, self.turn)
    }
}

/// So many connections that end, after so many turns of traffic alone.
fn measure<B: Buffers>(
    mode: Mode,
    (due, traffic): (u32, u32),
    rounds: u32,
    hugepages: bool,
    buffers: &B,
) -> Result<[Row; 2]> {
    let (mut alone, mut ending) = (Turns::default(), Turns::default());
    for _ in 0..rounds {
        let mut rig = Rig::new(mode, due, hugepages, buffers)?;
        for _ in 0..traffic {
            alone.time(|| rig.turn());
        }
        alone.end_round();
        rig.now = rig.now.after(LATER);
        rig.end_all(due, &mut ending)?;
        ending.end_round();
        setup::finish(&rig.worker)?;
    }
    Ok([(0, alone), (due, ending)].map(|(connections, turns)| Row {
        mode,
        connections,
        turn: turns.spread(),
    }))
}

/// A worker, and the time.
struct Rig<B: Buffers> {
    worker: Worker<Generator<B>, TagIndex>,
    now: Tick,
}

impl<B: Buffers> Rig<B> {
    /// A worker that has so many connections without traffic, and some more with it.
    fn new(mode: Mode, due: u32, hugepages: bool, buffers: &B) -> Result<Rig<B>> {
        let servers = Servers::of(mode);
        let connections = due + KNOWN + 4 * BURST as u32;
        let index = TagIndex::new(2 * connections as usize, hugepages).context("no memory for the index")?;
        let io = Generator::new(buffers, Clients::New(u64::from(KNOWN)), servers)?;
        let worker = setup::worker(Path::v4(mode), connections, hugepages, index, io)?;
        let mut rig = Rig { worker, now: Tick(1) };
        rig.open(due)?;
        let known = Clients::Order(flows::each(KNOWN, Shape::default()), 0);
        rig.worker.io_mut().set_clients(known);
        let before = rig.connections();
        rig.open(before + KNOWN)?;
        // Each has had its answer.
        for _ in 0..KNOWN / 8 {
            rig.turn();
        }
        Ok(rig)
    }

    fn turn(&mut self) -> usize {
        self.worker.turn(self.now)
    }

    fn connections(&self) -> u32 {
        self.worker.stats().connections.get() as u32
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

    /// Goes on until all but those with traffic have ended.
    fn end_all(&mut self, due: u32, turns: &mut Turns) -> Result<()> {
        for _ in 0..=due {
            turns.time(|| self.turn());
            if self.connections() <= KNOWN {
                return Ok(());
            }
        }
        bail!("{} connections do not end", self.connections() - KNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::super::io::tests::Heap;
    use super::*;

    #[test]
    fn connections_end_while_traffic_goes_on() {
        for mode in [Mode::Fullnat, Mode::Dr] {
            let [alone, ending] = measure(mode, (3000, 50), 2, false, &Heap).unwrap();
            assert_eq!((alone.connections, ending.connections), (0, 3000));
            // By slices: it takes more than one turn.
            let line = ending.to_string();
            assert!(line.starts_with(&mode.to_string()), "{line}");
            assert!(serde_json::to_value(ending.turn).unwrap()["turns"].as_u64() > Some(10));
        }
    }
}
