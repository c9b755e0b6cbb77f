//! The running gateway as control sees it: the model, the workers' mailboxes and counters, the ports. The API,
//! the metrics and the reload work on it; it never touches a packet and never reads a worker's memory.

mod draining;
mod links;
mod listing;
mod overload;
mod rates;
mod reloads;
mod spread;
mod totals;
mod zero;

pub use links::{LinkChange, LinkState, Look, Member};
pub use rates::{ESTIMATE_EVERY, Rates};
pub use reloads::Reloads;
pub use spread::Spread;
pub use totals::{Counted, ServerTotals, WorkerTotals};

use crate::config::{self, Config, ConfigErrors};
use crate::model::{Changes, LearntRoute, Model, ModelError};
use dataplane::worker::{Mailbox, Order, WorkerStats};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use totals::Baselines;

/// How long workers may take to report a new epoch. A worker that needs longer is stuck or starved of CPU.
const EPOCH_PATIENCE: Duration = Duration::from_secs(10);

/// One worker, from outside.
#[derive(Clone, Debug)]
pub struct WorkerHandle {
    /// The CPU that it is pinned to.
    pub cpu: u16,
    /// The way to it.
    pub mailbox: Arc<Mailbox>,
    /// What it counts.
    pub stats: Arc<WorkerStats>,
}

/// What a device tells about itself: counters that no worker sees.
pub trait PortDevice: Send + Sync {
    /// Name of the DPDK driver, such as `net_af_packet`.
    fn driver(&self) -> String;
    /// How many receive queues it has.
    fn queues(&self) -> u16;
    /// How it spreads packets over the workers.
    fn spread(&self) -> Spread;
    /// Whether the link is up, and the members of a bond, now. Asks the device; called ten times a second.
    fn look(&self) -> Look;
    /// What the device counts.
    fn counters(&self) -> PortCounters;
}

/// What a device counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct PortCounters {
    /// Packets received.
    pub received_packets: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets that the device lost because no one took them in time.
    pub missed: u64,
    /// Packets received with errors.
    pub receive_errors: u64,
    /// Packets that it failed to send.
    pub transmit_errors: u64,
    /// Packets lost because no buffer was free.
    pub no_buffer: u64,
}

/// Why an operation on the running gateway failed.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The file is wrong; nothing has changed.
    #[error("{0}")]
    Config(#[from] ConfigErrors),
    /// The file asks for something that takes a restart; nothing has changed.
    #[error("{}", .0.join("\n"))]
    NotLive(Vec<String>),
    /// A table is too small, or addresses contradict each other; nothing has changed.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// There is no such service.
    #[error("no service is named {0} or listens there; see show services")]
    NoService(String),
    /// The service has no such server.
    #[error("the service {0} has no such server; see show servers")]
    NoServer(String),
    /// A worker did not take the snapshot in time.
    #[error("worker {worker} did not take epoch {epoch} within 10 s; it is stuck, or its CPU is overloaded")]
    Stuck {
        /// The worker's number.
        worker: usize,
        /// The epoch it was to take.
        epoch: u64,
    },
}

/// What a reload did.
#[derive(Clone, Debug)]
pub struct Reloaded {
    /// The epoch that all workers use now.
    pub epoch: u64,
    /// What has changed.
    pub changes: Changes,
    /// Warnings of the file.
    pub warnings: Vec<config::Diagnostic>,
}

/// What operations change: under one lock, so that they happen one after another.
#[derive(Debug)]
pub struct State {
    /// What the gateway is asked to do.
    pub model: Model,
    /// The configuration in force.
    pub config: Config,
    /// Counters of earlier users of a slot, which its present one does not count.
    pub(crate) baselines: Baselines,
}

/// The running gateway.
pub struct Gateway {
    path: PathBuf,
    state: Mutex<State>,
    workers: Vec<WorkerHandle>,
    ports: Vec<Box<dyn PortDevice>>,
    links: Mutex<Vec<LinkState>>,
    started: Instant,
    reloads: Mutex<Reloads>,
    /// Held from the reading of the file until it is in force: reloads that come at once happen one after another, so
    /// that none puts back what it read before another one's file was written.
    reloading: Mutex<()>,
    turns: listing::Turns,
    rates: Mutex<rates::Estimator>,
}

impl Gateway {
    /// A gateway over running workers, from the configuration at `path`, with `model` already published.
    #[must_use]
    pub fn new(
        path: PathBuf,
        config: Config,
        model: Model,
        workers: Vec<WorkerHandle>,
        ports: Vec<Box<dyn PortDevice>>,
    ) -> Gateway {
        let state = Mutex::new(State {
            model,
            config,
            baselines: Baselines::default(),
        });
        let (reloads, turns) = (Mutex::default(), listing::Turns::default());
        let links = ports.iter().map(|_| LinkState::default()).collect();
        Gateway {
            path,
            state,
            workers,
            ports,
            links: Mutex::new(links),
            started: Instant::now(),
            reloads,
            reloading: Mutex::default(),
            turns,
            rates: Mutex::default(),
        }
    }

    /// The model and the configuration, locked against changes while the guard lives.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The workers.
    #[must_use]
    pub fn workers(&self) -> &[WorkerHandle] {
        &self.workers
    }

    /// The devices, by port number.
    #[must_use]
    pub fn ports(&self) -> &[Box<dyn PortDevice>] {
        &self.ports
    }

    /// Seconds since the start.
    #[must_use]
    pub fn uptime(&self) -> u64 {
        self.elapsed().as_secs()
    }

    /// The time since the start, by the monotonic clock.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Reads the configuration file again and makes it so: all of it or nothing. Returns when every worker uses
    /// it. Blocks for milliseconds; not for an async task.
    ///
    /// # Errors
    /// The file is wrong, asks for what takes a restart, or is too large; or a worker is stuck.
    pub fn reload(&self) -> Result<Reloaded, GatewayError> {
        let _alone = self.reloading.lock();
        let outcome = self.reload_file();
        self.reloads.lock().count(outcome.is_ok());
        outcome
    }

    /// How reloads have gone so far.
    #[must_use]
    pub fn reloads(&self) -> Reloads {
        *self.reloads.lock()
    }

    fn reload_file(&self) -> Result<Reloaded, GatewayError> {
        let config = config::load(&self.path)?;
        let mut state = self.state.lock();
        let obstacles = not_live(&state.config, &config);
        if !obstacles.is_empty() {
            return Err(GatewayError::NotLive(obstacles));
        }
        self.reclaim(&mut state);
        let changes = state.model.apply_file(&config)?;
        let warnings = config.warnings.clone();
        state.config = config;
        let epoch = self.publish(&mut state.model);
        drop(state);
        self.wait_for(epoch)?;
        Ok(Reloaded {
            epoch,
            changes,
            warnings,
        })
    }

    /// Makes what the kernel tells the routes, beside those of the file. Returns the epoch of the snapshot when it takes
    /// one; blocks for milliseconds, and is not for an async task.
    ///
    /// # Errors
    /// Routes of the file contradict each other.
    pub fn learn_routes(&self, learnt: Vec<LearntRoute>) -> Result<Option<u64>, GatewayError> {
        let mut state = self.state.lock();
        let State { model, config, .. } = &mut *state;
        let changed = model.learn_routes(learnt, config)?;
        Ok(changed.then(|| self.publish(model)))
    }

    /// Tells which addresses the kernel has, of those that are ours only while it does. Returns the epoch of the snapshot
    /// when that changes something; may block, and is not for an async task.
    ///
    /// # Errors
    /// Addresses contradict each other.
    pub fn hold_addresses(&self, held: BTreeSet<IpAddr>) -> Result<Option<u64>, GatewayError> {
        let mut state = self.state.lock();
        let changed = state.model.hold(held)?;
        Ok(changed.then(|| self.publish(&mut state.model)))
    }

    /// Sends the model to the workers as the next snapshot; returns its epoch.
    fn publish(&self, model: &mut Model) -> u64 {
        model.set_time(self.elapsed());
        let snapshot = model.snapshot();
        for worker in &self.workers {
            worker.post(Order::Publish(Arc::clone(&snapshot)));
        }
        snapshot.epoch
    }

    /// Lets the weights of servers in slow start rise by what time has passed. Costs nothing while none rises; it may
    /// block, and is not for an async task.
    pub fn go_on_starting(&self) {
        let mut state = self.state.lock();
        if state.model.is_rising() {
            self.publish(&mut state.model);
        }
    }

    fn wait_for(&self, epoch: u64) -> Result<(), GatewayError> {
        let deadline = Instant::now() + EPOCH_PATIENCE;
        for (number, worker) in self.workers.iter().enumerate() {
            while worker.stats.epoch.get() < epoch {
                if Instant::now() > deadline {
                    return Err(GatewayError::Stuck {
                        worker: number,
                        epoch,
                    });
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            worker.collect();
        }
        Ok(())
    }

    /// Frees slots of deleted services, servers and rules that no connection or template names any more.
    fn reclaim(&self, state: &mut State) {
        let epoch = state.model.epoch();
        if self.workers.iter().any(|worker| worker.stats.epoch.get() < epoch) {
            return;
        }
        let connections = |slot: u32| {
            self.workers
                .iter()
                .map(|worker| worker.stats.servers[slot as usize].named())
                .sum::<u64>()
        };
        for (owner, slot) in state.model.reclaim(connections) {
            state.baselines.restart(&owner, slot, &self.workers);
            self.rates.lock().forget(slot);
        }
        state
            .baselines
            .keep_services(|key| state.model.service(key).is_some());
    }
}

impl WorkerHandle {
    /// Posts an order. Waits while the mailbox is full, which only a worker that does not turn can cause; an
    /// order to a worker that stays deaf for ten seconds is lost, and the wait for its effect tells.
    pub(crate) fn post(&self, order: Order) {
        let deadline = Instant::now() + EPOCH_PATIENCE;
        let mut order = order;
        loop {
            self.collect();
            match self.mailbox.orders.push(order) {
                Ok(()) => return,
                Err(back) if Instant::now() < deadline => order = back,
                Err(_) => return,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Drops what the worker is done with.
    pub(crate) fn collect(&self) {
        while self.mailbox.spent.pop().is_some() {}
    }
}

/// What `new` changes that cannot change in a running gateway: one sentence each.
fn not_live(old: &Config, new: &Config) -> Vec<String> {
    let mut obstacles = Vec::new();
    let mut obstacle = |changed: bool, what: &str| {
        if changed {
            obstacles.push(format!(
                "{what} cannot change while the gateway runs; restart it, or undo the change"
            ));
        }
    };
    let place = config::Place::default();
    let node = |config: &Config| config::Node {
        place,
        ..config.node.clone()
    };
    obstacle(node(old) != node(new), "node");
    obstacle(
        config::Api {
            place,
            ..old.api.clone()
        } != config::Api {
            place,
            ..new.api.clone()
        },
        "api",
    );
    obstacle(old.metrics.listen != new.metrics.listen, "metrics");
    let devices = |config: &Config| -> Vec<_> {
        let ports = config.ports.iter();
        ports
            .map(|port| {
                (
                    port.name.clone(),
                    port.link.clone(),
                    port.mtu,
                    port.mac,
                    port.queues,
                    port.kernel_device.clone(),
                    port.exception.clone(),
                )
            })
            .collect()
    };
    obstacle(
        devices(old) != devices(new),
        "ports (name, device, bond, parent, vlan, mtu, mac, queues, kernel_device, exception)",
    );
    obstacle(old.kernel_routes != new.kernel_routes, "kernel_routes");
    // Without root, what changes the kernel's addresses has to be there from the start.
    obstacle(
        !old.announces_any() && new.announces_any() && old.ports.iter().all(|port| port.exception.is_none()),
        "announce, from no VIP to some,",
    );
    obstacles
}
