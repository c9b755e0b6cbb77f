//! The gateway over DPDK: devices, workers on their cores, and control beside them.

use crate::config::Config;
use std::path::Path;
use std::process::ExitCode;

/// Runs the gateway that `config`, read from `path`, describes, until it is told to stop.
///
/// # Errors
/// Why it does not start, and the remedy.
pub fn run(_path: &Path, _config: Config) -> anyhow::Result<ExitCode> {
    Err(anyhow::anyhow!("the engine is not linked yet"))
}
