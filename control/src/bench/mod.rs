//! `tidegate bench`: what the gateway costs. The worker that runs over DPDK ports runs here over a generator in the same
//! process, with everything on: validation, state machine, counters, drop accounting, timers, steering, the keyed hash.
//! So one core's own cost is seen, without a network card, a kernel or a second core; and that of several workers, which
//! hand packets to each other. Beside the packet path: schedulers by numbers of servers, Maglev tables, large snapshots,
//! many connections that end at once, and memory.
//!
//! `docs/benchmarks.md` says how the figures are meant. Nothing here is part of a gateway in service.

mod capture;
mod expiry;
mod floor;
mod flows;
mod footprint;
mod io;
mod maglev;
mod measure;
mod openings;
mod packets;
mod reflect;
mod report;
mod request;
mod rig;
mod schedulers;
mod servers;
mod setup;
mod snapshots;
mod stages;
mod tcp;
mod turns;
mod workers;
mod zipf;

pub use flows::Distribution;
pub use report::{Mode, Table};
pub use request::Family;

use anyhow::Result;
use dataplane::worker::STAGES_ARE_TIMED;
use dpdk::{Eal, EalOptions, Mempool};
use std::path::PathBuf;

/// Packet buffers: three generators, and what is under way.
const BUFFERS: u32 = 8191;

/// One of the things that can be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Subject {
    /// The packet path.
    Packets,
    /// Each scheduler, by numbers of servers.
    Schedulers,
    /// Maglev tables: how long they take, and whom the loss of a server moves.
    Maglev,
    /// Large snapshots: how long they take, and how long workers are busy with them.
    Snapshots,
    /// Many connections that end at once.
    Expiry,
    /// Memory for each connection.
    Memory,
}

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// What to measure, one or several.
    #[arg(long, value_delimiter = ',', default_value = "packets")]
    pub only: Vec<Subject>,
    /// Packets: numbers of flows, drawn at random.
    #[arg(long, value_delimiter = ',', default_value = "1,1000,100000,1000000", value_parser = clap::value_parser!(u32).range(1..=20_000_000))]
    pub flows: Vec<u32>,
    /// Packets: how often each flow is drawn.
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    pub distribution: Distribution,
    /// Packets: bytes of a frame with IPv4, without its check sequence; with IPv6 it has 20 more.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(60..=1500))]
    pub size: u16,
    /// Packets: IP versions of clients and servers; 64 is IPv6 to IPv4 by FULLNAT.
    #[arg(long, value_enum, default_value_t = Family::V4)]
    pub family: Family,
    /// Packets: only this forwarding mode. Without: FULLNAT, then the others at the largest number of flows.
    #[arg(long)]
    pub mode: Option<Mode>,
    /// Packets: only this index of the connection table. Without: both.
    #[arg(long)]
    pub table: Option<Table>,
    /// Memory: rooms in the connection table.
    #[arg(long, value_delimiter = ',', default_value = "100000,1000000,4000000", value_parser = clap::value_parser!(u32).range(10_000..=20_000_000))]
    pub capacities: Vec<u32>,
    /// Windows of each figure.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=60))]
    pub windows: u32,
    /// Packets: instead of all that, what each stage costs, over our own index. Needs a build with the feature `stages`.
    #[arg(long)]
    pub stages: bool,
    /// Packets: instead of all that, so many workers of one gateway, each on a CPU, over our own index.
    #[arg(long, value_parser = clap::value_parser!(u8).range(2..=workers::MOST), conflicts_with_all = ["stages", "table"])]
    pub workers: Option<u8>,
    /// Workers: of a hundred packets, how many arrive at another worker than their own; compared with none.
    #[arg(long, value_delimiter = ',', default_value = "50,100", requires = "workers", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub hops: Vec<u8>,
    /// Workers: as many on each CPU. Where they share it, time by the clock says nothing.
    #[arg(long, default_value_t = 1, requires = "workers", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub workers_per_cpu: u8,
    /// Workers: compare with as many gateways of one worker, each a process of its own on the same CPUs.
    #[arg(long, requires = "workers")]
    pub against_processes: bool,
    /// Workers: be one of those processes, on this CPU.
    #[arg(long, hide = true, requires = "workers", value_name = "CPU")]
    pub alone_on: Option<u16>,
    /// Packets: leave out connections that open and close.
    #[arg(long)]
    pub no_openings: bool,
    /// Packets: room in the connection table where connections open and close among others in TIME_WAIT.
    #[arg(long, default_value_t = 4_000_000, value_parser = clap::value_parser!(u32).range(20_000..=20_000_000))]
    pub records: u32,
    /// Schedulers: numbers of servers.
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000,10000", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub servers: Vec<u32>,
    /// Snapshots: number of services, of ten servers each.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub services: u32,
    /// Expiry: number of connections that end at once.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=20_000_000))]
    pub due: u32,
    /// Snapshots and expiry: how often the whole is repeated.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// One JSON object a line instead of tables.
    #[arg(long)]
    pub json: bool,
    /// Measure nothing, and write the requests of the first number of flows as a capture, for other generators to send.
    #[arg(long, value_name = "FILE")]
    pub requests: Option<PathBuf>,
}

impl Options {
    /// What requests look like.
    fn shape(&self) -> request::Shape {
        request::Shape {
            family: self.family,
            size: self.size,
        }
    }
}

/// Measures, and prints each row as soon as it is known.
///
/// # Errors
/// Too little memory, or packets have been dropped, which would make the figures wrong.
pub fn run(options: &Options) -> Result<()> {
    if let Some(file) = &options.requests {
        let flows = options.flows.first().copied().unwrap_or(1);
        return capture::write_file(flows, options.distribution, options.shape(), file);
    }
    anyhow::ensure!(!options.stages || STAGES_ARE_TIMED, stages::MISSING);
    let places = workers::Places::of(options)?;
    let measures = |subject| options.only.contains(&subject);
    let most = options.flows.iter().copied().fold(packets::CONNECTIONS, u32::max);
    let most = if options.no_openings {
        most
    } else {
        most.max(options.records)
    };
    // A million connections have two million keys in rte_hash, of 48 to 80 bytes each.
    let tables = match options.table {
        Some(Table::Tag) => 0,
        _ if !measures(Subject::Packets) || options.stages || places.is_some() => 0,
        _ => most.div_ceil(packets::CONNECTIONS) * 192,
    };
    let eal = Eal::init(&EalOptions {
        program: "tidegate-bench".to_owned(),
        no_pci: true,
        telemetry: false,
        memory_mb: 64 + tables,
        ..EalOptions::default()
    })?;
    let pool = Mempool::new(&eal, "bench", BUFFERS, 256, Mempool::DEFAULT_DATA_ROOM, None)?;
    if !options.json {
        let hugepages = if eal.has_hugepages() { "with" } else { "without" };
        let version = eal.version();
        let workers = options
            .workers
            .map_or("one worker".to_owned(), |workers| format!("{workers} workers"));
        println!("{workers}, {hugepages} hugepages, {version}");
    }
    if let (true, Some(places)) = (measures(Subject::Packets), &places) {
        workers::run(options, places, &eal, &pool)?;
    } else if measures(Subject::Packets) {
        packets::Packets::new(options, &eal, &pool).run()?;
    }
    if measures(Subject::Schedulers) {
        schedulers::run(&options.servers, options.windows, options.json)?;
    }
    if measures(Subject::Maglev) {
        maglev::run(options.windows, options.json)?;
    }
    if measures(Subject::Snapshots) {
        snapshots::run(options, &pool)?;
    }
    if measures(Subject::Expiry) {
        expiry::run(options, &eal, &pool)?;
    }
    if measures(Subject::Memory) {
        footprint::run(options, &eal, &pool)?;
    }
    Ok(())
}
