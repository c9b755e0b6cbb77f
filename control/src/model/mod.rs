//! The model: what the gateway is asked to do now, kept as LVS keeps it. The YAML file, the API and
//! ipvsadm commands are all operations on it; each compiles into a snapshot for the workers. It knows nothing of
//! workers or devices.

mod command;
mod departing;
mod draining;
mod entry;
mod file;
mod overload;
mod ownership;
mod ports;
mod routes;
mod slots;
pub(crate) mod slow_start;
mod snat;

pub use command::CommandError;
pub use departing::Departure;
pub use draining::Draining;
pub use entry::{LocalGroup, ServerKey, SlotOwner, VirtualService};
pub use file::Changes;
pub use overload::Marked;
pub(crate) use ports::exception_rate;
pub use ports::with_vlans;
pub(crate) use routes::own_prefixes;
pub use routes::{LearntHop, LearntRoute};

use dataplane::flow::Timeouts;
use dataplane::local::LipPool;
use dataplane::neighbour::{
    AddressError, AddressTable, Connected, Prefix, RouteError, RouteTable, Vip, VipArp,
};
use dataplane::packet::PortId;
use dataplane::scheduler::{SchedulerFlags, SchedulerKind, SchedulerTables};
use dataplane::service::{
    ClientAddress, MarkRule, Network, Persistence, PersistenceEngine, Policy, PortSettings, Server, Service,
    ServiceKey, Settings, Snapshot,
};
use dataplane::worker::shard::ShardMap;
use ownership::Ownership;
use slots::Slots;
use slow_start::SlowStart;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Why the model does not take something; then it has not changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ModelError {
    /// All service slots are taken.
    #[error("more services than limits.services allows; raise it in the configuration and restart")]
    Services,
    /// All server slots are taken.
    #[error(
        "more servers and SNAT rules than limits.servers allows; raise it in the configuration and restart"
    )]
    Servers,
    /// Addresses that cannot be together.
    #[error("{0}")]
    Address(#[from] AddressError),
    /// An address that is still one of connections.
    #[error(
        "{0} was a local address until lately, and connections still have it: use another address, or wait until \
         `tidegate show local-addresses` tells of it no more"
    )]
    Draining(IpAddr),
    /// Routes that cannot be.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Routes(Vec<RouteError>),
}

/// The whole state that operators can change.
#[derive(Clone, Debug)]
pub struct Model {
    services: BTreeMap<ServiceKey, VirtualService>,
    service_slots: Slots<ServiceKey>,
    server_slots: Slots<SlotOwner>,
    /// Settings that hold for all services.
    pub settings: Settings,
    locals: Vec<LocalGroup>,
    draining: Vec<Draining>,
    departures: HashMap<ServerKey, Departure>,
    network: Network,
    /// The names of the rules of `network.snat`, in their order.
    snat_names: Vec<Arc<str>>,
    /// What the kernel has told last.
    learnt: Arc<[LearntRoute]>,
    ownership: Ownership,
    epoch: u64,
    /// The newest snapshot, from which the next one is made.
    newest: Option<Arc<Snapshot>>,
    /// Since the start.
    time: Duration,
    slow_start: SlowStart,
}

impl Model {
    /// An empty model over these Ethernet ports; `file::apply` fills it.
    #[must_use]
    pub fn new(ports: Vec<PortSettings>, workers: u8, service_limit: u32, server_limit: u32) -> Model {
        Model {
            services: BTreeMap::new(),
            service_slots: Slots::new(service_limit),
            server_slots: Slots::new(server_limit),
            settings: Settings::default(),
            locals: Vec::new(),
            draining: Vec::new(),
            departures: HashMap::new(),
            network: Network {
                shards: ShardMap::even(workers),
                addresses: Arc::new(AddressTable::default()),
                routes: Arc::new(RouteTable::default()),
                neighbours: Arc::new([]),
                ports: ports.into(),
                vips: Arc::default(),
                snat: Arc::default(),
                marks: Arc::default(),
            },
            snat_names: Vec::new(),
            learnt: Arc::new([]),
            ownership: Ownership::default(),
            epoch: 0,
            newest: None,
            time: Duration::ZERO,
            slow_start: SlowStart::default(),
        }
    }

    /// The services in the order of their keys.
    pub fn services(&self) -> impl Iterator<Item = &VirtualService> {
        self.services.values()
    }

    /// The service of that key.
    #[must_use]
    pub fn service(&self, key: &ServiceKey) -> Option<&VirtualService> {
        self.services.get(key)
    }

    /// The groups of local addresses, in the order of the file.
    #[must_use]
    pub fn local_groups(&self) -> &[LocalGroup] {
        &self.locals
    }

    /// Routes, neighbours, addresses and ports.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The epoch of the newest snapshot.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Tells how much time has passed since the start: the next snapshot is of then.
    pub fn set_time(&mut self, time: Duration) {
        self.time = time;
    }

    /// How many slots servers and rules of SNAT have ever used: all lie below it.
    #[must_use]
    pub fn server_span(&self) -> u32 {
        self.server_slots.span()
    }

    /// Whether the next snapshot will differ from the last by time alone: the weight of some server rises.
    #[must_use]
    pub fn is_rising(&self) -> bool {
        self.slow_start.is_rising()
    }

    /// Compiles the model into the next snapshot. Unchanged services are shared with the one before.
    pub fn snapshot(&mut self) -> Arc<Snapshot> {
        self.epoch += 1;
        self.date_departures();
        let mut services = vec![None; self.service_slots.span() as usize];
        for entry in self.services.values() {
            let shown = self.slow_start.apply(&entry.service, self.time, self.epoch);
            services[entry.service.slot as usize] = Some(shown);
        }
        self.slow_start.retain(|key| self.services.contains_key(key));
        let (epoch, settings, network) = (self.epoch, self.settings.clone(), self.network.clone());
        let next = match &self.newest {
            Some(newest) => newest.next(epoch, settings, network, services),
            None => Snapshot::new(epoch, settings, network, services),
        };
        let next = Arc::new(next);
        self.newest = Some(Arc::clone(&next));
        next
    }

    /// Frees the slots of deleted services, servers and rules of which `connections(server slot)` tells none; returns
    /// the servers and rules whose slots are free now, with these.
    pub fn reclaim(&mut self, connections: impl Fn(u32) -> u64) -> Vec<(SlotOwner, u32)> {
        let freed = self.server_slots.reclaim(|_, slot| connections(slot) == 0);
        // Connections name their service too: it keeps its slot until those of its last server have ended.
        let named: HashSet<ServiceKey> = self.departing_servers().map(|(key, _)| key.service).collect();
        self.service_slots.reclaim(|key, _| !named.contains(key));
        freed
    }

    /// What each address is, with one more VIP if there is one; the present table while nothing has changed.
    fn addresses(&self, more: Option<IpAddr>) -> Result<Arc<AddressTable>, AddressError> {
        let ports = || (0u8..).map(PortId).zip(self.network.ports.iter());
        let own: Vec<_> = ports()
            .flat_map(|(id, port)| port.addresses.iter().map(move |&(own, _)| (id, own)))
            .collect();
        let marked = self.network.marks.rules().iter();
        let listed = self.network.vips.keys().copied();
        let vips = self
            .services
            .keys()
            .filter_map(ServiceKey::address)
            .chain(listed)
            .chain(marked.filter_map(MarkRule::address))
            .chain(more);
        let vips: BTreeSet<_> = vips.collect();
        let vips: Vec<_> = vips
            .into_iter()
            .map(|address| Vip {
                address,
                arp: VipArp::ByPrefix,
            })
            .collect();
        let groups = self.locals.iter();
        let locals: Vec<_> = groups
            .flat_map(|group| {
                let addresses = group.pool.addresses().iter();
                addresses.map(move |&address| (group.port, address))
            })
            .chain(
                self.draining
                    .iter()
                    .map(|draining| (draining.port, draining.address)),
            )
            .collect();
        let connected = connected(&self.network.ports);
        let is_standby = |address| self.ownership.is_standby(address);
        let table = AddressTable::with_standby(&own, &vips, &locals, &connected, is_standby)?;
        let same = table == *self.network.addresses;
        Ok(if same {
            Arc::clone(&self.network.addresses)
        } else {
            Arc::new(table)
        })
    }

    /// Puts a service in, without servers. The caller brings the addresses up to date.
    fn insert_service(&mut self, name: String, spec: ServiceSpec) -> Result<(), ModelError> {
        let slot = self.service_slots.take(spec.key).ok_or(ModelError::Services)?;
        let service = Service {
            slot,
            key: spec.key,
            scheduler: spec.scheduler,
            scheduler_flags: spec.scheduler_flags,
            tables: SchedulerTables::default(),
            persistence: spec.persistence,
            engine: spec.engine,
            one_packet: spec.one_packet,
            translate_replies: spec.translate_replies,
            hairpin_snat: spec.hairpin_snat,
            mss_clamp: spec.mss_clamp,
            client_address: spec.client_address,
            timeouts: spec.timeouts,
            policy: spec.policy,
            local_pools: spec.local_pools,
            servers: Vec::new(),
            revision: 0,
        };
        self.services.insert(
            spec.key,
            VirtualService {
                name,
                queue_of: None,
                service: Arc::new(service),
                ignored_ports: BTreeMap::new(),
            },
        );
        Ok(())
    }

    /// Changes what a service is like, leaving its servers as they are. True when anything changed.
    fn edit_service(&mut self, spec: ServiceSpec) -> bool {
        let Some(entry) = self.services.get_mut(&spec.key) else {
            return false;
        };
        let old = &entry.service;
        let same = old.scheduler == spec.scheduler
            && old.scheduler_flags == spec.scheduler_flags
            && old.persistence == spec.persistence
            && old.engine == spec.engine
            && old.one_packet == spec.one_packet
            && old.translate_replies == spec.translate_replies
            && old.hairpin_snat == spec.hairpin_snat
            && old.mss_clamp == spec.mss_clamp
            && old.client_address == spec.client_address
            && old.timeouts == spec.timeouts
            && old.policy == spec.policy
            && old
                .local_pools
                .iter()
                .map(Arc::as_ptr)
                .eq(spec.local_pools.iter().map(Arc::as_ptr));
        if !same {
            let service = Service::edit(&mut entry.service);
            service.scheduler = spec.scheduler;
            service.scheduler_flags = spec.scheduler_flags;
            service.persistence = spec.persistence;
            service.engine = spec.engine;
            service.one_packet = spec.one_packet;
            service.translate_replies = spec.translate_replies;
            service.hairpin_snat = spec.hairpin_snat;
            service.mss_clamp = spec.mss_clamp;
            service.client_address = spec.client_address;
            service.timeouts = spec.timeouts;
            service.policy = spec.policy;
            service.local_pools = spec.local_pools;
        }
        !same
    }

    fn remove_service(&mut self, key: &ServiceKey) -> bool {
        let Some(entry) = self.services.remove(key) else {
            return false;
        };
        for server in &entry.service.servers {
            let identity = ServerKey {
                service: *key,
                address: server.address,
                port: server.port,
            };
            self.depart(identity, &entry.service.policy);
        }
        self.service_slots.retire(key);
        true
    }

    /// Adds a server at the head of the list, where LVS puts a new one. Its slot in `server` is ignored.
    fn insert_server(&mut self, key: ServiceKey, mut server: Server) -> Result<(), ModelError> {
        let identity = SlotOwner::Server(ServerKey {
            service: key,
            address: server.address,
            port: server.port,
        });
        let Some(entry) = self.services.get_mut(&key) else {
            return Ok(());
        };
        server.slot = self.server_slots.take(identity).ok_or(ModelError::Servers)?;
        let service = Service::edit(&mut entry.service);
        service.servers.insert(0, server);
        service.revision += 1;
        Ok(())
    }

    /// Replaces a server's values. Every edit counts, also one that changes nothing, as in LVS.
    fn edit_server(&mut self, key: ServiceKey, at: usize, mut server: Server) {
        let Some(entry) = self.services.get_mut(&key) else {
            return;
        };
        let service = Service::edit(&mut entry.service);
        let old = &service.servers[at];
        server.slot = old.slot;
        if server.weight == 0 {
            server.table_weight = old.table_weight;
        }
        service.servers[at] = server;
        service.revision += 1;
    }

    /// Remembers the port that a command has named for the server at `end`, if it has no effect.
    fn note_ignored_port(&mut self, key: ServiceKey, end: SocketAddr, port: Option<u16>) {
        let Some(entry) = self.services.get_mut(&key) else {
            return;
        };
        match port {
            Some(port) => entry.ignored_ports.insert(end, port),
            None => entry.ignored_ports.remove(&end),
        };
    }

    fn remove_server(&mut self, key: ServiceKey, at: usize) {
        let Some(entry) = self.services.get_mut(&key) else {
            return;
        };
        let service = Service::edit(&mut entry.service);
        let server = service.servers.remove(at);
        service.revision += 1;
        entry
            .ignored_ports
            .remove(&SocketAddr::new(server.address, server.port));
        let identity = ServerKey {
            service: key,
            address: server.address,
            port: server.port,
        };
        let policy = service.policy;
        self.depart(identity, &policy);
    }
}

/// The prefixes that are connected to the ports.
pub(crate) fn connected(ports: &[PortSettings]) -> Vec<Connected> {
    let prefixes = (0u8..).map(PortId).zip(ports).flat_map(|(port, settings)| {
        let prefixes = settings.addresses.iter();
        prefixes.map(move |&(own, length)| Connected {
            port,
            prefix: Prefix::around(own, length),
        })
    });
    prefixes.collect()
}

/// What a service is like, apart from its servers.
#[derive(Clone, Debug)]
struct ServiceSpec {
    key: ServiceKey,
    scheduler: SchedulerKind,
    scheduler_flags: SchedulerFlags,
    persistence: Option<Persistence>,
    engine: Option<PersistenceEngine>,
    one_packet: bool,
    translate_replies: bool,
    hairpin_snat: bool,
    mss_clamp: u16,
    client_address: ClientAddress,
    timeouts: Option<Arc<Timeouts>>,
    policy: Policy,
    local_pools: Vec<Arc<LipPool>>,
}

/// Where the server of that address and port (host order) stands in a service's list.
fn position(service: &Service, address: IpAddr, port: u16) -> Option<usize> {
    service
        .servers
        .iter()
        .position(|server| server.address == address && server.port == port)
}
