//! The running gateway: DPDK, ports, worker threads, and the control side around them.
//!
//! [`run`] is the program's way through it: [`start`], then [`Running::become_user`] once all that takes a privilege
//! is open, and [`Running::stop`] in the end. All of them on one thread, as DPDK ends only on the thread that
//! started it.

mod cleaner;
mod clock;
mod cpus;
mod crew;
mod devices;
mod host;
mod io;
mod kernel_routes;
mod links;
mod memory;
mod netlink;
mod peer;
mod privileges;
mod queues;
mod rings;
pub(crate) mod rss;
mod rte_index;
mod run;
mod snat_words;
mod thread;
mod watch;

pub(crate) use clock::TickClock;
pub(crate) use cpus::usable;
pub(crate) use host::helper;
pub(crate) use io::Frame;
pub(crate) use rings::{Rings, mesh, room};
pub(crate) use rte_index::RteIndex;
pub use run::run;
pub(crate) use thread::pin;

use crate::config::{self, Config};
use crate::gateway::{Gateway, PortDevice};
use crate::model::{Model, with_vlans};
use anyhow::{Context, Result};
use cleaner::Cleaner;
use dataplane::worker::shard::ShardKey;
use devices::{OpenPort, Watched};
use dpdk::{Eal, EalError, EalOptions, Hugepages, LogLevel};
use host::Host;
use nix::unistd::User;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thread::WorkerThread;

/// A gateway whose workers turn.
pub struct Running {
    /// The way to it.
    pub gateway: Arc<Gateway>,
    workers: Vec<WorkerThread>,
    path: PathBuf,
    /// Who to become.
    user: Option<User>,
    /// There when this process will not be able to clean up itself.
    cleaner: Option<Cleaner>,
    host: Host,
    /// Last, so that DPDK outlives everything that uses it.
    eal: Eal,
}

/// How long the API may hold on to a gateway that ends.
const LAST_WORDS: Duration = Duration::from_secs(3);

impl Running {
    /// Gives up root for the user of the configuration, for good; does nothing where root is to be kept. To be
    /// called when ports and sockets are open.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn become_user(&self) -> Result<()> {
        match &self.user {
            Some(user) => privileges::become_user(user, &self.path),
            None => {
                tracing::info!(uid = nix::unistd::geteuid().as_raw(), "no other user is taken on");
                Ok(())
            }
        }
    }

    /// The number of a worker whose thread is gone: a panic, where one does not abort the process.
    #[must_use]
    pub fn dead_worker(&self) -> Option<usize> {
        self.workers.iter().position(WorkerThread::has_ended)
    }

    /// Stops the workers, closes the ports, ends DPDK and removes its files. Other holders of the gateway should be
    /// gone by now: what they hold stays open.
    pub fn stop(self) {
        for worker in &self.workers {
            worker.stop();
        }
        for worker in self.workers {
            worker.join();
        }
        let deadline = Instant::now() + LAST_WORDS;
        while Arc::strong_count(&self.gateway) > 1 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(self.gateway);
        self.host.close();
        drop(self.eal);
        if let Some(cleaner) = self.cleaner {
            cleaner.clean();
        }
        tracing::info!("the gateway has stopped");
    }
}

/// Starts DPDK, the ports and the workers.
///
/// # Errors
/// Why it does not start, with what to do.
pub fn start(path: &Path, config: Config) -> Result<Running> {
    let cpus = cpus::of_workers(&config)?;
    let control = cpus::for_control(&config)?;
    let count = cpus.len() as u8;
    memory::check(&config, count)?;
    let seed = seed(&config)?;
    let key = ShardKey::from_seed(seed);
    let user = privileges::target(&config)?;
    let options = eal_options(&config);
    let cleaner = user.as_ref().and_then(|_| cleaner(&options, &config));
    let eal = Eal::init(&options).map_err(|error| at_key(&config, error))?;
    tracing::info!(
        version = eal.version(),
        hugepages = eal.has_hugepages(),
        "DPDK runs"
    );
    let pool = devices::packet_pool(&eal, &config, count)?;
    let large = devices::large_pool(&eal, &config, count)?;
    let mut ports = Vec::new();
    for (number, (port, device)) in devices_of(&config).enumerate() {
        ports.push(devices::open(
            &eal,
            (number, port),
            device,
            (count, &key),
            &pool,
            &config.file,
        )?);
    }
    peer::warn(&config);

    let limits = config.node.limits;
    let settings = ports.iter().map(|open| open.settings.clone()).collect();
    let settings = with_vlans(&config, settings);
    let (host, kernel) = Host::open(&config, &settings, cpus.len(), (&eal, &pool), control)?;
    let mut model = Model::new(settings, count, limits.services, limits.servers);
    model.apply_file(&config).with_context(|| config.file.clone())?;

    let mut queues = Vec::new();
    let mut watched: Vec<Box<dyn PortDevice>> = Vec::new();
    // What the kernel owns it will have some day: which way packets are to be spread does not wait for that.
    model.hold(config.kernel_owned().collect())?;
    let spread_by = model.snapshot();
    model.hold(BTreeSet::new())?;
    let snapshot = model.snapshot();
    for (number, (OpenPort { mut port, .. }, named)) in (0..).zip(ports.into_iter().zip(&config.ports)) {
        let place = || format!("{}:{}: port {}", config.file, named.place, named.name);
        let (receive, transmit) = port.start().with_context(place)?;
        let spread = rss::spread(&port, number, &spread_by, &key, &named.name);
        devices::tell(&port, &named.name, spread);
        queues.push((receive, transmit, port.needs_calls()));
        let probe = links::Probe::new(named);
        watched.push(Box::new(Watched::new(port, spread, probe)));
    }

    let sizes = limits.sizes(count, eal.has_hugepages(), seed);
    let equipment = crew::Equipment {
        queues: queues::deal(&eal, queues, cpus.len()).with_context(|| place(&config))?,
        kernel,
        pool,
        large,
        snapshot,
        sizes,
    };
    let (workers, handles) = crew::start(&eal, &config, &cpus, equipment).with_context(|| place(&config))?;
    let gateway = Gateway::new(path.to_owned(), config, model, handles, watched);
    links::tell(&gateway, gateway.look_at_links());
    Ok(Running {
        gateway: Arc::new(gateway),
        workers,
        path: path.to_owned(),
        user,
        cleaner,
        host,
        eal,
    })
}

/// The ports that have a device, which come first, with it.
fn devices_of(config: &Config) -> impl Iterator<Item = (&config::Port, &config::Device)> {
    let ports = config.ports.iter();
    ports.filter_map(|port| Some((port, port.device()?)))
}

/// Where the `node` section stands.
fn place(config: &Config) -> String {
    format!("{}:{}: node", config.file, config.node.place)
}

/// EAL's refusal, at the key that it is about.
fn at_key(config: &Config, error: EalError) -> anyhow::Error {
    let key = match &error {
        EalError::NoHugepages { .. } => ".hugepages",
        EalError::PrefixInUse { .. } => ".file_prefix",
        EalError::Memory { .. } => ".memory",
        EalError::Arguments { reason } if reason.contains("plugins") => ".drivers",
        EalError::Arguments { .. } if !config.node.eal.is_empty() => ".eal",
        _ => "",
    };
    let place = format!("{}{key}", place(config));
    anyhow::Error::new(error).context(place)
}

/// Something that can remove our files when we no longer may. Without it they stay until the next start.
fn cleaner(options: &EalOptions, config: &Config) -> Option<Cleaner> {
    let mut paths = options.runtime_files();
    paths.push(config.api.socket.clone());
    let parts = devices_of(config).flat_map(|(_, device)| device.parts());
    paths.extend(parts.filter_map(devices::socket_file));
    Cleaner::start(&paths)
        .inspect_err(|error| tracing::warn!("sockets will be left behind: {error:#}"))
        .ok()
}

fn seed(config: &Config) -> Result<u64> {
    if let Some(seed) = config.node.seed {
        return Ok(seed);
    }
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
    Ok(u64::from_ne_bytes(bytes))
}

fn eal_options(config: &Config) -> EalOptions {
    let node = &config.node;
    let parts = devices_of(config).flat_map(|(_, device)| device.parts());
    let no_pci = { parts }.all(|device| matches!(device, config::Device::Vdev(_)));
    EalOptions {
        program: "tidegate".to_owned(),
        file_prefix: node.file_prefix.clone(),
        hugepages: match node.hugepages {
            config::Hugepages::Auto => Hugepages::Auto,
            config::Hugepages::Off => Hugepages::Off,
            config::Hugepages::Megabytes(mb) => Hugepages::Mb(mb),
        },
        memory_mb: node.memory,
        no_pci,
        drivers: node
            .drivers
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
        log: Some(log),
        extra: node.eal.clone(),
        ..EalOptions::default()
    }
}

/// DPDK's log becomes ours.
fn log(level: LogLevel, line: &str) {
    match level {
        // Said at every start, and no reason to warn: the socket of today is there.
        LogLevel::Warning if line.contains("No legacy callbacks") => {
            tracing::debug!(target: "dpdk", "{line}");
        }
        LogLevel::Error => tracing::error!(target: "dpdk", "{line}"),
        LogLevel::Warning => tracing::warn!(target: "dpdk", "{line}"),
        LogLevel::Info => tracing::info!(target: "dpdk", "{line}"),
        LogLevel::Debug => tracing::debug!(target: "dpdk", "{line}"),
    }
}
