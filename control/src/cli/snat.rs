//! `tidegate show snat` as a table.

use super::table::Table;
use crate::view::SnatRule;

/// The rules; the first that a packet falls under decides.
pub(super) fn rules(rules: Vec<SnatRule>) -> Table {
    let mut table = Table::new(&[
        "NAME",
        "SOURCE",
        "DESTINATION",
        "PROTOCOL",
        "PORTS",
        "ADDRESSES",
        ">ACTIVE",
        ">INACTIVE",
        ">CONNS",
        ">IN-PKTS",
        ">IN-BYTES",
        ">OUT-PKTS",
        ">OUT-BYTES",
        ">PER-CLIENT",
        ">REFUSED",
    ]);
    for rule in rules {
        let totals = rule.totals;
        let counts = [
            totals.active,
            totals.inactive,
            totals.connections,
            totals.inbound_packets,
            totals.inbound_bytes,
            totals.outbound_packets,
            totals.outbound_bytes,
        ];
        let addresses = match rule.exempt {
            true => "exempt".to_owned(),
            false => rule.local_addresses.join(","),
        };
        let mut row = vec![
            rule.name,
            rule.source.join(","),
            or_any(&rule.destination),
            or_any(&rule.protocol),
            or_any(&rule.ports),
            addresses,
        ];
        row.extend(counts.map(|count| count.to_string()));
        let limit = rule.connections_per_client;
        row.push(limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string()));
        row.push(rule.refused.to_string());
        table.row(row);
    }
    table
}

fn or_any(list: &[String]) -> String {
    if list.is_empty() {
        "any".to_owned()
    } else {
        list.join(",")
    }
}
