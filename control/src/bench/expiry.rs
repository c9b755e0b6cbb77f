//! Many connections that end at once: how long the worker's turns are meanwhile, with traffic going on.

use super::io::Buffers;
use super::report::{Mode, Path, print};
use super::rig::{KNOWN, Rig};
use super::turns::{Spread, Turns};
use super::{Options, setup};
use anyhow::Result;
use dataplane::worker::BURST;
use dpdk::{Eal, Mempool};
use std::fmt;

/// For so many connections that end there is a turn of traffic alone, to compare with: about as many as they take.
const PER_TURN: u32 = 64;

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
        for row in measure(mode, options.due, options.rounds, eal.has_hugepages(), pool)? {
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

fn measure<B: Buffers>(mode: Mode, due: u32, rounds: u32, hugepages: bool, buffers: &B) -> Result<[Row; 2]> {
    let (mut alone, mut ending) = (Turns::default(), Turns::default());
    for _ in 0..rounds {
        let mut rig = Rig::new(Path::v4(mode), due, room(due), hugepages, buffers)?;
        for _ in 0..due.div_ceil(PER_TURN) {
            alone.time(|| rig.turn());
        }
        alone.end_round();
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

/// Room for so many connections that end, and those that stay.
fn room(due: u32) -> u32 {
    due + KNOWN + 4 * BURST as u32
}

#[cfg(test)]
mod tests {
    use super::super::io::tests::Heap;
    use super::*;

    #[test]
    fn connections_end_while_traffic_goes_on() {
        for mode in [Mode::Fullnat, Mode::Dr] {
            let [alone, ending] = measure(mode, 3000, 2, false, &Heap).unwrap();
            assert_eq!((alone.connections, ending.connections), (0, 3000));
            // By slices: it takes more than one turn.
            let line = ending.to_string();
            assert!(line.starts_with(&mode.to_string()), "{line}");
            assert!(serde_json::to_value(ending.turn).unwrap()["turns"].as_u64() > Some(10));
        }
    }
}
