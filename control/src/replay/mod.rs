//! `tidegate replay`: the same pipeline over in-memory ports and a virtual clock, without DPDK. It answers "what
//! would happen to this packet", lets a timeout of fifteen minutes pass in a millisecond, and is how recordings
//! of other gateways are replayed against this one.

mod scenario;

pub use scenario::{Scenario, ScenarioError, run};

use crate::config::Config;
use crate::ipvsadm;
use crate::model::{Model, ModelError, with_vlans};
use dataplane::drops::DropReason;
use dataplane::flow::{Connection, TagIndex};
use dataplane::packet::{MacAddr, PortId};
use dataplane::service::PortSettings;
use dataplane::time::{TICKS_PER_SECOND, Tick};
use dataplane::worker::{Listing, Mailbox, MemoryIo, Order, ServerStats, Worker, WorkerStats};
use std::sync::Arc;
use std::time::Duration;

/// The hash seed of every replay: equal scenarios give equal answers.
const SEED: u64 = 0x7469_6465_6761_7465;

/// A gateway in memory.
pub struct Replay {
    model: Model,
    worker: Worker<MemoryIo, TagIndex>,
    mailbox: Arc<Mailbox>,
    stats: Arc<WorkerStats>,
    port_names: Vec<String>,
    now: Tick,
}

/// What came out of the gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A frame was sent by the port of this number.
    Sent(usize, Vec<u8>),
    /// A packet ended in the gateway.
    Dropped(DropReason),
}

/// What a command printed, and its exit status.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Printed {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The exit status.
    pub exit: u8,
}

/// Why a gateway could not be built.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The configuration asks for what cannot be.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// There is not enough memory for the tables.
    #[error("no memory for the tables: {0}; lower limits in the configuration")]
    Memory(#[from] std::io::Error),
}

impl Replay {
    /// The gateway that `config` describes, at time 0. Devices are not opened: every port is in memory, with its
    /// configured MAC or 02:74:67:00:00:NN.
    ///
    /// # Errors
    /// The configuration contradicts itself, or memory is short.
    pub fn new(config: &Config) -> Result<Replay, ReplayError> {
        let limits = &config.node.limits;
        let mut model = Model::new(
            with_vlans(config, devices(config)),
            1,
            limits.services,
            limits.servers,
        );
        model.apply_file(config)?;
        // There is no kernel that could have its addresses: the active node is replayed.
        model.hold(config.kernel_owned().collect())?;
        let stats = Arc::new(WorkerStats::new(config.ports.len(), limits.servers as usize));
        let mailbox = Arc::new(Mailbox::default());
        let sizes = limits.sizes(1, false, config.node.seed.unwrap_or(SEED));
        let index = TagIndex::new(2 * limits.connections as usize, false)?;
        let worker = Worker::new(
            0,
            MemoryIo::new(config.devices()),
            index,
            sizes,
            model.snapshot(),
            Arc::clone(&stats),
            Arc::clone(&mailbox),
        )?;
        let with_device = &config.ports[..config.devices()];
        let port_names = with_device.iter().map(|port| port.name.clone()).collect();
        Ok(Replay {
            model,
            worker,
            mailbox,
            stats,
            port_names,
            now: Tick(0),
        })
    }

    /// The names of the ports that frames come by, in the order of their numbers: those of VLANs come by the parent.
    #[must_use]
    pub fn port_names(&self) -> &[String] {
        &self.port_names
    }

    /// The model, to look at.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Changes settings that have no command, as the kernel's sysctls have none in ipvsadm.
    pub fn change_settings(&mut self, change: impl FnOnce(&mut dataplane::service::Settings)) {
        change(&mut self.model.settings);
        self.publish();
    }

    /// Takes the routes of another configuration, and nothing else of it.
    ///
    /// # Errors
    /// They contradict each other, or the ports.
    pub fn change_routes(&mut self, config: &Config) -> Result<(), ReplayError> {
        self.model.apply_routes(config)?;
        self.publish();
        Ok(())
    }

    /// The time now, in seconds.
    #[must_use]
    pub fn now(&self) -> f64 {
        f64::from(self.now.0) / f64::from(TICKS_PER_SECOND)
    }

    /// Puts a frame in at the port of that number; what comes out at once.
    pub fn inject(&mut self, port: usize, frame: &[u8]) -> Vec<Outcome> {
        self.worker.io_mut().arrive(PortId(port as u8), frame);
        let mut outcomes = Vec::new();
        while self.worker.io_mut().is_waiting() {
            self.turn(&mut outcomes);
        }
        outcomes
    }

    /// Lets time pass until `at` seconds after the start, rounded down to 10 ms; what comes out meanwhile, with
    /// its time. Does not go back.
    pub fn advance_to(&mut self, at: f64) -> Vec<(f64, Outcome)> {
        let target = Tick((at.max(0.0) * f64::from(TICKS_PER_SECOND)).min(f64::from(u32::MAX / 2)) as u32);
        let mut outcomes = Vec::new();
        let mut came = Vec::new();
        while self.now != target && target.reached(self.now) {
            // In steps of a second, for ARP, or to where the next timer is due.
            let step = self.now.after(TICKS_PER_SECOND);
            let due = self
                .worker
                .next_timer()
                .filter(|due| due.since(self.now) > 0 && step.reached(*due));
            let next = due.unwrap_or(step);
            self.now = if target.reached(next) { next } else { target };
            if self.model.is_rising() {
                self.publish();
            }
            // A turn handles so many timers: turn until none is left.
            loop {
                self.turn(&mut came);
                if self.worker.next_timer().is_none_or(|due| !self.now.reached(due)) {
                    break;
                }
            }
            let now = self.now();
            outcomes.extend(came.drain(..).map(|outcome| (now, outcome)));
        }
        outcomes
    }

    /// Carries out an ipvsadm command line.
    pub fn command(&mut self, line: &str) -> Printed {
        let command = match ipvsadm::parse_line(line) {
            Ok(command) => command,
            Err(error) => {
                return Printed {
                    stderr: format!("{error}\n"),
                    exit: error.exit,
                    ..Printed::default()
                };
            }
        };
        match self.model.apply_command(&command) {
            Ok(()) => {
                self.publish();
                Printed::default()
            }
            Err(error) => Printed {
                stderr: format!("{error}\n"),
                exit: ipvsadm::Refusal::EXIT,
                ..Printed::default()
            },
        }
    }

    /// Every connection, in no particular order.
    pub fn connections(&mut self) -> Vec<Connection> {
        let listing = Arc::new(Listing::new(1024));
        let _ = self
            .mailbox
            .orders
            .push(Order::ListConnections(Arc::clone(&listing)));
        let mut connections = Vec::new();
        let mut nothing = Vec::new();
        while !listing.is_complete() {
            self.turn(&mut nothing);
            connections.extend(std::iter::from_fn(|| listing.entries.pop()));
        }
        connections.extend(std::iter::from_fn(|| listing.entries.pop()));
        while self.mailbox.spent.pop().is_some() {}
        connections
    }

    /// What is counted for a server slot.
    #[must_use]
    pub fn server_stats(&self, slot: u32) -> &ServerStats {
        &self.stats.servers[slot as usize]
    }

    /// Everything that is counted.
    #[must_use]
    pub fn stats(&self) -> &WorkerStats {
        &self.stats
    }

    fn publish(&mut self) {
        let passed = u64::from(self.now.0) * 1000 / u64::from(TICKS_PER_SECOND);
        self.model.set_time(Duration::from_millis(passed));
        let _ = self.mailbox.orders.push(Order::Publish(self.model.snapshot()));
        // Nothing arrives in this turn; it only takes the snapshot.
        self.worker.turn(self.now);
        while self.mailbox.spent.pop().is_some() {}
    }

    fn turn(&mut self, outcomes: &mut Vec<Outcome>) {
        let before: Vec<u64> = self.stats.drops.iter().map(|count| count.get()).collect();
        self.worker.turn(self.now);
        let sent = self.worker.io_mut().take_sent();
        outcomes.extend(
            sent.into_iter()
                .map(|(port, frame)| Outcome::Sent(port.0.into(), frame)),
        );
        for (&reason, before) in DropReason::ALL.iter().zip(before) {
            let count = self.stats.drops[reason as usize].get() - before;
            outcomes.extend((0..count).map(|_| Outcome::Dropped(reason)));
        }
    }
}

fn devices(config: &Config) -> Vec<PortSettings> {
    let ports = config.ports[..config.devices()].iter().enumerate();
    ports
        .map(|(number, port)| PortSettings {
            mac: port
                .mac
                .map_or(MacAddr([0x02, 0x74, 0x67, 0, 0, number as u8]), MacAddr),
            any_mac: false,
            vlan: None,
            mtu: port.mtu,
            addresses: port.own_addresses(),
            check_partial: true,
            exception_rate: 0,
        })
        .collect()
}
