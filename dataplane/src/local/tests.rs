//! Named cases of local ports.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::*;
use crate::flow::RecordId;
use crate::worker::shard::{Shard, ShardKey, ShardMap, ShardSet};

pub(super) const LIP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 200));
const SECOND_LIP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 201));
pub(super) const LIP6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0x200));
const SERVER: Server = Server {
    address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 11)),
    port: 8080,
    protocol: 6,
};
const SERVER6: Server = Server {
    address: IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0x11)),
    ..SERVER
};
const SECOND_SERVER: Server = Server {
    address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 12)),
    ..SERVER
};

pub(super) fn range(first: u16, last: u16) -> PortRange {
    PortRange::new(first, last).unwrap()
}

pub(super) fn small() -> LocalPortsConfig {
    LocalPortsConfig {
        port_memory: 1 << 20,
        pairs: 64,
        sets: 4096,
        addresses: 8,
        connections: 100_000,
        seed: 5,
    }
}

pub(super) fn ports_of(config: &LocalPortsConfig) -> LocalPorts {
    LocalPorts::new(config, &ShardKey::from_seed(9)).unwrap()
}

fn shard(bits: u32) -> Shard {
    Shard::from_low_bits(bits)
}

/// A client's take, with the client's shard drawn from `client`.
fn open(ports: &mut LocalPorts, pool: &LipPool, server: &Server, client: u32) -> Result<Taken, TakeError> {
    ports.take_from_pool(
        pool,
        &mut Rotation::default(),
        server,
        shard(client.wrapping_mul(2_654_435_761) >> 20),
        ShardSet::ALL,
    )
}

fn pool(addresses: &[IpAddr]) -> LipPool {
    LipPool::new(addresses.to_vec(), range(10_000, 10_099))
}

/// So many ports in use, of so many; nothing borrowed, recycled or refused.
fn used(used: u32, capacity: u32) -> PairUse {
    PairUse {
        used,
        capacity,
        borrowed: 0,
        recycled: 0,
        exhausted: 0,
    }
}

const DRY: TakeError = TakeError::Exhausted { recyclable: None };

/// Field case LPORT-01.
#[test]
fn a_hundred_ports_serve_a_hundred_connections_per_server_and_address() {
    let mut ports = ports_of(&small());
    let one = pool(&[LIP]);
    let first: Vec<Taken> = (0..100)
        .map(|i| open(&mut ports, &one, &SERVER, i).unwrap())
        .collect();
    assert_eq!(
        first.iter().map(|taken| taken.port).collect::<HashSet<_>>().len(),
        100
    );
    assert_eq!(open(&mut ports, &one, &SERVER, 100), Err(DRY));
    assert_eq!(ports.addresses().next().unwrap().exhausted, 1);

    for i in 0..100 {
        open(&mut ports, &one, &SECOND_SERVER, i).unwrap();
    }
    assert_eq!(open(&mut ports, &one, &SECOND_SERVER, 100), Err(DRY));
    let other_protocol = Server {
        protocol: 17,
        ..SERVER
    };
    assert!(open(&mut ports, &one, &other_protocol, 0).is_ok());

    let two = pool(&[LIP, SECOND_LIP]);
    for i in 0..100 {
        assert_eq!(open(&mut ports, &two, &SERVER, i).unwrap().local, SECOND_LIP);
    }
    assert_eq!(open(&mut ports, &two, &SERVER, 100), Err(DRY));

    assert!(ports.release(&SERVER.pair(LIP), first[42].port, RecordId(1)));
    assert_eq!(open(&mut ports, &two, &SERVER, 7).unwrap().port, first[42].port);
    assert_eq!(open(&mut ports, &two, &SERVER, 8), Err(DRY));
}

/// Field case LPORT-02: whatever ends a connection ends in `release`; nothing may stay behind.
#[test]
fn nothing_leaks_over_fifty_rounds() {
    let mut ports = ports_of(&small());
    let pair = SERVER.pair(LIP);
    for round in 0..50 {
        let taken: Vec<Taken> = (0..1000)
            .map(|i| {
                ports
                    .take(&pair, range(2000, 5999), shard(i * 7 + round), ShardSet::ALL)
                    .unwrap()
            })
            .collect();
        for (i, taken) in taken.iter().enumerate() {
            let record = RecordId(i as u32 + 1);
            assert!(i % 3 == 0 || ports.closing(&pair, record));
            assert!(ports.release(&pair, taken.port, record));
        }
        assert_eq!(ports.usage(&pair, ShardSet::ALL), Some(used(0, 4000)));
    }
    // 4,000 ports are at most 32 for each shard, which may lie across 4 blocks.
    let bound = 64 + 128 * (32 + 4 * 32);
    assert!(
        ports.memory().touched <= bound,
        "memory is bounded by the ports, not by time"
    );
    assert_eq!(ports.addresses().next().unwrap().used, 0);
}

/// Field case LPORT-04: each service has its own cursor, and the pairs are common.
#[test]
fn two_services_share_an_address_without_a_clash() {
    let mut ports = ports_of(&small());
    let pool = pool(&[LIP, SECOND_LIP]);
    let mut cursors = [Rotation::default(); 2];
    let mut seen = HashSet::new();
    for i in 0..200 {
        let cursor = &mut cursors[i as usize % 2];
        let taken = ports
            .take_from_pool(&pool, cursor, &SERVER, shard(i), ShardSet::ALL)
            .unwrap();
        assert!(seen.insert((taken.local, taken.port)));
    }
}

#[test]
fn an_empty_pool_is_exhausted() {
    let mut ports = ports_of(&small());
    assert_eq!(open(&mut ports, &pool(&[]), &SERVER, 0), Err(DRY));
}

#[test]
fn a_pool_goes_round_and_prefers_the_right_shard_to_the_next_address() {
    let mut ports = ports_of(&small());
    let pool = LipPool::new([LIP, SECOND_LIP], range(1024, 1279));
    let mut cursor = Rotation::default();
    let mut take = |ports: &mut LocalPorts| {
        ports
            .take_from_pool(&pool, &mut cursor, &SERVER, shard(77), ShardSet::ALL)
            .unwrap()
    };
    // Two ports of each shard at each address.
    let taken: Vec<Taken> = (0..5).map(|_| take(&mut ports)).collect();
    let locals: Vec<IpAddr> = taken.iter().map(|taken| taken.local).collect();
    assert_eq!(locals, [LIP, SECOND_LIP, LIP, SECOND_LIP, LIP]);
    assert_eq!(
        taken.iter().map(|taken| taken.borrowed).collect::<Vec<_>>(),
        [false, false, false, false, true]
    );
    assert!(ports.release(&SERVER.pair(LIP), taken[2].port, RecordId(1)));
    // The cursor points at the second address, but only the first has the shard.
    assert_eq!(take(&mut ports), taken[2]);
}

/// Each server is shown addresses of its own family only, and each family has a rotation of its own.
#[test]
fn a_pool_of_both_families_serves_each() {
    let mut ports = ports_of(&small());
    let second6 = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0x201));
    let both = pool(&[LIP6, LIP, second6, SECOND_LIP]);
    assert_eq!(both.addresses(), [LIP, SECOND_LIP, LIP6, second6]);
    let (mut rotation, mut rotation6) = (Rotation::default(), Rotation::default());
    let mut taken = Vec::new();
    for i in 0..200 {
        for (server, locals, rotation) in [
            (SERVER, [LIP, SECOND_LIP], &mut rotation),
            (SERVER6, [LIP6, second6], &mut rotation6),
        ] {
            let got = ports
                .take_from_pool(&both, rotation, &server, shard(i / 2), ShardSet::ALL)
                .unwrap();
            assert!(locals.contains(&got.local), "{got:?} towards {server:?}");
            if i < 8 {
                assert_eq!(got.local, locals[i as usize % 2]);
            }
            assert!(!taken.contains(&(server.pair(got.local), got.port)));
            taken.push((server.pair(got.local), got.port));
        }
    }
    for server in [SERVER, SERVER6] {
        assert_eq!(open(&mut ports, &both, &server, 1), Err(DRY));
    }
    for (pair, port) in taken {
        assert!(ports.release(&pair, port, RecordId(1)));
    }
    assert!(
        ports
            .addresses()
            .all(|address| address.used == 0 && address.exhausted == 1)
    );
    let only_v4 = pool(&[LIP]);
    assert_eq!(open(&mut ports, &only_v4, &SERVER6, 1), Err(DRY));
}

/// Addresses that differ in any of their bits are different pairs; IPv4's is none of the mapped one.
#[test]
fn long_addresses_count_to_the_last_bit() {
    let mut ports = ports_of(&LocalPortsConfig {
        pairs: 600,
        addresses: 300,
        ..small()
    });
    let [IpAddr::V6(local), IpAddr::V6(server)] = [LIP6, SERVER6.address] else {
        panic!("IPv6")
    };
    let (local, server) = (local.to_bits(), server.to_bits());
    let mut pairs = vec![SERVER.pair(LIP), SERVER6.pair(LIP6)];
    for bit in 0..128 {
        let flipped = |bits: u128| IpAddr::V6(Ipv6Addr::from_bits(bits ^ 1 << bit));
        pairs.push(SERVER6.pair(flipped(local)));
        pairs.push(
            Server {
                address: flipped(server),
                ..SERVER
            }
            .pair(LIP6),
        );
    }
    let one = range(5000, 5000);
    for pair in &pairs {
        assert_eq!(
            ports.take(pair, one, shard(0), ShardSet::ALL).unwrap().local,
            pair.local
        );
    }
    let mut known = Vec::new();
    ports.scan_pairs(0, 1000, ShardSet::ALL, |pair, _| known.push(*pair));
    assert_eq!(known, pairs);
    for pair in &pairs {
        assert!(ports.take(pair, one, shard(0), ShardSet::ALL).is_err());
        assert!(ports.release(pair, 5000, RecordId(1)));
    }
}

#[test]
fn the_connection_that_closed_first_is_recycled_first() {
    let mut ports = ports_of(&small());
    let pair = SERVER.pair(LIP);
    let one = range(3000, 3003);
    let take = |ports: &mut LocalPorts| ports.take(&pair, one, shard(1), ShardSet::ALL);
    let held: Vec<u16> = (0..4).map(|_| take(&mut ports).unwrap().port).collect();
    assert_eq!(take(&mut ports), Err(DRY));
    // Records 1 to 4 hold the four ports.
    for record in [3, 1, 2] {
        assert!(ports.closing(&pair, RecordId(record)));
    }
    assert!(!ports.closing(&pair, RecordId(3)), "it keeps its place");
    let recyclable = |record| {
        Err(TakeError::Exhausted {
            recyclable: Some(RecordId(record)),
        })
    };
    assert_eq!(take(&mut ports), recyclable(3));
    assert!(ports.reopened(RecordId(3)), "it lives again");
    assert!(!ports.reopened(RecordId(3)));
    assert_eq!(take(&mut ports), recyclable(1));
    assert!(ports.release(&pair, held[0], RecordId(1)));
    assert_eq!(take(&mut ports).map(|taken| taken.port), Ok(held[0]));
    assert!(ports.closing(&pair, RecordId(3)));
    assert_eq!(take(&mut ports), recyclable(2), "3 closed again later");
    assert!(ports.release(&pair, held[1], RecordId(2)));
    assert!(take(&mut ports).is_ok());
    assert_eq!(take(&mut ports), recyclable(3));
    assert!(ports.release(&pair, held[2], RecordId(3)));
    assert!(take(&mut ports).is_ok());
    assert_eq!(
        take(&mut ports),
        Err(DRY),
        "a live connection never gives up its port"
    );
    ports.count_recycled(&pair);
    let counts = ports
        .addresses()
        .next()
        .map(|address| (address.recycled, address.exhausted));
    assert_eq!(counts, Some((1, 2)));
}

#[test]
fn what_is_wrong_in_the_callers_books_is_refused() {
    let mut ports = ports_of(&small());
    let pair = SERVER.pair(LIP);
    assert!(!ports.release(&pair, 4000, RecordId(1)), "nothing was taken");
    assert!(!ports.closing(&pair, RecordId(1)));
    let taken = ports
        .take(&pair, PortRange::default(), shard(0), ShardSet::ALL)
        .unwrap();
    assert!(!ports.closing(&pair, RecordId(u32::MAX)), "no such record");
    assert!(ports.release(&pair, taken.port, RecordId(1)));
    assert!(!ports.release(&pair, taken.port, RecordId(1)), "twice");
    assert_eq!(ports.usage(&pair, ShardSet::ALL), Some(used(0, 64_512)));
}

#[test]
fn every_port_of_the_default_range_is_used_before_one_comes_again() {
    let mut ports = ports_of(&LocalPortsConfig {
        port_memory: 4 << 20,
        ..small()
    });
    let pair = SERVER.pair(LIP);
    let mut seen = HashSet::new();
    for i in 0..64_512 {
        let taken = ports
            .take(&pair, PortRange::default(), shard(i), ShardSet::ALL)
            .unwrap();
        assert!(!taken.borrowed && seen.insert(taken.port));
        assert!(ports.release(&pair, taken.port, RecordId(1)));
    }
    let again = ports
        .take(&pair, PortRange::default(), shard(0), ShardSet::ALL)
        .unwrap();
    assert!(seen.contains(&again.port));
}

#[test]
fn workers_divide_the_ports_of_an_address() {
    let key = ShardKey::from_seed(9);
    let map = ShardMap::even(3);
    let pair = SERVER.pair(LIP);
    let mut seen = HashSet::new();
    for worker in 0..3 {
        let mine = map.owned_by(worker);
        let mut ports = LocalPorts::new(&small(), &key).unwrap();
        let shards: Vec<Shard> = mine.iter().collect();
        let mut client = shards.iter().copied().cycle();
        while let Ok(taken) = ports.take(&pair, range(10_000, 10_099), client.next().unwrap(), mine) {
            assert!(mine.contains(key.shard_of(LIP, taken.port)) && seen.insert(taken.port));
        }
    }
    assert_eq!(seen.len(), 100);
}

/// 10,000 services of 10 servers with 4 local addresses.
#[test]
fn idle_pairs_cost_nothing() {
    let mut ports = ports_of(&LocalPortsConfig::for_connections(1_000_000, 3));
    let fresh = ports.memory();
    assert!(fresh.reserved < 500 << 20, "{fresh:?}");
    assert_eq!(fresh.touched, 0);
    let pairs = |i: u32| Pair {
        local: Ipv4Addr::from_bits(0x0a00_00c8 + i % 4).into(),
        server: Ipv4Addr::from_bits(0x0a10_0000 + i / 4).into(),
        server_port: 80,
        protocol: 6,
    };
    let mut taken = vec![];
    for i in 0..400_000 {
        taken.push(
            ports
                .take(&pairs(i), PortRange::default(), shard(i), ShardSet::ALL)
                .unwrap()
                .port,
        );
    }
    let used = ports.memory();
    assert_eq!((used.pairs, used.sets), (400_000, 400_000));
    for (i, port) in taken.into_iter().enumerate() {
        assert!(ports.release(&pairs(i as u32), port, RecordId(1)));
    }
    assert_eq!(
        ports.memory().touched,
        400_000 * 128,
        "a pair, a set and a block each"
    );
}

#[test]
fn the_longest_idle_pair_makes_room_and_a_live_one_does_not() {
    let mut ports = ports_of(&LocalPortsConfig { pairs: 3, ..small() });
    let pair = |i: u8| {
        Server {
            address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, i)),
            ..SERVER
        }
        .pair(LIP)
    };
    let take =
        |ports: &mut LocalPorts, i| ports.take(&pair(i), PortRange::default(), shard(9), ShardSet::ALL);
    let held: Vec<u16> = (0..3).map(|i| take(&mut ports, i).unwrap().port).collect();
    assert_eq!(take(&mut ports, 3), Err(TakeError::Memory));
    for i in [1, 0] {
        assert!(ports.release(&pair(i), held[usize::from(i)], RecordId(1)));
    }
    assert!(take(&mut ports, 3).is_ok());
    let known = [0, 1, 2, 3].map(|i| ports.usage(&pair(i), ShardSet::ALL).is_some());
    assert_eq!(known, [true, false, true, true]);
    assert_eq!(ports.addresses().next().unwrap().out_of_memory, 1);
}

#[test]
fn short_memory_reuses_ports_early_and_then_forgets_idle_sets() {
    // Sixteen blocks.
    let mut ports = ports_of(&LocalPortsConfig {
        port_memory: 512,
        ..small()
    });
    let pair = SERVER.pair(LIP);
    let take = |ports: &mut LocalPorts, i| ports.take(&pair, PortRange::default(), shard(i), ShardSet::ALL);
    let mut seen = HashSet::new();
    for _ in 0..1000 {
        let taken = take(&mut ports, 5).unwrap();
        seen.insert(taken.port);
        assert!(ports.release(&pair, taken.port, RecordId(1)));
    }
    assert!(
        seen.len() > 100,
        "a good part of the memory before a port comes again: {}",
        seen.len()
    );
    // Each of these needs a block, so the idle set has to go, and then one after the other.
    let held: Vec<Taken> = (10..26).map(|i| take(&mut ports, i).unwrap()).collect();
    assert_eq!(take(&mut ports, 5), Err(TakeError::Memory));
    for taken in held {
        assert!(ports.release(&pair, taken.port, RecordId(1)));
    }
    assert!(take(&mut ports, 5).is_ok());
}

#[test]
fn a_changed_range_takes_effect_where_no_port_is_in_use() {
    let mut ports = ports_of(&small());
    let pair = SERVER.pair(LIP);
    let (old, new) = (range(10_000, 10_299), range(20_000, 20_255));
    let held = ports.take(&pair, old, shard(1), ShardSet::ALL).unwrap();
    let idle = ports.take(&pair, old, shard(2), ShardSet::ALL).unwrap();
    assert!(ports.release(&pair, idle.port, RecordId(1)));
    let taken = ports.take(&pair, new, shard(2), ShardSet::ALL).unwrap();
    assert!(new.ports().contains(&taken.port));
    assert!(
        ports.release(&pair, held.port, RecordId(1)),
        "the old port still comes back"
    );
    let taken = ports.take(&pair, new, shard(1), ShardSet::ALL).unwrap();
    assert!(new.ports().contains(&taken.port));
    assert_eq!(ports.usage(&pair, ShardSet::ALL), Some(used(2, 256)));
}

#[test]
fn pairs_are_listed_in_slices() {
    let mut ports = ports_of(&small());
    for i in 0..10 {
        let server = Server { port: i, ..SERVER };
        ports
            .take(&server.pair(LIP), PortRange::default(), shard(3), ShardSet::ALL)
            .unwrap();
    }
    let mut shown = vec![];
    let mut cursor = Some(0);
    while let Some(at) = cursor {
        cursor = ports.scan_pairs(at, 3, ShardSet::ALL, |pair, usage| {
            assert_eq!(usage, used(1, 64_512));
            shown.push(pair.server_port);
        });
    }
    assert_eq!(shown, (0..10).collect::<Vec<_>>());
}
