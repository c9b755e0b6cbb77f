//! Services and servers. A server's series carry its service's labels: one that serves two services has two.

use super::about::*;
use super::family::{Sample, Text};
use crate::gateway::ServerTotals;
use crate::view::{Server, Table};

/// The values of the labels that tell a service from all others: name, VIP, port, protocol.
struct Labels([String; 4]);

impl Labels {
    fn of(table: &Table) -> Labels {
        let service = &table.service;
        // A firewall mark stands where the VIP does, and it has no port and no protocol.
        let address = service.address.map(|address| address.to_string());
        let vip = address.unwrap_or_else(|| service.listen.clone());
        let port = service.port.map(|port| port.to_string());
        let protocol = service.protocol.clone();
        let [port, protocol] = [port, protocol].map(Option::unwrap_or_default);
        Labels([service.name.clone(), vip, port, protocol])
    }

    fn service(&self) -> [&str; 4] {
        self.0.each_ref().map(String::as_str)
    }
}

/// The values of the labels that tell a server of a service from all others: those of the service, address, port.
struct ServerLabels<'a> {
    service: &'a Labels,
    address: String,
    port: String,
}

impl ServerLabels<'_> {
    fn all(&self) -> [&str; 6] {
        let [name, vip, port, protocol] = self.service.service();
        [name, vip, port, protocol, &self.address, &self.port]
    }
}

/// Two series of what `values` tells, under the label values `names`.
type Pair = (&'static About, [&'static str; 2], fn(&ServerTotals) -> [u64; 2]);

fn pairs(connections: &'static About, packets: &'static About, bytes: &'static About) -> [Pair; 3] {
    let directions = ["inbound", "outbound"];
    [
        (connections, ["active", "inactive"], |totals| {
            [totals.active, totals.inactive]
        }),
        (packets, directions, |totals| {
            [totals.inbound_packets, totals.outbound_packets]
        }),
        (bytes, directions, |totals| {
            [totals.inbound_bytes, totals.outbound_bytes]
        }),
    ]
}

/// Services, and their servers where there are any in `tables`.
pub(super) fn services(text: &mut Text, tables: &[Table]) {
    let labels: Vec<Labels> = tables.iter().map(Labels::of).collect();
    let labelled = || labels.iter().zip(tables);
    let servers = labelled().map(|(labels, table)| Sample(labels.service(), table.service.servers as f64));
    text.family(&SERVICE_SERVERS, servers);
    let opened =
        labelled().map(|(labels, table)| Sample(labels.service(), table.service.totals.connections as f64));
    text.family(&SERVICE_OPENED, opened);
    for (about, names, values) in pairs(&SERVICE_CONNECTIONS, &SERVICE_PACKETS, &SERVICE_BYTES) {
        let samples = labelled().flat_map(|(labels, table)| {
            let [name, vip, port, protocol] = labels.service();
            let values = names.into_iter().zip(values(&table.service.totals));
            values.map(move |(which, value)| Sample([name, vip, port, protocol, which], value as f64))
        });
        text.family(about, samples);
    }
    let departing =
        labelled().map(|(labels, table)| Sample(labels.service(), table.service.departing as f64));
    text.family(&SERVICE_DEPARTING, departing);
    of_servers(text, &labels, tables);
}

fn of_servers(text: &mut Text, labels: &[Labels], tables: &[Table]) {
    let labelled = labels.iter().zip(tables).flat_map(|(service, table)| {
        table.servers.iter().map(move |server| {
            let (address, port) = (server.address.to_string(), server.port.to_string());
            (
                ServerLabels {
                    service,
                    address,
                    port,
                },
                server,
            )
        })
    });
    let labelled: Vec<(ServerLabels<'_>, &Server)> = labelled.collect();
    let servers = || labelled.iter();
    text.family(
        &SERVER_WEIGHT,
        servers().map(|(labels, server)| Sample(labels.all(), server.weight.into())),
    );
    text.family(
        &SERVER_OVERLOADED,
        servers().map(|(labels, server)| Sample(labels.all(), f64::from(u8::from(server.overloaded)))),
    );
    let opened = servers().map(|(labels, server)| Sample(labels.all(), server.totals.connections as f64));
    text.family(&SERVER_OPENED, opened);
    for (about, names, values) in pairs(&SERVER_CONNECTIONS, &SERVER_PACKETS, &SERVER_BYTES) {
        let samples = servers().flat_map(|(labels, server)| {
            let [name, vip, port, protocol, address, server_port] = labels.all();
            let values = names.into_iter().zip(values(&server.totals));
            values.map(move |(which, value)| {
                Sample(
                    [name, vip, port, protocol, address, server_port, which],
                    value as f64,
                )
            })
        });
        text.family(about, samples);
    }
}
