//! The workers of a gateway, started together: each with its tables, its share of the ports, and its ways to the others.

use super::host::KernelWay;
use super::io::DpdkIo;
use super::queues::Share;
use super::rings;
use super::thread::{self, WorkerThread};
use crate::config::Config;
use crate::gateway::WorkerHandle;
use anyhow::Result;
use dataplane::flow::TagIndex;
use dataplane::service::Snapshot;
use dataplane::worker::{Mailbox, Sizes, Worker, WorkerStats};
use dpdk::{Eal, Mempool};
use std::sync::Arc;

/// What workers work with.
pub(super) struct Equipment {
    /// What each worker has of each port.
    pub(super) queues: Vec<Vec<Share>>,
    /// What each worker has of the exception path.
    pub(super) kernel: Vec<Option<KernelWay>>,
    /// Packet buffers.
    pub(super) pool: Mempool,
    /// Buffers for what is put together from fragments.
    pub(super) large: Mempool,
    /// The first snapshot.
    pub(super) snapshot: Arc<Snapshot>,
    /// The tables of each worker.
    pub(super) sizes: Sizes,
}

/// Starts a worker on each of these CPUs; returns when all of them turn.
///
/// # Errors
/// A CPU cannot be had, or memory is short.
pub(super) fn start(
    eal: &Eal,
    config: &Config,
    cpus: &[u16],
    equipment: Equipment,
) -> Result<(Vec<WorkerThread>, Vec<WorkerHandle>)> {
    let count = cpus.len() as u8;
    let stats = || WorkerStats::new(config.ports.len(), config.node.limits.servers as usize).among(count);
    let handles: Vec<WorkerHandle> = cpus
        .iter()
        .map(|cpu| WorkerHandle {
            cpu: *cpu,
            mailbox: Arc::new(Mailbox::default()),
            stats: Arc::new(stats()),
        })
        .collect();
    let mut starting = Vec::new();
    let ways = equipment
        .queues
        .into_iter()
        .zip(rings::mesh(cpus.len()))
        .zip(equipment.kernel);
    for ((number, handle), ((queues, rings), kernel)) in handles.iter().enumerate().zip(ways) {
        let (pool, large) = (equipment.pool.clone(), equipment.large.clone());
        let (snapshot, sizes) = (Arc::clone(&equipment.snapshot), equipment.sizes);
        let (own, others) = (handle.clone(), others(&handles, number));
        let build = move || {
            let io = DpdkIo::new(queues, rings, (pool, large), kernel);
            let index = TagIndex::new(2 * sizes.connections as usize, sizes.hugepages)?;
            let (stats, mailbox) = (own.stats, own.mailbox);
            let worker = Worker::new(number as u8, io, index, sizes, snapshot, stats, mailbox)?;
            let mut worker = worker.beside(others);
            // Now, not while packets wait: the kernel clears each page at its first use.
            worker.touch();
            Ok(worker)
        };
        starting.push(thread::start(number, handle.cpu, config.node.idle, eal, build)?);
    }
    Ok((thread::begin(starting)?, handles))
}

/// The ways to all workers but one.
fn others(handles: &[WorkerHandle], but: usize) -> Vec<(Arc<WorkerStats>, Arc<Mailbox>)> {
    let others = handles.iter().enumerate().filter(|(number, _)| *number != but);
    others
        .map(|(_, handle)| (Arc::clone(&handle.stats), Arc::clone(&handle.mailbox)))
        .collect()
}
