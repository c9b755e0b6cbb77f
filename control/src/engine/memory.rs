//! Whether the tables that the configuration asks for fit into this machine, before any of it is touched: the
//! kernel promises more than it has, and would end the gateway in mid-start instead.

use crate::config::{Config, Hugepages};
use anyhow::{Result, bail};
use std::fs;

/// What is left to everything else, at least.
const RESERVE: u64 = 128 << 20;

/// Refuses limits that are too large for so many workers.
///
/// # Errors
/// Names the limit that needs the most, and what would fit.
pub(super) fn check(config: &Config, workers: u8) -> Result<()> {
    let available = available();
    let dpdk = match config.node.hugepages {
        Hugepages::Megabytes(_) => 0,
        Hugepages::Auto | Hugepages::Off => u64::from(config.node.memory),
    };
    if (dpdk << 20) + RESERVE > available {
        bail!(
            "{}:{}: node.memory: {dpdk} MB do not fit: {} MB are free; lower it, or add memory",
            config.file,
            config.node.place,
            available >> 20
        );
    }
    fragments(config)?;
    let parts = parts(config, workers);
    let needed = parts.iter().map(|(_, count, each)| count * each).sum::<u64>();
    let total = needed + (dpdk << 20) + RESERVE;
    if total <= available {
        return Ok(());
    }
    let (name, count, each) = parts
        .into_iter()
        .max_by_key(|(_, count, each)| count * each)
        .unwrap_or(parts[0]);
    let fits = count.saturating_sub((total - available).div_ceil(each));
    let (needed, available) = (total >> 20, available >> 20);
    let remedy = match fits {
        0 => "lower it, or add memory".to_owned(),
        fits => format!("lower it to {fits}, or add memory"),
    };
    bail!(
        "{}:{}: node.limits.{name}: tables and packets need {needed} MB, and {available} MB are free; {remedy}",
        config.file,
        config.node.place
    )
}

/// Refuses more buffers for fragments than the memory that DPDK is given has room for.
fn fragments(config: &Config) -> Result<()> {
    let (key, megabytes) = match config.node.hugepages {
        Hugepages::Megabytes(megabytes) => ("hugepages", megabytes),
        Hugepages::Off => ("memory", config.node.memory),
        // Hugepages may give more than is asked for: DPDK will tell.
        Hugepages::Auto => return Ok(()),
    };
    let needed = (u64::from(config.node.limits.fragments) * PER_BUFFER) >> 20;
    if needed < u64::from(megabytes) {
        return Ok(());
    }
    bail!(
        "{}:{}: node.limits.fragments: buffers of 64 kB for {} datagrams need {needed} MB, and node.{key} is \
         {megabytes}; lower it, or raise node.{key}",
        config.file,
        config.node.place,
        config.node.limits.fragments
    )
}

/// A buffer of 64 kB with its headroom.
const PER_BUFFER: u64 = 66 << 10;
/// A record, and its share of the index, which is made for twice as many entries: both directions.
const PER_CONNECTION: u64 = 81;
/// Local ports: two words each in two tables beside the records, and a share of port sets and of how these are found.
const PER_LOCAL_PORT: u64 = 20;
/// Scheduler, local cursor and snapshot.
const PER_SERVICE: u64 = 1024;
/// Counters, state, snapshot and its place in a scheduler.
const PER_SERVER: u64 = 512;
/// The entry and its waiting packets.
const PER_NEIGHBOUR: u64 = 1024;
/// What is known of a datagram that comes in fragments. Its buffer is of DPDK's memory.
const PER_FRAGMENTED: u64 = 256;

/// What there may be of each kind, by the name of its limit, and the bytes that each takes. Every worker has tables of
/// its own of all services, servers and neighbours.
fn parts(config: &Config, workers: u8) -> [(&'static str, u64, u64); 5] {
    let limits = &config.node.limits;
    let connections = u64::from(limits.connections);
    let records = u64::from(limits.sizes(workers, false, 0).connections) * u64::from(workers.max(1));
    let per_record = match config.local_addresses.is_empty() {
        true => PER_CONNECTION,
        false => PER_CONNECTION + PER_LOCAL_PORT,
    };
    let workers = u64::from(workers.max(1));
    [
        (
            "connections",
            connections,
            (records * per_record).div_ceil(connections.max(1)),
        ),
        ("services", u64::from(limits.services), workers * PER_SERVICE),
        ("servers", u64::from(limits.servers), workers * PER_SERVER),
        (
            "neighbours",
            u64::from(limits.neighbours),
            workers * PER_NEIGHBOUR,
        ),
        ("fragments", u64::from(limits.fragments), PER_FRAGMENTED),
    ]
}

/// Memory that can be had without pushing anything out: ordinary pages, and reserved 2 MB ones. Everything when the
/// kernel does not tell.
fn available() -> u64 {
    fs::read_to_string("/proc/meminfo").map_or(u64::MAX, |text| parse(&text))
}

fn parse(meminfo: &str) -> u64 {
    let number = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let Some(free) = number("MemAvailable:") else {
        return u64::MAX;
    };
    let huge = number("HugePages_Free:").unwrap_or(0) * number("Hugepagesize:").unwrap_or(0);
    (free + huge) << 10
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::flow::{ConnectionTable, FlowHasher, TagIndex};

    fn config(limits: &str) -> Config {
        node(&format!("limits: {{ {limits} }}"))
    }

    fn node(key: &str) -> Config {
        let text = format!("node:\n  {key}\nports: [{{ name: a, device: net_null0 }}]\n");
        crate::config::parse("gw.yaml", &text).unwrap()
    }

    #[test]
    fn what_no_machine_has_is_refused_by_name() {
        let error = check(&config("connections: 2147483647, neighbours: 10"), 1)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("gw.yaml:2:3: node.limits.connections: tables and packets need 16"),
            "{error}"
        );
        assert!(error.contains(" MB are free; lower it to "), "{error}");
        let error = check(&node("memory: 1048576"), 1).unwrap_err().to_string();
        assert!(
            error.starts_with("gw.yaml:2:3: node.memory: 1048576 MB do not fit: "),
            "{error}"
        );
        check(&config("connections: 1000, services: 10, servers: 10"), 4).unwrap();
        let fragments = |limit| {
            check(
                &node(&format!(
                    "{{ hugepages: off, memory: 128, limits: {{ fragments: {limit} }} }}"
                )),
                1,
            )
        };
        assert_eq!(
            fragments(2000).unwrap_err().to_string(),
            "gw.yaml:2:3: node.limits.fragments: buffers of 64 kB for 2000 datagrams need 128 MB, and node.memory is \
             128; lower it, or raise node.memory"
        );
        fragments(1900).unwrap();
    }

    #[test]
    fn the_estimate_of_connections_covers_the_table() {
        let connections = 200_000;
        let index = TagIndex::new(2 * connections, false).unwrap();
        let table = ConnectionTable::with_index(connections, FlowHasher::new(1, 2), index, false).unwrap();
        let (bytes, _) = table.memory();
        // The table has one record more than asked for, which stands for none.
        let (bytes, estimate) = (bytes as u64 - 64, connections as u64 * PER_CONNECTION);
        assert!((bytes..bytes * 5 / 4).contains(&estimate), "{bytes}");
    }

    /// Connections are dealt out; every worker has tables of its own of the rest.
    #[test]
    fn more_workers_need_more_memory() {
        let config = config("connections: 1000000, servers: 1000");
        let bytes = |workers, name| {
            let parts = parts(&config, workers);
            let (_, count, each) = parts.into_iter().find(|part| part.0 == name).unwrap();
            count * each
        };
        assert_eq!(bytes(1, "connections"), 81_000_000);
        assert!((91_000_000..92_500_000).contains(&bytes(4, "connections")));
        assert_eq!(bytes(4, "servers"), 4 * bytes(1, "servers"));
        assert_eq!(bytes(4, "fragments"), bytes(1, "fragments"));
    }

    #[test]
    fn the_kernels_numbers_are_read() {
        let text =
            "MemTotal: 9 kB\nMemAvailable:   100 kB\nHugePages_Free:    3\nHugepagesize:       2048 kB\n";
        assert_eq!(parse(text), (100 + 3 * 2048) << 10);
        assert_eq!(parse("MemTotal: 9 kB\n"), u64::MAX);
        assert!(available() > 1 << 20);
    }
}
