//! The golden tests: replays recordings of what Linux IPVS did and compares, event by event.
//!
//! A recording is known by its shape, never by its name, so that recordings nobody has seen yet replay as well.
//! What differs on purpose is a rule in [`rules`]; what cannot be replayed yet is a row in [`unsupported`];
//! everything else that differs is a failure, and so is a folder, a file or a scenario that says nothing.
//! It drives the gateway through [`gateway::Gateway`] and knows nothing of how that is built.

pub mod adaptor;
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
mod unsupported;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use report::Report;

use gateway::Gateway;
use recording::{Recording, Shape};
use report::{Check, Verdict};
use rules::{RULES, Rule};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Makes a gateway with an empty table from a configuration in YAML.
pub type Start<'a> = &'a dyn Fn(&str) -> Result<Box<dyn Gateway>, String>;

/// Replays the folder that `TIDEGATE_GOLDEN` names, or the recordings of this repository, prints what differs,
/// and the summary as the last line.
#[must_use]
pub fn main() -> ExitCode {
    let folder = std::env::var_os("TIDEGATE_GOLDEN").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("golden"),
        PathBuf::from,
    );
    let report = replay(&folder, &adaptor::start);
    report.print();
    if report.good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Replays every recording below `folder`.
#[must_use]
pub fn replay(folder: &Path, start: Start<'_>) -> Report {
    replay_with(folder, start, RULES)
}

fn replay_with(folder: &Path, start: Start<'_>, rules: &[Rule]) -> Report {
    let mut report = Report::default();
    match recording::files(folder) {
        Ok(files) if files.is_empty() => report.broken(folder, "no recording here"),
        Ok(files) => {
            for file in files {
                match recording::load(&file) {
                    Ok(recordings) => {
                        let name = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
                        for recording in &recordings {
                            report.add(&name, &recording.name, one(recording, start, rules));
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

/// One scenario, on a gateway of its own.
fn one(recording: &Recording, start: Start<'_>, rules: &[Rule]) -> Verdict {
    let facts = facts::of(recording);
    if let Some(row) = unsupported::whole(&facts) {
        return Verdict::Unsupported(row);
    }
    let mut check = Check::new(rules, &facts);
    let replayed = catch_unwind(AssertUnwindSafe(|| -> Result<(), String> {
        let mut gateway = start(&rig::configuration())?;
        let gateway = gateway.as_mut();
        match &recording.shape {
            Shape::Sched(scenario) => sched::replay(scenario, gateway, &mut check),
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
