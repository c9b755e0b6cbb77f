//! The command line: what was typed, and what it does. `run` hands over to the engine; `show`, `reload`, `overload` and
//! `zero` ask a running gateway through its API; `check` and `replay` need none.

mod check;
mod client;
mod connections;
mod local;
mod log;
mod operate;
mod replay;
mod routes;
mod server_setup;
mod show;
mod snat;
mod table;

use crate::config;
use crate::replay::Spread;
use clap::{Args, Parser, Subcommand, ValueEnum};
use client::ClientError;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code: the configuration is bad.
const BAD_CONFIGURATION: u8 = 2;
/// Exit code: it does not start, or the gateway cannot be reached.
const FAILURE: u8 = 1;

/// Tidegate, a layer-4 gateway.
#[derive(Parser, Debug)]
#[command(name = "tidegate", version, disable_version_flag = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Check a configuration file; exit code 2 when it is bad
    Check {
        /// The file
        file: PathBuf,
    },
    /// Run the gateway
    Run(Run),
    /// Make a running gateway read its configuration again: all of it or nothing
    Reload {
        #[command(flatten)]
        gateway: GatewaySocket,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Mark a server overloaded, or take the mark: it gets no new connections, and those that it has go on
    Overload {
        /// The service: its name, or where it listens (203.0.113.100:80/tcp)
        service: String,
        /// The server's address, with or without its port
        server: String,
        /// Whether it is overloaded
        #[arg(value_enum)]
        state: Switch,
        #[command(flatten)]
        gateway: GatewaySocket,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set the counters that are shown to zero; Prometheus's go on
    Zero {
        /// Only those of this service: its name, or where it listens (203.0.113.100:80/tcp)
        service: Option<String>,
        #[command(flatten)]
        gateway: GatewaySocket,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a running gateway is and does
    Show(Show),
    /// Replay a scenario of frames, commands and time, without devices
    Replay {
        /// The configuration file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Print the connection table after each event
        #[arg(long)]
        connections: bool,
        /// So many workers, who take turns
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
        workers: u8,
        /// How the ports spread frames over the queues of several workers
        #[arg(long, value_name = "HOW", value_enum, default_value_t = Spread::Rss)]
        spread: Spread,
        /// The scenario, one JSON event a line; - reads standard input
        scenario: PathBuf,
    },
    /// Print the commands that make a machine a real server of a service; they run on the server
    ServerSetup(server_setup::Options),
    /// Measure what the packet path costs on this machine, without devices
    Bench(crate::bench::Options),
    /// Change the kernel's addresses for a gateway that has given up root; it starts this itself
    #[command(hide = true)]
    KernelAddresses {
        /// Devices whose addresses may be changed
        devices: Vec<String>,
    },
    /// Print the version
    Version,
}

/// On or off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Switch {
    /// It is
    On,
    /// It is not
    Off,
}

#[derive(Args, Debug)]
struct Run {
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = "/etc/tidegate/tidegate.yaml")]
    config: PathBuf,
    /// How to log; without it, for people on a terminal and for machines otherwise
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,
}

/// How to log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Args, Debug)]
struct Show {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    gateway: GatewaySocket,
    /// Print JSON instead of a table
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Args, Debug)]
struct GatewaySocket {
    /// The gateway's API socket (api.socket of its configuration)
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        env = "TIDEGATE_SOCKET",
        default_value = "/run/tidegate/api.sock"
    )]
    socket: PathBuf,
}

/// What there is to show.
#[derive(Subcommand, Clone, PartialEq, Eq, Debug)]
enum What {
    /// The gateway as a whole
    Status,
    /// Services, with the sums over their servers
    Services,
    /// Servers of all services
    Servers {
        /// Only of this service: its name, or where it listens (203.0.113.100:80/tcp)
        #[arg(long)]
        service: Option<String>,
    },
    /// What happens in a second, by service and server
    Rates {
        /// Only of this service: its name, or where it listens (203.0.113.100:80/tcp)
        #[arg(long)]
        service: Option<String>,
    },
    /// Removed servers and local addresses that connections still have
    Draining,
    /// Connections
    Connections(connections::Filter),
    /// Ethernet ports
    Ports,
    /// Workers
    Workers,
    /// Neighbours
    Neighbours,
    /// Routes: of the ports, of the file and of the kernel, with the state of their gateways
    Routes,
    /// Dropped packets by reason
    Drops {
        /// Also reasons that have not occurred
        #[arg(long)]
        all: bool,
    },
    /// Rules of SNAT, in the order in which they are looked at
    Snat,
    /// Local addresses, and how far their ports are used
    LocalAddresses {
        /// Also towards each server, where ports are used
        #[arg(long)]
        servers: bool,
    },
}

/// Why a command failed.
#[derive(Debug)]
enum Failure {
    /// The configuration is bad; one finding each.
    Configuration(Vec<String>),
    /// Anything else.
    Other(String),
    /// Whoever reads our output has gone: no failure, but the end.
    NoReader,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::NoReader,
            _ => Failure::Other(error.to_string()),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        match error {
            ClientError::Refused(refused) if refused.status == 422 => Failure::Configuration(refused.errors),
            other => Failure::Other(other.to_string()),
        }
    }
}

impl From<config::ConfigErrors> for Failure {
    fn from(found: config::ConfigErrors) -> Failure {
        warn(&found.warnings);
        Failure::Configuration(found.errors.iter().map(ToString::to_string).collect())
    }
}

/// Carries out what the process's arguments say.
#[must_use]
pub fn main() -> ExitCode {
    match execute(Cli::parse()) {
        Ok(code) => code,
        Err(Failure::NoReader) => ExitCode::SUCCESS,
        Err(Failure::Configuration(findings)) => {
            complain(&findings);
            ExitCode::from(BAD_CONFIGURATION)
        }
        Err(Failure::Other(reason)) => {
            complain(&[format!("tidegate: {reason}")]);
            ExitCode::from(FAILURE)
        }
    }
}

fn execute(cli: Cli) -> Result<ExitCode, Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match cli.command {
        Command::Check { file } => check::check(&file, &mut out)?,
        Command::Run(run) => return start(&run),
        Command::Reload { gateway, json } => show::reload(&gateway.socket, json, &mut out)?,
        Command::Overload {
            service,
            server,
            state,
            gateway,
            json,
        } => operate::overload(&gateway.socket, [&service, &server], state, json, &mut out)?,
        Command::Zero {
            service,
            gateway,
            json,
        } => operate::zero(&gateway.socket, service.as_deref(), json, &mut out)?,
        Command::Show(show) => show::show(&show.gateway.socket, &show.what, show.json, &mut out)?,
        Command::Replay {
            config,
            connections,
            workers,
            spread,
            scenario,
        } => {
            replay::replay(&config, &scenario, connections, (workers, spread), &mut out)?;
        }
        Command::ServerSetup(options) => server_setup::server_setup(&options, &mut out)?,
        Command::Bench(options) => {
            crate::bench::run(&options).map_err(|error| Failure::Other(format!("{error:#}")))?;
        }
        Command::KernelAddresses { devices } => return Ok(crate::engine::helper::run(&devices)),
        Command::Version => writeln!(out, "tidegate {}", env!("CARGO_PKG_VERSION"))?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn start(run: &Run) -> Result<ExitCode, Failure> {
    let config = config::load(&run.config)?;
    log::init(run.log_format);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    crate::engine::run(&run.config, config).map_err(|error| Failure::Other(format!("{error:#}")))
}

/// Lines for standard error; nobody may be there to read them.
fn complain<T: Display>(lines: &[T]) {
    let mut err = io::stderr().lock();
    for line in lines {
        let _ = writeln!(err, "{line}");
    }
}

fn warn<T: Display>(warnings: &[T]) {
    complain(
        &warnings
            .iter()
            .map(|warning| format!("warning: {warning}"))
            .collect::<Vec<_>>(),
    );
}
