//! The devices by which the kernel has what is its own: one for each port with `exception`, VLANs too, as frames come
//! there without their tag. Each has the MAC, the MTU and the addresses of its port, so that for the kernel it is the
//! port.

use super::{addresses, quiet};
use crate::config::{Config, Exception, Port};
use anyhow::{Context, Result, bail};
use dataplane::packet::PortId;
use dataplane::service::PortSettings;
use nix::net::if_::if_nametoindex;
use tap::Tap;

/// A port's device.
pub(in super::super) struct Device {
    pub(super) port: PortId,
    pub(super) name: String,
    pub(super) tap: Tap,
    /// The largest frame that the kernel sends by it, in bytes.
    pub(super) frame: usize,
    /// The port with the link: itself, or the parent of a VLAN.
    pub(super) link: usize,
}

/// An Ethernet header, and a tag that a program may write itself.
const LINK_HEADER: usize = 18;

/// Makes the devices of all ports that ask for one.
///
/// # Errors
/// One cannot be made, with what to do.
pub(super) fn open_all(config: &Config, settings: &[PortSettings]) -> Result<Vec<Device>> {
    let mut devices = Vec::new();
    for (number, (port, settings)) in config.ports.iter().zip(settings).enumerate() {
        let Some(exception) = &port.exception else {
            continue;
        };
        let place = || format!("{}:{}: port {}: exception", config.file, port.place, port.name);
        let tap = open(exception, port, settings).with_context(place)?;
        devices.push(Device {
            port: PortId(number as u8),
            name: exception.device.clone(),
            tap,
            frame: usize::from(settings.mtu) + LINK_HEADER,
            link: settings.vlan.map_or(number, |vlan| vlan.parent.0.into()),
        });
        if let Some(device) = port.device() {
            quiet::keep_kernel_off(device);
        }
    }
    Ok(devices)
}

fn open(exception: &Exception, port: &Port, settings: &PortSettings) -> Result<Tap> {
    let name = &*exception.device;
    if if_nametoindex(name).is_ok() {
        bail!(
            "there is a device `{name}` already in this network namespace; write a name that no device has, or remove \
             that one (ip link delete {name})"
        );
    }
    let tap = Tap::create(name).with_context(|| {
        format!("the TAP device `{name}` cannot be made: it takes root, or CAP_NET_ADMIN, and /dev/net/tun")
    })?;
    addresses::switch_on(name, settings.mac.0, settings.mtu)
        .with_context(|| format!("`{name}` cannot have the port's MAC and MTU"))?;
    for own in &port.addresses {
        if let Err(error) = addresses::add(name, own.address, own.length, false) {
            // Without IPv6 in the kernel, say. The gateway answers for the address all the same.
            tracing::warn!(
                device = name,
                "the kernel does not take {}/{}: {error}",
                own.address,
                own.length
            );
        }
    }
    tracing::info!(
        port = port.name,
        device = name,
        "the kernel has its own packets by this device"
    );
    Ok(tap)
}
