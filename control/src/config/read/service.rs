//! The sections `pools` and `services`.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use dataplane::flow::{Mode, Timeouts};
use dataplane::scheduler::{SchedulerFlags, SchedulerKind};
use dataplane::service::{ClientAddress, ServiceKey, Tunnel};

use super::At;
use super::field::{Field, Fields, OneOrMore};
use super::marks::{self, RawPersistence};
use super::network::{own_name, reference};
use super::policy::{RawPolicy, policy};
use super::queue::{self, RawQueue};
use super::typed::{flag, number, placed_number};
use super::{address, scheduler, tunnel, value};
use crate::config::report::{Fault, Report};
use crate::config::schema;
use crate::config::types::Listener;
use crate::config::{Place, Server};

/// What IPVS takes: a C `int`.
const INT_MAX: u64 = 0x7fff_ffff;
/// From what any host takes (RFC 1122 section 3.3.3, less the headers) to what the largest IPv4 packet has room for.
const MSS: RangeInclusive<u64> = 536..=65_495;
/// The forwarding modes, in words.
const MODES: &str = "`nat`, `dr`, `tun` or `fullnat`";
/// What a server is told, in words.
const CLIENT_ADDRESSES: &str = "`none`, `toa` or `proxy_v2`";

/// A pool as it was written.
pub(crate) struct RawPool {
    pub(crate) name: Option<At<String>>,
    pub(crate) servers: Vec<RawServer>,
    pub(crate) place: Place,
}

/// A server as it was written.
pub(crate) struct RawServer {
    pub(crate) address: Option<At<IpAddr>>,
    pub(crate) port: Option<At<u16>>,
    pub(crate) weight: u32,
    pub(crate) mode: Option<Mode>,
    pub(crate) tunnel: Option<At<Tunnel>>,
    pub(crate) upper_threshold: u32,
    pub(crate) lower_threshold: u32,
    pub(crate) overloaded: bool,
    /// Whether its port, mode or tunnel was written, but could not be read.
    pub(crate) incomplete: bool,
    pub(crate) place: Place,
}

impl RawServer {
    /// The server itself, if all that is needed of it could be read.
    pub(crate) fn server(&self) -> Option<Server> {
        Some(Server {
            address: self.address.filter(|_| !self.incomplete)?.value,
            port: self.port.map(|at| at.value),
            weight: self.weight,
            mode: self.mode,
            tunnel: self.tunnel.map(|at| at.value),
            upper_threshold: self.upper_threshold,
            lower_threshold: self.lower_threshold,
            overloaded: self.overloaded,
            place: self.place,
        })
    }
}

/// A service as it was written.
pub(crate) struct RawService {
    pub(crate) name: Option<At<String>>,
    /// With queues, those of the first queue that could be read: see [`RawService::queue_listeners`].
    pub(crate) listeners: OneOrMore<Listener>,
    /// With the scheduler `mq`.
    pub(crate) queues: Option<Vec<RawQueue>>,
    /// Whether `listen` was written.
    pub(crate) listens: bool,
    pub(crate) mark: Option<At<u32>>,
    pub(crate) pool: Option<At<String>>,
    pub(crate) mode: Option<Mode>,
    pub(crate) tunnel: Option<At<Tunnel>>,
    pub(crate) scheduler: SchedulerKind,
    pub(crate) scheduler_flags: SchedulerFlags,
    /// Names of groups; none when the key is missing.
    pub(crate) local_addresses: Option<At<OneOrMore<At<String>>>>,
    pub(crate) persistence: Option<RawPersistence>,
    pub(crate) one_packet: Option<At<bool>>,
    pub(crate) translate_replies: Option<At<bool>>,
    pub(crate) hairpin_snat: Option<At<bool>>,
    pub(crate) mss_clamp: Option<At<u16>>,
    pub(crate) client_address: Option<At<ClientAddress>>,
    pub(crate) policy: RawPolicy,
    pub(crate) place: Place,
}

impl RawService {
    /// Whether it is for that firewall mark, or for one that could not be read.
    pub(crate) fn names_mark(&self, mark: u32) -> bool {
        self.mark.is_some_and(|at| at.value == mark)
    }

    /// Where the queue for that port listens, with the index of each listener.
    pub(crate) fn queue_listeners(&self, port: At<u16>) -> impl Iterator<Item = (usize, Listener)> {
        let listeners = self.listeners.iter();
        listeners.filter_map(move |(item, listener)| {
            let Listener { key, place } = *listener;
            let key = ServiceKey::new(key.address()?, port.value, key.protocol()?);
            Some((item, Listener { key, place }))
        })
    }

    /// How servers are chosen: its scheduler, or those of its queues.
    pub(crate) fn schedulers(&self) -> impl Iterator<Item = SchedulerKind> {
        let own = self.queues.is_none().then_some(self.scheduler);
        let queues = self.queues.iter().flatten();
        own.into_iter().chain(queues.map(|queue| queue.scheduler))
    }
}

/// An element of `pools`.
pub(crate) fn pool(field: Field<'_>, report: &mut Report) -> RawPool {
    let fields = Fields::open(field, &schema::POOL, report);
    let name = own_name(&fields, "`name: web`, say", report);
    fields.required(
        "servers",
        "`servers: [ { address: 10.0.0.11, port: 8080 } ]`, or `servers: []` for none",
        report,
    );
    RawPool {
        name,
        servers: fields.list("servers", report, server),
        place: field.place(),
    }
}

fn server(field: Field<'_>, report: &mut Report) -> RawServer {
    let fields = Fields::open(field, &schema::SERVER, report);
    let address = fields.required("address", "`address: 10.0.0.11`, say", report);
    let address = address.and_then(|field| field.value("an IP address", report, address::server_address));
    let port = fields
        .get("port")
        .map(|field| field.value("a port from 1 to 65535", report, value::l4_port));
    let mode = fields
        .get("mode")
        .map(|field| field.value(MODES, report, value::mode));
    let tunnel = fields
        .get("tunnel")
        .map(|field| tunnel::tunnel(field, &schema::SERVER_TUNNEL, report));
    let upper = number(&fields, "upper_threshold", 0..=INT_MAX, 0, report);
    let lower = number(&fields, "lower_threshold", 0..=INT_MAX, 0, report);
    if let Some(field) = fields.get("lower_threshold")
        && lower > 0
        && lower > upper
    {
        let problem = match upper {
            0 => "a lower threshold without an upper one has no effect".to_owned(),
            _ => format!("the lower threshold {lower} is above the upper one, {upper}"),
        };
        field.error(
            Fault::new(problem, "write an `upper_threshold` above it, or leave both out"),
            report,
        );
    }
    RawServer {
        address,
        incomplete: port == Some(None) || mode == Some(None) || tunnel == Some(None),
        port: port.flatten(),
        weight: number(&fields, "weight", 0..=INT_MAX, 1, report),
        mode: mode.flatten().map(|at| at.value),
        tunnel: tunnel.flatten(),
        upper_threshold: upper,
        lower_threshold: lower,
        overloaded: flag(&fields, "overloaded", false, report),
        place: field.place(),
    }
}

/// An element of `services`; `usual` are the timeouts of the file.
pub(crate) fn service(field: Field<'_>, usual: &Timeouts, report: &mut Report) -> RawService {
    let fields = Fields::open(field, &schema::SERVICE, report);
    let name = own_name(&fields, "`name: web`, say", report);
    let listen = match fields.get("mark") {
        Some(_) => fields.get("listen"),
        None => fields.required("listen", "`listen: \"203.0.113.100:80/tcp\"`, say", report),
    };
    let mq = scheduler::mq(&fields);
    let queues = queue::queues(&fields, mq, report);
    let first_port = queues.iter().flatten().find_map(|queue| queue.port);
    let each = |field: Field<'_>, report: &mut Report| {
        let place = field.place();
        if mq.is_some() {
            let expected = "an address and protocol such as 203.0.113.100/tcp or \"2001:db8::1/tcp\"";
            let (address, protocol) = field.value(expected, report, value::queues_vip)?.value;
            return Some(Listener {
                key: ServiceKey::new(address, first_port?.value, protocol),
                place,
            });
        }
        let expected =
            "an address, port and protocol such as 203.0.113.100:80/tcp or \"[2001:db8::1]:80/tcp\"";
        Some(
            field
                .value(expected, report, |text| value::listener(text, place))?
                .value,
        )
    };
    let listeners = listen.map(|field| {
        let listeners = field.one_or_more(report, each);
        if listeners.items.is_empty() {
            field.error(
                Fault::new(
                    "an empty list",
                    "write at least one, such as 203.0.113.100:80/tcp",
                ),
                report,
            );
        }
        listeners
    });
    if mq.is_none() {
        fields.required("pool", "`pool:` with the name of a pool", report);
    }
    let mode = fields.required(
        "mode",
        "`mode: nat`, `mode: dr`, `mode: tun` or `mode: fullnat`",
        report,
    );
    let mode = mode.and_then(|field| field.value(MODES, report, value::mode));
    let tunnel = fields.get("tunnel");
    let (scheduler, scheduler_flags) = match mq {
        None => scheduler::scheduler(&fields, true, report),
        Some(_) => (SchedulerKind::Wlc, SchedulerFlags::NONE),
    };
    let client_address = fields.get("client_address");
    let client_address =
        client_address.and_then(|field| field.value(CLIENT_ADDRESSES, report, value::client_address));
    let mut flag = |key| {
        let field: Option<Field<'_>> = fields.get(key);
        field.and_then(|field| field.value("`true` or `false`", report, value::flag))
    };
    let [one_packet, translate_replies, hairpin_snat] =
        ["one_packet", "translate_replies", "hairpin_snat"].map(&mut flag);
    RawService {
        name,
        listens: listen.is_some(),
        mark: marks::mark_number(&fields, report),
        persistence: fields
            .get("persistence")
            .map(|field| marks::persistence(field, report)),
        listeners: listeners.unwrap_or_else(OneOrMore::none),
        queues,
        pool: reference(&fields, "pool", report),
        mode: mode.map(|at| at.value),
        tunnel: tunnel.and_then(|field| tunnel::tunnel(field, &schema::SERVICE_TUNNEL, report)),
        scheduler,
        scheduler_flags,
        local_addresses: local_addresses(&fields, report),
        one_packet,
        translate_replies,
        hairpin_snat,
        mss_clamp: placed_number(&fields, "mss_clamp", MSS, report),
        client_address,
        policy: policy(&fields, usual, report),
        place: field.place(),
    }
}

/// The names of groups of local addresses.
pub(crate) fn local_addresses(fields: &Fields<'_>, report: &mut Report) -> Option<At<OneOrMore<At<String>>>> {
    let field = fields.get("local_addresses")?;
    let each =
        |field: Field<'_>, report: &mut Report| field.value("a name", report, |text| Ok(text.to_owned()));
    Some(At {
        value: field.one_or_more(report, each),
        place: field.place(),
    })
}
