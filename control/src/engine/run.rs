//! The life of the process around the running gateway: API, signals, another user, orderly end.

use super::host::{Keeper, Watcher};
use super::kernel_routes::Follower;
use super::links;
use super::thread::pin;
use super::watch::Watch;
use super::{Running, cpus, start};
use crate::api;
use crate::config::Config;
use crate::gateway::{ESTIMATE_EVERY, Gateway};
use anyhow::{Context, Result, anyhow};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::MissedTickBehavior;

/// How often the running gateway is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long reloads and listings that wait for a worker may hold up the end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Runs the gateway that `config`, read from `path`, describes, until SIGTERM or SIGINT.
///
/// # Errors
/// Why it does not start, with what to do; or that it has ended by itself.
pub fn run(path: &Path, config: Config) -> Result<ExitCode> {
    // Its errors quote their causes themselves.
    let refused = |error| anyhow!("{}: {error}", config.file);
    let server = api::Server::bind(&config.api, &config.metrics).map_err(refused)?;
    let control = cpus::of_control(&config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("control")
        .on_thread_start(move || stay_on(control))
        .enable_all()
        .build()
        .context("no threads for the API")?;
    // From here on signals wait for us: one that came during the start would end us halfway.
    let stop = runtime.spawn(api::stop());
    let hangups = runtime.block_on(async { signal(SignalKind::hangup()) });
    let hangups = hangups.context("the system does not tell of SIGHUP")?;

    let running = start(path, config)?;
    // Not before: DPDK and the worker look at what this thread may use.
    stay_on(control);
    let outcome = running.become_user().and_then(|()| {
        tracing::info!("the gateway runs");
        runtime.block_on(serve(&running, server, stop, hangups))
    });
    runtime.shutdown_timeout(LAST_WORDS);
    running.stop();
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Binds a thread of the control side to its CPU, where one is named. It is known to be usable, and a thread that
/// runs elsewhere does no harm.
fn stay_on(cpu: Option<u16>) {
    if let Some(Err(error)) = cpu.map(pin) {
        tracing::warn!("node.control_cpu: {error:#}");
    }
}

/// Serves the API until a signal comes, or a worker dies.
async fn serve(
    running: &Running,
    server: api::Server,
    stop: tokio::task::JoinHandle<std::io::Result<()>>,
    hangups: Signal,
) -> Result<()> {
    let hangups = tokio::spawn(api::reload_on_hangup(Arc::clone(&running.gateway), hangups));
    let estimates = tokio::spawn(estimate(Arc::clone(&running.gateway)));
    let links = tokio::spawn(links::follow(Arc::clone(&running.gateway)));
    let routes = Follower::start(&running.gateway);
    let owners = Watcher::start(&running.gateway);
    let keeper = Keeper::start(&running.gateway, running.host.take_helper());
    let mut outcome = Ok(());
    let end = async {
        tokio::select! {
            // Without signals there would be no orderly end; then the end comes at once.
            stopped = stop => {
                if let Ok(Err(error)) = stopped {
                    tracing::error!("cannot wait for signals: {error}");
                }
            }
            error = supervise(running) => outcome = Err(error),
        }
    };
    let served = server.run(Arc::clone(&running.gateway), end).await;
    hangups.abort();
    estimates.abort();
    links.abort();
    routes.stop();
    owners.stop();
    keeper.stop().await;
    outcome.and(served.context("the API's sockets cannot be watched"))
}

/// Keeps rates up to date.
async fn estimate(gateway: Arc<Gateway>) {
    let mut interval = tokio::time::interval(ESTIMATE_EVERY);
    // One that comes late counts for more; none has to be made up for.
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let gateway = Arc::clone(&gateway);
        let done = tokio::task::spawn_blocking(move || gateway.estimate(gateway.elapsed()));
        if done.await.is_err() {
            return;
        }
    }
}

/// Tells of what comes up while the gateway runs. Ends only when it cannot go on.
async fn supervise(running: &Running) -> anyhow::Error {
    let mut watch = Watch::default();
    let mut interval = tokio::time::interval(LOOK);
    loop {
        interval.tick().await;
        if let Some(number) = running.dead_worker() {
            return anyhow!(
                "worker {number} has died, and its connections with it: the gateway ends; start it again"
            );
        }
        watch.look(&running.gateway, Instant::now());
        let links = running.gateway.links();
        running
            .host
            .mirror_links(|port| links.get(port).is_none_or(|link| link.look.up));
        let gateway = Arc::clone(&running.gateway);
        let released = tokio::task::spawn_blocking(move || {
            gateway.go_on_starting();
            gateway.release_drained()
        })
        .await;
        for address in released.unwrap_or_default() {
            tracing::info!(
                "local address {address} has drained: no connection has it, and it is the gateway's no more"
            );
        }
    }
}
