//! `tidegate check`.

use super::{Failure, warn};
use crate::config;
use std::io::Write;
use std::path::Path;

/// Checks the file, and prints a summary of it.
pub(super) fn check(file: &Path, out: &mut impl Write) -> Result<(), Failure> {
    let config = config::load(file)?;
    warn(&config.warnings);
    let listeners = config
        .services
        .iter()
        .flat_map(|service| service.listeners.iter().map(move |_| service));
    let servers: usize = listeners
        .clone()
        .map(|service| config.pools[service.pool].servers.len())
        .sum();
    let rules = match config.snat.len() {
        0 => String::new(),
        number => format!(", {}", count(number, "SNAT rule")),
    };
    writeln!(
        out,
        "{}: good: {}, {}, {}{rules}, {}",
        file.display(),
        count(config.ports.len(), "port"),
        count(listeners.count(), "service"),
        count(servers, "server"),
        count(config.warnings.len(), "warning"),
    )?;
    Ok(())
}

/// So many of something: `1 port`, `2 ports`.
pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
