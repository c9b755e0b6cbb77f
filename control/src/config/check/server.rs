//! Servers that the forwarding mode of a service reaches.

use dataplane::flow::Mode;

use super::links::Reach;
use super::pool::KnownServer;
use crate::config::Place;
use crate::config::report::Fault;
use crate::config::types::{Listener, Service};

/// Where a fault is said: its place, the end of its path, and what it is.
type Found = (Place, &'static str, Fault);

/// What keeps `service` from using a server. `has_source` tells whether tunnels of that family (true: IPv6) have an
/// address to be sent from.
pub(crate) fn fault_of(
    service: &Service,
    known: &KnownServer,
    has_source: impl Fn(bool) -> bool,
) -> Option<Found> {
    let mode = service.mode_of(&known.server);
    if known.reach == Reach::Nowhere {
        return Some(nowhere(known, mode));
    }
    match mode {
        Mode::Nat | Mode::Fullnat if service.persistence.is_some() => {
            let other = (mode == Mode::Nat).then(|| other_family(service, known, mode));
            other.flatten().or_else(|| kept_port(service, known))
        }
        Mode::Fullnat => None,
        Mode::Nat => other_family(service, known, mode),
        Mode::Dr => other_family(service, known, mode)
            .or_else(|| off_link(service, known))
            .or_else(|| other_port(service, known, mode)),
        Mode::Tun => other_port(service, known, mode).or_else(|| no_source(known, has_source)),
    }
}

fn nowhere(known: &KnownServer, mode: Mode) -> Found {
    let address = known.server.address;
    let problem = format!("server {address} is in no network of a port, and no route leads to it");
    let remedy = match mode {
        Mode::Dr => "give a port an address in the server's network: `dr` reaches neighbours only",
        Mode::Fullnat | Mode::Nat | Mode::Tun => {
            "write a route to it under `routes`, or give a port an address in its network"
        }
    };
    (known.server.place, "", Fault::new(problem, remedy))
}

/// NAT and DR leave a packet in its family.
fn other_family(service: &Service, known: &KnownServer, mode: Mode) -> Option<Found> {
    let address = known.server.address;
    let other = |listener: &&Listener| listener.key.is_ipv6() != address.is_ipv6();
    let listener = service.listeners.iter().find(other)?;
    let family = if address.is_ipv6() { "IPv6" } else { "IPv4" };
    let problem = format!(
        "server {address} is {family}, but service `{}` listens on {listener}, and `{}` keeps the family of a packet",
        service.name,
        mode.name()
    );
    let remedy = "write a pool for each family and a service for each pool, or use `mode: fullnat` or `tun`";
    Some((known.server.place, ".address", Fault::new(problem, remedy)))
}

fn off_link(service: &Service, known: &KnownServer) -> Option<Found> {
    let Reach::Routed(_) = known.reach else {
        return None;
    };
    let problem = format!(
        "server {} is behind a gateway, and `dr` (service `{}`) rewrites MAC addresses only and keeps the VIP as \
         destination: the gateway would send the packet back here",
        known.server.address, service.name
    );
    let remedy = "move the server into a network of a port, or use `mode: tun`, `nat` or `fullnat`";
    Some((known.server.place, "", Fault::new(problem, remedy)))
}

/// Nothing changes a port on the way to a DR or TUN server.
fn other_port(service: &Service, known: &KnownServer, mode: Mode) -> Option<Found> {
    let other = |listener: &&Listener| known.server.port_for(listener) != listener.key.port();
    let listener = service.listeners.iter().find(other)?;
    if listener.key.port() == 0 {
        return kept_port(service, known);
    }
    let port = known.server.port_for(listener);
    let problem = format!(
        "port {port}, but `{}` leaves packets as they are: the server would get those of service `{}` on port {}",
        mode.name(),
        service.name,
        listener.key.port()
    );
    let remedy = format!(
        "remove `port` and let the server listen on {}, or use `mode: nat` or `fullnat`",
        listener.key.port()
    );
    let place = known.port_place.unwrap_or(known.server.place);
    Some((place, ".port", Fault::new(problem, remedy)))
}

/// A service for more than one port leaves packets on theirs, but for one with a mark and without persistence.
fn kept_port(service: &Service, known: &KnownServer) -> Option<Found> {
    let port = known.server.port?;
    let many = |listener: &&Listener| listener.key.port() == 0;
    let listener = service.listeners.iter().find(many)?;
    let problem = format!(
        "port {port}, but packets of service `{}`, which is for {listener}, keep the port that they come to",
        service.name
    );
    let place = known.port_place.unwrap_or(known.server.place);
    Some((place, ".port", Fault::new(problem, "remove `port`")))
}

fn no_source(known: &KnownServer, has_source: impl Fn(bool) -> bool) -> Option<Found> {
    let ipv6 = known.server.address.is_ipv6();
    if has_source(ipv6) {
        return None;
    }
    let family = if ipv6 { "IPv6" } else { "IPv4" };
    let problem = format!(
        "a tunnel to {} needs an {family} address to be sent from, and the gateway has none",
        known.server.address
    );
    let remedy = format!("give a port an {family} address, or write `settings.tunnel_source`");
    Some((known.server.place, "", Fault::new(problem, remedy)))
}
