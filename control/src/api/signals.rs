//! Signals: what ends the gateway, and what reloads it.

use crate::gateway::Gateway;
use std::io;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for SIGTERM or SIGINT.
///
/// # Errors
/// The system refuses to tell of signals.
pub async fn stop() -> io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let name = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    };
    tracing::info!("{name}: stopping");
    Ok(())
}

/// Reloads at each SIGHUP that `hangups` tells of, also one that came before this was called, and logs how that went.
/// Ends only by being dropped.
pub async fn reload_on_hangup(gateway: Arc<Gateway>, mut hangups: Signal) {
    while hangups.recv().await.is_some() {
        let gateway = Arc::clone(&gateway);
        // A reload waits for workers.
        let _ = tokio::task::spawn_blocking(move || reload(&gateway)).await;
    }
}

/// Reloads, and logs how that went.
pub(super) fn reload(gateway: &Gateway) -> Result<crate::gateway::Reloaded, crate::gateway::GatewayError> {
    let outcome = gateway.reload();
    match &outcome {
        Ok(reloaded) => {
            tracing::info!(epoch = reloaded.epoch, "reloaded: {}", reloaded.changes);
            for warning in &reloaded.warnings {
                tracing::warn!("{warning}");
            }
        }
        Err(error) => error
            .to_string()
            .lines()
            .for_each(|line| tracing::error!("reload refused: {line}")),
    }
    outcome
}
