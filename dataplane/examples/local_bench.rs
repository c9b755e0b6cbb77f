//! What a local port costs: take and release at 1, 1,000 and 400,000 pairs, and resident memory.
//!
//! `cargo run --profile bench -p dataplane --example local_bench`

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use dataplane::flow::RecordId;
use dataplane::local::{LipPool, LocalPorts, LocalPortsConfig, Pair, PortRange, Rotation, Server};
use dataplane::worker::shard::{Shard, ShardKey, ShardSet};

fn main() -> std::io::Result<()> {
    let key = ShardKey::from_seed(1);
    let before = resident();
    let mut ports = LocalPorts::new(&LocalPortsConfig::for_connections(1_000_000, 1, false), &key)?;
    let reserved = ports.memory().reserved >> 20;
    println!(
        "reserved {reserved} MB, resident at start {} kB",
        resident() - before
    );

    for (pairs, shards) in [
        (1, 1),
        (1, 128),
        (1_000, 1),
        (1_000, 128),
        (400_000, 1),
        (400_000, 2),
    ] {
        let ns = take_and_release(&mut ports, pairs, shards);
        println!("{pairs:>7} pairs at random, {shards:>3} shards: {ns:6.1} ns for take + release");
    }
    let memory = ports.memory();
    let megabytes = (resident() - before) >> 10;
    println!(
        "{} pairs, {} sets remembered: resident {megabytes} MB",
        memory.pairs, memory.sets
    );
    println!("refused by a dry pair: {:.1} ns", refused(&key)?);
    println!(
        "refused by a pool of 4 dry addresses: {:.1} ns",
        refused_by_pool(&key)?
    );
    println!("shard(address, port): {:.2} ns", shard(&key));
    Ok(())
}

fn pair(i: u32) -> Pair {
    Pair {
        local: Ipv4Addr::from_bits(0x0a00_00c8 + i % 4).into(),
        server: Ipv4Addr::from_bits(0x0a10_0000 + i / 4).into(),
        server_port: 80,
        protocol: 6,
    }
}

/// Keeps up to 100,000 connections open, so that a release is not of the port just taken. The best of many
/// stretches: the machine may have other work.
fn take_and_release(ports: &mut LocalPorts, pairs: u32, shards: u32) -> f64 {
    const STRETCH: u32 = 20_000;
    let wanted_open = if pairs == 1 && shards == 1 {
        400
    } else {
        100_000.min(40_000 * pairs as usize)
    };
    let mut random = Random(7);
    let mut open: Vec<(Pair, u16)> = Vec::with_capacity(wanted_open);
    let mut best = f64::MAX;
    // The first half fills caches and sets.
    for stretch in 0..200 {
        let start = Instant::now();
        for i in 0..STRETCH {
            let pair = pair(random.below(pairs));
            let wanted = Shard::from_low_bits(random.below(shards));
            let Ok(taken) = ports.take(&pair, PortRange::default(), wanted, ShardSet::ALL) else {
                continue;
            };
            if open.len() < wanted_open {
                open.push((pair, taken.port));
                continue;
            }
            let at = (stretch * STRETCH + i) as usize % wanted_open;
            let (pair, port) = std::mem::replace(&mut open[at], (pair, taken.port));
            assert!(ports.release(&pair, port, RecordId(1 + at as u32)));
        }
        if stretch >= 100 {
            best = best.min(start.elapsed().as_nanos() as f64 / f64::from(STRETCH));
        }
    }
    for (pair, port) in open {
        ports.release(&pair, port, RecordId(1));
    }
    best
}

/// 1,000 ports at each of four addresses, all in use.
fn dry(key: &ShardKey) -> std::io::Result<(LocalPorts, PortRange)> {
    let mut ports = LocalPorts::new(&LocalPortsConfig::for_connections(100_000, 1, false), key)?;
    let range = PortRange::new(2000, 2999).unwrap_or_default();
    for i in 0..4 {
        while ports
            .take(&pair(i), range, Shard::default(), ShardSet::ALL)
            .is_ok()
        {}
    }
    Ok((ports, range))
}

fn refused(key: &ShardKey) -> std::io::Result<f64> {
    let (mut ports, range) = dry(key)?;
    Ok(time(2_000_000, |i| {
        let wanted = Shard::from_low_bits(i);
        black_box(ports.take(&pair(i % 4), range, wanted, ShardSet::ALL).is_err());
    }))
}

fn refused_by_pool(key: &ShardKey) -> std::io::Result<f64> {
    let (mut ports, range) = dry(key)?;
    let pool = LipPool::new((0..4).map(|i| pair(i).local), range);
    let server = Server {
        address: pair(0).server,
        port: 80,
        protocol: 6,
    };
    let mut cursor = Rotation::default();
    Ok(time(1_000_000, |i| {
        let wanted = Shard::from_low_bits(i);
        let taken = ports.take_from_pool(&pool, &mut cursor, &server, wanted, ShardSet::ALL);
        black_box(taken.is_err());
    }))
}

fn shard(key: &ShardKey) -> f64 {
    time(10_000_000, |i| {
        black_box(key.shard(Ipv4Addr::from_bits(i.wrapping_mul(2_654_435_761)), i as u16));
    })
}

fn time(rounds: u32, mut work: impl FnMut(u32)) -> f64 {
    let stretch = rounds / 50;
    let timed = (0..50).map(|at| {
        let start = Instant::now();
        (at * stretch..(at + 1) * stretch).for_each(&mut work);
        start.elapsed().as_nanos() as f64 / f64::from(stretch)
    });
    timed.fold(f64::MAX, f64::min)
}

/// Resident memory in kB, as the system counts it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        const STEP: u64 = 6_364_136_223_846_793_005;
        self.0 = self.0.wrapping_mul(STEP).wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 32) * u64::from(bound)) >> 32) as u32
    }
}
