//! Watches which addresses the kernel has on the devices that stand for ports: an address with `owner: kernel` is ours
//! as long as it is there. keepalived puts it there when this node becomes the active one.
//!
//! As with routes, what the kernel tells is only a sign that something has changed: then all addresses are asked for.

use super::super::netlink::Netlink;
use super::addresses;
use crate::config::Config;
use crate::gateway::Gateway;
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::SockProtocol;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// RTMGRP_LINK, RTMGRP_IPV4_IFADDR and RTMGRP_IPV6_IFADDR.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// How long to wait after the kernel has refused.
const RETRY: Duration = Duration::from_secs(1);

/// Somebody who watches addresses.
pub(in super::super) struct Watcher(Arc<AtomicBool>);

impl Watcher {
    /// Watches on a thread of the runtime that it is called in; does nothing where no device stands for a port.
    pub(in super::super) fn start(gateway: &Arc<Gateway>) -> Watcher {
        let stop = Arc::new(AtomicBool::new(false));
        let devices = devices(&gateway.state().config);
        if !devices.is_empty() {
            let (gateway, stop) = (Arc::clone(gateway), Arc::clone(&stop));
            tokio::task::spawn_blocking(move || {
                while let Err(error) = watch(&gateway, &devices, &stop) {
                    tracing::warn!(
                        "the kernel's addresses cannot be watched, and count as they were: {error}"
                    );
                    sleep(RETRY);
                }
            });
        }
        Watcher(stop)
    }

    /// Ends it, within a second or two.
    pub(in super::super) fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The devices that stand for ports.
fn devices(config: &Config) -> Vec<String> {
    let ports = config.ports.iter();
    ports.filter_map(|port| port.kernel_device.clone()).collect()
}

fn watch(gateway: &Gateway, devices: &[String], stop: &AtomicBool) -> io::Result<()> {
    // Before the first look: what changes during a look leads to another one.
    let mut signs = Netlink::listen(SockProtocol::NetlinkRoute, GROUPS)?;
    let mut sign = vec![0; 64 << 10];
    loop {
        match gateway.hold_addresses(held(devices)?) {
            Ok(Some(epoch)) => tracing::info!(epoch, "addresses that the kernel owns have come or gone"),
            Ok(None) => {}
            Err(error) => tracing::warn!("the kernel's addresses are not taken over: {error}"),
        }
        while !hears(&mut signs, &mut sign)? {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        // keepalived moves many at once: those that are there by now need no look each.
        while signs.has_more() && hears(&mut signs, &mut sign)? {}
    }
}

/// All addresses on these devices.
fn held(devices: &[String]) -> io::Result<BTreeSet<IpAddr>> {
    // Each time: a device may have gone and come back under another number.
    let numbers = devices
        .iter()
        .filter_map(|name| if_nametoindex(name.as_str()).ok());
    let numbers: BTreeSet<u32> = numbers.collect();
    let entries = addresses::all()?.into_iter();
    let held = entries.filter(|entry| numbers.contains(&entry.device));
    Ok(held.map(|entry| entry.address).collect())
}

/// Waits for a sign, for a second at most; whether one came.
fn hears(signs: &mut Netlink, sign: &mut [u8]) -> io::Result<bool> {
    match signs.hear(sign) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_the_addresses_of_a_device() {
        let held = held(&["lo".to_owned(), "tg-absent".to_owned()]).unwrap();
        assert!(held.iter().all(IpAddr::is_loopback), "{held:?}");
    }
}
