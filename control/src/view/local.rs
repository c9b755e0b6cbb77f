//! Groups of local addresses, and how far their local ports are used.

use super::Silent;
use crate::gateway::{Gateway, State};
use crate::model::LocalGroup;
use dataplane::flow::Mode;
use dataplane::local::AddressUse;
use dataplane::service::{Server, Service};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::ops::AddAssign;

/// A group of local addresses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LocalPool {
    /// Its name.
    pub name: String,
    /// The name of the Ethernet port that answers ARP and neighbour discovery for it.
    pub port: String,
    /// The local ports of each address: first and last.
    pub ports: (u16, u16),
    /// Servers that are reached from it; a server of two services with the same address, port and protocol
    /// counts once.
    pub servers: usize,
    /// Local ports of all addresses towards all of these servers: each pair of address and server, of one family, has
    /// its own.
    pub capacity: u64,
    /// Local ports in use.
    pub used: u64,
    /// `capacity` less `used`.
    pub free: u64,
    /// Its addresses.
    pub addresses: Vec<LocalAddress>,
}

/// A local address, all workers together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LocalAddress {
    /// The address.
    pub address: IpAddr,
    /// Ports in use now, towards all servers.
    pub used: u64,
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
}

impl LocalAddress {
    fn unused(address: IpAddr) -> LocalAddress {
        LocalAddress {
            address,
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

/// Every group of local addresses, in the order of the file. Blocks.
///
/// # Errors
/// A worker does not answer.
pub fn local_pools(gateway: &Gateway) -> Result<Vec<LocalPool>, Silent> {
    let mut used: HashMap<IpAddr, LocalAddress> = HashMap::new();
    let complete = gateway.local_addresses(|worker| {
        *used
            .entry(worker.address)
            .or_insert(LocalAddress::unused(worker.address)) += &worker;
    });
    if !complete {
        return Err(Silent);
    }
    let state = gateway.state();
    Ok(state
        .model
        .local_groups()
        .iter()
        .map(|group| view(&state, group, &used))
        .collect())
}

fn view(state: &State, group: &LocalGroup, used: &HashMap<IpAddr, LocalAddress>) -> LocalPool {
    let of = |address: &IpAddr| {
        used.get(address)
            .copied()
            .unwrap_or(LocalAddress::unused(*address))
    };
    let addresses: Vec<LocalAddress> = group.pool.addresses().iter().map(of).collect();
    let servers = servers_of(state, group);
    let ports = group.pool.ports();
    let pairs = |ipv6: bool| group.pool.towards(ipv6).len() * servers[usize::from(ipv6)];
    let capacity = u64::from(ports.count()) * (pairs(false) + pairs(true)) as u64;
    let used: u64 = addresses.iter().map(|address| address.used).sum();
    LocalPool {
        name: group.name.clone(),
        port: state
            .config
            .ports
            .get(usize::from(group.port.0))
            .map_or_else(String::new, |port| port.name.clone()),
        ports: (ports.first(), ports.last()),
        servers: servers.iter().sum(),
        capacity,
        used,
        // Connections to servers that are gone may still use some.
        free: capacity.saturating_sub(used),
        addresses,
    }
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
            .map(|server| (service.key.protocol, server))
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
