//! The life of the process around the running gateway: API, signals, orderly end.

use super::start;
use crate::api;
use crate::config::Config;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs the gateway that `config`, read from `path`, describes, until SIGTERM or SIGINT.
///
/// # Errors
/// Why it does not start, with what to do.
pub fn run(path: &Path, config: Config) -> Result<ExitCode> {
    let server = api::Server::bind(&config.api, &config.metrics)?;
    let running = start(path, config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("control")
        .enable_all()
        .build()
        .context("no threads for the API")?;
    let outcome = runtime.block_on(async {
        let hangups = tokio::spawn(api::reload_on_hangup(Arc::clone(&running.gateway)));
        // Without signals there would be no orderly end; then the end comes at once.
        let stop = async {
            if let Err(error) = api::stop().await {
                tracing::error!("cannot wait for signals: {error}");
            }
        };
        let outcome = server.run(Arc::clone(&running.gateway), stop).await;
        hangups.abort();
        outcome
    });
    // Reloads and listings that still wait for a worker keep the gateway from going: not for long.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    running.stop();
    outcome.context("the API's sockets cannot be watched")?;
    Ok(ExitCode::SUCCESS)
}
