//! The gateway as a whole, its workers, ports and neighbours.

use super::about::*;
use super::family::{Sample, Text};
use crate::gateway::{Gateway, Member, PortCounters};
use crate::view::{self, Neighbour, Port, Route};
use dataplane::drops::DropReason;
use dataplane::worker::{SteerStats, WorkerStats};
use std::collections::BTreeMap;

/// The gateway as a whole. `complete` tells whether every worker answered.
pub(super) fn general(text: &mut Text, gateway: &Gateway, complete: bool) {
    let status = view::status(gateway);
    let reloads = status.reloads;
    text.family(&BUILD_INFO, [Sample([&status.version], 1.0)]);
    text.single(&UPTIME, status.uptime as f64);
    text.single(&EPOCH, status.epoch as f64);
    text.single(&CONFIG_WARNINGS, status.warnings.len() as f64);
    let results = [("success", reloads.succeeded), ("failure", reloads.failed)];
    text.family(
        &RELOADS,
        results
            .iter()
            .map(|(result, count)| Sample([result], *count as f64)),
    );
    text.single(&RELOAD_SUCCESSFUL, f64::from(u8::from(reloads.last_succeeded)));
    text.single(&LOADED_AT, reloads.loaded_at as f64);
    text.single(&SCRAPE_COMPLETE, f64::from(u8::from(complete)));
}

/// What workers count, apart from servers.
pub(super) fn workers(text: &mut Text, gateway: &Gateway) {
    let named: Vec<(String, String, &WorkerStats)> = gateway
        .workers()
        .iter()
        .enumerate()
        .map(|(number, worker)| (number.to_string(), worker.cpu.to_string(), &*worker.stats))
        .collect();
    let busy = |stats: &WorkerStats| crate::gateway::WorkerTotals::from(stats).busy;
    text.family(
        &WORKER_BUSY,
        named
            .iter()
            .map(|(number, cpu, stats)| Sample([number, cpu], busy(stats))),
    );
    let mut count = |about: &About, count: fn(&WorkerStats) -> u64| {
        text.family(
            about,
            named
                .iter()
                .map(|(number, _, stats)| Sample([number], count(stats) as f64)),
        );
    };
    count(&WORKER_BUSY_CYCLES, |stats| stats.busy_cycles.get());
    count(&WORKER_CYCLES, |stats| stats.total_cycles.get());
    count(&WORKER_TURNS, |stats| stats.turns.get());
    count(&WORKER_BUSY_TURNS, |stats| stats.busy_turns.get());
    count(&WORKER_EPOCH, |stats| stats.epoch.get());
    count(&WORKER_CONNECTIONS, |stats| stats.connections.get());
    count(&WORKER_TEMPLATES, |stats| stats.templates.get());
    count(&WORKER_OPENED, |stats| stats.opened.get());
    count(&WORKER_RECEIVED, |stats| stats.received.get());
    count(&WORKER_TAKEN_OVER, |stats| stats.taken_over.get());
    count(&WORKER_MADE, |stats| stats.made.get());
    count(&WORKER_SENT, |stats| stats.sent.get());
    count(&WORKER_HANDED_OVER, |stats| stats.handed_over.get());
    count(&WORKER_CONSUMED, |stats| stats.consumed.get());
    count(&WORKER_HELD, |stats| stats.held.get());
    count(&WORKER_TO_KERNEL, |stats| stats.to_kernel.get());
    count(&WORKER_FROM_KERNEL, |stats| stats.from_kernel.get());
    count(&WORKER_COMPLETED, |stats| stats.completed_checksums.get());
    count(&WORKER_TOA_ADDED, |stats| stats.toa_added.get());
    count(&WORKER_TOA_NO_ROOM, |stats| stats.toa_no_room.get());
    count(&WORKER_SNAT_MOVED, |stats| stats.snat_moved.get());
    count(&WORKER_PROXY_HEADERS_SENT, |stats| stats.proxy_headers_sent.get());
    count(&WORKER_PROXY_HEADERS_RESENT, |stats| {
        stats.proxy_headers_resent.get()
    });
    count(&WORKER_PROXY_HEADERS_UNACKNOWLEDGED, |stats| {
        stats.proxy_headers_unacknowledged.get()
    });
    steered(text, &named);
    let drops = DropReason::ALL.iter().flat_map(|&reason| {
        let workers = named.iter();
        workers.map(move |(number, _, stats)| {
            Sample(
                [reason.label(), number],
                stats.drops[reason as usize].get() as f64,
            )
        })
    });
    text.family(&DROPS, drops);
}

/// What workers hand to each other, a series for each pair.
fn steered(text: &mut Text, named: &[(String, String, &WorkerStats)]) {
    let mut count = |about: &About, count: fn(&SteerStats) -> u64| {
        let pairs = named.iter().enumerate().flat_map(|(from, (number, _, stats))| {
            let others = named.iter().zip(&stats.steered).enumerate();
            others
                .filter(move |(to, _)| *to != from)
                .map(move |(_, ((other, ..), steered))| Sample([&**number, &**other], count(steered) as f64))
        });
        text.family(about, pairs);
    };
    count(&WORKER_STEERED, |steered| steered.handed_over.get());
    count(&WORKER_STEER_FULL, |steered| steered.full.get());
}

/// Ethernet ports.
pub(super) fn ports(text: &mut Text, ports: &[Port]) {
    let vlans: Vec<String> = ports.iter().map(vlan).collect();
    let info = ports.iter().zip(&vlans).map(|(port, vlan)| {
        let [device, driver, parent] =
            [&port.device, &port.driver, &port.parent].map(|text| text.as_deref().unwrap_or_default());
        Sample([&*port.name, device, driver, &*port.mac, parent, vlan], 1.0)
    });
    text.family(&PORT_INFO, info);
    let up = ports
        .iter()
        .map(|port| Sample([&port.name], f64::from(u8::from(port.link_up))));
    text.family(&PORT_UP, up);
    let changes = ports
        .iter()
        .map(|port| Sample([&port.name], port.link_changes as f64));
    text.family(&PORT_LINK_CHANGES, changes);
    let mut member = |about: &About, is: fn(&Member) -> bool| {
        let members = ports
            .iter()
            .flat_map(|port| port.members.iter().map(move |member| (port, member)));
        text.family(
            about,
            members
                .map(|(port, member)| Sample([&*port.name, &member.device], f64::from(u8::from(is(member))))),
        );
    };
    member(&PORT_MEMBER_UP, |member| member.link_up);
    member(&PORT_MEMBER_ACTIVE, |member| member.active);
    // What devices count: of VLANs they know nothing.
    let mut count = |about: &About, count: fn(&PortCounters) -> u64| {
        let counted = ports.iter().filter_map(|port| Some((port, port.counters?)));
        text.family(
            about,
            counted.map(|(port, counters)| Sample([&port.name], count(&counters) as f64)),
        );
    };
    count(&PORT_RECEIVED, |counters| counters.received_packets);
    count(&PORT_RECEIVED_BYTES, |counters| counters.received_bytes);
    count(&PORT_SENT, |counters| counters.sent_packets);
    count(&PORT_SENT_BYTES, |counters| counters.sent_bytes);
    count(&PORT_MISSED, |counters| counters.missed);
    count(&PORT_RECEIVE_ERRORS, |counters| counters.receive_errors);
    count(&PORT_TRANSMIT_ERRORS, |counters| counters.transmit_errors);
    count(&PORT_NO_BUFFER, |counters| counters.no_buffer);
}

/// The number of a VLAN as a label; empty for a port with a device.
fn vlan(port: &Port) -> String {
    port.vlan.map_or_else(String::new, |id| id.to_string())
}

/// Routes by source and state.
pub(super) fn routes(text: &mut Text, routes: &[Route]) {
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for route in routes {
        *counts.entry((&route.source, &route.state)).or_default() += 1;
    }
    text.family(
        &ROUTES,
        counts
            .iter()
            .map(|((source, state), count)| Sample([source, state], *count as f64)),
    );
}

/// Neighbours by port and state.
pub(super) fn neighbours(text: &mut Text, neighbours: &[Neighbour]) {
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for neighbour in neighbours {
        *counts.entry((&neighbour.port, &neighbour.state)).or_default() += 1;
    }
    text.family(
        &NEIGHBOURS,
        counts
            .iter()
            .map(|((port, state), count)| Sample([port, state], *count as f64)),
    );
}
