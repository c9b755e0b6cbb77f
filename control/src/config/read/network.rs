//! The sections that concern the network: ports, routes, neighbours, local addresses.

use std::net::Ipv4Addr;

use super::At;
use super::field::{Field, Fields, OneOrMore};
use super::typed::{flag, number};
use super::{address, value};
use crate::config::Place;
use crate::config::report::{Fault, Report};
use crate::config::schema;
use crate::config::types::{AddressRange, Device, InterfaceAddress, PortRange, Prefix};
use crate::config::yaml::shown;

/// A port as it was written.
pub(crate) struct RawPort {
    pub(crate) name: Option<At<String>>,
    pub(crate) device: Option<At<Device>>,
    pub(crate) addresses: OneOrMore<InterfaceAddress>,
    /// Whether an address may be missing here because of a mistake: then nothing can be said of what is reached.
    pub(crate) incomplete: bool,
    pub(crate) mtu: u16,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) queues: Option<u16>,
    pub(crate) check_peer_offload: bool,
    pub(crate) arp_announce: bool,
    pub(crate) place: Place,
}

/// A route as it was written; `via` and `port` are none when they were left out or could not be read.
pub(crate) struct RawRoute {
    pub(crate) to: Option<At<Prefix>>,
    pub(crate) via: Option<At<Ipv4Addr>>,
    pub(crate) port: Option<At<String>>,
    /// Whether a part of it could not be read.
    pub(crate) incomplete: bool,
    pub(crate) place: Place,
}

/// A static neighbour as it was written.
pub(crate) struct RawNeighbour {
    pub(crate) address: Option<At<Ipv4Addr>>,
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

/// An element of `ports`. `with_drivers` when more drivers than DPDK's own are loaded.
pub(crate) fn port(field: Field<'_>, with_drivers: bool, report: &mut Report) -> RawPort {
    let fields = Fields::open(field, &schema::PORT, report);
    let name = own_name(&fields, "`name: wan`, say", report);
    let example = "`device: 0000:03:00.0` (a PCI address) or `device: \"net_af_packet0,iface=eth0\"`";
    let device = fields.required("device", example, report);
    let device = device.and_then(|field| {
        field.value("a PCI address or a DPDK device", report, |text| {
            device_of(text, with_drivers)
        })
    });
    let each = |field: Field<'_>, report: &mut Report| {
        let at = field.value(
            "an address such as 10.0.0.1/24",
            report,
            address::interface_address,
        )?;
        let ((address, length), place) = (at.value, at.place);
        Some(InterfaceAddress {
            address,
            length,
            place,
        })
    };
    let addresses = fields
        .get("addresses")
        .map(|field| field.one_or_more(report, each));
    let queues = |text: &str| match text {
        "auto" => Ok(None),
        _ => value::number(text, 1..=256).map(|queues| Some(queues as u16)),
    };
    let queues = fields
        .get("queues")
        .and_then(|field| field.value("`auto` or a number", report, queues));
    RawPort {
        name,
        device,
        incomplete: fields.has_unknown() || addresses.as_ref().is_some_and(OneOrMore::incomplete),
        addresses: addresses.unwrap_or_else(OneOrMore::none),
        mtu: number(&fields, "mtu", 576..=9216, 1500, report),
        mac: mac(&fields, report),
        queues: queues.and_then(|at| at.value),
        check_peer_offload: flag(&fields, "check_peer_offload", true, report),
        arp_announce: flag(&fields, "arp_announce", true, report),
        place: field.place(),
    }
}

fn mac(fields: &Fields<'_>, report: &mut Report) -> Option<[u8; 6]> {
    let mac = fields
        .get("mac")?
        .value("a MAC address such as 02:00:00:00:00:01", report, address::mac);
    mac.map(|at| at.value)
}

/// A PCI address, with or without its domain, or a software device.
fn device_of(text: &str, with_drivers: bool) -> Result<Device, Fault> {
    if let Some(address) = pci(text) {
        return Ok(Device::Pci(address));
    }
    let driver = text.split(',').next().unwrap_or_default();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let plausible = driver.starts_with(|c: char| c.is_ascii_alphabetic()) && driver.chars().all(word);
    let known = driver.starts_with("net_") || driver.starts_with("virtio_user");
    if plausible && (known || with_drivers) && !text.contains('\0') {
        return Ok(Device::Vdev(text.to_owned()));
    }
    let interface = plausible && driver == text && text.len() < 16;
    let remedy = match interface {
        true => format!(
            "for an interface of the kernel write `\"net_af_packet0,iface={text}\"`, with another number on each port"
        ),
        false => "write a PCI address such as 0000:03:00.0, or a device such as `\"net_tap0,iface=tap0\"`; name what \
                  drives any other one in `node.drivers`"
            .to_owned(),
    };
    Err(Fault::new(
        format!("`{}` is not a device that DPDK knows", shown(text)),
        remedy,
    ))
}

/// `[domain:]bus:device.function` in hexadecimal, with its domain.
fn pci(text: &str) -> Option<String> {
    let hex = |part: &str, len: usize| part.len() == len && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (head, function) = text.rsplit_once('.')?;
    let parts: Vec<&str> = head.split(':').collect();
    let (domain, bus, device) = match parts[..] {
        [domain, bus, device] => (domain, bus, device),
        [bus, device] => ("0000", bus, device),
        _ => return None,
    };
    let function_fits = matches!(function.as_bytes(), [b'0'..=b'7']);
    let fits = hex(domain, 4) && hex(bus, 2) && hex(device, 2) && function_fits;
    fits.then(|| format!("{domain}:{bus}:{device}.{function}").to_ascii_lowercase())
}

/// An element of `routes`.
pub(crate) fn route(field: Field<'_>, report: &mut Report) -> RawRoute {
    let fields = Fields::open(field, &schema::ROUTE, report);
    let to = fields.required("to", "`to: 10.1.0.0/16` or `to: default`", report);
    let to = to.and_then(|field| {
        field.value(
            "a prefix such as 10.1.0.0/16, or `default`",
            report,
            address::prefix,
        )
    });
    let via = fields
        .get("via")
        .and_then(|field| field.value("the gateway's address", report, address::address));
    let port = reference(&fields, "port", report);
    let unread = |key: &'static str, read: bool| fields.get(key).is_some() && !read;
    RawRoute {
        incomplete: to.is_none() || unread("via", via.is_some()) || unread("port", port.is_some()),
        to,
        via,
        port,
        place: field.place(),
    }
}

/// An element of `neighbours`.
pub(crate) fn neighbour(field: Field<'_>, report: &mut Report) -> RawNeighbour {
    let fields = Fields::open(field, &schema::NEIGHBOUR, report);
    let address = fields.required("address", "`address: 10.0.0.11`, say", report);
    fields.required("mac", "`mac: 02:00:00:00:00:01`, say", report);
    RawNeighbour {
        address: address.and_then(|field| field.value("an IPv4 address", report, address::address)),
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
        let expected = "an address, a range such as 10.0.0.200-203, or a prefix";
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
        place: field.place(),
    }
}
