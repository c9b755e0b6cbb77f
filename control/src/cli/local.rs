//! `tidegate show local-addresses` as a table: a line for each group, one for each of its addresses, and, where that is
//! asked for, one for each server that an address is used towards.

use super::table::Table;
use crate::view::{LocalAddress, LocalPool, LocalServer};
use std::net::SocketAddr;

/// The columns; those of numbers stand right.
const COLUMNS: [&str; 14] = [
    "POOL",
    "PORT",
    "ADDRESS",
    "STATE",
    "PORTS",
    ">SERVERS",
    ">USED",
    ">FREE",
    ">PEAK",
    ">TAKEN",
    ">BORROWED",
    ">RECYCLED",
    ">EXHAUSTED",
    ">NO-MEMORY",
];

/// The groups.
pub(super) fn pools(pools: Vec<LocalPool>) -> Table {
    let mut table = Table::new(&COLUMNS);
    for pool in &pools {
        table.row(whole(pool));
        for address in &pool.addresses {
            table.row(one(pool, address));
            for server in &address.servers {
                table.row(towards(pool, address, server));
            }
        }
    }
    table
}

fn whole(pool: &LocalPool) -> Vec<String> {
    let sum = |count: fn(&LocalAddress) -> u64| pool.addresses.iter().map(count).sum::<u64>();
    let peaks = pool.addresses.iter().map(|address| address.peak);
    let draining = pool.addresses.iter().filter(|address| address.draining).count();
    let state = match draining {
        0 => String::new(),
        count => format!("{count} draining"),
    };
    let mut row = begin(pool, format!("all {}", pool.addresses.len()), state);
    row.push(pool.servers.to_string());
    row.extend([pool.used.to_string(), or_dash(pool.free)]);
    row.push(peaks.max().unwrap_or(0).to_string());
    let counts: [fn(&LocalAddress) -> u64; 5] = [
        |address| address.taken,
        |address| address.borrowed,
        |address| address.recycled,
        |address| address.exhausted,
        |address| address.out_of_memory,
    ];
    row.extend(counts.map(|count| sum(count).to_string()));
    row
}

fn one(pool: &LocalPool, address: &LocalAddress) -> Vec<String> {
    let mut row = begin(pool, address.address.to_string(), state(address));
    row.push(String::new());
    row.extend([address.used.to_string(), or_dash(address.free)]);
    let counts = [
        u64::from(address.peak),
        address.taken,
        address.borrowed,
        address.recycled,
        address.exhausted,
        address.out_of_memory,
    ];
    row.extend(counts.map(|count| count.to_string()));
    row
}

fn towards(pool: &LocalPool, address: &LocalAddress, server: &LocalServer) -> Vec<String> {
    let mut row = begin(pool, address.address.to_string(), state(address));
    let end = SocketAddr::new(server.address, server.port);
    row.push(format!("{end}/{}", server.protocol));
    row.extend([server.used, server.free].map(|count| count.to_string()));
    row.extend([String::new(), String::new()]);
    row.extend([server.borrowed, server.recycled, server.exhausted].map(|count| count.to_string()));
    row.push(String::new());
    row
}

/// What is not to be counted: hosts outside have no number.
fn or_dash(count: Option<u64>) -> String {
    count.map_or_else(|| "-".to_owned(), |count| count.to_string())
}

fn state(address: &LocalAddress) -> String {
    if address.draining { "draining" } else { "active" }.to_owned()
}

fn begin(pool: &LocalPool, address: String, state: String) -> Vec<String> {
    let ports = format!("{}-{}", pool.ports.0, pool.ports.1);
    vec![pool.name.clone(), pool.port.clone(), address, state, ports]
}
