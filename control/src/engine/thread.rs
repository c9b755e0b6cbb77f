//! A worker's thread: pinned to its core, turning until it is told to stop.

use super::clock::TickClock;
use super::io::DpdkIo;
use crate::config::Idle;
use anyhow::{Context, Result};
use dataplane::flow::FlowIndex;
use dataplane::worker::{Worker, WorkerStats};
use dpdk::{Eal, clock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Empty turns before a worker on a shared core rests.
const PATIENCE: u32 = 64;
/// How long it rests: short beside a network's round trip, long beside the cost of waking.
const REST: Duration = Duration::from_micros(50);

/// A running worker.
pub(super) struct WorkerThread {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// A worker that takes its memory, and does not turn before all have theirs: else the first ones would hand packets
/// to workers that are not there yet.
pub(super) struct Starting {
    worker: WorkerThread,
    ready: Receiver<Result<()>>,
    go: SyncSender<()>,
}

/// Starts the thread of the worker that `build` makes, on that CPU. `build` runs on the new thread, so that the worker's
/// memory is near its core.
///
/// # Errors
/// There is no thread to be had.
pub(super) fn start<X: FlowIndex + 'static>(
    number: usize,
    cpu: u16,
    idle: Idle,
    eal: &Eal,
    build: impl FnOnce() -> std::io::Result<Worker<DpdkIo, X>> + Send + 'static,
) -> Result<Starting> {
    let stop = Arc::new(AtomicBool::new(false));
    let (told, ready) = std::sync::mpsc::sync_channel(1);
    let (go, signal) = std::sync::mpsc::sync_channel(1);
    let (eal, stopped) = (eal.clone(), Arc::clone(&stop));
    let run = move || {
        match prepare(cpu, &eal, build) {
            Ok((mut worker, _registered)) => {
                // The starter waits for this, so it is there to hear it.
                let _ = told.send(Ok(()));
                // Without the signal another worker has failed, and the gateway does not start.
                if signal.recv().is_ok() {
                    turn_until(&mut worker, &stopped, idle, &eal);
                }
            }
            Err(error) => {
                let _ = told.send(Err(error));
            }
        }
    };
    let thread = std::thread::Builder::new()
        .name(format!("worker{number}"))
        .spawn(run)
        .context("no thread")?;
    Ok(Starting {
        worker: WorkerThread { stop, thread },
        ready,
        go,
    })
}

/// Lets workers turn once all of them are ready.
///
/// # Errors
/// The CPU of one cannot be had, or memory is short; then all of them have ended.
pub(super) fn begin(starting: Vec<Starting>) -> Result<Vec<WorkerThread>> {
    let ready = |one: &Starting| one.ready.recv().context("the worker died at its start")?;
    match starting.iter().try_for_each(ready) {
        Ok(()) => Ok(starting
            .into_iter()
            .map(|one| {
                // It waits for this.
                let _ = one.go.send(());
                one.worker
            })
            .collect()),
        Err(error) => {
            for one in starting {
                drop(one.go);
                one.worker.join();
            }
            Err(error)
        }
    }
}

fn prepare<X: FlowIndex>(
    cpu: u16,
    eal: &Eal,
    build: impl FnOnce() -> std::io::Result<Worker<DpdkIo, X>>,
) -> Result<(Worker<DpdkIo, X>, dpdk::eal::ThreadGuard)> {
    pin(cpu)?;
    let registered = eal.register_thread()?;
    let worker = build().context("no memory for the worker's tables; lower limits.connections")?;
    Ok((worker, registered))
}

/// Binds the calling thread to one CPU.
///
/// # Errors
/// The kernel refuses: there is no such CPU, or this process may not use it.
pub(crate) fn pin(cpu: u16) -> Result<()> {
    let mut set = nix::sched::CpuSet::new();
    let known = set.set(usize::from(cpu));
    known
        .and_then(|()| nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set))
        .with_context(|| format!("CPU {cpu} cannot be used; name a CPU of this machine (see nproc)"))
}

fn turn_until<X: FlowIndex>(worker: &mut Worker<DpdkIo, X>, stop: &AtomicBool, idle: Idle, eal: &Eal) {
    let stats: Arc<WorkerStats> = Arc::clone(worker.stats());
    let mut ticks = TickClock::start(eal);
    let start = clock::now();
    let mut before = start;
    let mut empty = 0;
    while !stop.load(Ordering::Relaxed) {
        let packets = worker.turn(ticks.at(before));
        let after = clock::now();
        stats.turns.add(1);
        stats.total_cycles.set(after - start);
        if packets > 0 {
            stats.busy_turns.add(1);
            stats.busy_cycles.add(after - before);
            empty = 0;
        } else {
            empty += 1;
        }
        before = after;
        if idle == Idle::Sleep && empty >= PATIENCE {
            std::thread::sleep(REST);
            before = clock::now();
        }
    }
}

impl WorkerThread {
    /// Whether the thread is gone although nobody has stopped it: a panic, where one does not abort the process.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Tells the worker to stop after its present turn.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the end of a worker that has been stopped.
    pub(super) fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("a worker died of a panic");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_worker_is_seen() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let worker = WorkerThread {
            stop: Arc::default(),
            // Ends as after a panic, but without the words of one.
            thread: std::thread::spawn(move || {
                let _ = receiver.recv();
            }),
        };
        assert!(!worker.has_ended());
        drop(sender);
        while !worker.has_ended() {
            std::thread::yield_now();
        }
        worker.stop();
        worker.join();
    }
}
