//! Services and their servers.

use crate::gateway::{Counted, Gateway, ServerTotals, State};
use crate::model::VirtualService;
use dataplane::flow::Mode;
use dataplane::service::{self, TunnelChecksum, TunnelKind};
use dataplane::time::TICKS_PER_SECOND;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A service, with the sums over its servers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Service {
    /// Its name in the file; empty when it was made by a command.
    pub name: String,
    /// The service in the file that it is a queue of, if it is one (`scheduler: mq`).
    #[serde(default)]
    pub queue_of: Option<String>,
    /// VIP, port and protocol, such as `203.0.113.100:80/tcp` or `[2001:db8::1]:80/tcp`; of a service for a firewall
    /// mark, `FWM 6666` or `FWM 6666 IPv6`.
    pub listen: String,
    /// The VIP; none for a firewall mark.
    pub address: Option<IpAddr>,
    /// The port, host order, 0 = every port; none for a firewall mark.
    pub port: Option<u16>,
    /// `tcp`, `udp` or `sctp`; none for a firewall mark.
    pub protocol: Option<String>,
    /// The firewall mark, if the service is for one.
    #[serde(default)]
    pub mark: Option<u32>,
    /// The scheduler's name.
    pub scheduler: String,
    /// The scheduler's flags, such as `sh-port`.
    pub scheduler_flags: Vec<String>,
    /// How clients are kept on their server, if they are.
    #[serde(default)]
    pub persistence: Option<Persistence>,
    /// Whether each datagram is scheduled on its own.
    pub one_packet: bool,
    /// Whether the answers of NAT servers to such datagrams are translated back.
    pub translate_replies: bool,
    /// Whether NAT hides a client on the server's own link behind a local address.
    pub hairpin_snat: bool,
    /// The largest MSS that SYNs may announce, in bytes, if there is a limit.
    pub mss_clamp: Option<u16>,
    /// How FULLNAT servers learn who their client is: `none`, `toa` or `proxy_v2`.
    pub client_address: String,
    /// Its groups of local addresses, by name.
    pub local_addresses: Vec<String>,
    /// How many servers it has.
    pub servers: usize,
    /// How many of them have something to warn of.
    pub servers_with_warnings: usize,
    /// Connections that removed servers still have: they drain, or wait for their server.
    #[serde(default)]
    pub departing: u64,
    /// What becomes of the connections of a server that is removed: `keep`, `drain`, `reset` or `reschedule`.
    #[serde(default)]
    pub on_remove: String,
    /// Whether both ends of an idle TCP connection are told of its end.
    #[serde(default)]
    pub reset_idle: bool,
    /// Whether UDP connections leave a server of weight 0.
    #[serde(default)]
    pub expire_quiescent: bool,
    /// Whether it has timeouts of its own.
    #[serde(default)]
    pub own_timeouts: bool,
    /// How many connections it takes.
    #[serde(default)]
    pub limits: Limits,
    /// Traffic, also that of servers that are gone, and connections of the servers that it has.
    #[serde(flatten)]
    pub totals: ServerTotals,
}

impl Service {
    /// Whether that is its name, where it listens, or the service that it is a queue of.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.listen == name || self.queue_of.as_deref() == Some(name)
    }
}

/// How a service keeps its clients.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Persistence {
    /// How long a client's server is remembered after its last connection was opened, in seconds.
    pub timeout: u32,
    /// Which bits of a client's address count: a mask of IPv4, a length of IPv6.
    pub mask: String,
    /// What else makes a client, such as `sip`.
    pub engine: Option<String>,
    /// How much of its share a server may have, in percent, before clients with many connections spread, if there is a bound.
    #[serde(default)]
    pub bound: Option<u32>,
}

impl Persistence {
    fn of(service: &service::Service) -> Option<Persistence> {
        let persistence = service.persistence?;
        Some(Persistence {
            timeout: persistence.timeout / TICKS_PER_SECOND,
            mask: match service.key.is_ipv6() {
                true => persistence.prefix.to_string(),
                false => persistence.netmask.to_string(),
            },
            engine: service.engine.map(|engine| engine.name().to_owned()),
            bound: (persistence.bound != 0).then_some(persistence.bound),
        })
    }
}

/// How many connections a service takes; none = no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Connections at once.
    pub connections: Option<u32>,
    /// New connections in a second.
    pub rate: Option<u32>,
    /// Connections at once of one client address.
    pub client_connections: Option<u32>,
    /// New connections in a second of one client address.
    pub client_rate: Option<u32>,
}

impl From<service::Limits> for Limits {
    fn from(limits: service::Limits) -> Limits {
        let some = |limit: u32| Some(limit).filter(|limit| *limit > 0);
        Limits {
            connections: some(limits.connections),
            rate: some(limits.rate),
            client_connections: some(limits.client_connections),
            client_rate: some(limits.client_rate),
        }
    }
}

/// A server of one service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Server {
    /// The service's name.
    pub service: String,
    /// Where the service listens.
    pub listen: String,
    /// The server's address.
    pub address: IpAddr,
    /// The server's port, host order.
    pub port: u16,
    /// The forwarding mode.
    pub mode: String,
    /// How the packets of a TUN server are wrapped.
    pub tunnel: Option<Tunnel>,
    /// Its share of new connections; 0 = quiesced.
    pub weight: u32,
    /// Connections at which it gets no new ones; 0 = no limit.
    pub upper_threshold: u32,
    /// Connections below which it gets new ones again; 0 = three quarters of the upper threshold.
    pub lower_threshold: u32,
    /// Whether the operator has marked it overloaded.
    #[serde(default)]
    pub overloaded: bool,
    /// Traffic and connections.
    #[serde(flatten)]
    pub totals: ServerTotals,
    /// What the operator should know, if anything.
    pub warning: Option<String>,
}

/// A tunnel to a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tunnel {
    /// `ipip`, `gue` or `gre`.
    #[serde(rename = "type")]
    pub kind: String,
    /// GUE: the UDP port that it goes to, host order.
    pub port: Option<u16>,
    /// `none`, `outer` or `remote`.
    pub checksum: String,
}

impl Tunnel {
    /// That of a TUN server.
    fn of(server: &service::Server) -> Option<Tunnel> {
        let (kind, port) = match server.tunnel.kind {
            TunnelKind::Ipip => ("ipip", None),
            TunnelKind::Gue { port } => ("gue", Some(port)),
            TunnelKind::Gre => ("gre", None),
        };
        let checksum = match server.tunnel.checksum {
            TunnelChecksum::None => "none",
            TunnelChecksum::Outer => "outer",
            TunnelChecksum::Remote => "remote",
        };
        (server.mode == Mode::Tun).then(|| Tunnel {
            kind: kind.to_owned(),
            port,
            checksum: checksum.to_owned(),
        })
    }
}

/// A service with its servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// The service.
    pub service: Service,
    /// Its servers, in the order of LVS: the one added last comes first.
    pub servers: Vec<Server>,
}

/// Every service with its servers, in the order of VIP, port and protocol.
#[must_use]
pub fn table(gateway: &Gateway, counted: Counted) -> Vec<Table> {
    each(gateway, counted, |state, entry, listen| {
        let servers = entry.service.servers.iter();
        let totals = |slot| gateway.server_totals(state, slot, counted);
        let view = |server: &service::Server| server_view(entry, listen, server, totals(server.slot));
        servers.map(view).collect()
    })
}

/// Every service without its servers: many strings fewer where there are many servers. In the same order.
#[must_use]
pub fn services(gateway: &Gateway, counted: Counted) -> Vec<Service> {
    let tables = each(gateway, counted, |_, _, _| Vec::new());
    tables.into_iter().map(|table| table.service).collect()
}

/// Every service, with what `servers` makes of its servers.
fn each(
    gateway: &Gateway,
    counted: Counted,
    servers: impl Fn(&State, &VirtualService, &str) -> Vec<Server>,
) -> Vec<Table> {
    let state = gateway.state();
    let departed = gateway.departed_totals(&state, counted);
    let departing = gateway.departing_connections(&state);
    let tables = state.model.services().map(|entry| {
        let service = &entry.service;
        let listen = service.key.to_string();
        let mut totals = departed.get(&service.key).copied().unwrap_or_default();
        let mut warnings = 0;
        for server in &service.servers {
            let of_server = gateway.server_totals(&state, server.slot, counted);
            warnings += usize::from(warning(entry, server, of_server).is_some());
            totals += of_server;
        }
        let servers = servers(&state, entry, &listen);
        Table {
            service: Service {
                departing: departing.get(&service.key).copied().unwrap_or_default(),
                ..service_view(&state, entry, listen, totals, warnings)
            },
            servers,
        }
    });
    tables.collect()
}

fn service_view(
    state: &State,
    entry: &VirtualService,
    listen: String,
    totals: ServerTotals,
    servers_with_warnings: usize,
) -> Service {
    let service = &entry.service;
    let groups = state.model.local_groups();
    let used = groups
        .iter()
        .filter(|group| group.serves(service))
        .map(|group| group.name.clone());
    Service {
        name: entry.name.clone(),
        queue_of: entry.queue_of.clone(),
        listen,
        address: service.key.address(),
        port: service.key.address().map(|_| service.key.port()),
        protocol: service.key.protocol().map(|protocol| protocol.name().to_owned()),
        mark: service.key.mark(),
        scheduler: service.scheduler.name().to_owned(),
        scheduler_flags: service
            .scheduler_flags
            .names(service.scheduler)
            .map(str::to_owned)
            .collect(),
        persistence: Persistence::of(service),
        one_packet: service.one_packet,
        translate_replies: service.translate_replies,
        hairpin_snat: service.hairpin_snat,
        mss_clamp: Some(service.mss_clamp).filter(|mss| *mss > 0),
        client_address: service.client_address.name().to_owned(),
        local_addresses: used.collect(),
        servers: service.servers.len(),
        servers_with_warnings,
        departing: 0,
        on_remove: service.policy.on_remove.name().to_owned(),
        reset_idle: service.policy.reset_idle,
        expire_quiescent: service.policy.expire_quiescent,
        own_timeouts: service.timeouts.is_some(),
        limits: service.policy.limits.into(),
        totals,
    }
}

fn server_view(
    entry: &VirtualService,
    listen: &str,
    server: &service::Server,
    totals: ServerTotals,
) -> Server {
    Server {
        service: entry.name.clone(),
        listen: listen.to_owned(),
        address: server.address,
        port: server.port,
        mode: server.mode.name().to_owned(),
        tunnel: Tunnel::of(server),
        weight: server.weight,
        upper_threshold: server.upper_threshold,
        lower_threshold: server.lower_threshold,
        overloaded: server.overloaded,
        totals,
        warning: warning(entry, server, totals),
    }
}

fn warning(entry: &VirtualService, server: &service::Server, totals: ServerTotals) -> Option<String> {
    let (now, upper) = (totals.active + totals.inactive, u64::from(server.upper_threshold));
    let full = (upper > 0 && now >= upper)
        .then(|| format!("{now} connections reach the upper threshold: gets no new ones"));
    let port = entry.ignored_port(server).map(|port| {
        let (mode, own) = (server.mode.name(), entry.service.key.port());
        format!("port {port} has no effect: {mode} leaves packets as they are, on port {own}")
    });
    let marked = server
        .overloaded
        .then(|| "marked overloaded: gets no new connections".to_owned());
    let warnings: Vec<String> = port.into_iter().chain(full).chain(marked).collect();
    (!warnings.is_empty()).then(|| warnings.join("; "))
}
