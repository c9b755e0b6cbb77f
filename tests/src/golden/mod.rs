//! The golden tests: replays recordings of what Linux IPVS did and compares, event by event.
//!
//! A recording is known by its shape, never by its name, so that recordings nobody has seen yet replay as well.
//! What differs on purpose is a rule in [`rules`]; what cannot be replayed yet is a row in [`unsupported`];
//! everything else that differs is a failure, and so is a folder, a file or a scenario that says nothing.
//! It drives the gateway through [`gateway::Gateway`] and knows nothing of how that is built.
//!
//! All of it is replayed on every gateway of [`cells`]: by one worker, and by several. With several, what goes by the order
//! of connections is judged by [`turns`]; everything else must be the same to the letter.

pub mod adaptor;
mod cells;
mod errors;
mod facts;
mod flows;
mod frames;
pub mod gateway;
mod masks;
mod recording;
mod report;
mod rig;
mod rules;
mod sched;
mod sctp;
mod states;
mod turns;
mod unsupported;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use report::Report;

use facts::Facts;
use gateway::Gateway;
use recording::{Recording, Shape};
use report::{Check, Verdict};
use rules::{RULES, Rule};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use turns::Turns;

/// Seeds of the gateway's hashes, the first for all scenarios. The others deal clients out to workers in other ways; all of
/// these are drawn fast.
const SEEDS: [u16; 16] = [
    2405, 329, 647, 698, 719, 846, 1204, 1283, 1483, 1571, 2297, 2333, 2661, 2893, 3014, 3037,
];

/// Makes a gateway with an empty table from a configuration in YAML.
pub type Start<'a> = &'a dyn Fn(&str) -> Result<Box<dyn Gateway>, String>;

/// Replays the folder that `TIDEGATE_GOLDEN` names, or the recordings of this repository, on all gateways, prints what
/// differs, and the summary as the last line: that of one worker, but for the failures, which are those of all.
#[must_use]
pub fn main() -> ExitCode {
    let folder = std::env::var_os("TIDEGATE_GOLDEN").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("golden"),
        PathBuf::from,
    );
    let reports = cells::replay_all(&folder);
    let failed = reports.iter().map(|(_, report)| report.failed()).sum();
    for (cell, report) in &reports {
        report.print(&cell.to_string());
    }
    let Some((_, alone)) = reports.first() else {
        return ExitCode::FAILURE;
    };
    println!("{}", alone.summary_of(failed));
    if reports.iter().all(|(_, report)| report.good()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Replays every recording below `folder` by one worker.
#[must_use]
pub fn replay(folder: &Path, start: Start<'_>) -> Report {
    replay_with(folder, start, RULES, 1)
}

/// The same with these rules, by as many workers as `start` gives a gateway.
fn replay_with(folder: &Path, start: Start<'_>, rules: &[Rule], workers: u8) -> Report {
    let mut report = Report::default();
    match recording::files(folder) {
        Ok(files) if files.is_empty() => report.broken(folder, "no recording here"),
        Ok(files) => {
            for file in files {
                match recording::load(&file) {
                    Ok(recordings) => {
                        let name = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
                        for recording in &recordings {
                            report.add(&name, &recording.name, one(recording, start, rules, workers));
                        }
                    }
                    Err(problem) => report.broken(&file, &problem),
                }
            }
        }
        Err(problem) => report.broken(folder, &problem),
    }
    report
}

/// One scenario, to the letter. Where it goes by the order of connections, of which several workers have one each, by what
/// they may do otherwise, or under another seed.
fn one(recording: &Recording, start: Start<'_>, rules: &[Rule], workers: u8) -> Verdict {
    let facts = facts::of(recording);
    if let Some(row) = unsupported::whole(&facts) {
        return Verdict::Unsupported(row);
    }
    let run = Run {
        recording,
        facts: &facts,
        start,
        rules,
    };
    let exact = run.once(SEEDS[0], |_| None);
    if workers == 1 || !facts.takes_turns() || !matches!(exact, Verdict::Failed(_)) {
        return exact;
    }
    match recording.shape {
        Shape::Sched(_) => match run.once(SEEDS[0], |_| Some(Turns::new(workers, &facts))) {
            Verdict::Passed => Verdict::InTurns,
            other => other,
        },
        _ => {
            let any_server = run.once(SEEDS[0], |check| {
                check.let_any_server();
                None
            });
            match any_server {
                Verdict::Passed => return Verdict::InTurns,
                Verdict::Failed(_) => {}
                other => return other,
            }
            // Recorded answers come from recorded servers: a seed has to deal the clients out so that the workers' turns
            // come to the same.
            let mut others = SEEDS[1..].iter().map(|seed| run.once(*seed, |_| None));
            let agrees = others.any(|verdict| !matches!(verdict, Verdict::Failed(_)));
            if agrees { Verdict::ByAnotherSeed } else { exact }
        }
    }
}

/// A scenario to be replayed.
struct Run<'a> {
    recording: &'a Recording,
    facts: &'a Facts,
    start: Start<'a>,
    rules: &'a [Rule],
}

impl Run<'_> {
    /// On a gateway of its own, with that seed; `judge` says how it is judged.
    fn once(&self, seed: u16, judge: impl FnOnce(&mut Check<'_>) -> Option<Turns>) -> Verdict {
        let mut check = Check::new(self.rules, self.facts);
        let turns = judge(&mut check);
        let replayed = catch_unwind(AssertUnwindSafe(|| -> Result<(), String> {
            let mut gateway = (self.start)(&rig::configuration(seed))?;
            let gateway = gateway.as_mut();
            match &self.recording.shape {
                Shape::Sched(scenario) => sched::replay(scenario, gateway, turns, &mut check),
                Shape::States(scenario) => states::replay(scenario, gateway, &mut check),
                Shape::Flows(scenario) => flows::replay(scenario, gateway, &mut check),
                Shape::Errors(scenario) => errors::replay(scenario, gateway, &mut check),
                Shape::Text => Err("texts are not compared".to_owned()),
            }
        }));
        match replayed {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => check.fail("a replay", &problem),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text
                    .or_else(|| panic.downcast_ref::<&str>().copied())
                    .unwrap_or("no message");
                check.fail("no panic", text);
            }
        }
        check.verdict()
    }
}
