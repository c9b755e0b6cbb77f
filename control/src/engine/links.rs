//! Who tells whether a device's link is up, and what the operator reads of it. Most drivers do; those over an interface of
//! the kernel say that it always is, so the kernel is asked; and a TAP that has been moved into another network
//! namespace, where the other end of its cable is, cannot be asked and counts as up.

use super::netlink::{Netlink, number, push};
use super::peer;
use crate::config::{self, BondMode, Device};
use crate::gateway::{Gateway, LinkChange, Look, Member};
use dpdk::Port;
use nix::errno::Errno;
use nix::sys::socket::SockProtocol;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// How often links are looked at.
const LOOK: Duration = Duration::from_millis(100);

const GET_LINK: u16 = 18;
const LINK_HEADER: usize = 16;
const LINK_FLAGS: usize = 8;
const LINK_NAME: u16 = 3;
/// IFF_UP and IFF_RUNNING: it is switched on, and the other end is there.
const ALIVE: u32 = 0x41;

/// Who knows of the link of a port's device, or of each member of its bond.
pub(super) struct Probe {
    parts: Vec<Part>,
    bond: Option<(BondMode, Option<usize>)>,
}

struct Part {
    device: String,
    source: Source,
    /// What was last seen, for when the kernel does not answer.
    up: bool,
}

enum Source {
    Driver,
    /// This interface of the kernel.
    Kernel(String),
    /// The driver, as long as this interface is in our network namespace.
    Tap(String),
}

impl Probe {
    /// For a port of the configuration that has a device.
    pub(super) fn new(port: &config::Port) -> Probe {
        let device = port.device();
        Probe {
            parts: device
                .map_or(&[][..], Device::parts)
                .iter()
                .map(Part::new)
                .collect(),
            bond: match device {
                Some(Device::Bond(bond)) => Some((bond.mode, bond.primary)),
                _ => None,
            },
        }
    }

    /// How the link is now. Has another member of an active-backup bond send when the one that does cannot.
    pub(super) fn look(&mut self, port: &Port) -> Look {
        let Some((mode, primary)) = self.bond else {
            let up = self
                .parts
                .first_mut()
                .is_none_or(|part| part.is_up(|| port.link_up()));
            let members = Vec::new();
            return Look { up, members };
        };
        let seen = port.members();
        let parts = self.parts.iter_mut().zip(&seen);
        let up: Vec<bool> = parts.map(|(part, (link, _))| part.is_up(|| *link)).collect();
        let active: Vec<bool> = match mode {
            BondMode::ActiveBackup => {
                let sender = sender(port, &up, primary);
                (0..up.len())
                    .map(|member| Some(member) == sender && up[member])
                    .collect()
            }
            BondMode::Lacp => seen.iter().zip(&up).map(|((_, used), up)| *used && *up).collect(),
        };
        let member = |(part, (link_up, active)): (&Part, (&bool, &bool))| Member {
            device: part.device.clone(),
            link_up: *link_up,
            active: *active,
        };
        Look {
            up: active.contains(&true),
            members: self
                .parts
                .iter()
                .zip(up.iter().zip(&active))
                .map(member)
                .collect(),
        }
    }
}

/// Which member of an active-backup bond sends, after it has been changed where it has to be.
fn sender(port: &Port, up: &[bool], primary: Option<usize>) -> Option<usize> {
    let now = port.sender();
    let wanted = wanted(up, primary, now);
    if wanted.is_some() && wanted != now {
        // One that the driver does not know as alive yet is taken at a later look.
        if let Some(Err(error)) = wanted.map(|member| port.prefer(member)) {
            tracing::debug!("{error}");
        }
        return port.sender();
    }
    now
}

/// Which member should send: the primary, else the one that does, else the first that can.
fn wanted(up: &[bool], primary: Option<usize>, now: Option<usize>) -> Option<usize> {
    let can = |member: &usize| up.get(*member) == Some(&true);
    let first = up.iter().position(|up| *up);
    primary.filter(can).or(now.filter(can)).or(first)
}

impl Part {
    fn new(device: &Device) -> Part {
        let tap = || match device {
            Device::Vdev(argument) if argument.starts_with("net_tap") => {
                argument.split(',').find_map(|part| part.strip_prefix("iface="))
            }
            _ => None,
        };
        let source = match (peer::interface(device), tap()) {
            (Some(interface), _) => Source::Kernel(interface.to_owned()),
            (None, Some(interface)) => Source::Tap(interface.to_owned()),
            (None, None) => Source::Driver,
        };
        Part {
            device: device.argument().to_owned(),
            source,
            up: true,
        }
    }

    /// Whether its link is up; `driver` is what its driver says.
    fn is_up(&mut self, driver: impl FnOnce() -> bool) -> bool {
        self.up = match &self.source {
            Source::Driver => driver(),
            Source::Kernel(interface) => kernel(interface).unwrap_or(self.up),
            Source::Tap(interface) => {
                nix::net::if_::if_nametoindex(&**interface) == Err(Errno::ENODEV) || driver()
            }
        };
        self.up
    }
}

/// Whether the kernel has this interface in our network namespace, switched on and with another end; none when it does not
/// answer.
fn kernel(interface: &str) -> Option<bool> {
    let mut request = vec![0; LINK_HEADER];
    push(&mut request, LINK_NAME, format!("{interface}\0").as_bytes());
    let mut route = Netlink::open(SockProtocol::NetlinkRoute).ok()?;
    match route.ask(GET_LINK, &request) {
        Ok(answer) => Some(number(&answer, LINK_FLAGS)? & ALIVE == ALIVE),
        Err(error) if error.raw_os_error() == Some(Errno::ENODEV as i32) => Some(false),
        Err(_) => None,
    }
}

/// Looks at all links, again and again.
pub(super) async fn follow(gateway: Arc<Gateway>) {
    let mut interval = tokio::time::interval(LOOK);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let gateway = Arc::clone(&gateway);
        let done = tokio::task::spawn_blocking(move || tell(&gateway, gateway.look_at_links()));
        if done.await.is_err() {
            return;
        }
    }
}

/// Logs what has changed.
pub(super) fn tell(gateway: &Gateway, changes: Vec<LinkChange>) {
    if changes.is_empty() {
        return;
    }
    let names: Vec<String> = {
        let state = gateway.state();
        state.config.ports.iter().map(|port| port.name.clone()).collect()
    };
    let name = |port: usize| names.get(port).map(String::as_str);
    for change in changes {
        match change {
            LinkChange::Up { port } => tracing::info!(
                port = name(port),
                "the link is up, and the addresses of the port are announced again"
            ),
            LinkChange::Down { port } => tracing::warn!(
                port = name(port),
                "the link is down: what would leave by it is dropped (link_down) until it comes up"
            ),
            LinkChange::Member { port, member } if member.link_up => {
                tracing::info!(
                    port = name(port),
                    member = member.device,
                    "the link of a bond's member is up"
                );
            }
            LinkChange::Member { port, member } => {
                tracing::warn!(
                    port = name(port),
                    member = member.device,
                    "the link of a bond's member is down"
                );
            }
            LinkChange::Sender { port, device } => {
                tracing::info!(
                    port = name(port),
                    member = device,
                    "this member of the bond sends now"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_primary_sends_when_it_can_and_nobody_else_is_moved_without_need() {
        assert_eq!(
            wanted(&[true, true], None, Some(1)),
            Some(1),
            "no move without need"
        );
        assert_eq!(wanted(&[true, true], Some(0), Some(1)), Some(0));
        assert_eq!(wanted(&[false, true], Some(0), Some(0)), Some(1));
        assert_eq!(wanted(&[true, false], None, Some(1)), Some(0));
        assert_eq!(wanted(&[true, true], None, None), Some(0));
        assert_eq!(wanted(&[false, false], Some(0), Some(1)), None);
    }

    #[test]
    fn the_kernel_tells_of_its_interfaces() {
        assert_eq!(kernel("tg-absent"), Some(false));
        // Without a link of its own, and switched off in a fresh network namespace.
        assert!(kernel("lo").is_some());
    }

    #[test]
    fn each_kind_of_device_is_asked_where_it_is_known() {
        let source = |argument: &str| Part::new(&Device::Vdev(argument.to_owned())).source;
        assert!(matches!(source("net_af_packet0,iface=wan0"), Source::Kernel(name) if name == "wan0"));
        assert!(matches!(source("net_tap0,iface=tap0"), Source::Tap(name) if name == "tap0"));
        assert!(matches!(source("net_memif0,role=client"), Source::Driver));
        // One that is elsewhere is not known to be down.
        let mut moved = Part::new(&Device::Vdev("net_tap0,iface=tg-absent".to_owned()));
        assert!(moved.is_up(|| false));
    }
}
