//! The section `ports`: devices, and VLANs of them.

use super::At;
use super::field::{Field, Fields, OneOrMore};
use super::network::{mac, own_name, reference};
use super::typed::{flag, number, placed_number};
use super::{address, value};
use crate::config::Place;
use crate::config::report::{Fault, Report};
use crate::config::schema;
use crate::config::types::{Device, InterfaceAddress};
use crate::config::yaml::shown;

/// A port as it was written.
pub(crate) struct RawPort {
    pub(crate) name: Option<At<String>>,
    pub(crate) link: RawLink,
    pub(crate) addresses: OneOrMore<InterfaceAddress>,
    /// Whether an address may be missing here because of a mistake: then nothing can be said of what is reached.
    pub(crate) incomplete: bool,
    pub(crate) mtu: Option<At<u16>>,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) queues: Option<u16>,
    pub(crate) check_peer_offload: bool,
    pub(crate) arp_announce: bool,
    pub(crate) kernel_device: Option<At<String>>,
    pub(crate) exception: Option<RawException>,
    pub(crate) place: Place,
}

/// What a port is on; none for what is missing or could not be read.
pub(crate) enum RawLink {
    Device(Option<At<Device>>),
    Vlan {
        parent: Option<At<String>>,
        id: Option<At<u16>>,
    },
}

/// A port's way to the kernel as it was written.
pub(crate) struct RawException {
    pub(crate) device: At<String>,
    pub(crate) rate: u32,
}

/// Packets in a second, of each kind: much for a routing daemon, little for a core.
const EXCEPTION_RATE: u32 = 20_000;

/// An element of `ports`. `with_drivers` when more drivers than DPDK's own are loaded.
pub(crate) fn port(field: Field<'_>, with_drivers: bool, report: &mut Report) -> RawPort {
    let fields = Fields::open(field, &schema::PORT, report);
    let name = own_name(&fields, "`name: wan`, say", report);
    let link = link(&fields, with_drivers, report);
    let addresses = fields
        .get("addresses")
        .map(|field| field.one_or_more(report, interface_address));
    let queues = |text: &str| match text {
        "auto" => Ok(None),
        _ => value::number(text, 1..=256).map(|queues| Some(queues as u16)),
    };
    let queues = fields
        .get("queues")
        .and_then(|field| field.value("`auto` or a number", report, queues));
    RawPort {
        name,
        link,
        incomplete: fields.has_unknown() || addresses.as_ref().is_some_and(OneOrMore::incomplete),
        addresses: addresses.unwrap_or_else(OneOrMore::none),
        mtu: placed_number(&fields, "mtu", 576..=9216, report),
        mac: mac(&fields, report),
        queues: queues.and_then(|at| at.value),
        check_peer_offload: flag(&fields, "check_peer_offload", true, report),
        arp_announce: flag(&fields, "arp_announce", true, report),
        kernel_device: fields
            .get("kernel_device")
            .and_then(|field| field.value("the name of a network device", report, device_name)),
        exception: fields.get("exception").and_then(|field| exception(field, report)),
        place: field.place(),
    }
}

/// `ports[].exception`: the name of a device, or a mapping with one.
fn exception(field: Field<'_>, report: &mut Report) -> Option<RawException> {
    let expected = "the name of the TAP device to make, such as tg0";
    if field.is_scalar() {
        let device = field.value(expected, report, device_name)?;
        return Some(RawException {
            device,
            rate: EXCEPTION_RATE,
        });
    }
    let fields = Fields::open(field, &schema::EXCEPTION, report);
    let device = fields.required("device", "`device: tg0`, say, a name that no device has", report);
    let rate = number(&fields, "rate", 1..=10_000_000, EXCEPTION_RATE, report);
    let device = device?.value(expected, report, device_name)?;
    Some(RawException { device, rate })
}

/// A name that the kernel takes for a device (dev_valid_name).
fn device_name(text: &str) -> Result<String, Fault> {
    let plain = |c: char| !c.is_whitespace() && c != '/' && c != ':' && c != '\0';
    let valid = (1..16).contains(&text.len()) && text.chars().all(plain) && text != "." && text != "..";
    valid.then(|| text.to_owned()).ok_or_else(|| {
        let problem = format!("`{}` is no name of a network device", shown(text));
        Fault::new(problem, "write a name as `ip link` shows it, of 15 bytes at most")
    })
}

fn interface_address(field: Field<'_>, report: &mut Report) -> Option<InterfaceAddress> {
    let expected = "an address such as 10.0.0.1/24";
    let at = field.value(expected, report, address::interface_address)?;
    let ((address, length), place) = (at.value, at.place);
    Some(InterfaceAddress {
        address,
        length,
        place,
    })
}

/// A device, or a VLAN of another port's device.
fn link(fields: &Fields<'_>, with_drivers: bool, report: &mut Report) -> RawLink {
    if fields.get("parent").is_some() || fields.get("vlan").is_some() {
        return vlan(fields, report);
    }
    if let Some(field) = fields.get("bond") {
        if let Some(device) = fields.get("device") {
            let remedy = "remove it, or name it among the `members` of the bond";
            device.error(Fault::new("a bond has no `device` of its own", remedy), report);
        }
        return RawLink::Device(super::bond::bond(field, with_drivers, report));
    }
    let example = "`device: 0000:03:00.0` (a PCI address), `device: \"net_af_packet0,iface=eth0\"`, `bond` with \
                   several of them, or `parent` and `vlan` for a VLAN";
    let device = fields.required("device", example, report);
    RawLink::Device(device.and_then(|field| {
        field.value("a PCI address or a DPDK device", report, |text| {
            device_of(text, with_drivers)
        })
    }))
}

fn vlan(fields: &Fields<'_>, report: &mut Report) -> RawLink {
    fields.required(
        "parent",
        "`parent:` with the name of the port that the VLAN is on",
        report,
    );
    fields.required("vlan", "`vlan:` with the number of the VLAN, 1 to 4094", report);
    for key in ["device", "bond", "mac", "queues", "check_peer_offload"] {
        if let Some(field) = fields.get(key) {
            let problem = format!("a VLAN has the `{key}` of its parent");
            let remedy = match key {
                "device" => "remove `device`, or `parent` and `vlan`",
                "bond" => "remove `bond`, or `parent` and `vlan`",
                _ => "write it for the parent port, and remove it here",
            };
            field.error(Fault::new(problem, remedy), report);
        }
    }
    RawLink::Vlan {
        parent: reference(fields, "parent", report),
        id: placed_number(fields, "vlan", 1..=4094, report),
    }
}

/// A PCI address, with or without its domain, or a software device.
pub(super) fn device_of(text: &str, with_drivers: bool) -> Result<Device, Fault> {
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
