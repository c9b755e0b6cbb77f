//! What a snapshot derives from its services, so that no packet has to search: control makes it, anew or from that of the
//! snapshot before, in which case only the services that have changed are looked at.

use super::{Network, Presence, Protocol, Server, Service, ServiceKey, Settings};
use crate::flow::Mode;
use hashbrown::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Services at their slots.
pub(super) type Services = [Option<Arc<Service>>];

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Derived {
    /// By [`ServiceKey::words`].
    pub(super) by_key: HashMap<(u128, u32), u32>,
    /// By server slot.
    pub(super) present: Vec<Presence>,
    /// How many servers are reached by NAT.
    pub(super) nat: usize,
    /// Endpoints of NAT servers; empty unless `nat_icmp_send` asks for them.
    pub(super) nat_servers: HashSet<(IpAddr, u16, Protocol)>,
    /// By a server's endpoint: the endpoint of its one-packet service.
    pub(super) replies: HashMap<(IpAddr, u16, Protocol), (IpAddr, u16)>,
}

impl Derived {
    /// From all services.
    pub(super) fn new(settings: &Settings, network: &Network, services: &Services) -> Derived {
        let mut derived = Derived {
            by_key: HashMap::with_capacity(services.len()),
            ..Derived::default()
        };
        for rule in network.snat.rules() {
            derived.mark(rule.slot, Presence::Here);
        }
        for service in services.iter().flatten() {
            derived.add(service);
        }
        derived.replies = replies(services);
        if settings.nat_icmp_send {
            derived.nat_servers = nat_servers(services);
        }
        derived
    }

    /// From what has changed since `old` was derived from the services `before`. The caller makes sure that nothing else
    /// has changed that this depends on, and that none of these services `depends_on_others`.
    pub(super) fn after(old: &Derived, before: &Services, services: &Services) -> Derived {
        let mut derived = old.clone();
        // First what goes: a slot or a key may come back with another service.
        changed(before, services).for_each(|service| derived.remove(service));
        changed(services, before).for_each(|service| derived.add(service));
        derived
    }

    fn add(&mut self, service: &Service) {
        self.by_key.insert(service.key.words(), service.slot);
        for server in &service.servers {
            self.mark(server.slot, presence(service, server));
            self.nat += usize::from(server.mode == Mode::Nat);
        }
    }

    fn remove(&mut self, service: &Service) {
        self.by_key.remove(&service.key.words());
        for server in &service.servers {
            self.mark(server.slot, Presence::Gone);
            self.nat -= usize::from(server.mode == Mode::Nat);
        }
    }

    /// Whether both say the same. Slots beyond the last one are of nobody.
    #[cfg(test)]
    pub(super) fn is_as(&self, other: &Derived) -> bool {
        let trimmed = |derived: &Derived| {
            let mut derived = derived.clone();
            while derived.present.pop_if(|last| *last == Presence::Gone).is_some() {}
            derived
        };
        trimmed(self) == trimmed(other)
    }

    fn mark(&mut self, slot: u32, presence: Presence) {
        let slot = slot as usize;
        if self.present.len() <= slot {
            self.present.resize(slot + 1, Presence::Gone);
        }
        self.present[slot] = presence;
    }
}

/// The services of `these` that are not the very same in `those`.
pub(super) fn changed<'a>(
    these: &'a Services,
    those: &'a Services,
) -> impl Iterator<Item = &'a Arc<Service>> {
    let others = those.iter().map(Option::as_ref).chain(std::iter::repeat(None));
    let both = these.iter().zip(others);
    both.filter_map(|(this, other)| {
        let this = this.as_ref()?;
        let same = other.is_some_and(|other| Arc::ptr_eq(this, other));
        (!same).then_some(this)
    })
}

/// Whether what is derived from the service depends on what other services there are.
pub(super) fn depends_on_others(service: &Service) -> bool {
    service.one_packet && service.translate_replies
}

fn presence(service: &Service, server: &Server) -> Presence {
    let leaves = service.policy.expire_quiescent
        && service
            .key
            .protocol()
            .is_none_or(|protocol| protocol == Protocol::Udp);
    if leaves && server.weight == 0 {
        Presence::Leaving
    } else {
        Presence::Here
    }
}

/// Whose replies are translated back although no connection remains. A server of several such services answers for
/// the first in the order of keys: nothing in its reply tells which was asked.
fn replies(services: &Services) -> HashMap<(IpAddr, u16, Protocol), (IpAddr, u16)> {
    let mut sorted: Vec<&Arc<Service>> = services
        .iter()
        .flatten()
        .filter(|service| depends_on_others(service))
        .collect();
    sorted.sort_unstable_by_key(|service| service.key);
    let mut replies = HashMap::new();
    for service in sorted {
        let ServiceKey::Endpoint {
            address,
            port,
            protocol,
        } = service.key
        else {
            continue;
        };
        for server in service.servers.iter().filter(|server| server.mode == Mode::Nat) {
            let end = (server.address, server.port, protocol);
            replies.entry(end).or_insert((address, port));
        }
    }
    replies
}

fn nat_servers(services: &Services) -> HashSet<(IpAddr, u16, Protocol)> {
    let ends = |service: &Arc<Service>| {
        let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
        let own = service.key.protocol();
        let protocols = all
            .into_iter()
            .filter(move |one| own.is_none_or(|own| own == *one));
        let nat = service.servers.iter().filter(|server| server.mode == Mode::Nat);
        nat.flat_map(|server| {
            let protocols = protocols.clone();
            protocols.map(move |protocol| (server.address, server.port, protocol))
        })
        .collect::<Vec<_>>()
    };
    services.iter().flatten().flat_map(ends).collect()
}
