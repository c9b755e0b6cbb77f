//! The worker: one core's share of the gateway, and the pipeline over bursts of up to 32 packets.
//!
//! ```text
//! receive -> parse -> steer -> track -> schedule -> forward -> resolve -> transmit
//! ```
//!
//! A worker owns everything that it writes. Control reaches it through its [`Mailbox`] and reads its
//! [`WorkerStats`]; other workers hand it packets through [`Io`]. [`Worker::turn`] is one round of its loop; it
//! never allocates, frees, locks, logs or makes a system call.

mod admission;
mod adoption;
mod answer;
mod burst;
mod client_address;
mod clients;
mod connection;
mod device;
mod discovery;
mod echo;
mod ending;
mod ends;
mod errands;
mod exception;
mod families;
mod former;
mod forwarding;
mod fragments;
mod holds;
mod housekeeping;
mod icmp;
mod io;
mod length;
mod link;
mod listing;
mod mailbox;
mod memory_crew;
mod memory_io;
mod memory_use;
mod opening;
mod others;
mod persistence;
mod pressure;
mod proxy;
mod rate;
mod receive;
mod rewriting;
mod schedule;
pub mod shard;
mod snat;
mod stages;
mod stats;
mod straight;
mod sweep;
#[cfg(test)]
pub(crate) mod tests;
mod transmit;
mod tunnel_errors;

pub use connection::ServerLoads;
pub use device::{Device, RSS_KEY, Rss};
pub use io::{Arrival, BURST, Errand, Io, LARGE, PacketBurst};
pub use mailbox::{Event, Listing, Mailbox, Order, Spent};
pub use memory_crew::{HandOver, MemoryCrew, SentBy};
pub use memory_io::MemoryIo;
pub use memory_use::ConnectionMemory;
pub use stages::{STAGES_ARE_TIMED, Stage};
pub use stats::{Counter, Gauge, ServerStats, SteerStats, WorkerStats};

use crate::drops::DropReason;
use crate::flow::{ConnectionTable, FlowHasher, FlowIndex, Mode, Wheel};
use crate::fragment::Reassembly;
use crate::local::{LocalPorts, LocalPortsConfig, Pressure, Rotation};
use crate::memory::Pages;
use crate::neighbour::{Announcer, NeighbourId, NeighbourTable, NeighbourWords};
use crate::packet::{AddressDigest, PortId, PortRules};
use crate::scheduler::{Load, SchedulerState};
use crate::service::{OnRemove, Snapshot, Tunnel};
use crate::time::Tick;
use arrayvec::ArrayVec;
use burst::Burst;
use rate::RateLimit;
use shard::{ShardKey, ShardSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// Bursts that one turn takes over from other workers.
const TAKE_OVER_BUDGET: usize = 8;

/// Sizes of a worker's tables, fixed at its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Connections.
    pub connections: u32,
    /// Service slots.
    pub services: u32,
    /// Server slots.
    pub servers: u32,
    /// Neighbours.
    pub neighbours: u16,
    /// Packets that may be put together from fragments at once.
    pub fragments: u16,
    /// Put the tables into 2 MB hugepages where the system has them.
    pub hugepages: bool,
    /// Seed of the hash keys; secret and random except in tests.
    pub seed: u64,
}

/// What a worker knows of a service beyond the snapshot.
struct ServiceState {
    scheduler: SchedulerState,
}

/// What a worker knows of a server beyond the snapshot. Only the worker looks into it; `tidegate bench` measures
/// schedulers over it.
#[derive(Clone, Copy, Debug)]
pub struct ServerState {
    /// Its address and port.
    end: SocketAddr,
    /// Its forwarding mode.
    mode: Mode,
    /// How packets to it are wrapped, in TUN.
    tunnel: Tunnel,
    /// The gateway's own address towards it, known with the neighbour; none when there is none of its family.
    source: Option<IpAddr>,
    /// What is known of the path through its tunnel.
    path_mtu: length::PathMtu,
    /// Whether it is an address of the gateway itself, where nothing listens.
    is_ours: bool,
    /// The neighbour through which it is reached; none = to be looked up.
    neighbour: NeighbourId,
    /// The worker's `server_era` of these three; 0 = they have never been found out.
    era: u32,
    /// Where the rotation over local addresses stands.
    local_rotation: Rotation,
    /// How few local ports are left towards it, as far as the operator was told.
    local_pressure: Option<Pressure>,
    /// What the other workers have of it, as of the last look.
    others: Load,
    /// Whether it gets no new connections because of its thresholds.
    overloaded: bool,
    /// Whether it gets none because the operator says so. Thresholds have no say in this.
    marked_overloaded: bool,
    /// Whether its number of connections matters: it has thresholds, or its scheduler ranks by load.
    is_weighed: bool,
    /// Its thresholds.
    upper: u32,
    lower: u32,
    /// The service whose server it is or was last, and where it stood in the list.
    service: u32,
    position: u32,
    /// Once it is removed: what becomes of its connections, and until when those that drain may go on.
    on_remove: OnRemove,
    drain_until: Option<Tick>,
}

impl ServerState {
    /// Whether schedulers leave it out, for either reason.
    fn is_overloaded(&self) -> bool {
        self.overloaded || self.marked_overloaded
    }
}

impl Default for ServerState {
    fn default() -> ServerState {
        ServerState {
            end: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            mode: Mode::Nat,
            tunnel: Tunnel::default(),
            source: None,
            path_mtu: length::PathMtu::default(),
            is_ours: false,
            neighbour: NeighbourId::NONE,
            era: 0,
            local_rotation: Rotation::default(),
            local_pressure: None,
            others: Load::default(),
            overloaded: false,
            marked_overloaded: false,
            is_weighed: false,
            upper: 0,
            lower: 0,
            service: u32::MAX,
            position: 0,
            on_remove: OnRemove::Keep,
            drain_until: None,
        }
    }
}

/// One core's share of the gateway. `X` is the index of its connection table.
pub struct Worker<I: Io, X: FlowIndex> {
    number: u8,
    io: I,
    snapshot: Arc<Snapshot>,
    shard_key: ShardKey,
    digest: AddressDigest,
    rules: Vec<PortRules>,
    /// The smallest MTU of all ports: what is no longer fits everywhere.
    least_mtu: u16,
    table: ConnectionTable<X>,
    wheel: Wheel,
    /// Whether timers are due that the last round had no time for.
    behind: bool,
    locals: LocalPorts,
    neighbours: NeighbourTable<I::Packet>,
    fragments: Reassembly<I::Packet>,
    /// Whether packets to strangers may be ours: replies of NAT servers, SNAT, or a router's work.
    passes_by: bool,
    /// Whose packets to strangers are.
    outbound: snat::Outbound,
    /// The connections of clients, where they are limited, and of hosts behind SNAT.
    clients: clients::Clients,
    /// The identification given last to a packet of our own, or to fragments of a shared address.
    identification: u32,
    /// How far the next one is: a power of two that is no less than the number of workers, each of which begins at
    /// another one. They share local addresses and VIPs, so none may give what another gives.
    identification_step: u32,
    /// How ports send: a VLAN by its parent, with a tag.
    links: Vec<transmit::Link>,
    /// The devices whose link is down.
    dead: link::Dead,
    services: Vec<Option<ServiceState>>,
    servers: Vec<ServerState>,
    /// Rises when addresses or routes change: what servers know of these is of an older era then. Never 0.
    server_era: u32,
    adoption: adoption::Adoption,
    stats: Arc<WorkerStats>,
    stages: stages::Stages,
    others: others::Others,
    mailbox: Arc<Mailbox>,
    burst: Option<Box<Burst<I::Packet>>>,
    outgoing: Vec<PacketBurst<I::Packet>>,
    now: Tick,
    /// Turns since the start, for what is done every so many.
    turns: u64,
    /// For what the gateway answers.
    replies: RateLimit,
    /// Where the random numbers of schedulers stand.
    draws: u64,
    /// For ICMP errors of others that it passes on.
    passed_errors: RateLimit,
    events: housekeeping::EventGate,
    announcer: Announcer,
    neighbour_words: Arc<NeighbourWords>,
    owned: ShardSet,
    listings: listing::Listings,
    sweep: sweep::Sweep,
    /// Where the review of all connections after a new snapshot goes on.
    review_from: Option<u32>,
    /// When connections of a removed server have drained for as long as they may.
    next_drained: Option<Tick>,
    admission: admission::Admission,
    errands: errands::Errands,
    holds: holds::Holds,
    /// What the kernel may still get of what arrives at each port.
    exceptions: Vec<exception::Allowance>,
    /// Whether the kernel may send: the first worker takes that.
    takes_from_kernel: bool,
    /// Every packet takes the long way, for the test that it is the same.
    #[cfg(test)]
    pub(crate) only_long: bool,
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// A worker over `io`, with `index` as the index of its connection table and `snapshot` in force. All of its
    /// memory is taken here.
    ///
    /// # Errors
    /// The system refuses the memory.
    pub fn new(
        number: u8,
        io: I,
        index: X,
        sizes: Sizes,
        snapshot: Arc<Snapshot>,
        stats: Arc<WorkerStats>,
        mailbox: Arc<Mailbox>,
    ) -> std::io::Result<Worker<I, X>> {
        let shard_key = ShardKey::from_seed(sizes.seed);
        let neighbours = NeighbourTable::new(housekeeping::neighbour_settings(&sizes));
        let locals = LocalPorts::new(
            &LocalPortsConfig::for_connections(sizes.connections, sizes.seed, sizes.hugepages),
            &shard_key,
        )?;
        let hasher = FlowHasher::new(sizes.seed, sizes.seed.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15);
        let ports = snapshot.ports.len();
        let physical = snapshot.ports.iter().filter(|port| port.vlan.is_none()).count();
        let mut services = Vec::with_capacity(sizes.services as usize);
        services.resize_with(sizes.services as usize, || None);
        let mut outgoing = Vec::with_capacity(physical);
        outgoing.resize_with(physical, ArrayVec::new);
        let step = u32::from(snapshot.shards.workers()).next_power_of_two();
        let mut worker = Worker {
            number,
            io,
            shard_key,
            digest: AddressDigest::from_seed(sizes.seed),
            rules: Vec::with_capacity(ports),
            least_mtu: 0,
            table: ConnectionTable::with_index(sizes.connections as usize, hasher, index, sizes.hugepages)?,
            wheel: Wheel::new(Tick(0)),
            behind: false,
            locals,
            neighbour_words: neighbours.words(),
            neighbours,
            fragments: Reassembly::new(sizes.fragments, sizes.seed ^ 0x6672_6167),
            passes_by: false,
            outbound: snat::Outbound::Destination,
            clients: clients::Clients::new(sizes.connections, sizes.seed ^ 0x736e_6174)?,
            identification: sizes.seed as u32 & !(step - 1) | u32::from(number),
            identification_step: step,
            links: Vec::with_capacity(ports),
            dead: link::Dead::default(),
            services,
            servers: vec![ServerState::default(); sizes.servers as usize],
            server_era: 1,
            adoption: adoption::Adoption::new(sizes.services),
            stats,
            stages: stages::Stages::new(),
            others: others::Others::none(),
            mailbox,
            burst: Some(Box::new(Burst::new())),
            outgoing,
            now: Tick(0),
            turns: 0,
            replies: RateLimit::default(),
            draws: sizes.seed ^ u64::from(number) << 56,
            passed_errors: RateLimit::default(),
            events: housekeeping::EventGate::default(),
            announcer: housekeeping::announcer(),
            owned: snapshot.shards.owned_by(number),
            listings: listing::Listings::default(),
            sweep: sweep::Sweep::default(),
            review_from: None,
            next_drained: None,
            admission: admission::Admission::new(sizes.services),
            errands: errands::Errands::default(),
            // One that is alone has all templates itself.
            holds: holds::Holds::new(if step > 1 { sizes.connections } else { 0 })?,
            exceptions: vec![exception::Allowance::default(); ports],
            takes_from_kernel: false,
            snapshot,
            #[cfg(test)]
            only_long: false,
        };
        worker.begin();
        Ok(worker)
    }

    /// Takes the memory that each connection may touch from the system now, that of local ports where there are any, so that
    /// no packet waits for a page to be cleared.
    pub fn touch(&mut self) {
        self.table.touch();
        if self.snapshot.takes_local_ports() {
            self.locals.touch();
        }
    }

    /// One round: everything that has arrived at the ports, up to a burst each, then what is due. `now` never
    /// goes back. Returns the packets received, so that the caller can rest when there are none.
    pub fn turn(&mut self, now: Tick) -> usize {
        self.now = now;
        self.stages.begin();
        self.look_at_others();
        self.listen_to_others();
        let mut packets = 0;
        if let Some(mut burst) = self.burst.take() {
            // What others have handed over comes first: work has gone into it, and when the worker is too slow it is the
            // device that should lose packets.
            for _ in 0..TAKE_OVER_BUDGET {
                let taken = self.take_over(&mut burst);
                packets += taken;
                if taken < BURST {
                    break;
                }
            }
            for port in 0..self.outgoing.len() {
                packets += self.receive(PortId(port as u8), &mut burst);
            }
            self.burst = Some(burst);
        }
        if self.takes_from_kernel {
            packets += self.send_for_kernel();
        }
        self.keep_house(packets == 0);
        self.tell_homes();
        self.stages.end(Stage::Housekeeping);
        self.flush();
        self.stages.end(Stage::Transmit);
        self.turns += 1;
        // Transmit buffers are empty now: what is held waits for a neighbour, or for the rest of its packet.
        let held = self.neighbours.held() + self.fragments.held();
        self.stats.held.set(held as u64);
        debug_assert!(self.stats.conserves(), "packets have been lost: {:?}", self.stats);
        packets
    }

    /// The ports, for what tests and `tidegate replay` put in and take out.
    pub fn io_mut(&mut self) -> &mut I {
        &mut self.io
    }

    /// The connection table's memory in bytes, and what kind it is.
    #[must_use]
    pub fn table_memory(&self) -> (usize, Pages) {
        self.table.memory()
    }

    /// The memory that belongs to connections.
    ///
    /// # Errors
    /// The system does not tell what it has given.
    pub fn resident_memory(&self) -> std::io::Result<ConnectionMemory> {
        ConnectionMemory::of(&self.table, &self.locals)
    }

    /// Counts of the time stamp counter that each stage has taken, in the order of [`Stage::ALL`]; none in a build that
    /// does not time them.
    #[must_use]
    pub fn stage_cycles(&self) -> Option<[u64; Stage::ALL.len()]> {
        self.stages.sums()
    }

    /// When the next timer is due; none while there are no connections.
    #[must_use]
    pub fn next_timer(&self) -> Option<Tick> {
        self.wheel.next_due()
    }

    /// What the worker counts.
    #[must_use]
    pub fn stats(&self) -> &Arc<WorkerStats> {
        &self.stats
    }

    /// Ends a packet here.
    fn discard(&self, packet: I::Packet, reason: DropReason) {
        self.stats.count_drop(reason);
        drop(packet);
    }
}
