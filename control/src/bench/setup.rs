//! The gateway that is measured: two ports, sixteen servers, one service each of TCP and UDP, compiled from YAML as
//! any other; and its worker, over the generator.

use super::io::Generator;
use super::report::Mode;
use crate::config;
use crate::model::Model;
use anyhow::{Context, Result};
use dataplane::flow::FlowIndex;
use dataplane::packet::MacAddr;
use dataplane::service::{PortSettings, Snapshot};
use dataplane::worker::{Mailbox, Sizes, Worker, WorkerStats};
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

fn yaml(mode: Mode, connections: u32) -> String {
    let mut text = String::from("ports:\n");
    text += "  - { name: wan, device: net_null0, addresses: [192.0.2.2/24] }\n";
    text += "  - { name: lan, device: net_null1, addresses: [10.0.0.1/16] }\n";
    text += "routes:\n  - { to: default, via: 192.0.2.1 }\n";
    let (first, last) = (local_address(0), local_address(local_addresses(connections) - 1));
    let _ = writeln!(
        text,
        "local_addresses:\n  - {{ name: dip, port: lan, addresses: [{first}-{last}] }}"
    );
    let _ = writeln!(
        text,
        "neighbours:\n  - {{ address: 192.0.2.1, mac: \"{ROUTER}\" }}"
    );
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

fn snapshot(mode: Mode, connections: u32) -> Result<Snapshot> {
    let config = config::parse("bench", &yaml(mode, connections))
        .map_err(|errors| anyhow::anyhow!("the configuration of the measurement: {errors}"))?;
    let port = |mac| PortSettings {
        mac,
        any_mac: false,
        vlan: None,
        mtu: 1500,
        addresses: Vec::new(),
        check_partial: false,
    };
    let mut model = Model::new(vec![port(GATEWAY_WAN), port(GATEWAY_LAN)], 1, 16, 64);
    model.apply_file(&config)?;
    Ok(model.snapshot())
}

/// A worker whose tables have their memory, with room for so many connections.
///
/// # Errors
/// Too little memory.
pub(super) fn worker<X: FlowIndex>(
    mode: Mode,
    connections: u32,
    hugepages: bool,
    index: X,
    io: Generator,
) -> Result<Worker<Generator, X>> {
    let sizes = Sizes {
        connections,
        services: 16,
        servers: 64,
        neighbours: 64,
        fragments: 256,
        hugepages,
        seed: 0x7469_6465_6761_7465,
    };
    let mut worker = Worker::new(
        0,
        io,
        index,
        sizes,
        Arc::new(snapshot(mode, connections)?),
        Arc::new(WorkerStats::new(2, 64)),
        Arc::new(Mailbox::default()),
    )
    .context("no memory for the connection table; measure fewer flows")?;
    worker.touch();
    Ok(worker)
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
