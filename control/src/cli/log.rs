//! The log: on standard error, through `tracing`.

use super::LogFormat;
use std::io::{self, IsTerminal};
use tracing_subscriber::EnvFilter;

/// Begins to log. `TIDEGATE_LOG`, else `RUST_LOG`, says what; without them, everything from `info` on.
pub(super) fn init(format: Option<LogFormat>) {
    let wanted = ["TIDEGATE_LOG", "RUST_LOG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok());
    let filter = EnvFilter::builder().parse_lossy(wanted.as_deref().unwrap_or("info"));
    let terminal = io::stderr().is_terminal();
    let format = format.unwrap_or(if terminal {
        LogFormat::Text
    } else {
        LogFormat::Json
    });
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    // A second call, as in tests, changes nothing.
    let _ = match format {
        LogFormat::Text => log.with_ansi(terminal).with_target(false).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
}
