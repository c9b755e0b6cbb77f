//! `tidegate replay`.

use super::{Failure, warn};
use crate::config;
use crate::replay::{self, Replay, Scenario, ScenarioError, Spread};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

/// Replays `scenario`, or standard input when it is `-`, by so many workers.
pub(super) fn replay(
    config: &Path,
    scenario: &Path,
    connections: bool,
    (workers, spread): (u8, Spread),
    out: &mut impl Write,
) -> Result<(), Failure> {
    let config = config::load(config)?;
    warn(&config.warnings);
    let (name, lines): (String, Box<dyn BufRead>) = if scenario == Path::new("-") {
        ("standard input".to_owned(), Box::new(io::stdin().lock()))
    } else {
        let name = scenario.display().to_string();
        let file = File::open(scenario).map_err(|error| {
            Failure::Other(format!(
                "{name} cannot be read: {error}; name a scenario, or - for standard input"
            ))
        })?;
        (name, Box::new(BufReader::new(file)))
    };
    let replay = Replay::with_workers(&config, workers, spread);
    let mut replay = replay.map_err(|error| Failure::Other(error.to_string()))?;
    let outcome = replay::run(
        &mut replay,
        Scenario {
            name,
            lines,
            connections,
        },
        out,
    );
    // What came before a wrong line has been answered.
    out.flush()?;
    outcome.map_err(|error| match error {
        ScenarioError::Io(error) => Failure::from(error),
        line @ ScenarioError::Line { .. } => Failure::Other(line.to_string()),
    })
}
