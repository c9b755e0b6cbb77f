//! Ports that fit together: devices and VLANs of their own, networks that do not overlap. Ports with a device come
//! first in the configuration, whatever their order in the file; while the file is checked, the index of a port is
//! that in the file.

use std::collections::HashMap;

use super::names::Names;
use crate::config::Place;
use crate::config::read::address::is_link_local;
use crate::config::read::port::{RawLink, RawPort};
use crate::config::report::{Fault, Report};
use crate::config::types::{Device, Exception, Link, Port, Prefix};

/// What DPDK has room for as Debian builds it (RTE_MAX_ETHPORTS).
const MOST_DEVICES: usize = 32;
/// What a packet's port number has room for.
const MOST_PORTS: usize = 255;
/// The largest packet, in bytes.
const USUAL_MTU: u16 = 1500;
/// What every link must carry whole in IPv6 (RFC 8200 section 5), in bytes.
const LEAST_MTU6: u16 = 1280;

/// Checks the ports. The result has the parent of each VLAN by its index in the file.
pub(crate) fn check(ports: &[RawPort], names: &Names<'_>, report: &mut Report) -> Vec<Option<usize>> {
    count(ports, report);
    devices(ports, report);
    let parents = vlans(ports, names, report);
    mtus(ports, &parents, report);
    overlaps(ports, report);
    kernel_devices(ports, report);
    parents
}

/// The number that each port of the file gets.
pub(crate) fn numbers(ports: &[RawPort]) -> Vec<usize> {
    let devices = ports.iter().filter(|port| is_device(port)).count();
    let (mut device, mut vlan) = (0..devices, devices..);
    let numbers = ports.iter().map(|port| {
        let next = if is_device(port) {
            device.next()
        } else {
            vlan.next()
        };
        next.unwrap_or_default()
    });
    numbers.collect()
}

/// The ports in the order of their numbers, less those that could not be read.
pub(crate) fn ports(raw: Vec<RawPort>, parents: &[Option<usize>]) -> Vec<Port> {
    let numbers = numbers(&raw);
    let mtus: Vec<u16> = (0..raw.len()).map(|index| mtu(&raw, parents, index)).collect();
    let mut ports: Vec<(usize, Port)> = Vec::new();
    for (index, raw) in raw.into_iter().enumerate() {
        let link = match raw.link {
            RawLink::Device(device) => device.map(|at| Link::Device(at.value)),
            RawLink::Vlan { id, .. } => {
                let parent = parents[index].map(|parent| numbers[parent]);
                parent
                    .zip(id)
                    .map(|(parent, id)| Link::Vlan { parent, id: id.value })
            }
        };
        let (Some(name), Some(link)) = (raw.name, link) else {
            continue;
        };
        let port = Port {
            name: name.value,
            link,
            addresses: raw.addresses.items.into_iter().flatten().collect(),
            mtu: mtus[index],
            mac: raw.mac,
            queues: raw.queues,
            check_peer_offload: raw.check_peer_offload,
            arp_announce: raw.arp_announce,
            kernel_device: match (raw.kernel_device, &raw.exception) {
                (Some(named), _) => Some(named.value),
                (None, exception) => exception.as_ref().map(|own| own.device.value.clone()),
            },
            exception: raw.exception.map(|own| Exception {
                device: own.device.value,
                rate: own.rate,
            }),
            place: raw.place,
        };
        ports.push((numbers[index], port));
    }
    ports.sort_by_key(|(number, _)| *number);
    ports.into_iter().map(|(_, port)| port).collect()
}

fn is_device(port: &RawPort) -> bool {
    matches!(port.link, RawLink::Device(_))
}

fn mtu(ports: &[RawPort], parents: &[Option<usize>], index: usize) -> u16 {
    let of = |index: usize| ports[index].mtu.map(|at| at.value);
    let inherited = || parents[index].and_then(of);
    of(index).or_else(inherited).unwrap_or(USUAL_MTU)
}

fn count(ports: &[RawPort], report: &mut Report) {
    // A bond is a device beside its members.
    let taken = |port: &RawPort| match &port.link {
        RawLink::Device(Some(device)) if matches!(device.value, Device::Bond(_)) => {
            1 + device.value.parts().len()
        }
        RawLink::Device(_) => 1,
        RawLink::Vlan { .. } => 0,
    };
    let count: usize = ports.iter().map(taken).sum();
    let mut used = 0;
    let beyond = ports.iter().enumerate().find(|(_, port)| {
        used += taken(port);
        used > MOST_DEVICES
    });
    if let Some((index, port)) = beyond {
        let problem = format!("{count} ports, and DPDK has room for {MOST_DEVICES}");
        let fault = Fault::new(problem, "remove the others");
        report.error(port.place, format!("ports[{index}]"), fault);
    }
    if let Some(port) = ports.get(MOST_PORTS) {
        let problem = format!(
            "{} ports with VLANs, and there is room for {MOST_PORTS}",
            ports.len()
        );
        let fault = Fault::new(problem, "remove the others");
        report.error(port.place, format!("ports[{MOST_PORTS}]"), fault);
    }
}

fn devices(ports: &[RawPort], report: &mut Report) {
    let mut devices: HashMap<&str, Place> = HashMap::new();
    for (index, port) in ports.iter().enumerate() {
        let RawLink::Device(Some(device)) = &port.link else {
            continue;
        };
        let key = match device.value {
            Device::Bond(_) => "bond",
            Device::Pci(_) | Device::Vdev(_) => "device",
        };
        // Two vdevs of one name are one device to EAL, whatever their arguments.
        for name in device.value.parts().iter().map(Device::name) {
            if let Some(first) = devices.get(name) {
                let problem = format!("device `{name}` is a port already, on line {}", first.line);
                let fault = Fault::new(
                    problem,
                    "write another device, or the same driver with another number at its end",
                );
                report.error(device.place, format!("ports[{index}].{key}"), fault);
            } else {
                devices.insert(name, device.place);
            }
        }
    }
}

/// VLANs: on a port with a device, each number once.
fn vlans(ports: &[RawPort], names: &Names<'_>, report: &mut Report) -> Vec<Option<usize>> {
    let mut seen: HashMap<(usize, u16), (usize, Place)> = HashMap::new();
    let mut parents = vec![None; ports.len()];
    for (index, port) in ports.iter().enumerate() {
        let RawLink::Vlan {
            parent: Some(name),
            id,
        } = &port.link
        else {
            continue;
        };
        let path = format!("ports[{index}]");
        let Some(parent) = names.find(name, format!("{path}.parent"), report) else {
            continue;
        };
        if !is_device(&ports[parent]) {
            let problem = match parent == index {
                true => "a VLAN on itself".to_owned(),
                false => format!(
                    "port `{}` is a VLAN: one tag inside another is not supported",
                    name.value
                ),
            };
            let fault = Fault::new(problem, "write the name of a port with a `device`");
            report.error(name.place, format!("{path}.parent"), fault);
            continue;
        }
        parents[index] = Some(parent);
        let Some(id) = id else { continue };
        if let Some((first, place)) = seen.get(&(parent, id.value)) {
            let problem = format!(
                "VLAN {} of `{}` is ports[{first}] already, on line {}",
                id.value, name.value, place.line
            );
            let fault = Fault::new(
                problem,
                "write another number, or give that port more `addresses`",
            );
            report.error(id.place, format!("{path}.vlan"), fault);
        } else {
            seen.insert((parent, id.value), (index, id.place));
        }
    }
    parents
}

/// MTUs that fit into the parent's, and that IPv6 can live with.
fn mtus(ports: &[RawPort], parents: &[Option<usize>], report: &mut Report) {
    for (index, port) in ports.iter().enumerate() {
        let own = mtu(ports, parents, index);
        let (place, path) = match port.mtu {
            Some(at) => (at.place, format!("ports[{index}].mtu")),
            None => (port.place, format!("ports[{index}]")),
        };
        if let Some(parent) = parents[index]
            && own > mtu(ports, parents, parent)
        {
            let most = mtu(ports, parents, parent);
            let problem = format!("an MTU of {own}, and the port that the VLAN is on has {most}");
            let fault = Fault::new(
                problem,
                format!("write {most} or less, or raise `mtu` of ports[{parent}]"),
            );
            report.error(place, &path, fault);
        }
        let ipv6 = port
            .addresses
            .iter()
            .any(|(_, address)| address.address.is_ipv6());
        if ipv6 && own < LEAST_MTU6 {
            let problem = format!("an MTU of {own}, and IPv6 needs {LEAST_MTU6} at least");
            let fault = Fault::new(problem, format!("write `mtu: {LEAST_MTU6}` or more"));
            report.error(place, path, fault);
        }
    }
}

/// A device of the kernel stands for one port, and each TAP device is made once.
fn kernel_devices(ports: &[RawPort], report: &mut Report) {
    let mut seen: HashMap<&str, (usize, Place)> = HashMap::new();
    for (index, port) in ports.iter().enumerate() {
        let named = port.kernel_device.as_ref().map(|at| ("kernel_device", at));
        let made = port.exception.as_ref().map(|own| ("exception", &own.device));
        for (key, device) in named.into_iter().chain(made) {
            match seen.get(&*device.value) {
                // The device that is made for a port may be named as the one that stands for it.
                Some((first, _)) if *first == index => {}
                Some((_, first)) => {
                    let problem = format!(
                        "device `{}` stands for the port on line {} already",
                        device.value, first.line
                    );
                    let fault = Fault::new(problem, "write another device, or remove one of the two");
                    report.error(device.place, format!("ports[{index}].{key}"), fault);
                }
                None => drop(seen.insert(&device.value, (index, device.place))),
            }
        }
    }
}

/// Refuses prefixes of different ports that share addresses: what is behind which could not be told. Prefixes
/// either nest or are apart, so in order of address a stack of the open ones finds every pair that nests directly.
fn overlaps(ports: &[RawPort], report: &mut Report) {
    let mut prefixes: Vec<(Prefix, usize, usize, Place)> = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        for (item, address) in port.addresses.iter() {
            if !is_link_local(address.address) {
                prefixes.push((address.prefix(), index, item, address.place));
            }
        }
    }
    prefixes.sort();
    let mut open: Vec<(Prefix, usize, usize, Place)> = Vec::new();
    for next in prefixes {
        while open.last().is_some_and(|last| !last.0.contains(next.0.address())) {
            open.pop();
        }
        if let Some(&last) = open.last().filter(|last| last.1 != next.1) {
            let (first, second) = if last.3 < next.3 {
                (last, next)
            } else {
                (next, last)
            };
            let problem = format!(
                "{} overlaps {} of ports[{}], on line {}",
                second.0, first.0, first.1, first.3.line
            );
            let fault = Fault::new(
                problem,
                "give each port networks of its own, or a longer prefix length",
            );
            let path = ports[second.1]
                .addresses
                .path(&format!("ports[{}].addresses", second.1), second.2);
            report.error(second.3, path, fault);
        }
        open.push(next);
    }
}
