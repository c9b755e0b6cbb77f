//! The sections that concern the network beyond ports: routes, neighbours, local addresses.

use std::net::IpAddr;

use super::At;
use super::field::{Field, Fields, OneOrMore};
use super::typed::{flag, optional_word, placed_number, word};
use super::{address, value};
use crate::config::Place;
use crate::config::report::{Fault, Report};
use crate::config::schema;
use crate::config::types::{AddressRange, Owner, PortRange, Prefix};
use crate::config::yaml::shown;

/// Who says whether an address is the gateway's.
pub(crate) const OWNERS: [(&str, Owner); 2] = [("gateway", Owner::Gateway), ("kernel", Owner::Kernel)];

/// A route as it was written; what was left out or could not be read is none.
pub(crate) struct RawRoute {
    pub(crate) to: Option<At<Prefix>>,
    pub(crate) via: OneOrMore<RawHop>,
    pub(crate) port: Option<At<String>>,
    /// Whether it says that nothing leads there.
    pub(crate) unreachable: bool,
    /// Whether a part of it could not be read.
    pub(crate) incomplete: bool,
    pub(crate) place: Place,
}

/// A gateway of a route as it was written.
pub(crate) struct RawHop {
    pub(crate) address: At<IpAddr>,
    pub(crate) weight: u16,
    /// The port of this one, where it says another than the route does.
    pub(crate) port: Option<At<String>>,
}

/// A static neighbour as it was written.
pub(crate) struct RawNeighbour {
    pub(crate) address: Option<At<IpAddr>>,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) port: Option<At<String>>,
    /// Whether `port` was written, though it could not be read.
    pub(crate) names_port: bool,
    pub(crate) place: Place,
}

/// A group of local addresses as it was written.
pub(crate) struct RawLocalAddresses {
    pub(crate) name: Option<At<String>>,
    pub(crate) port: Option<At<String>>,
    pub(crate) ranges: OneOrMore<AddressRange>,
    pub(crate) ports: PortRange,
    pub(crate) routed: bool,
    pub(crate) owner: Owner,
    pub(crate) place: Place,
}

/// The name that the mapping must have.
pub(crate) fn own_name(fields: &Fields<'_>, example: &str, report: &mut Report) -> Option<At<String>> {
    fields
        .required("name", example, report)?
        .value("a name", report, value::name)
}

/// The name of something else, under `key`.
pub(crate) fn reference(fields: &Fields<'_>, key: &'static str, report: &mut Report) -> Option<At<String>> {
    fields
        .get(key)?
        .value("a name", report, |text| Ok(text.to_owned()))
}

pub(crate) fn mac(fields: &Fields<'_>, report: &mut Report) -> Option<[u8; 6]> {
    let mac = fields
        .get("mac")?
        .value("a MAC address such as 02:00:00:00:00:01", report, address::mac);
    mac.map(|at| at.value)
}

/// An element of `routes`.
pub(crate) fn route(field: Field<'_>, report: &mut Report) -> RawRoute {
    let fields = Fields::open(field, &schema::ROUTE, report);
    let to = fields.required("to", "`to: 10.1.0.0/16`, `to: default` or `to: default6`", report);
    let to = to.and_then(|field| {
        field.value(
            "a prefix such as 10.1.0.0/16, `default` or `default6`",
            report,
            address::prefix,
        )
    });
    let via = fields.get("via").map(|field| {
        let hops = field.one_or_more(report, next_hop);
        if hops.items.is_empty() {
            let remedy = "write the address of a gateway, or several, which share the flows";
            field.error(Fault::new("an empty list", remedy), report);
        }
        hops
    });
    let via_read = via
        .as_ref()
        .is_some_and(|hops| !hops.items.is_empty() && !hops.incomplete());
    let port = reference(&fields, "port", report);
    let unreachable = fields.get("unreachable");
    let unreachable = unreachable.and_then(|field| field.value("`true` or `false`", report, value::flag));
    let unread = |key: &'static str, read: bool| fields.get(key).is_some() && !read;
    RawRoute {
        incomplete: to.is_none()
            || unread("via", via_read)
            || unread("port", port.is_some())
            || unread("unreachable", unreachable.is_some()),
        to,
        via: via.unwrap_or_else(OneOrMore::none),
        port,
        unreachable: unreachable.is_some_and(|at| at.value),
        place: field.place(),
    }
}

/// An element of `routes[].via`: an address, or a mapping with one.
fn next_hop(field: Field<'_>, report: &mut Report) -> Option<RawHop> {
    let expected = "the gateway's address";
    if field.is_scalar() {
        let address = field.value(expected, report, address::neighbour)?;
        return Some(RawHop {
            address,
            weight: 1,
            port: None,
        });
    }
    let fields = Fields::open(field, &schema::NEXT_HOP, report);
    let address = fields.required("address", "`address: 192.0.2.1`, say", report);
    let weight = placed_number(&fields, "weight", 1..=256, report);
    let port = reference(&fields, "port", report);
    let unread = fields.has_unknown()
        || fields.get("weight").is_some() && weight.is_none()
        || fields.get("port").is_some() && port.is_none();
    let address = address?.value(expected, report, address::neighbour)?;
    (!unread).then_some(RawHop {
        address,
        weight: weight.map_or(1, |at| at.value),
        port,
    })
}

/// The kernel's table: by its number, or the name of the one that everybody uses.
pub(crate) fn kernel_routes(fields: &Fields<'_>, report: &mut Report) -> Option<At<u32>> {
    const MAIN: u32 = 254;
    let table = |text: &str| match text {
        "off" | "false" => Ok(None),
        "main" | "true" => Ok(Some(MAIN)),
        _ => value::number(text, 1..=u64::from(u32::MAX))
            .map(|number| Some(number as u32))
            .map_err(|_| {
                let problem = format!("`{}` is no routing table", shown(text));
                Fault::new(problem, "write `main`, the number of a table, or `off`")
            }),
    };
    let expected = "`main`, the number of a routing table, or `off`";
    let at = fields.get("kernel_routes")?.value(expected, report, table)?;
    let place = at.place;
    at.value.map(|value| At { value, place })
}

/// `announce`, of the document or of a VIP: whether VIPs are to be addresses of the kernel's `lo`.
pub(crate) fn announce(fields: &Fields<'_>, report: &mut Report) -> Option<bool> {
    optional_word(fields, "announce", &[("off", false), ("loopback", true)], report)
}

/// An element of `neighbours`.
pub(crate) fn neighbour(field: Field<'_>, report: &mut Report) -> RawNeighbour {
    let fields = Fields::open(field, &schema::NEIGHBOUR, report);
    let address = fields.required("address", "`address: 10.0.0.11`, say", report);
    fields.required("mac", "`mac: 02:00:00:00:00:01`, say", report);
    RawNeighbour {
        address: address.and_then(|field| field.value("an IP address", report, address::neighbour)),
        mac: mac(&fields, report),
        port: reference(&fields, "port", report),
        names_port: fields.get("port").is_some(),
        place: field.place(),
    }
}

/// An element of `local_addresses`.
pub(crate) fn local_addresses(field: Field<'_>, report: &mut Report) -> RawLocalAddresses {
    let fields = Fields::open(field, &schema::LOCAL_ADDRESSES, report);
    let name = own_name(&fields, "`name: dip`, say", report);
    fields.required(
        "port",
        "`port:` with the name of the port that servers are behind",
        report,
    );
    let port = reference(&fields, "port", report);
    let each = |field: Field<'_>, report: &mut Report| {
        let place = field.place();
        let expected = "an IP address, a range such as 10.0.0.200-203, or a prefix";
        Some(
            field
                .value(expected, report, |text| address::address_range(text, place))?
                .value,
        )
    };
    let addresses = fields.required("addresses", "`addresses: [10.0.0.200-10.0.0.203]`, say", report);
    let ranges = addresses.map(|field| {
        let ranges = field.one_or_more(report, each);
        if ranges.items.is_empty() {
            let remedy = "write at least one address: each gives about 60,000 connections to each server";
            field.error(Fault::new("an empty list", remedy), report);
        }
        ranges
    });
    let ports = fields.get("ports");
    let ports = ports.and_then(|field| field.value("a range such as 1024-65535", report, value::port_range));
    RawLocalAddresses {
        name,
        port,
        ranges: ranges.unwrap_or_else(OneOrMore::none),
        ports: ports.map_or(
            PortRange {
                first: 1024,
                last: 65535,
            },
            |at| at.value,
        ),
        routed: flag(&fields, "routed", false, report),
        owner: word(&fields, "owner", &OWNERS, report),
        place: field.place(),
    }
}
