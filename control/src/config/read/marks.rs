//! The section `marks`, and what services say of marks and of persistence.

use std::net::Ipv4Addr;

use dataplane::service::{Persistence, PersistenceEngine, Protocol};
use dataplane::time::seconds;

use super::field::{Field, Fields, OneOrMore};
use super::network::reference;
use super::typed::{optional_word, placed_number};
use super::{At, address, policy, value};
use crate::config::Place;
use crate::config::report::{Fault, Report};
use crate::config::schema;
use crate::config::types::{PortRange, Prefix};
use crate::config::yaml::shown;

/// What IPVS takes for the timeout of persistence: up to 31 days, in seconds.
const TIMEOUT: std::ops::RangeInclusive<u64> = 1..=2_678_400;
/// LVS's, in seconds.
const USUAL_TIMEOUT: u32 = 360;

/// An element of `marks` as it was written.
pub(crate) struct RawMark {
    pub(crate) mark: Option<At<u32>>,
    pub(crate) destinations: OneOrMore<At<Prefix>>,
    pub(crate) sources: OneOrMore<At<Prefix>>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) ports: OneOrMore<PortRange>,
    pub(crate) input: Option<At<String>>,
    pub(crate) place: Place,
}

/// An element of `marks`.
pub(crate) fn mark(field: Field<'_>, report: &mut Report) -> RawMark {
    let fields = Fields::open(field, &schema::MARK, report);
    fields.required("mark", "`mark:` with a number from 1 to 4294967295", report);
    let destination = fields.required(
        "destination",
        "`destination: 203.0.113.100`, a prefix, or a list of them",
        report,
    );
    let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].map(|known| (known.name(), known));
    RawMark {
        mark: mark_number(&fields, report),
        destinations: addresses(destination, report),
        sources: addresses(fields.get("source"), report),
        protocol: optional_word(&fields, "protocol", &protocols, report),
        ports: ports(fields.get("ports"), report),
        input: reference(&fields, "input", report),
        place: field.place(),
    }
}

/// The firewall mark under `mark`.
pub(crate) fn mark_number(fields: &Fields<'_>, report: &mut Report) -> Option<At<u32>> {
    placed_number(fields, "mark", 1..=u32::MAX.into(), report)
}

/// Addresses and prefixes; an address is the prefix that holds it alone.
fn addresses(field: Option<Field<'_>>, report: &mut Report) -> OneOrMore<At<Prefix>> {
    let each = |field: Field<'_>, report: &mut Report| {
        field.value("an address, or a prefix such as 10.9.0.0/16", report, |text| {
            if text.contains('/') {
                return address::prefix(text);
            }
            Ok(Prefix::around(address::address(text)?, 128))
        })
    };
    some(field, "write an address or a prefix", each, report)
}

fn ports(field: Option<Field<'_>>, report: &mut Report) -> OneOrMore<PortRange> {
    let each = |field: Field<'_>, report: &mut Report| {
        let range = field.value(
            "a port, or a range such as 10000-20000",
            report,
            value::port_range,
        );
        range.map(|at| at.value)
    };
    some(
        field,
        "write a port, or remove the key for all ports",
        each,
        report,
    )
}

/// A list that has elements where it is written.
fn some<T>(
    field: Option<Field<'_>>,
    remedy: &str,
    each: impl FnMut(Field<'_>, &mut Report) -> Option<T>,
    report: &mut Report,
) -> OneOrMore<T> {
    let Some(field) = field else {
        return OneOrMore::none();
    };
    let list = field.one_or_more(report, each);
    if list.items.is_empty() {
        field.error(Fault::new("an empty list", remedy), report);
    }
    list
}

/// What a service says of persistence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RawPersistence {
    pub(crate) persistence: Persistence,
    pub(crate) engine: Option<At<PersistenceEngine>>,
    pub(crate) bound: Option<Place>,
    /// Where masks are written.
    pub(crate) netmask: Option<Place>,
    pub(crate) prefix: Option<Place>,
    pub(crate) place: Place,
}

/// The mapping `persistence` of a service.
pub(crate) fn persistence(field: Field<'_>, report: &mut Report) -> RawPersistence {
    let fields = Fields::open(field, &schema::PERSISTENCE, report);
    let timeout = fields
        .get("timeout")
        .and_then(|field| field.value("seconds, such as 300", report, timeout));
    let netmask = fields
        .get("netmask")
        .and_then(|field| field.value("a mask such as 255.255.255.0", report, netmask));
    let prefix = placed_number::<u8>(&fields, "prefix", 1..=128, report);
    let engines = [(PersistenceEngine::Sip.name(), PersistenceEngine::Sip)];
    let engine = fields
        .get("engine")
        .and_then(|field| field.value("`sip`", report, |text| value::choice(text, &engines)));
    let bound = fields
        .get("bound")
        .and_then(|field| field.value("a number such as 1.25", report, policy::percent));
    let each = Persistence::new(seconds(timeout.map_or(USUAL_TIMEOUT, |at| at.value)));
    RawPersistence {
        persistence: Persistence {
            netmask: netmask.map_or(each.netmask, |at| at.value),
            prefix: prefix.map_or(each.prefix, |at| at.value),
            bound: bound.map_or(0, |at| at.value),
            ..each
        },
        engine,
        bound: bound.map(|at| at.place),
        netmask: netmask.map(|at| at.place),
        prefix: prefix.map(|at| at.place),
        place: field.place(),
    }
}

/// Seconds, which may be said: `300` or `300s`.
fn timeout(text: &str) -> Result<u32, Fault> {
    let number = value::number(text.strip_suffix('s').unwrap_or(text), TIMEOUT)?;
    Ok(number as u32)
}

/// Any mask of IPv4.
fn netmask(text: &str) -> Result<Ipv4Addr, Fault> {
    text.parse().map_err(|_| {
        let problem = format!("`{}` is not a mask of IPv4", shown(text));
        Fault::new(
            problem,
            "write it as 255.255.255.0; for IPv6, write `prefix: 64`, say",
        )
    })
}
