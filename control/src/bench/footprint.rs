//! How much memory a connection takes of the machine, with everything that belongs to it, in a table that is nine tenths
//! full.

use super::Options;
use super::io::Buffers;
use super::report::{Mode, Path, print};
use super::request::Family;
use super::rig::{KNOWN, Rig};
use super::setup;
use super::turns::Turns;
use anyhow::{Context, Result, bail};
use dataplane::worker::ConnectionMemory;
use dpdk::{Eal, Mempool};
use std::fmt;

/// How much of the table connections take, in per cent.
const FILL: u64 = 90;

/// Measures it for each capacity.
///
/// # Errors
/// Too little memory, packets have been dropped, or the system does not tell.
pub(super) fn run(options: &Options, eal: &Eal, pool: &Mempool) -> Result<()> {
    if !options.json {
        println!(
            "\nmemory, bytes for each connection at {FILL} %\n{}",
            Row::HEADING
        );
    }
    let path = Path {
        mode: options.mode.unwrap_or(Mode::Fullnat),
        family: options.family,
    };
    if !path.is_possible() {
        bail!("--family 64 is for FULLNAT only: no other mode leads from IPv6 to IPv4");
    }
    for &capacity in &options.capacities {
        print(options.json, &measure(path, capacity, eal.has_hugepages(), pool)?)?;
    }
    Ok(())
}

/// What a table takes. Everything is in bytes for each connection that is there.
#[derive(Clone, Debug, serde::Serialize)]
struct Row {
    mode: Mode,
    family: Family,
    /// Room for connections.
    capacity: u32,
    /// Those that are there.
    connections: u32,
    records: f64,
    index: f64,
    /// IPv6 addresses.
    beside: f64,
    /// Which connections are closing.
    closing: f64,
    /// What servers were shown on local ports.
    shown: f64,
    /// Pairs and port sets, and how ports came back.
    pairs: f64,
    /// How pairs and port sets are found.
    pair_indices: f64,
    total: f64,
}

impl Row {
    const HEADING: &'static str = "\
mode    ip  capacity  connections  records   index  beside  closing   shown   pairs  their index   total";

    fn new(path: Path, capacity: u32, connections: u32, memory: &ConnectionMemory) -> Row {
        let each = |bytes: usize| bytes as f64 / f64::from(connections.max(1));
        Row {
            mode: path.mode,
            family: path.family,
            capacity,
            connections,
            records: each(memory.records),
            index: each(memory.index),
            beside: each(memory.beside),
            closing: each(memory.locals.closing),
            shown: each(memory.locals.shown),
            pairs: each(memory.locals.pairs),
            pair_indices: each(memory.locals.indices),
            total: each(memory.total()),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<7} {:>2}  {:>8}  {:>11}  {:>7.1}  {:>6.1}  {:>6.1}  {:>7.1}  {:>6.1}  {:>6.1}  {:>11.1}  {:>6.1}",
            self.mode.to_string(),
            self.family.text(),
            self.capacity,
            self.connections,
            self.records,
            self.index,
            self.beside,
            self.closing,
            self.shown,
            self.pairs,
            self.pair_indices,
            self.total
        )
    }
}

/// Fills the table, lets all end, and fills it again: so local ports have come back, and are remembered.
fn measure<B: Buffers>(path: Path, capacity: u32, hugepages: bool, buffers: &B) -> Result<Row> {
    let connections = (u64::from(capacity) * FILL / 100) as u32;
    let due = connections - KNOWN;
    let mut rig = Rig::new(path, due, capacity, hugepages, buffers)?;
    rig.end_all(due, &mut Turns::default())?;
    rig.open_more(u64::from(connections) * 2, connections)?;
    setup::finish(&rig.worker)?;
    let memory = rig.worker.resident_memory();
    let memory = memory.context("/proc/self/pagemap does not tell what memory is there")?;
    Ok(Row::new(path, capacity, rig.connections(), &memory))
}

#[cfg(test)]
mod tests {
    use super::super::io::tests::Heap;
    use super::*;
    use dataplane::local::ResidentMemory;

    #[test]
    fn a_row_is_for_each_connection() {
        let memory = ConnectionMemory {
            records: 640,
            index: 270,
            beside: 0,
            locals: ResidentMemory {
                closing: 80,
                shown: 80,
                pairs: 40,
                indices: 20,
            },
        };
        let row = Row::new(Path::v4(Mode::Fullnat), 11, 10, &memory);
        assert_eq!((row.records, row.index, row.total), (64.0, 27.0, 113.0));
        assert!(row.to_string().ends_with(" 113.0"), "{row}");
    }

    #[test]
    fn what_a_mode_does_not_use_takes_no_memory() {
        let of = |mode, family| measure(Path { mode, family }, 20_000, false, &Heap).unwrap();
        let (fullnat, dr, six) = (
            of(Mode::Fullnat, Family::V4),
            of(Mode::Dr, Family::V4),
            of(Mode::Dr, Family::V6),
        );
        for row in [&fullnat, &dr, &six] {
            assert!((18_000..18_100).contains(&row.connections), "{row}");
            // 64 bytes for each that there is room for, 20,001, in whole pages.
            assert!((71.0..71.4).contains(&row.records), "{row}");
        }
        assert!(fullnat.closing > 8.0 && fullnat.shown > 8.0 && fullnat.pairs > 0.0);
        assert_eq!((dr.closing, dr.shown, dr.pairs, dr.beside), (0.0, 0.0, 0.0, 0.0));
        assert!((64.0..65.0).contains(&six.beside), "{six}");
    }
}
