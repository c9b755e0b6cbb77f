//! The safe layer over DPDK's software devices. EAL starts once per process, so these tests share one.

// A test's helpers are tests as well.
#![allow(clippy::unwrap_used)]

mod memory;
mod ports;
mod tables;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread;

use dpdk::port::soft_rss;
use dpdk::{Burst, Eal, EalError, EalOptions, Hugepages, Mempool, clock};

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
