//! Whose addresses are: those that the kernel must have need a device there, and are announced by nobody but their
//! owner. What is announced by several gateways at once has services that stand it.

use std::collections::HashMap;
use std::net::IpAddr;

use dataplane::flow::Mode;
use dataplane::scheduler::SchedulerKind;
use dataplane::service::Protocol;

use super::network::stands_for_any;
use crate::config::Place;
use crate::config::read::Raw;
use crate::config::read::service::RawService;
use crate::config::report::{Fault, Report};
use crate::config::types::Owner;

/// Checks `owner` wherever it stands.
pub(crate) fn owners(raw: &Raw, report: &mut Report) {
    let vips = raw.vips.iter().enumerate();
    let vips = vips.map(|(index, vip)| (vip.owner, vip.place, format!("vips[{index}]")));
    let groups = raw.local_addresses.iter().enumerate();
    let groups = groups.map(|(index, group)| (group.owner, group.place, format!("local_addresses[{index}]")));
    if !stands_for_any(&raw.ports)
        && let Some((_, place, path)) = vips.chain(groups).find(|(owner, ..)| *owner == Owner::Kernel)
    {
        let problem =
            "`owner: kernel`, and no device of the kernel stands for a port, so nothing can have the address";
        let fault = Fault::new(
            problem,
            "write `exception: tg0`, say, for the port that keepalived works on",
        );
        report.error(place, format!("{path}.owner"), fault);
    }
    for (index, vip) in raw.vips.iter().enumerate() {
        if vip.owner == Owner::Kernel && vip.announce == Some(true) {
            let problem =
                "an address of which the kernel is the owner is announced by whoever gives it to the kernel";
            let fault = Fault::new(problem, "remove `announce`, or `owner`");
            report.error(vip.place, format!("vips[{index}].announce"), fault);
        }
    }
}

/// Warns of services whose connections would not outlive a change of the gateway, though their VIP is announced, as
/// several gateways do at once: a connection that another one has begun, and that comes in its middle.
pub(crate) fn announced(raw: &Raw, report: &mut Report) {
    if raw.settings.sloppy_tcp {
        return;
    }
    let own = raw.vips.iter().filter_map(|vip| Some((vip.address?.value, vip)));
    let own: HashMap<IpAddr, _> = own.collect();
    let is_announced = |vip: IpAddr| match own.get(&vip) {
        Some(vip) => vip.owner == Owner::Gateway && vip.announce.unwrap_or(raw.announce),
        None => raw.announce,
    };
    for (index, service) in raw.services.iter().enumerate() {
        if let Some(place) = taken_over(service, is_announced) {
            let problem = "`mh` by DR or TUN at an announced VIP, without `sloppy_tcp`: when a router moves a connection to \
                           another gateway, its packets are refused there, as they begin with no SYN";
            let remedy = "write `sloppy_tcp: true` under `settings` of all gateways: `mh` finds the same server on each";
            report.warn(place, format!("services[{index}]"), Fault::new(problem, remedy));
        }
    }
}

/// Where a service listens whose connections another gateway could go on with.
fn taken_over(service: &RawService, is_announced: impl Fn(IpAddr) -> bool) -> Option<Place> {
    let without_answers = matches!(service.mode, Some(Mode::Dr | Mode::Tun));
    let same_everywhere = service
        .schedulers()
        .any(|scheduler| scheduler == SchedulerKind::Mh);
    if !without_answers || !same_everywhere {
        return None;
    }
    let mut listeners = service.listeners.iter();
    let found = listeners.find(|(_, listener)| {
        let is_tcp = listener.key.protocol() == Some(Protocol::Tcp);
        is_tcp && listener.key.address().is_some_and(&is_announced)
    });
    found.map(|(_, listener)| listener.place)
}
