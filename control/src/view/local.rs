//! Groups of local addresses, and how far their local ports are used.

use super::Silent;
use crate::gateway::{Gateway, State};
use crate::model::LocalGroup;
use dataplane::flow::Mode;
use dataplane::local::{AddressUse, PairReport, PortRange};
use dataplane::packet::{PortId, ipv4, ipv6};
use dataplane::service::{Protocol, Server, Service, SnatRule};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::ops::AddAssign;
use std::sync::Arc;

/// A group of local addresses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LocalPool {
    /// Its name.
    pub name: String,
    /// The name of the Ethernet port that answers ARP and neighbour discovery for it.
    pub port: String,
    /// The local ports of each address: first and last.
    pub ports: (u16, u16),
    /// Servers of services that are reached from it; a server of two services with the same address, port and protocol
    /// counts once.
    pub servers: usize,
    /// Rules of SNAT that take from it, by name.
    #[serde(default)]
    pub snat: Vec<String>,
    /// Local ports of all addresses that do not drain towards all of these servers: each pair of address and server, of
    /// one family, has its own. None with SNAT: hosts outside are not to be counted.
    pub capacity: Option<u64>,
    /// Local ports in use.
    pub used: u64,
    /// `capacity` less those in use of addresses that do not drain.
    pub free: Option<u64>,
    /// Its addresses, and those that it had and that drain.
    pub addresses: Vec<LocalAddress>,
}

/// A local address, all workers together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LocalAddress {
    /// The address.
    pub address: IpAddr,
    /// Whether it has left its group: it takes no new connections, and is gone when the last of its own has ended.
    pub draining: bool,
    /// Ports in use now, towards all servers.
    pub used: u64,
    /// Ports left, towards all servers; 0 while it drains, none with SNAT.
    pub free: Option<u64>,
    /// The most ports that one worker has had in use towards one server.
    pub peak: u16,
    /// Ports handed out.
    pub taken: u64,
    /// Of these, ports of another shard than the client's.
    pub borrowed: u64,
    /// How often a closing connection had to give up its port.
    pub recycled: u64,
    /// How often no port was free and none could be recycled.
    pub exhausted: u64,
    /// How often memory was missing.
    pub out_of_memory: u64,
    /// Servers, and with SNAT hosts outside, towards which ports are in use, or were borrowed, recycled or missing; only where that is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<LocalServer>,
}

/// The ports of one local address towards one server, all workers together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LocalServer {
    /// The server's address.
    pub address: IpAddr,
    /// The server's port, host order; 0 for echo.
    pub port: u16,
    /// `tcp`, `udp` or `sctp`; with SNAT also `icmp` or `icmpv6`, which is echo.
    pub protocol: String,
    /// Ports in use now.
    pub used: u64,
    /// Ports left; 0 while the address drains.
    pub free: u64,
    /// Ports handed out of another shard than the client's, as far back as is remembered; so the two below.
    pub borrowed: u64,
    /// How often a closing connection had to give up its port.
    pub recycled: u64,
    /// How often no port was free and none could be recycled.
    pub exhausted: u64,
}

impl LocalAddress {
    fn unused(address: IpAddr) -> LocalAddress {
        LocalAddress {
            address,
            draining: false,
            servers: Vec::new(),
            free: Some(0),
            used: 0,
            peak: 0,
            taken: 0,
            borrowed: 0,
            recycled: 0,
            exhausted: 0,
            out_of_memory: 0,
        }
    }
}

impl AddAssign<&AddressUse> for LocalAddress {
    fn add_assign(&mut self, worker: &AddressUse) {
        self.used += u64::from(worker.used);
        self.peak = self.peak.max(worker.peak);
        self.taken += worker.taken;
        self.borrowed += worker.borrowed;
        self.recycled += worker.recycled;
        self.exhausted += worker.exhausted;
        self.out_of_memory += worker.out_of_memory;
    }
}

/// Every group of local addresses, in the order of the file, then those that are gone but for addresses that drain.
/// With `servers`, also the use of each address towards each server. Blocks.
///
/// # Errors
/// A worker does not answer.
pub fn local_pools(gateway: &Gateway, servers: bool) -> Result<Vec<LocalPool>, Silent> {
    let mut used: Used = HashMap::new();
    let complete = gateway.local_addresses(|worker| *entry(&mut used, worker.address) += &worker)
        && (!servers
            || gateway.local_pairs(|pair| add(&mut entry(&mut used, pair.pair.local).servers, &pair)));
    if !complete {
        return Err(Silent);
    }
    for address in used.values_mut() {
        address
            .servers
            .sort_by_key(|server| (server.address, server.port));
    }
    let state = gateway.state();
    let mut pools: Vec<LocalPool> = state
        .model
        .local_groups()
        .iter()
        .map(|group| view(&state, group, &mut used))
        .collect();
    for draining in state.model.draining() {
        let known = pools.iter().position(|pool| pool.name == draining.group);
        let place = known.unwrap_or_else(|| {
            pools.push(empty(&state, &draining.group, draining.port, draining.ports));
            pools.len() - 1
        });
        let mut address = take(&mut used, draining.address);
        address.draining = true;
        address.servers.iter_mut().for_each(|server| server.free = 0);
        pools[place].used += address.used;
        pools[place].addresses.push(address);
    }
    Ok(pools)
}

type Used = HashMap<IpAddr, LocalAddress>;

fn entry(used: &mut Used, address: IpAddr) -> &mut LocalAddress {
    used.entry(address).or_insert(LocalAddress::unused(address))
}

fn take(used: &mut Used, address: IpAddr) -> LocalAddress {
    used.remove(&address).unwrap_or(LocalAddress::unused(address))
}

/// Adds what one worker tells of an address and a server.
fn add(servers: &mut Vec<LocalServer>, report: &PairReport) {
    let (pair, usage) = (&report.pair, &report.usage);
    let protocol = protocol_name(pair.protocol);
    let is = |server: &LocalServer| {
        (server.address, server.port, &*server.protocol) == (pair.server, pair.server_port, protocol)
    };
    let place = servers.iter().position(is).unwrap_or_else(|| {
        servers.push(LocalServer {
            address: pair.server,
            port: pair.server_port,
            protocol: protocol.to_owned(),
            used: 0,
            free: 0,
            borrowed: 0,
            recycled: 0,
            exhausted: 0,
        });
        servers.len() - 1
    });
    let server = &mut servers[place];
    server.used += u64::from(usage.used);
    server.free += u64::from(usage.capacity.saturating_sub(usage.used));
    server.borrowed += usage.borrowed;
    server.recycled += usage.recycled;
    server.exhausted += usage.exhausted;
}

/// A protocol that has local ports.
fn protocol_name(number: u8) -> &'static str {
    match number {
        ipv4::ICMP => "icmp",
        ipv6::ICMP => "icmpv6",
        _ => Protocol::from_number(number).map_or("", Protocol::name),
    }
}

fn view(state: &State, group: &LocalGroup, used: &mut Used) -> LocalPool {
    let servers = servers_of(state, group);
    let snat: Vec<String> = rules_of(state, group);
    let countable = |count: u64| Some(count).filter(|_| snat.is_empty());
    let ports = group.pool.ports();
    // What each address has towards all servers of its family.
    let each = |address: &IpAddr| u64::from(ports.count()) * servers[usize::from(address.is_ipv6())] as u64;
    let of = |address: &IpAddr| {
        let known = take(used, *address);
        LocalAddress {
            // Connections to servers that are gone may still use some.
            free: countable(each(address).saturating_sub(known.used)),
            ..known
        }
    };
    let addresses: Vec<LocalAddress> = group.pool.addresses().iter().map(of).collect();
    let used = addresses.iter().map(|address| address.used).sum();
    let capacity = group.pool.addresses().iter().map(each).sum::<u64>();
    LocalPool {
        servers: servers.iter().sum(),
        capacity: countable(capacity),
        used,
        free: countable(capacity.saturating_sub(used)),
        addresses,
        snat,
        ..empty(state, &group.name, group.port, ports)
    }
}

/// A group without addresses.
fn empty(state: &State, name: &str, port: PortId, ports: PortRange) -> LocalPool {
    let port = state.config.ports.get(usize::from(port.0));
    LocalPool {
        name: name.to_owned(),
        port: port.map_or_else(String::new, |port| port.name.clone()),
        ports: (ports.first(), ports.last()),
        servers: 0,
        snat: Vec::new(),
        capacity: Some(0),
        used: 0,
        free: Some(0),
        addresses: Vec::new(),
    }
}

/// The rules of SNAT that take from the group, by name.
fn rules_of(state: &State, group: &LocalGroup) -> Vec<String> {
    let takes = |rule: &SnatRule| rule.local_pools.iter().any(|pool| Arc::ptr_eq(pool, &group.pool));
    let rules = state.model.snat().filter(|(_, rule)| takes(rule));
    rules.map(|(name, _)| (**name).to_owned()).collect()
}

/// How many servers of IPv4 and of IPv6 are reached from the group: by FULLNAT, or by NAT that hides clients on the
/// server's link.
fn servers_of(state: &State, group: &LocalGroup) -> [usize; 2] {
    let services = state
        .model
        .services()
        .map(|entry| &entry.service)
        .filter(|service| group.serves(service));
    let servers = services.flat_map(|service| {
        service
            .servers
            .iter()
            .filter(|server| uses_local_addresses(service, server))
            .map(|server| (service.key.protocol(), server))
    });
    let known: HashSet<_> = servers
        .map(|(protocol, server)| (server.address, server.port, protocol))
        .collect();
    let v6 = known.iter().filter(|(address, ..)| address.is_ipv6()).count();
    [known.len() - v6, v6]
}

fn uses_local_addresses(service: &Service, server: &Server) -> bool {
    match server.mode {
        Mode::Fullnat => true,
        Mode::Nat => service.hairpin_snat,
        Mode::Dr | Mode::Tun => false,
    }
}
