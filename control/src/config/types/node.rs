//! The gateway as a process: CPUs, memory, limits, API and metrics endpoints.

use std::net::SocketAddr;
use std::path::PathBuf;

use dataplane::worker::Sizes;

use crate::config::Place;

/// The `node` section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// The gateway's name in logs, metrics and the API.
    pub name: String,
    /// The cores that move packets.
    pub workers: Workers,
    /// Workers on each of these; more than one only to try several workers on a small machine.
    pub workers_per_cpu: u8,
    /// The core of everything else; none lets the kernel choose.
    pub control_cpu: Option<u16>,
    /// Memory for DPDK and the connection table.
    pub hugepages: Hugepages,
    /// Memory for DPDK when there are no hugepages, in MB.
    pub memory: u32,
    /// What a worker does when there is no packet.
    pub idle: Idle,
    /// The user to become once ports are open. None: `nobody` where all ports are software ports, else no change.
    pub user: Option<String>,
    /// Seed of the hash keys; none draws one at start.
    pub seed: Option<u64>,
    /// Packet buffers in all; none computes them from ports, queues and workers.
    pub mbufs: Option<u32>,
    /// Table sizes, fixed at start.
    pub limits: Limits,
    /// Further arguments of DPDK's EAL, appended as they are.
    pub eal: Vec<String>,
    /// DPDK drivers to load (EAL's `-d`): shared objects, or directories of them.
    pub drivers: Vec<PathBuf>,
    /// EAL's `--file-prefix`; none makes a unique one from the process id.
    pub file_prefix: Option<String>,
    /// Where the section starts.
    pub place: Place,
}

/// Which cores move packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Workers {
    /// With a PCI device the CPUs of its NUMA node but one; with software ports alone the last one that the process may
    /// use.
    Auto,
    /// These CPU numbers. Whether they exist is found at start.
    Cpus(Vec<u16>),
}

/// More workers than this there cannot be: each has two shards of connections at least.
pub const MOST_WORKERS: usize = 64;

/// Where DPDK's memory comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hugepages {
    /// Hugepages when the machine has reserved any, else ordinary memory.
    #[default]
    Auto,
    /// Ordinary memory.
    Off,
    /// So many MB of hugepages; it is an error at start when there are fewer.
    Megabytes(u32),
}

/// What a worker does when there is no packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Idle {
    /// Sleeps briefly: for cores that something else uses too.
    #[default]
    Sleep,
    /// Polls on: for dedicated cores.
    Poll,
}

/// Table sizes. All memory is taken at start; a full table is a counted drop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections of all workers together.
    pub connections: u32,
    /// Services (each listener counts).
    pub services: u32,
    /// Servers (each server counts once for each service that uses it).
    pub servers: u32,
    /// Neighbours, at most 65,534.
    pub neighbours: u16,
    /// Datagrams that are put together from fragments at the same time. Each takes a buffer of 64 kB.
    pub fragments: u16,
}

impl Limits {
    /// The sizes of the tables of one of so many workers.
    #[must_use]
    pub fn sizes(&self, workers: u8, hugepages: bool, seed: u64) -> Sizes {
        let workers = workers.max(1);
        Sizes {
            connections: share(self.connections, workers),
            services: self.services,
            servers: self.servers,
            neighbours: self.neighbours,
            fragments: self.fragments.div_ceil(workers.into()),
            hugepages,
            seed,
        }
    }
}

/// A worker's share of all connections. A hash deals them out, not quite evenly: so it is an eighth more, and some.
fn share(connections: u32, workers: u8) -> u32 {
    let even = connections.div_ceil(workers.into());
    even.saturating_add(even / 8).saturating_add(64).min(connections)
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 1_000_000,
            services: 16_384,
            servers: 131_072,
            neighbours: 4096,
            fragments: 256,
        }
    }
}

/// The API socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Api {
    /// Path of the UNIX socket.
    pub socket: PathBuf,
    /// Its permission bits.
    pub mode: u32,
    /// The group that owns it; none leaves it to the process.
    pub group: Option<String>,
    /// Where the section starts.
    pub place: Place,
}

/// The Prometheus endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metrics {
    /// Address and TCP port of the host to serve `/metrics` on; none serves it on the API socket only.
    pub listen: Option<SocketAddr>,
    /// Where the section starts.
    pub place: Place,
}
