//! What the servers of a service need, found out from the configuration.

use super::SetupError;
use crate::config::{Config, Listener, Pool, Prefix, Server, Service};
use dataplane::flow::Mode;
use dataplane::forward::tun;
use dataplane::service::{ServiceKey, Tunnel, TunnelKind};
use std::net::IpAddr;

/// What to do on servers of one service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// The service's name.
    pub(super) service: String,
    /// The servers that the text is for; whoever runs it is one of them. Never empty.
    pub(super) servers: Vec<IpAddr>,
    /// The VIPs, in the order of the listeners.
    pub(super) vips: Vec<Vip>,
    /// What there is to do.
    pub(super) need: Need,
}

/// An address that clients ask for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Vip {
    /// The address.
    pub(super) address: IpAddr,
    /// Another service that needs it on these servers: it stays when this one goes.
    pub(super) also_of: Option<String>,
}

/// What servers need, by forwarding mode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// Their default route leads to the gateway.
    Nat {
        /// The gateway's address on the servers' link; none when they are not on a link of the gateway.
        gateway: Option<IpAddr>,
    },
    /// They have the VIP, and keep quiet about it.
    Dr,
    /// The same, behind the end of a tunnel.
    Tun {
        /// How packets are wrapped.
        tunnel: Tunnel,
        /// Whether that is in IPv4, as all servers of the plan have it.
        over_ipv4: bool,
        /// Bytes of the largest packet that fits into the tunnel.
        room: u16,
        /// Another service that needs the UDP port of GUE on these servers.
        port_also_of: Option<String>,
    },
    /// Nothing.
    Fullnat,
}

/// Finds the service and the server, and what they need.
pub(super) fn plan(config: &Config, wanted: &str, server: Option<IpAddr>) -> Result<Plan, SetupError> {
    let Some(service) = config.services.iter().find(|service| is_called(service, wanted)) else {
        return Err(SetupError::UnknownService {
            wanted: wanted.to_owned(),
            names: config
                .services
                .iter()
                .map(|service| service.name.clone())
                .collect(),
        });
    };
    let pool = &config.pools[service.pool];
    let chosen = chosen(pool, &service.name, server)?;
    let addresses = distinct(chosen.iter().map(|server| address(server)));
    let need = same_need(config, service, &chosen, &addresses)?;
    Ok(Plan {
        service: service.name.clone(),
        vips: vips(config, service, &need, &addresses),
        servers: addresses,
        need,
    })
}

/// Whether an operator means this service by that text: its name, or where it listens.
fn is_called(service: &Service, wanted: &str) -> bool {
    service.name == wanted
        || service
            .listeners
            .iter()
            .any(|listener| listener.to_string() == wanted)
}

fn address(server: &Server) -> IpAddr {
    server.address
}

fn distinct(addresses: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut seen = Vec::new();
    for address in addresses {
        if !seen.contains(&address) {
            seen.push(address);
        }
    }
    seen
}

/// The servers that the text is for. One address may be several servers, on different ports.
fn chosen<'a>(pool: &'a Pool, service: &str, wanted: Option<IpAddr>) -> Result<Vec<&'a Server>, SetupError> {
    let servers = pool.servers.iter();
    let chosen: Vec<&Server> = servers
        .filter(|server| wanted.is_none_or(|wanted| wanted == address(server)))
        .collect();
    match wanted {
        _ if !chosen.is_empty() => Ok(chosen),
        Some(server) => Err(SetupError::NotAServer {
            server,
            service: service.to_owned(),
            servers: distinct(pool.servers.iter().map(address))
                .iter()
                .map(ToString::to_string)
                .collect(),
        }),
        None => Err(SetupError::NoServers {
            service: service.to_owned(),
        }),
    }
}

/// What all of these servers need.
fn same_need(
    config: &Config,
    service: &Service,
    servers: &[&Server],
    addresses: &[IpAddr],
) -> Result<Need, SetupError> {
    let mut kinds: Vec<(Need, &Server)> = Vec::new();
    for &server in servers {
        let need = need(config, service, server, addresses);
        if !kinds.iter().any(|(known, _)| *known == need) {
            kinds.push((need, server));
        }
    }
    let choices = kinds
        .iter()
        .map(|(_, server)| format!("--server {} ({})", server.address, service.mode_of(server).name()))
        .collect();
    match kinds.pop() {
        Some((need, _)) if kinds.is_empty() => Ok(need),
        _ => Err(SetupError::Different {
            service: service.name.clone(),
            choices,
        }),
    }
}

fn need(config: &Config, service: &Service, server: &Server, addresses: &[IpAddr]) -> Need {
    match service.mode_of(server) {
        Mode::Nat => Need::Nat {
            gateway: gateway_on_link(config, address(server)),
        },
        Mode::Dr => Need::Dr,
        Mode::Tun => {
            let tunnel = service.tunnel_of(server);
            Need::Tun {
                tunnel,
                over_ipv4: address(server).is_ipv4(),
                room: room(config, address(server), tunnel),
                port_also_of: shares_port(config, service, tunnel, addresses),
            }
        }
        Mode::Fullnat => Need::Fullnat,
    }
}

/// The gateway's own address on the link of a server: the one with the longest prefix.
fn gateway_on_link(config: &Config, server: IpAddr) -> Option<IpAddr> {
    let own = config.ports.iter().flat_map(|port| &port.addresses);
    own.filter(|own| own.prefix().contains(server))
        .max_by_key(|own| own.length)
        .map(|own| own.address)
}

/// Bytes of the largest packet that fits into the tunnel to a server.
fn room(config: &Config, server: IpAddr, tunnel: Tunnel) -> u16 {
    let header = u16::try_from(tun::overhead(&tunnel, server.is_ipv6())).unwrap_or(u16::MAX);
    way_mtu(config, server).saturating_sub(header)
}

/// The MTU of the port by which packets for a server leave; that of the first port for one that cannot be reached.
fn way_mtu(config: &Config, server: IpAddr) -> u16 {
    let connected = config
        .ports
        .iter()
        .enumerate()
        .flat_map(|(port, settings)| settings.addresses.iter().map(move |own| (own.prefix(), port)));
    let routes = config.routes.iter().map(|route| (route.to, route.port));
    let way = connected
        .chain(routes)
        .filter(|(prefix, _)| prefix.contains(server))
        .max_by_key(|(prefix, _)| prefix.length());
    let port = way.map_or(0, |(_, port)| port);
    config.ports.get(port).map_or(1500, |port| port.mtu)
}

/// The VIPs of a listener: its own, or those whose packets get its firewall mark.
fn addresses_of(config: &Config, listener: &Listener) -> Vec<IpAddr> {
    let ServiceKey::Mark { mark, ipv6 } = listener.key else {
        return listener.key.address().into_iter().collect();
    };
    let rules = config.marks.iter().filter(|rule| rule.mark == mark);
    let alone = |prefix: &&Prefix| prefix.address().is_ipv6() == ipv6 && prefix.is_host();
    let prefixes = rules.flat_map(|rule| rule.destinations.iter().filter(alone));
    prefixes.map(|prefix| prefix.address()).collect()
}

/// The VIPs of a service's listeners, each once.
fn vips(config: &Config, service: &Service, need: &Need, servers: &[IpAddr]) -> Vec<Vip> {
    let listeners = service.listeners.iter();
    let addresses = distinct(listeners.flat_map(|listener| addresses_of(config, listener)));
    let also_of = |vip: IpAddr| {
        others(config, service)
            .find(|(other, server)| {
                servers.contains(&address(server))
                    && other.mode_of(server) == mode(need)
                    && other
                        .listeners
                        .iter()
                        .any(|listener| addresses_of(config, listener).contains(&vip))
            })
            .map(|(other, _)| other.name.clone())
    };
    addresses
        .into_iter()
        .map(|address| Vip {
            address,
            also_of: also_of(address),
        })
        .collect()
}

fn mode(need: &Need) -> Mode {
    match need {
        Need::Nat { .. } => Mode::Nat,
        Need::Dr => Mode::Dr,
        Need::Tun { .. } => Mode::Tun,
        Need::Fullnat => Mode::Fullnat,
    }
}

/// Another service that sends GUE to the same port of one of the servers.
fn shares_port(config: &Config, service: &Service, tunnel: Tunnel, servers: &[IpAddr]) -> Option<String> {
    let TunnelKind::Gue { port } = tunnel.kind else {
        return None;
    };
    others(config, service)
        .find(|(other, server)| {
            servers.contains(&address(server))
                && other.mode_of(server) == Mode::Tun
                && other.tunnel_of(server).kind == TunnelKind::Gue { port }
        })
        .map(|(other, _)| other.name.clone())
}

/// Each server of each other service.
fn others<'a>(config: &'a Config, service: &'a Service) -> impl Iterator<Item = (&'a Service, &'a Server)> {
    let others = config.services.iter().filter(|other| other.name != service.name);
    others.flat_map(|other| {
        config.pools[other.pool]
            .servers
            .iter()
            .map(move |server| (other, server))
    })
}
