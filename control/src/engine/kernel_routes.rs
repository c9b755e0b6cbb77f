//! Follows the kernel's routing table, so that a routing daemon (BIRD, FRR) or `ip route` steers the gateway.
//!
//! What the kernel says when a route changes is only taken as a sign that something has: then the whole table is asked
//! for. That is right whatever the change was, also where the kernel does not tell each route (a device that
//! goes down takes IPv4 routes along in silence) and where signs were lost because they came too fast. Changes within a
//! tenth of a second are taken at once, and a long table is asked for less often, so that a flood of them
//! costs few snapshots.

mod message;

use super::netlink::Netlink;
use crate::config::Config;
use crate::gateway::Gateway;
use crate::model::LearntRoute;
use dataplane::packet::PortId;
use message::Collector;
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::SockProtocol;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Changes within this time make one snapshot.
const GATHER: Duration = Duration::from_millis(100);
/// The pause after a look at the table, against the time that it took: a fifth of the time at most goes into it.
const PAUSES: u32 = 4;
/// The longest pause, whatever a look takes.
const LONGEST: Duration = Duration::from_secs(2);
/// How long to wait after the kernel has refused.
const RETRY: Duration = Duration::from_secs(1);

const GET_ROUTE: u16 = 26;
/// RTMGRP_LINK, RTMGRP_IPV4_ROUTE and RTMGRP_IPV6_ROUTE.
const GROUPS: u32 = 0x1 | 0x40 | 0x400;

/// Somebody who follows the kernel's routes.
pub(super) struct Follower(Arc<AtomicBool>);

impl Follower {
    /// Keeps the gateway's routes as the kernel has them, on a thread of the runtime that it is called in; does nothing
    /// where the configuration does not ask for it.
    pub(super) fn start(gateway: &Arc<Gateway>) -> Follower {
        let stop = Arc::new(AtomicBool::new(false));
        if let Some(table) = Table::of(&gateway.state().config) {
            let (gateway, stop) = (Arc::clone(gateway), Arc::clone(&stop));
            tokio::task::spawn_blocking(move || follow(&gateway, &table, &stop));
        }
        Follower(stop)
    }

    /// Ends it, within a second or two.
    pub(super) fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn follow(gateway: &Gateway, table: &Table, stop: &AtomicBool) {
    while let Err(error) = listen(gateway, table, stop) {
        tracing::warn!("the kernel's routes cannot be followed, and stay as they are: {error}");
        sleep(RETRY);
    }
}

/// Takes the table over each time that something has changed, until it is to end.
fn listen(gateway: &Gateway, table: &Table, stop: &AtomicBool) -> io::Result<()> {
    // Before the first look: what changes during a look leads to another one.
    let mut signs = Netlink::listen(SockProtocol::NetlinkRoute, GROUPS)?;
    let mut sign = vec![0; 64 << 10];
    loop {
        let begun = Instant::now();
        let routes = table.read()?;
        let count = routes.len();
        match gateway.learn_routes(routes) {
            Ok(Some(epoch)) => {
                let spent = begun.elapsed();
                tracing::debug!(
                    routes = count,
                    epoch,
                    ?spent,
                    "the kernel's routes are taken over"
                );
            }
            Ok(None) => {}
            Err(error) => tracing::warn!("the kernel's routes are not taken over: {error}"),
        }
        let pause = (begun.elapsed() * PAUSES).clamp(GATHER, LONGEST);
        while !read(&mut signs, &mut sign)? {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        sleep(pause);
        // Those that came meanwhile are about what the next look sees.
        while signs.has_more() && read(&mut signs, &mut sign)? {}
    }
}

/// Waits for a sign, for a second at most; whether one came. That some were lost for lack of room is one like any other.
fn read(signs: &mut Netlink, sign: &mut [u8]) -> io::Result<bool> {
    match signs.hear(sign) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What is asked for.
struct Table {
    number: u32,
    /// Names of devices, and the ports that they stand for.
    devices: Vec<(String, PortId)>,
}

impl Table {
    fn of(config: &Config) -> Option<Table> {
        let devices = (0u8..).map(PortId).zip(&config.ports);
        Some(Table {
            number: config.kernel_routes?,
            devices: devices
                .filter_map(|(id, port)| Some((port.kernel_device.clone()?, id)))
                .collect(),
        })
    }

    /// All routes of the table by these devices, in the order of their prefixes.
    fn read(&self) -> io::Result<Vec<LearntRoute>> {
        // Each time: a device may have gone and come back under another number.
        let ports = self.devices.iter().filter_map(|(name, port)| {
            let index = if_nametoindex(name.as_str()).ok()?;
            Some((index, *port))
        });
        let mut found = Collector::new(self.number, ports.collect());
        let mut kernel = Netlink::open(SockProtocol::NetlinkRoute)?;
        for family in message::FAMILIES {
            let mut request = [0; message::HEADER];
            request[0] = family;
            kernel.dump(GET_ROUTE, &request, |kind, payload| found.take(kind, payload))?;
        }
        Ok(found.routes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This machine's own table: whatever it holds is read to its end, in order.
    #[test]
    fn the_kernel_answers() {
        let table = Table {
            number: 255,
            devices: vec![("lo".to_owned(), PortId(3))],
        };
        let routes = table.read().unwrap();
        assert!(routes.is_sorted_by_key(|route| route.to));
        let absent = Table {
            number: 254,
            devices: vec![("tg-absent".to_owned(), PortId(0))],
        };
        assert_eq!(absent.read().unwrap(), []);
    }
}
