//! `tidegate replay`: the same pipeline over in-memory ports and a virtual clock, without DPDK. It answers "what
//! would happen to this packet", lets a timeout of fifteen minutes pass in a millisecond, and is how recordings
//! of other gateways are replayed against this one. It has one worker, or several, who take turns in one thread: the same
//! scenario gives the same answer every time.

mod scenario;
mod spread;

pub use scenario::{Scenario, ScenarioError, run};
pub use spread::Spread;

use crate::config::Config;
use crate::ipvsadm;
use crate::model::{Model, ModelError, with_vlans};
use dataplane::drops::DropReason;
use dataplane::flow::Connection;
use dataplane::packet::{MacAddr, PortId};
use dataplane::scheduler::Load;
use dataplane::service::PortSettings;
use dataplane::time::{TICKS_PER_SECOND, Tick};
use dataplane::worker::shard::ShardKey;
use dataplane::worker::{Listing, MemoryCrew, Order, WorkerStats};
use std::sync::Arc;
use std::time::Duration;

/// The hash seed of every replay: equal scenarios give equal answers.
const SEED: u64 = 0x7469_6465_6761_7465;
/// Packets that a worker may hand over before they are carried on: as many as a ring between threads holds.
const RING: usize = 1024;
/// Rounds that a frame takes at the most: from ring to ring, a datagram that it completes once more, and answers.
const ROUNDS: usize = 64;
/// Turns in which workers have looked at some hundreds of servers of each other.
const LOOK: usize = 8;

/// A gateway in memory.
pub struct Replay {
    model: Model,
    crew: MemoryCrew,
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
    /// The gateway that `config` describes, with one worker, at time 0. Devices are not opened: every port is in memory, with
    /// its configured MAC or 02:74:67:00:00:NN.
    ///
    /// # Errors
    /// The configuration contradicts itself, or memory is short.
    pub fn new(config: &Config) -> Result<Replay, ReplayError> {
        Replay::with_workers(config, 1, Spread::Rss)
    }

    /// The same with several workers, whatever `config` says of them, and ports that spread frames over their queues in that
    /// way.
    ///
    /// # Errors
    /// The configuration contradicts itself, or memory is short.
    pub fn with_workers(config: &Config, workers: u8, spread: Spread) -> Result<Replay, ReplayError> {
        let limits = &config.node.limits;
        let mut model = Model::new(
            with_vlans(config, devices(config)),
            workers,
            limits.services,
            limits.servers,
        );
        model.apply_file(config)?;
        // There is no kernel that could have its addresses: the active node is replayed.
        model.hold(config.kernel_owned().collect())?;
        let sizes = limits.sizes(workers, false, config.node.seed.unwrap_or(SEED));
        let snapshot = model.snapshot();
        let mut crew = MemoryCrew::new(config.devices(), &snapshot, sizes, RING)?;
        let key = ShardKey::from_seed(sizes.seed);
        for port in (0..config.devices()).map(|number| PortId(number as u8)) {
            crew.set_device(port, spread.device(port, &snapshot, &key));
        }
        let with_device = &config.ports[..config.devices()];
        let port_names = with_device.iter().map(|port| port.name.clone()).collect();
        Ok(Replay {
            model,
            crew,
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
        self.crew.arrive(PortId(port as u8), frame);
        let mut outcomes = Vec::new();
        for _ in 0..ROUNDS {
            if !self.crew.is_waiting() {
                break;
            }
            self.watch(&mut outcomes, |crew, now| crew.turn(now));
        }
        outcomes
    }

    /// Lets the clock tick once (10 ms), and all workers look at what the others have by now.
    pub fn tick(&mut self) -> Vec<Outcome> {
        self.now = self.now.after(1);
        let mut outcomes = Vec::new();
        self.watch(&mut outcomes, |crew, now| {
            // A look takes a turn for each slice of servers.
            for _ in 0..LOOK {
                crew.turn_until_idle(now);
            }
        });
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
                .crew
                .next_timer(self.now)
                .filter(|due| due.since(self.now) > 0 && step.reached(*due));
            let next = due.unwrap_or(step);
            self.now = if target.reached(next) { next } else { target };
            if self.model.is_rising() {
                self.publish();
            }
            self.watch(&mut came, |crew, now| crew.turn_until_idle(now));
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
        let mailboxes = self.crew.mailboxes();
        let listings: Vec<_> = mailboxes.iter().map(|_| Arc::new(Listing::new(1024))).collect();
        for (mailbox, listing) in mailboxes.iter().zip(&listings) {
            let _ = mailbox.orders.push(Order::ListConnections(Arc::clone(listing)));
        }
        let mut connections = Vec::new();
        loop {
            let complete = listings.iter().all(|listing| listing.is_complete());
            for listing in &listings {
                connections.extend(std::iter::from_fn(|| listing.entries.pop()));
            }
            if complete {
                break;
            }
            self.crew.turn(self.now);
        }
        self.crew.collect();
        // What a turn sends besides, such as announcements, is no answer to anything.
        self.crew.take_sent();
        connections
    }

    /// The connections that all workers count for a server slot.
    #[must_use]
    pub fn server_load(&self, slot: u32) -> Load {
        let workers = self.crew.stats().iter();
        let loads = workers.map(|stats| stats.servers[slot as usize].load());
        loads.fold(Load::default(), Load::and)
    }

    /// Everything that each worker counts.
    #[must_use]
    pub fn stats(&self) -> &[Arc<WorkerStats>] {
        self.crew.stats()
    }

    fn publish(&mut self) {
        let passed = u64::from(self.now.0) * 1000 / u64::from(TICKS_PER_SECOND);
        self.model.set_time(Duration::from_millis(passed));
        self.crew.publish(&self.model.snapshot());
        // Nothing arrives in this turn; it only takes the snapshot.
        self.crew.turn(self.now);
        self.crew.collect();
    }

    /// Lets the workers do something; what comes out.
    fn watch(&mut self, outcomes: &mut Vec<Outcome>, act: impl FnOnce(&mut MemoryCrew, Tick)) {
        let before = self.drops();
        act(&mut self.crew, self.now);
        let sent = self.crew.take_sent();
        outcomes.extend(
            sent.into_iter()
                .map(|(_, port, frame)| Outcome::Sent(port.0.into(), frame)),
        );
        for ((&reason, before), after) in DropReason::ALL.iter().zip(before).zip(self.drops()) {
            outcomes.extend((before..after).map(|_| Outcome::Dropped(reason)));
        }
    }

    /// What all workers have dropped, by reason in the order of [`DropReason::ALL`].
    fn drops(&self) -> Vec<u64> {
        let by = |reason: &DropReason| {
            let workers = self.crew.stats().iter();
            workers.map(|stats| stats.drops[*reason as usize].get()).sum()
        };
        DropReason::ALL.iter().map(by).collect()
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
