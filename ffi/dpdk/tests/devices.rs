//! The safe layer over DPDK's software devices. EAL starts once per process, so these tests share one.
// A test's helpers are tests as well.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread;

use arrayvec::ArrayVec;
use dpdk::hash::{Hash, HashError, MISS};
use dpdk::port::soft_rss;
use dpdk::ring::ring;
use dpdk::{
    Burst, Checksum, Eal, EalError, EalOptions, Hugepages, Mbuf, Mempool, Port, PortError, PortOptions,
};
use dpdk::{clock, mbuf};
use proptest::prelude::*;

static LOG_LINES: AtomicUsize = AtomicUsize::new(0);

fn eal() -> &'static Eal {
    static EAL: OnceLock<Eal> = OnceLock::new();
    EAL.get_or_init(|| {
        let cpus = allowed_cpus();
        let eal = Eal::init(&EalOptions {
            program: "dpdk-test".to_owned(),
            hugepages: Hugepages::Off,
            vdevs: vec!["net_null7".to_owned()],
            no_pci: true,
            log: Some(|_, _| {
                LOG_LINES.fetch_add(1, Ordering::Relaxed);
            }),
            ..EalOptions::default()
        })
        .unwrap();
        assert_eq!(allowed_cpus(), cpus, "EAL must not leave its caller pinned");
        eal
    })
}

fn allowed_cpus() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    status
        .lines()
        .find(|line| line.starts_with("Cpus_allowed:"))
        .unwrap()
        .to_owned()
}

fn pool(name: &str, count: u32) -> Mempool {
    Mempool::new(eal(), name, count, 0, Mempool::DEFAULT_DATA_ROOM, None).unwrap()
}

fn frames(pool: &Mempool, count: usize) -> Burst {
    (0..count)
        .map(|n| pool.alloc_from(&[n as u8; 60]).unwrap())
        .collect()
}

fn port(device: &str, pool: &Mempool) -> Port {
    let id = eal().probe(device).unwrap();
    Port::configure(eal(), id, &PortOptions::new(pool.clone())).unwrap()
}

#[test]
fn eal_starts_once_with_telemetry_and_log() {
    let eal = eal();
    assert!(eal.version().starts_with("DPDK "));
    assert!(!eal.has_hugepages());
    assert!(
        eal.telemetry_socket().exists(),
        "--no-shconf must not take telemetry away"
    );
    assert!(LOG_LINES.load(Ordering::Relaxed) > 0);
    assert_eq!(
        Eal::init(&EalOptions::default()).unwrap_err(),
        EalError::AlreadyStarted
    );
    assert!(eal.find("net_null7").is_ok());
}

#[test]
fn devices_that_cannot_be_attached_say_why() {
    let fails = |device: &str| eal().probe(device).unwrap_err().to_string();
    let text = fails("net_nonsense0");
    assert!(
        text.contains("net_nonsense0") && text.contains("driver's name"),
        "{text}"
    );
    let text = fails("net_af_packet9,iface=tg-absent");
    assert!(
        text.contains("No such device") && text.contains("ip link"),
        "{text}"
    );
    assert!(fails("net_pcap9,rx_pcap=/nonexistent").contains("No such file"));
    assert!(fails("0000:99:00.0").contains("vfio-pci"));
    assert!(matches!(eal().find("net_null99"), Err(EalError::NoPort { .. })));
}

#[test]
fn a_pool_counts_and_runs_dry() {
    let pool = pool("dry", 63);
    assert_eq!((pool.available(), pool.in_use()), (63, 0));
    let mut all: ArrayVec<Mbuf, 64> = ArrayVec::new();
    assert!(pool.alloc_bulk(&mut all, 63));
    assert_eq!((pool.available(), pool.in_use()), (0, 63));
    assert!(pool.alloc().is_none() && !pool.alloc_bulk(&mut all, 1));
    drop(all.pop());
    assert!(
        !pool.alloc_bulk(&mut all, 2),
        "more than fit are refused, whatever the pool has"
    );
    assert_eq!(pool.available(), 1);
    mbuf::free_all(&mut all);
    assert_eq!((all.len(), pool.available()), (0, 63));
    assert!(pool.alloc_from(&[0; 2049]).is_none());
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn pools_that_cannot_be_made_say_why() {
    let first = pool("twice", 63);
    let make = |name: &str, count| {
        Mempool::new(first.eal(), name, count, 0, 2176, None)
            .unwrap_err()
            .to_string()
    };
    assert!(make("twice", 63).contains("unique"));
    assert!(make("a-name-that-is-much-too-long", 63).contains("at most 25"));
    assert!(make("huge", 4_000_000).contains("more memory"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Front and end move as on a plain vector with 128 bytes before and 2,048 after; what does not fit
    /// changes nothing.
    #[test]
    fn an_mbuf_grows_and_shrinks_like_a_vector(steps in prop::collection::vec((0..3u8, 0..2300usize), 1..40)) {
        static POOL: OnceLock<Mempool> = OnceLock::new();
        let pool = POOL.get_or_init(|| pool("model", 63));
        let mut mbuf = pool.alloc_from(&[7; 60]).unwrap();
        let (mut start, mut end) = (128, 188);
        for (step, len) in steps {
            let done = match step {
                0 => mbuf.prepend(len % 200),
                1 => mbuf.trim_front(len % 200),
                _ => mbuf.resize(len),
            };
            let (to_start, to_end) = match step {
                0 => (start - (len % 200) as i32, end),
                1 => (start + (len % 200) as i32, end),
                _ => (start, start + len as i32),
            };
            let fits = to_start >= 0 && to_start <= to_end && to_end <= 2176;
            prop_assert_eq!(done, fits);
            if fits {
                (start, end) = (to_start, to_end);
            }
            prop_assert_eq!(mbuf.bytes().len() as i32, end - start);
            prop_assert_eq!(mbuf.pkt_len() as i32, end - start);
            prop_assert_eq!(mbuf.headroom() as i32, start);
            mbuf.bytes_mut().fill(9);
        }
        prop_assert!(!mbuf.prepend(usize::MAX) && !mbuf.trim_front(usize::MAX) && !mbuf.resize(usize::MAX));
    }
}

#[test]
fn a_fresh_mbuf_has_headroom_and_no_device_verdicts() {
    let pool = pool("fresh", 63);
    let mut mbuf = pool.alloc_from(b"hello").unwrap();
    assert_eq!(
        (mbuf.bytes(), mbuf.segments(), mbuf.headroom()),
        (&b"hello"[..], 1, 128)
    );
    assert_eq!(
        (mbuf.ip_checksum(), mbuf.l4_checksum()),
        (Checksum::Unknown, Checksum::Unknown)
    );
    assert_eq!(mbuf.rss_hash(), None);
    assert!(mbuf.prepend(2));
    mbuf.bytes_mut()[..2].copy_from_slice(b"oh");
    assert_eq!(mbuf.bytes(), b"ohhello");
    assert!(mbuf.trim_front(7) && mbuf.bytes().is_empty());
}

#[test]
fn segments_become_one_when_they_fit() {
    let pool = pool("segments", 63);
    let mut short = pool.alloc_from(&[1; 1000]).unwrap();
    short.chain(pool.alloc_from(&[2; 1000]).unwrap()).unwrap();
    assert_eq!(
        (short.segments(), short.pkt_len(), short.bytes().len()),
        (2, 2000, 1000)
    );
    assert!(
        !short.resize(1500),
        "the end of a frame in segments is not in the first one"
    );
    assert!(short.linearize());
    assert_eq!(
        (short.segments(), short.bytes().len(), short.bytes()[1999]),
        (1, 2000, 2)
    );

    let mut long = pool.alloc_from(&[1; 2000]).unwrap();
    for n in 2..5 {
        long.chain(pool.alloc_from(&[n; 2000]).unwrap()).unwrap();
    }
    assert!(!long.linearize() && long.segments() == 4 && long.pkt_len() == 8000);
    assert!(long.copy(&pool).is_none());
    let jumbo = Mempool::new(eal(), "jumbo", 15, 0, 9728, None).unwrap();
    let copy = long.copy(&jumbo).unwrap();
    assert_eq!((copy.segments(), copy.bytes().len()), (1, 8000));
    assert!((0..8000).all(|at| usize::from(copy.bytes()[at]) == 1 + at / 2000));
    drop((short, long, copy));
    assert_eq!((pool.in_use(), jumbo.in_use()), (0, 0));
}

#[test]
fn a_loop_over_net_ring_loses_and_leaks_nothing() {
    let pool = pool("loop", 4095);
    let mut port = port("net_ring0", &pool);
    assert_eq!(port.driver_name(), "net_ring");
    let (mut rx, mut tx) = port.start().unwrap();
    let mut sent = 0;
    // The device's ring takes 1,023: what it does not take stays with us, in order.
    let rest = loop {
        let mut burst = frames(&pool, 32);
        sent += tx[0].burst(&mut burst);
        if !burst.is_empty() {
            break burst;
        }
    };
    assert_eq!((sent, rest[0].bytes()[0]), (1023, 31));
    drop(rest);
    let mut received = 0;
    let mut burst = Burst::new();
    while rx[0].burst(&mut burst) > 0 {
        assert!(burst.iter().all(|m| m.bytes().len() == 60 && m.segments() == 1));
        received += burst.len();
        mbuf::free_all(&mut burst);
    }
    assert_eq!(received, 1023);
    let stats = port.stats().unwrap();
    assert_eq!((stats.rx_packets, stats.tx_packets), (1023, 1023));
    drop((rx, tx, port));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_burst_fills_only_the_room_there_is() {
    let pool = pool("room", 255);
    let mut port = port("net_ring1", &pool);
    let (mut rx, mut tx) = port.start().unwrap();
    assert_eq!(tx[0].burst(&mut frames(&pool, 10)), 10);
    let mut small: ArrayVec<Mbuf, 4> = ArrayVec::new();
    assert_eq!(
        (rx[0].burst(&mut small), rx[0].burst(&mut small), small.len()),
        (4, 0, 4)
    );
    assert_eq!(small[3].bytes()[0], 3);
    small.clear();
    assert_eq!((rx[0].burst(&mut small), small[0].bytes()[0]), (4, 4));
    small.truncate(2);
    assert_eq!(
        (rx[0].burst(&mut small), small.len(), small[2].bytes()[0]),
        (2, 4, 8)
    );
    drop(small);
    drop((rx, tx, port));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_device_is_clamped_claimed_and_given_back() {
    let pool = pool("claims", 4095);
    let id = eal().probe("net_null0,size=100").unwrap();
    let mut options = PortOptions::new(pool.clone());
    options.rx_queues = 60_000;
    options.promiscuous = true;
    options.rss_key = Some([0x6d; 40]);
    options.rx_descriptors = 0;
    let mut port = Port::configure(eal(), id, &options).unwrap();
    assert_eq!(port.rx_queues(), port.info().max_rx_queues);
    assert!(port.rss() && port.info().max_rx_queues < 60_000);
    assert!(matches!(
        Port::configure(eal(), id, &options),
        Err(PortError::InUse { .. })
    ));
    assert!(port.set_rss_key(&[1; 40]).is_ok());

    let (mut rx, tx) = port.start().unwrap();
    assert_eq!((rx.len(), tx.len()), (usize::from(port.rx_queues()), 1));
    assert!(matches!(port.stop(), Err(PortError::QueuesHeld { .. })));
    let mut burst = Burst::new();
    assert_eq!(rx[0].burst(&mut burst), 32);
    assert_eq!((burst[0].bytes().len(), burst[0].port()), (100, id.number()));
    drop((rx, tx));
    port.stop().unwrap();
    let (rx, tx) = port.start().unwrap();
    assert!(port.link_up() && port.mtu().unwrap() == 1500);
    assert!(
        port.xstats()
            .unwrap()
            .iter()
            .any(|(name, value)| name == "rx_good_packets" && *value == 32)
    );
    drop((port, rx, tx));
    // The packets outlive their port; the same device can be attached again.
    assert_eq!(burst[31].bytes().len(), 100);
    drop(burst);
    assert_eq!(pool.in_use(), 0);
    assert!(eal().find("net_null0").is_err());
    let again = self::port("net_null0", &pool);
    let mac = [2, 0, 0, 0, 0, 9];
    again.set_mac(mac).unwrap();
    assert_eq!(again.mac().unwrap(), mac);
}

#[test]
fn an_mtu_that_does_not_fit_is_refused() {
    let pool = pool("mtu", 63);
    let id = eal().probe("net_null2").unwrap();
    let options = PortOptions {
        mtu: Some(9000),
        ..PortOptions::new(pool.clone())
    };
    let text = Port::configure(eal(), id, &options).unwrap_err().to_string();
    assert!(
        text.contains("raise the buffer size") && text.contains("2176"),
        "{text}"
    );
    let options = PortOptions {
        mtu: Some(1400),
        ..options
    };
    assert_eq!(Port::configure(eal(), id, &options).unwrap().mtu().unwrap(), 1400);
}

/// A capture with one frame of `len` bytes, byte n being n mod 251.
fn capture(len: usize) -> std::path::PathBuf {
    let mut bytes = Vec::new();
    for word in [
        0xa1b2_c3d4_u32,
        0x0004_0002,
        0,
        0,
        65535,
        1,
        0,
        0,
        len as u32,
        len as u32,
    ] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend((0..len).map(|n| (n % 251) as u8));
    let path = std::env::temp_dir().join(format!("tidegate-dpdk-{}-{len}.pcap", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// JUMBO-01: a frame longer than a buffer arrives in several segments and is whole after a copy.
#[test]
fn a_jumbo_frame_of_a_capture_arrives_whole() {
    let path = capture(9000);
    let pool = pool("pcap", 1023);
    let mut port = port(&format!("net_pcap0,rx_pcap={}", path.display()), &pool);
    let (mut rx, tx) = port.start().unwrap();
    let mut burst = Burst::new();
    assert_eq!(rx[0].burst(&mut burst), 1);
    let frame = &mut burst[0];
    assert!(frame.segments() > 1 && frame.pkt_len() == 9000 && !frame.linearize());
    let large = Mempool::new(eal(), "pcap-large", 15, 0, 9728, None).unwrap();
    let copy = frame.copy(&large).unwrap();
    assert!(
        copy.bytes()
            .iter()
            .enumerate()
            .all(|(n, &b)| usize::from(b) == n % 251)
    );
    assert_eq!((copy.bytes().len(), copy.port()), (9000, port.id().number()));
    drop((burst, copy, rx, tx, port));
    assert_eq!((pool.in_use(), large.in_use()), (0, 0));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_ring_keeps_order_is_bounded_and_frees_what_is_left() {
    let pool = pool("ring-one", 255);
    let (mut ends, mut consumer) = ring(eal(), "one", 40, 1, None).unwrap();
    let producer = &mut ends[0];
    assert_eq!(producer.enqueue(&mut frames(&pool, 32)), 32);
    let mut more = frames(&pool, 32);
    assert_eq!(
        (producer.enqueue(&mut more), more.len(), more[0].bytes()[0]),
        (8, 24, 8)
    );
    assert_eq!(
        (producer.len(), consumer.len(), consumer.is_empty()),
        (40, 40, false)
    );
    let mut burst = Burst::new();
    assert_eq!(consumer.dequeue(&mut burst), 32);
    assert!(
        burst
            .iter()
            .enumerate()
            .all(|(n, m)| usize::from(m.bytes()[0]) == n)
    );
    drop((burst, more));
    assert_eq!(pool.in_use(), 8);
    drop((ends, consumer));
    assert_eq!(pool.in_use(), 0);
    assert!(ring(eal(), "one", 40, 1, None).is_ok(), "its name is free again");
}

#[test]
fn a_ring_takes_from_many_threads() {
    const EACH: usize = 5_000;
    let pool = pool("ring-many", 1023);
    let (ends, mut consumer) = ring(eal(), "many", 256, 3, None).unwrap();
    thread::scope(|scope| {
        for mut producer in ends {
            let pool = pool.clone();
            scope.spawn(move || {
                let _guard = pool.eal().register_thread().unwrap();
                let mut waiting: ArrayVec<Mbuf, 8> = ArrayVec::new();
                let mut sent = 0;
                while sent < EACH {
                    let missing = waiting.remaining_capacity().min(EACH - sent - waiting.len());
                    waiting.extend((0..missing).map_while(|_| pool.alloc_from(b"x")));
                    sent += producer.enqueue(&mut waiting);
                    thread::yield_now();
                }
            });
        }
        let mut burst = Burst::new();
        let mut received = 0;
        while received < 3 * EACH {
            received += consumer.dequeue(&mut burst);
            mbuf::free_all(&mut burst);
        }
    });
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn threads_get_lcore_ids_of_their_own() {
    let barrier = &Barrier::new(3);
    let ids: BTreeSet<u32> = thread::scope(|scope| {
        let spawn = || {
            scope.spawn(move || {
                assert_eq!(eal().lcore_id(), None);
                let guard = eal().register_thread().unwrap();
                let id = eal().lcore_id().unwrap();
                assert!(eal().register_thread().is_ok() && eal().lcore_id() == Some(id));
                barrier.wait();
                drop(guard);
                assert_eq!(eal().lcore_id(), None);
                id
            })
        };
        eal();
        let threads = [spawn(), spawn(), spawn()];
        threads.map(|t| t.join().unwrap()).into()
    });
    assert_eq!(ids.len(), 3);
}

fn key(n: u32) -> [u8; 16] {
    let mut key = [0; 16];
    key[4..8].copy_from_slice(&n.to_be_bytes());
    key
}

#[test]
fn the_hash_fills_and_answers_in_bulk() {
    const ENTRIES: u32 = 20_000;
    let mut hash = Hash::new(eal(), "full", ENTRIES, true, None).unwrap();
    for n in 0..ENTRIES {
        hash.add(&key(n), n).unwrap();
    }
    assert_eq!(hash.len(), ENTRIES as usize);
    assert_eq!(hash.add(&key(0), MISS), Err(HashError::Value));
    let keys: Vec<_> = (0..32).map(|n| key(ENTRIES - 16 + n)).collect();
    let mut values = [0; 32];
    assert_eq!(hash.lookup_bulk(&keys, &mut values), 32);
    assert!((0..32).all(|n| values[n as usize] == if n < 16 { ENTRIES - 16 + n } else { MISS }));
    assert_eq!(hash.lookup_bulk(&keys[..3], &mut values), 3);
    assert_eq!(hash.lookup_bulk(&[], &mut values), 0);
    assert!(hash.remove(&key(5)) && !hash.remove(&key(5)));
    assert_eq!((hash.lookup(&key(5)), hash.lookup(&key(6))), (None, Some(6)));
    hash.add(&key(6), 66).unwrap();
    assert_eq!(hash.lookup(&key(6)), Some(66));
    let refused = (ENTRIES..ENTRIES + 100)
        .filter(|&n| hash.add(&key(n), n).is_err())
        .count();
    assert!(refused > 0, "a full table refuses");
}

#[test]
fn the_clock_runs() {
    let hz = clock::hz(eal());
    assert!((100_000_000..10_000_000_000).contains(&hz));
    let first = clock::now();
    assert!(clock::now() >= first);
}

/// The verification vectors that the RSS specification gives for IPv4 with ports.
#[test]
fn toeplitz_matches_the_published_vectors() {
    let mut key = [0; 40];
    let published = "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa";
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&published[2 * at..2 * at + 2], 16).unwrap();
    }
    let hash = |source: [u8; 4], sport: u32, destination: [u8; 4], dport: u32| {
        let words = [
            u32::from_be_bytes(source),
            u32::from_be_bytes(destination),
            sport << 16 | dport,
        ];
        soft_rss(&words, &key)
    };
    assert_eq!(
        hash([66, 9, 149, 187], 2794, [161, 142, 100, 80], 1766),
        0x51cc_c178
    );
    assert_eq!(
        hash([199, 92, 111, 2], 14230, [65, 69, 140, 83], 4739),
        0xc626_b0ea
    );
}
