//! Measures the connection table alone, without packets: lookups of random flows in bursts of 32 and both
//! directions, inserts, replacement at 100 % fill, the wheel, and memory per connection.
//!
//! `cargo run --release -p dataplane --example table_bench [FLOWS...]`; by default 1k, 100k, 1M and 10M flows.

use std::error::Error;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use dataplane::flow::{ConnectionTable, FlowHasher, Mode, Query, Record, RecordId, Verdict, Wheel};
use dataplane::packet::FlowKey;
use dataplane::time::Tick;

const BURST: usize = 32;
const BURSTS: usize = 100_000;
const REPEATS: usize = 5;
const STRETCH: usize = 500;

fn keys(n: u32) -> (FlowKey, FlowKey) {
    let scattered = n.wrapping_mul(2_654_435_761);
    let client = Ipv4Addr::from(0x0a00_0000 + (scattered >> 12));
    let client_port = ((scattered & 0xfff) << 4 | n & 15) as u16;
    let local = Ipv4Addr::from(0x6440_0000 + n / 60_000);
    (
        FlowKey::new(client, client_port, Ipv4Addr::new(198, 51, 100, 100), 80),
        FlowKey::new(
            Ipv4Addr::from(0x0a63_0000 + n % 100),
            8080,
            local,
            (1_024 + n % 60_000) as u16,
        ),
    )
}

fn connection(n: u32) -> Record {
    let (inbound, outbound) = keys(n);
    Record::new(6, Mode::Fullnat, inbound, outbound)
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 32) * bound as u64) >> 32) as usize
    }
}

/// Nanoseconds that this thread has had a processor, on a machine that is shared with others.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ')
        .next()
        .and_then(|time| time.parse().ok())
        .unwrap_or(0.0)
}

fn timed<T>(count: usize, work: impl FnOnce() -> Result<T, Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let (start, wall) = (processor_time(), Instant::now());
    work()?;
    let wall = wall.elapsed().as_nanos() as f64;
    // The former is only brought up to date every few milliseconds.
    let taken = if wall < 1e7 {
        wall
    } else {
        processor_time() - start
    };
    Ok(taken / count as f64)
}

/// Nanoseconds a packet, and how many the work counted. The keys of the packets lie ready in memory, as a parsed
/// burst does. On a shared machine most stretches are disturbed: this is the lower quartile of stretches shorter
/// than a scheduler's time slice.
fn bursts(mut work: impl FnMut(&[FlowKey; BURST]) -> usize, packets: &[[FlowKey; BURST]]) -> (f64, usize) {
    let mut stretches = Vec::new();
    let mut done = 0;
    for _ in 0..REPEATS {
        done = 0;
        for stretch in packets.chunks(STRETCH) {
            let start = Instant::now();
            done += stretch
                .iter()
                .map(|keys| black_box(work(black_box(keys))))
                .sum::<usize>();
            stretches.push(start.elapsed().as_nanos() as f64 / (stretch.len() * BURST) as f64);
        }
    }
    stretches.sort_unstable_by(f64::total_cmp);
    (stretches[stretches.len() / 4], done)
}

fn measure(flows: usize) -> Result<(), Box<dyn Error>> {
    let mut table = ConnectionTable::new(flows, FlowHasher::new(1, 2), true)?;
    table.touch();
    let insert = timed(flows, || {
        Ok((0..flows as u32).try_for_each(|n| table.insert(&connection(n)).map(drop))?)
    })?;

    let mut random = Random(42);
    let mut pick = || {
        let (inbound, outbound) = keys(random.below(flows) as u32);
        if random.below(2) == 0 { inbound } else { outbound }
    };
    let packets: Vec<[FlowKey; BURST]> = (0..BURSTS).map(|_| std::array::from_fn(|_| pick())).collect();

    let hasher = *table.hasher();
    let query = |key: &FlowKey| Query {
        key: *key,
        protocol: 6,
        hash: hasher.hash(key, 6),
    };
    let (floor, _) = bursts(
        |keys| keys.iter().map(|key| query(key).hash as usize & 1).sum(),
        &packets,
    );
    let mut hits = [None; BURST];
    let (found_only, found) = bursts(
        |keys| {
            table.lookup_burst(&keys.each_ref().map(|key| table.announce(*key, 6)), &mut hits);
            hits.iter().flatten().count()
        },
        &packets,
    );
    let (stamped, _) = bursts(
        |keys| {
            table.lookup_burst(&keys.each_ref().map(|key| table.announce(*key, 6)), &mut hits);
            hits.iter()
                .flatten()
                .map(|hit| table.get_mut(hit.id).stamp(Tick(7)))
                .count()
        },
        &packets,
    );
    // As a client that is answered: inbound, then outbound packets of the same flows.
    let pairs: Vec<[FlowKey; BURST]> = (0..BURSTS / 2)
        .flat_map(|_| {
            let both: [_; BURST] = std::array::from_fn(|_| keys(random.below(flows) as u32));
            [
                both.map(|(inbound, _)| inbound),
                both.map(|(_, outbound)| outbound),
            ]
        })
        .collect();
    let (two_way, _) = bursts(
        |keys| {
            table.lookup_burst(&keys.each_ref().map(|key| table.announce(*key, 6)), &mut hits);
            hits.iter()
                .flatten()
                .map(|hit| table.get_mut(hit.id).stamp(Tick(7)))
                .count()
        },
        &pairs,
    );
    let (one_by_one, _) = bursts(
        |keys| keys.iter().filter_map(|key| table.lookup(&query(key))).count(),
        &packets,
    );
    let absent: Vec<[FlowKey; BURST]> = packets.iter().map(|p| p.map(|key| key.reversed())).collect();
    let (missed, hits_of_absent) = bursts(
        |keys| {
            table.lookup_burst(&keys.each_ref().map(|key| table.announce(*key, 6)), &mut hits);
            hits.iter().flatten().count()
        },
        &absent,
    );
    if found != BURSTS * BURST || hits_of_absent != 0 {
        return Err(format!("{found} found, {hits_of_absent} found of those that are not there").into());
    }

    let (displaced, stashed) = table.index().displaced();
    let home = 100.0 - displaced as f64 * 100.0 / (2 * flows) as f64;
    let (bytes, pages) = table.memory();
    println!(
        "{flows:>9} flows: hash {floor:.1} ns, burst lookup {found_only:.1}, with stamp {stamped:.1}, two-way {two_way:.1}, one by one {one_by_one:.1}, \
         miss {missed:.1}; insert {insert:.0} ns; {:.1} bytes a connection ({pages:?}); {home:.2} % at home, {stashed} in stash",
        bytes as f64 / flows as f64
    );
    churn(&mut table, flows)
}

/// Replaces every connection of the full table once, in random order, and has all expire at once.
fn churn(table: &mut ConnectionTable, flows: usize) -> Result<(), Box<dyn Error>> {
    let mut random = Random(7);
    let replace = timed(flows, || {
        for n in 0..flows {
            table
                .remove(RecordId(1 + random.below(flows) as u32))
                .ok_or("the table was not full")?;
            table.insert(&connection((flows + n) as u32))?;
        }
        Ok(())
    })?;
    let home = 100.0 - table.index().displaced().0 as f64 * 100.0 / (2 * flows) as f64;

    let mut wheel = Wheel::new(Tick(0));
    let arm = timed(flows, || {
        for n in 0..flows as u32 {
            wheel.insert(table.records_mut(), RecordId(1 + n), Tick(90_000 + n % 1_000));
        }
        Ok(())
    })?;
    let now = Tick(100_000);
    let expire = timed(flows, || {
        while wheel.advance(table.records_mut(), now, 64, |_, _| Verdict::Expired) == 64 {}
        Ok(())
    })?;
    println!(
        "{:>15}  replace in the full table {replace:.0} ns, then {home:.2} % at home; wheel: arm {arm:.0} ns, expire {expire:.0} ns",
        ""
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<usize> = std::env::args()
        .skip(1)
        .map(|arg| arg.parse())
        .collect::<Result<_, _>>()?;
    let flows = if given.is_empty() {
        vec![1_000, 100_000, 1_000_000, 10_000_000]
    } else {
        given
    };
    flows.into_iter().try_for_each(measure)
}
