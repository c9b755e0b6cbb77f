//! The gateway that is measured: two ports, sixteen servers, one service each of TCP and UDP, compiled from YAML as
//! any other; and its worker, over the generator.

use super::report::Mode;
use crate::config::{self, Config};
use crate::model::Model;
use anyhow::{Context, Result, bail};
use dataplane::drops::DropReason;
use dataplane::flow::FlowIndex;
use dataplane::packet::MacAddr;
use dataplane::service::{PortSettings, Snapshot};
use dataplane::worker::{Io, Mailbox, Sizes, Worker, WorkerStats};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// The port towards the clients.
pub(super) const GATEWAY_WAN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// The port towards the servers.
pub(super) const GATEWAY_LAN: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// The router that clients are behind.
pub(super) const ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
/// The address of the service.
pub(super) const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 100);
/// Its port, TCP and UDP.
pub(super) const SERVICE_PORT: u16 = 53;
/// Servers of the service.
pub(super) const SERVERS: u32 = 16;
/// Local ports that are counted on for each local address and server.
const LOCAL_PORTS: u32 = 32_768;

/// The server of that number.
pub(super) fn server(number: u32) -> (Ipv4Addr, MacAddr) {
    let number = number as u8;
    (Ipv4Addr::new(10, 0, 8, number), MacAddr([2, 0, 0, 0, 1, number]))
}

/// The local address of that number.
pub(super) fn local_address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 4, 0).to_bits() + number)
}

/// Local addresses enough for so many connections.
fn local_addresses(connections: u32) -> u32 {
    connections.div_ceil(SERVERS * LOCAL_PORTS).clamp(4, 1000)
}

/// The ports, and the way to the clients: what follows are more neighbours.
pub(super) fn network(routes: &str, local: &str) -> String {
    format!(
        "ports:
  - {{ name: wan, device: net_null0, addresses: [192.0.2.2/24] }}
  - {{ name: lan, device: net_null1, addresses: [10.0.0.1/16] }}
routes:
  - {{ to: default, via: 192.0.2.1 }}
{routes}local_addresses:
  - {{ name: dip, port: lan, addresses: [{local}] }}
neighbours:
  - {{ address: 192.0.2.1, mac: \"{ROUTER}\" }}
"
    )
}

fn yaml(mode: Mode, connections: u32) -> String {
    let (first, last) = (local_address(0), local_address(local_addresses(connections) - 1));
    let mut text = network("", &format!("{first}-{last}"));
    for number in 0..SERVERS {
        let (address, mac) = server(number);
        let _ = writeln!(text, "  - {{ address: {address}, mac: \"{mac}\" }}");
    }
    text += "pools:\n  - name: servers\n    servers:\n";
    for number in 0..SERVERS {
        let _ = writeln!(text, "      - {{ address: {} }}", server(number).0);
    }
    let local = match mode {
        Mode::Fullnat => ", local_addresses: dip",
        Mode::Dr => "",
    };
    text += "services:\n";
    for protocol in ["udp", "tcp"] {
        let _ = writeln!(
            text,
            "  - {{ name: {protocol}, listen: \"{VIP}:{SERVICE_PORT}/{protocol}\", pool: servers, mode: {mode}, scheduler: rr{local} }}"
        );
    }
    text
}

/// A configuration of the measurement.
///
/// # Errors
/// It is not valid.
pub(super) fn parse(text: &str) -> Result<Config> {
    config::parse("bench", text)
        .map_err(|errors| anyhow::anyhow!("the configuration of the measurement: {errors}"))
}

/// A model of the two ports with room for so many services and servers.
pub(super) fn model(services: u32, servers: u32) -> Model {
    let port = |mac| PortSettings {
        mac,
        any_mac: false,
        vlan: None,
        mtu: 1500,
        addresses: Vec::new(),
        check_partial: false,
    };
    Model::new(vec![port(GATEWAY_WAN), port(GATEWAY_LAN)], 1, services, servers)
}

fn snapshot(mode: Mode, connections: u32) -> Result<Arc<Snapshot>> {
    let mut model = model(SIZES.services, SIZES.servers);
    model.apply_file(&parse(&yaml(mode, connections))?)?;
    Ok(model.snapshot())
}

/// Sizes for the sixteen servers.
pub(super) const SIZES: Sizes = Sizes {
    connections: 0,
    services: 16,
    servers: 64,
    neighbours: 64,
    fragments: 256,
    hugepages: false,
    seed: 0x7469_6465_6761_7465,
};

/// A worker whose tables have their memory, with room for so many connections.
///
/// # Errors
/// Too little memory.
pub(super) fn worker<I: Io, X: FlowIndex>(
    mode: Mode,
    connections: u32,
    hugepages: bool,
    index: X,
    io: I,
) -> Result<Worker<I, X>> {
    let sizes = Sizes {
        connections,
        hugepages,
        ..SIZES
    };
    let snapshot = snapshot(mode, connections)?;
    worker_of(snapshot, sizes, index, io, Arc::default())
}

/// A worker of that snapshot that takes orders from `mailbox`.
///
/// # Errors
/// Too little memory.
pub(super) fn worker_of<I: Io, X: FlowIndex>(
    snapshot: Arc<Snapshot>,
    sizes: Sizes,
    index: X,
    io: I,
    mailbox: Arc<Mailbox>,
) -> Result<Worker<I, X>> {
    let stats = Arc::new(WorkerStats::new(2, sizes.servers as usize));
    let mut worker = Worker::new(0, io, index, sizes, snapshot, stats, mailbox)
        .context("no memory for the connection table; measure fewer flows")?;
    worker.touch();
    Ok(worker)
}

/// Refuses figures of a run in which packets were lost.
pub(super) fn finish<I: Io, X: FlowIndex>(worker: &Worker<I, X>) -> Result<()> {
    let stats = worker.stats();
    let lost: Vec<String> = DropReason::ALL
        .iter()
        .map(|&reason| (stats.drops[reason as usize].get(), reason.label()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, label)| format!("{count} {label}"))
        .collect();
    if !lost.is_empty() || !stats.conserves() {
        bail!(
            "packets were dropped, the figures would be wrong: {} ({} received, {} connections)",
            lost.join(", "),
            stats.received.get(),
            stats.connections.get()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_valid() {
        for mode in [Mode::Fullnat, Mode::Dr] {
            let snapshot = snapshot(mode, 10_000_000).unwrap();
            assert!(snapshot.server_present(0));
        }
    }
}
