//! `tidegate bench --workers`: several workers of one gateway, each on its CPU. What a packet costs where all arrive at
//! home, what the hop to another worker adds where they do not, and what workers of one gateway do beside as many
//! gateways of one worker on the same CPUs.

mod crew;
mod exchanges;
mod processes;
mod rows;
mod station;
#[cfg(test)]
mod tests;
mod window;

use super::packets::CONNECTIONS;
use super::report::{Mode, Path, print};
use super::request::{Family, Shape};
use super::{Distribution, Options};
use crate::engine::{room, usable};
use anyhow::{Context, Result, bail};
use crew::Crew;
use dpdk::{Eal, Mempool, clock};
use processes::Processes;
use rows::{HEADING, Row};
use window::{Samples, Window, Windows};

/// Most workers: of more, the rings would have room for too few frames.
pub(super) const MOST: i64 = 16;
/// Frames of one worker: at the most as many as a receive ring of usual size holds, and at the least some bursts.
const MOST_FRAMES: usize = 1024;
const LEAST_FRAMES: usize = 128;
/// What a window takes by the clock, ns, and what comes before it.
const WINDOW: u64 = 10_000_000;
const WARM_UP: u64 = 2_000_000;
/// How often a window is taken again.
const ATTEMPTS: u32 = 200;

/// How many frames each of so many workers has: all of them together fit into one ring, so that nothing is dropped there
/// even where one worker's CPU is busy elsewhere.
fn frames(workers: u8) -> usize {
    let workers = usize::from(workers);
    (room(workers) / workers).clamp(LEAST_FRAMES, MOST_FRAMES)
}

/// One measurement.
#[derive(Clone, Copy)]
struct Job {
    path: Path,
    shape: Shape,
    distribution: Distribution,
    /// Flows of each worker.
    flows: u32,
    workers: u8,
    /// Whether a CPU has several workers.
    shares_cpus: bool,
}

impl Job {
    fn of(options: &Options, mode: Mode, flows: u32) -> Job {
        let family = options.family;
        Job {
            path: Path { mode, family },
            shape: options.shape(),
            distribution: options.distribution,
            flows,
            workers: options.workers.unwrap_or(1),
            shares_cpus: options.workers_per_cpu > 1,
        }
    }

    /// Room in the connection table of each worker: what one alone has in the other measurements.
    fn room(&self) -> u32 {
        self.flows.max(CONNECTIONS)
    }
}

/// Where workers are: to be asked for before DPDK starts, which binds the thread that starts it.
pub(super) struct Places(Vec<u16>);

impl Places {
    /// The last CPUs that this process may use, as many as `options` has workers for.
    ///
    /// # Errors
    /// There are fewer.
    pub(super) fn of(options: &Options) -> Result<Option<Places>> {
        let Some(workers) = options.workers else {
            return Ok(None);
        };
        match options.alone_on {
            Some(cpu) => Ok(Some(Places(vec![cpu]))),
            None => choose(&usable()?, workers, options.workers_per_cpu).map(|cpus| Some(Places(cpus))),
        }
    }
}

/// The CPU of each worker.
fn choose(usable: &[u16], workers: u8, each: u8) -> Result<Vec<u16>> {
    let needed = usize::from(workers.div_ceil(each.max(1)));
    if usable.len() < needed {
        bail!(
            "{workers} workers need {needed} CPUs, and this process may use {}: {usable:?}; write a smaller --workers, \
             let it use more CPUs (taskset -c), or write --workers-per-cpu {}",
            usable.len(),
            usize::from(workers).div_ceil(usable.len().max(1))
        );
    }
    let cpus = &usable[usable.len() - needed..];
    let seats = cpus.iter().flat_map(|&cpu| std::iter::repeat_n(cpu, each.into()));
    Ok(seats.take(workers.into()).collect())
}

/// Measures, and prints each row as soon as it is known.
///
/// # Errors
/// Too little memory, packets have been dropped, or no window was left undisturbed.
pub(super) fn run(options: &Options, places: &Places, eal: &Eal, pool: &Mempool) -> Result<()> {
    let cpus = &places.0;
    if let Some(cpu) = options.alone_on {
        return processes::be_one(options, cpu, eal, pool);
    }
    if !options.json {
        let each = if options.workers_per_cpu > 1 {
            ", shared"
        } else {
            ""
        };
        println!(
            "\n{} workers on CPUs {cpus:?}{each}; flows are those of each worker\n{HEADING}",
            cpus.len()
        );
    }
    let first = options.mode.unwrap_or(Mode::Fullnat);
    for &flows in &options.flows {
        measure(options, &Job::of(options, first, flows), cpus, eal, pool)?;
    }
    if options.mode.is_none() && options.family != Family::V64 {
        let largest = options.flows.iter().copied().max().unwrap_or(1);
        for mode in [Mode::Nat, Mode::Dr] {
            measure(options, &Job::of(options, mode, largest), cpus, eal, pool)?;
        }
    }
    Ok(())
}

/// The shares of packets that arrive at another worker, none first: what a hop costs is told by comparison.
fn shares(options: &Options) -> Vec<u8> {
    let mut shares = vec![0];
    shares.extend(options.hops.iter().filter(|&&hops| hops > 0));
    shares.dedup();
    shares
}

/// A window in which each worker could work; one whose CPU somebody else had all the time spoils it for all.
fn undisturbed(cpus: &[u16], mut window: impl FnMut() -> Result<Samples>) -> Result<Samples> {
    for _ in 0..ATTEMPTS {
        let samples = window()?;
        if samples.iter().all(|sample| sample.sent > 0) {
            return Ok(samples);
        }
    }
    bail!("the CPUs {cpus:?} are busy with something else: no window in which each worker moved a packet");
}

fn measure(options: &Options, job: &Job, cpus: &[u16], eal: &Eal, pool: &Mempool) -> Result<()> {
    if !job.path.is_possible() {
        bail!("--family 64 is for FULLNAT only: no other mode leads from IPv6 to IPv4");
    }
    let shares = shares(options);
    let mut crew = Crew::start(eal, pool, job, cpus, &shares)?;
    let mut rows = Vec::new();
    if options.against_processes {
        let mut processes = Processes::start(job, cpus)?;
        let mut windows = [Windows::default(), Windows::default()];
        for _ in 0..options.windows {
            windows[0]
                .0
                .push(undisturbed(cpus, || crew.window(next(eal, 0)))?);
            windows[1]
                .0
                .push(undisturbed(cpus, || processes.window(next(eal, 0)))?);
        }
        processes.finish()?;
        let [home, of_processes] = &windows;
        rows.push(Row::workers(job, cpus, 0, home, home));
        rows.push(Row::processes(job, cpus, of_processes, home));
    }
    // Not between those: a hop leaves its traces in the caches.
    if shares.len() > 1 || !options.against_processes {
        let mut windows: Vec<Windows> = shares.iter().map(|_| Windows::default()).collect();
        for _ in 0..options.windows {
            for (order, windows) in windows.iter_mut().enumerate() {
                windows
                    .0
                    .push(undisturbed(cpus, || crew.window(next(eal, order)))?);
            }
        }
        let home = windows.first().context("no window")?;
        for (&hops, windows) in shares.iter().zip(&windows) {
            rows.push(Row::workers(job, cpus, hops, windows, home));
        }
    }
    // Where packets were dropped there are no figures.
    crew.finish()?;
    rows.iter().try_for_each(|row| print(options.json, row))
}

/// The next window, of that order of packets.
fn next(eal: &Eal, order: usize) -> Window {
    let hz = u128::from(clock::hz(eal));
    let counts = |ns: u64| (u128::from(ns) * hz / 1_000_000_000) as u64;
    let from = clock::now() + counts(WARM_UP);
    Window {
        order,
        from,
        until: from + counts(WINDOW),
    }
}
