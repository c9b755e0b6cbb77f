//! The gateways that everything is replayed on: one worker, and several over ports that spread packets well, badly, and at
//! random.

use super::report::Report;
use super::rules::RULES;
use super::{Start, adaptor, replay_with};
use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tidegate::replay::Spread;

/// A gateway.
#[derive(Clone, Copy)]
pub(super) struct Cell {
    workers: u8,
    spread: Spread,
}

impl Cell {
    const ALONE: Cell = Cell {
        workers: 1,
        spread: Spread::Rss,
    };

    /// One worker, and those of several that `TIDEGATE_WORKERS` names; 2 to 4 unless it is set. A lone worker has every
    /// queue, whatever arrives there.
    fn all() -> Vec<Cell> {
        let told = std::env::var("TIDEGATE_WORKERS").ok();
        let told = told.and_then(|told| told.split('x').next().and_then(|number| number.parse().ok()));
        let counts = told.map_or(2..=4, |workers: u8| workers..=workers);
        let spreads = [Spread::Rss, Spread::Random, Spread::WrongHash];
        let several = counts.flat_map(|workers| spreads.map(|spread| Cell { workers, spread }));
        let several = several.filter(|cell| cell.workers > 1);
        std::iter::once(Cell::ALONE).chain(several).collect()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spread = match self.spread {
            _ if self.workers == 1 => return f.write_str("1 worker"),
            Spread::Rss => "RSS",
            Spread::Random => "random queues",
            Spread::WrongHash => "a wrong hash",
        };
        write!(f, "{} workers, {spread}", self.workers)
    }
}

/// Replays the folder in every cell, as many at a time as there are CPUs; in order.
pub(super) fn replay_all(folder: &Path) -> Vec<(Cell, Report)> {
    let cells = Cell::all();
    let next = AtomicUsize::new(0);
    let reports = Mutex::new(Vec::new());
    let work = || {
        loop {
            let number = next.fetch_add(1, Relaxed);
            let Some(&cell) = cells.get(number) else { break };
            let start: Start<'_> = &|yaml| adaptor::start(yaml, cell.workers, cell.spread);
            let report = replay_with(folder, start, RULES, cell.workers);
            if let Ok(mut reports) = reports.lock() {
                reports.push((number, cell, report));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut reports = reports.into_inner().unwrap_or_default();
    reports.sort_by_key(|(number, ..)| *number);
    reports
        .into_iter()
        .map(|(_, cell, report)| (cell, report))
        .collect()
}
