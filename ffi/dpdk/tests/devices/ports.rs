//! Ports and queues.

use arrayvec::ArrayVec;
use dpdk::{Burst, Mbuf, Mempool, Port, PortError, PortOptions, mbuf};

use super::{eal, frames, pool};

fn port(device: &str, pool: &Mempool) -> Port {
    let id = eal().probe(device).unwrap();
    Port::configure(eal(), id, &PortOptions::new(pool.clone())).unwrap()
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
    assert_eq!(port.rss_key().unwrap(), [1; 40]);
    let queue = |entry: u16| entry * 7 % 100;
    port.set_redirection(queue).unwrap();
    let redirection = port.redirection().unwrap();
    assert_eq!(redirection.len(), usize::from(port.info().reta_size));
    assert!(redirection.len() >= 128 && (0..).zip(redirection).all(|(entry, to)| to == queue(entry)));

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
