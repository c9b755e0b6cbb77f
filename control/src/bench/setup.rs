//! The gateway that is measured: two ports, sixteen servers, one service each of TCP and UDP, compiled from YAML as
//! any other; and its worker, over the generator.

use super::report::{Mode, Path};
use crate::config::{self, Config};
use crate::model::Model;
use anyhow::{Context, Result, bail};
use dataplane::drops::DropReason;
use dataplane::flow::FlowIndex;
use dataplane::packet::MacAddr;
use dataplane::service::{PortSettings, Snapshot};
use dataplane::worker::{Io, Mailbox, Sizes, Worker, WorkerStats};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The port towards the clients.
pub(super) const GATEWAY_WAN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// The port towards the servers.
pub(super) const GATEWAY_LAN: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// The router that clients are behind.
pub(super) const ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
/// The address of the service.
pub(super) const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 100);
/// Its IPv6 address.
pub(super) const VIP6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0x100);
/// Where clients with IPv6 are: their last four bytes differ.
pub(super) const CLIENTS6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xb, 0, 0, 0, 0, 0);
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

/// The IPv6 address of that IPv4 server or local address.
fn v6(address: Ipv4Addr) -> IpAddr {
    let [_, _, c, d] = address.octets().map(u16::from);
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, c << 8 | d).into()
}

/// The local address of that number.
pub(super) fn local_address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 4, 0).to_bits() + number)
}

/// Local addresses enough for so many connections.
fn local_addresses(connections: u32) -> u32 {
    connections.div_ceil(SERVERS * LOCAL_PORTS).clamp(4, 1000)
}

/// What a port may send: the largest frame of a measurement, and another IPv6 header around that.
const MTU: u16 = 1600;

/// The ports, and the way to the clients: what follows are more neighbours.
pub(super) fn network(routes: &str, local: &str) -> String {
    format!(
        "ports:
  - {{ name: wan, device: net_null0, addresses: [192.0.2.2/24, \"2001:db8:2::2/64\"] }}
  - {{ name: lan, device: net_null1, addresses: [10.0.0.1/16, \"fd00::1/64\"] }}
routes:
  - {{ to: default, via: 192.0.2.1 }}
  - {{ to: default6, via: \"2001:db8:2::1\" }}
{routes}local_addresses:
  - {{ name: dip, port: lan, addresses: [{local}] }}
neighbours:
  - {{ address: 192.0.2.1, mac: \"{ROUTER}\" }}
  - {{ address: \"2001:db8:2::1\", mac: \"{ROUTER}\" }}
"
    )
}

fn yaml(path: Path, connections: u32) -> String {
    let address = |address: Ipv4Addr| match path.family.servers_have_v6() {
        true => v6(address),
        false => address.into(),
    };
    let [first, last] = [0, local_addresses(connections) - 1].map(|number| address(local_address(number)));
    let mut text = network("", &format!("\"{first}-{last}\""));
    for number in 0..SERVERS {
        let (server, mac) = server(number);
        let _ = writeln!(text, "  - {{ address: \"{}\", mac: \"{mac}\" }}", address(server));
    }
    text += "pools:\n  - name: servers\n    servers:\n";
    for number in 0..SERVERS {
        let _ = writeln!(text, "      - {{ address: \"{}\" }}", address(server(number).0));
    }
    let local = match path.mode {
        Mode::Fullnat => ", local_addresses: dip",
        Mode::Nat | Mode::Dr | Mode::Tun => "",
    };
    let (mode, vip) = (path.mode, vip(path));
    text += "services:\n";
    for protocol in ["udp", "tcp"] {
        let _ = writeln!(
            text,
            "  - {{ name: {protocol}, listen: \"{vip}:{SERVICE_PORT}/{protocol}\", pool: servers, mode: {mode}, scheduler: rr{local} }}"
        );
    }
    text
}

/// The VIP as it stands in front of a port.
fn vip(path: Path) -> String {
    match path.family.clients_have_v6() {
        true => format!("[{VIP6}]"),
        false => VIP.to_string(),
    }
}

/// A configuration of the measurement.
///
/// # Errors
/// It is not valid.
pub(super) fn parse(text: &str) -> Result<Config> {
    config::parse("bench", text)
        .map_err(|errors| anyhow::anyhow!("the configuration of the measurement: {errors}"))
}

/// A model of the two ports, of a gateway of one worker, with room for so many services and servers.
pub(super) fn model(services: u32, servers: u32) -> Model {
    model_among(1, services, servers)
}

fn model_among(workers: u8, services: u32, servers: u32) -> Model {
    let port = |mac| PortSettings {
        mac,
        any_mac: false,
        vlan: None,
        mtu: MTU,
        addresses: Vec::new(),
        check_partial: false,
        exception_rate: 0,
    };
    let ports = vec![port(GATEWAY_WAN), port(GATEWAY_LAN)];
    Model::new(ports, workers, services, servers)
}

/// The gateway of so many workers, which have so many connections together.
///
/// # Errors
/// Its configuration is not valid.
pub(super) fn snapshot(path: Path, workers: u8, connections: u32) -> Result<Arc<Snapshot>> {
    let mut model = model_among(workers, SIZES.services, SIZES.servers);
    model.apply_file(&parse(&yaml(path, connections))?)?;
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
    path: Path,
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
    let snapshot = snapshot(path, 1, connections)?;
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
        for path in Path::all() {
            let snapshot = snapshot(path, 1, 10_000_000).unwrap();
            assert!(snapshot.server_present(0), "{path:?}");
        }
    }
}
