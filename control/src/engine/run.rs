//! `tidegate run`: from the start of a gateway to its end.

use super::watch::Watch;
use super::{Running, signals, start};
use crate::config::Config;
use crate::gateway::Gateway;
use anyhow::{Result, bail};
use signals::Request;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often the running gateway is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Runs the gateway of the configuration at `path` until a signal ends it. To be called on the main thread, before
/// there is any other.
///
/// # Errors
/// Why it does not start, with what to do; or that it had to end by itself.
pub fn run(path: &Path, config: Config) -> Result<ExitCode> {
    let signals = signals::take()?;
    let running = start(path, config)?;
    running.become_user()?;
    tracing::info!("the gateway runs");
    let outcome = running.supervise(&signals);
    running.stop();
    outcome.map(|()| ExitCode::SUCCESS)
}

impl Running {
    /// Looks after the gateway until it is asked to end: reloads on request, tells of what comes up.
    ///
    /// # Errors
    /// A worker has died: what it did not finish is lost, and the gateway has to end.
    pub fn supervise(&self, requests: &Receiver<Request>) -> Result<()> {
        let mut watch = Watch::default();
        loop {
            match requests.recv_timeout(LOOK) {
                Ok(Request::Reload) => reload(&self.gateway),
                Ok(Request::End) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(number) = self.workers.iter().position(|worker| worker.has_ended()) {
                bail!(
                    "worker {number} has died, and its connections with it: the gateway ends; start it again"
                );
            }
            watch.look(&self.gateway, Instant::now());
        }
    }
}

fn reload(gateway: &Gateway) {
    match gateway.reload() {
        Ok(done) => {
            for warning in &done.warnings {
                tracing::warn!("{warning}");
            }
            tracing::info!(
                epoch = done.epoch,
                "the configuration is reloaded: {}",
                done.changes
            );
        }
        Err(error) => {
            for line in error.to_string().lines() {
                tracing::error!("nothing is reloaded: {line}");
            }
        }
    }
}
