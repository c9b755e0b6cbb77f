//! The running gateway: DPDK, ports, worker threads, and the control side around them.

mod clock;
mod devices;
mod io;
mod rte_index;
mod run;
mod thread;

pub(crate) use clock::TickClock;
pub(crate) use io::Frame;
pub(crate) use rte_index::RteIndex;
pub use run::run;

use crate::config::{self, Config, Workers};
use crate::gateway::{Gateway, PortDevice, WorkerHandle};
use crate::model::Model;
use anyhow::{Context, Result, bail};
use dataplane::flow::TagIndex;
use dataplane::worker::{Mailbox, Sizes, Worker, WorkerStats};
use devices::{OpenPort, Watched};
use dpdk::{Eal, EalOptions, Hugepages, LogLevel};
use io::DpdkIo;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use thread::WorkerThread;

/// A gateway whose workers turn.
pub struct Running {
    /// The way to it.
    pub gateway: Arc<Gateway>,
    workers: Vec<WorkerThread>,
    /// Last, so that DPDK outlives everything that uses it.
    _eal: Eal,
}

impl Running {
    /// Stops the workers; the devices close as the gateway goes.
    pub fn stop(self) {
        for worker in self.workers {
            worker.stop();
        }
        tracing::info!("the gateway has stopped");
    }
}

/// Starts DPDK, the ports and the worker.
///
/// # Errors
/// Why it does not start, with what to do.
pub fn start(path: &Path, config: Config) -> Result<Running> {
    let cpu = worker_cpu(&config)?;
    let eal = Eal::init(&eal_options(&config))?;
    tracing::info!(
        version = eal.version(),
        hugepages = eal.has_hugepages(),
        "DPDK runs"
    );
    let pool = devices::packet_pool(&eal, &config, 1)?;
    let mut ports = Vec::new();
    for port in &config.ports {
        ports.push(devices::open(&eal, port, &pool, &config.file)?);
    }

    let limits = config.node.limits;
    let settings = ports.iter().map(|open| open.settings.clone()).collect();
    let mut model = Model::new(settings, 1, limits.services, limits.servers);
    model
        .apply_file(&config)
        .context("the configuration cannot be compiled")?;

    let mut queues = Vec::new();
    let mut watched: Vec<Box<dyn PortDevice>> = Vec::new();
    for (OpenPort { mut port, .. }, named) in ports.into_iter().zip(&config.ports) {
        let (receive, transmit) = port.start().with_context(|| format!("port {}", named.name))?;
        queues.extend(receive.into_iter().zip(transmit));
        watched.push(Box::new(Watched(Mutex::new(port))));
    }

    let stats = Arc::new(WorkerStats::new(config.ports.len(), limits.servers as usize));
    let mailbox = Arc::new(Mailbox::default());
    let sizes = Sizes {
        connections: limits.connections,
        services: limits.services,
        servers: limits.servers,
        neighbours: limits.neighbours,
        hugepages: eal.has_hugepages(),
        seed: seed(&config)?,
    };
    let snapshot = Arc::new(model.snapshot());
    let build = {
        let (stats, mailbox) = (Arc::clone(&stats), Arc::clone(&mailbox));
        move || {
            let index = TagIndex::new(2 * limits.connections as usize, sizes.hugepages)?;
            Worker::new(
                0,
                DpdkIo::new(queues, pool),
                index,
                sizes,
                snapshot,
                stats,
                mailbox,
            )
        }
    };
    let worker = thread::start(0, cpu, config.node.idle, &eal, build)?;
    let handle = WorkerHandle { cpu, mailbox, stats };
    let gateway = Gateway::new(path.to_owned(), config, model, vec![handle], watched);
    Ok(Running {
        gateway: Arc::new(gateway),
        workers: vec![worker],
        _eal: eal,
    })
}

/// The CPU of the one worker that there is yet.
fn worker_cpu(config: &Config) -> Result<u16> {
    match &config.node.workers {
        Workers::Auto => {
            // The last CPU that the process may use: the first ones are busy with everything else.
            let may = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0))?;
            let cpus = 0..nix::sched::CpuSet::count();
            let last = cpus.rev().find(|&cpu| may.is_set(cpu).unwrap_or(false));
            Ok(last.unwrap_or(0) as u16)
        }
        Workers::Cpus(cpus) => match cpus[..] {
            [cpu] => Ok(cpu),
            _ => bail!("node.workers: several workers are not supported yet; write one CPU, such as [1]"),
        },
    }
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
    let no_pci = config
        .ports
        .iter()
        .all(|port| matches!(port.device, config::Device::Vdev(_)));
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
        LogLevel::Error => tracing::error!(target: "dpdk", "{line}"),
        LogLevel::Warning => tracing::warn!(target: "dpdk", "{line}"),
        LogLevel::Info => tracing::info!(target: "dpdk", "{line}"),
        LogLevel::Debug => tracing::debug!(target: "dpdk", "{line}"),
    }
}
