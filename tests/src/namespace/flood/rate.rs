//! A benchmark, `./scripts/bench flood`: the rate of established downloads during a SYN flood, against that of the same
//! downloads without, window after window in the same run.

use super::Way;
use crate::lab::{FULLNAT, Gateway, Lab, RawSocket};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the connection table has room for.
const CONNECTIONS: u64 = 5_000;
/// SYNs of each window with a flood: ten times the table.
const SYNS: u64 = 10 * CONNECTIONS;
const WINDOW: Duration = Duration::from_secs(5);
/// Downloads, each at so many bytes a second, as a slow server sends them.
const DOWNLOADS: usize = 20;
const RATE: u64 = 400_000;
/// How often senders look what is due.
const STEP: Duration = Duration::from_millis(5);
/// What has to be left of the rate.
const WANTED: f64 = 0.95;

/// Pairs of windows, without and with a flood.
fn pairs() -> usize {
    let set = std::env::var("TIDEGATE_FLOOD_PAIRS").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(6)
}

/// Sends on all connections what is due, until told to stop. What the network does not take is sent later.
fn serve(mut connections: Vec<TcpStream>, stop: &AtomicBool) {
    let (start, block) = (Instant::now(), [0x2e; 16_384]);
    let mut sent = vec![0; connections.len()];
    while !stop.load(Ordering::Relaxed) {
        let due = RATE * start.elapsed().as_millis() as u64 / 1000;
        for (connection, sent) in connections.iter_mut().zip(&mut sent) {
            while *sent < due {
                let len = block.len().min((due - *sent) as usize);
                match connection.write(&block[..len]) {
                    Ok(len) => *sent += len as u64,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("a download: {error}"),
                }
            }
        }
        std::thread::park_timeout(STEP);
    }
}

/// Reads a download to its end, and counts.
fn fetch(mut connection: TcpStream, received: &AtomicU64) {
    let mut room = [0; 65_536];
    while let Ok(len) = connection.read(&mut room) {
        if len == 0 {
            return;
        }
        received.fetch_add(len as u64, Ordering::Relaxed);
    }
}

/// SYNs at an even rate over a window, from addresses of nobody; how many were sent when it was over.
fn flood(way: &Way, socket: &RawSocket, first: u64) -> u64 {
    let start = Instant::now();
    let mut sent = 0;
    while start.elapsed() < WINDOW {
        let due = SYNS * start.elapsed().as_micros() as u64 / WINDOW.as_micros() as u64;
        while sent < due {
            let n = first + sent;
            let source = Ipv4Addr::from(0xc633_6401 + (n / 60_000 % 250) as u32);
            socket.send(&way.syn(source, 1024 + (n % 60_000) as u16));
            sent += 1;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    sent
}

#[test]
#[ignore = "a benchmark, whose figures are the machine's: ./scripts/bench flood"]
fn downloads_keep_their_rate_during_a_syn_flood() {
    let lab = Lab::new();
    let yaml = Gateway::usual()
        .replace("connections: 100_000", &format!("connections: {CONNECTIONS}"))
        .replace("      - { address: 10.0.0.12, port: 8080 }\n", "");
    let gateway = Gateway::start(&lab, &yaml);
    let server = lab.server(1);
    server.run("sysctl -qw net.ipv4.tcp_synack_retries=1");
    let listener = server.inside(|| TcpListener::bind("10.0.0.11:8080").unwrap());
    let vip: SocketAddr = format!("{FULLNAT}:80").parse().unwrap();
    let (mut senders, mut receivers) = (vec![], vec![]);
    for _ in 0..DOWNLOADS {
        receivers.push(lab.client().inside(|| TcpStream::connect(vip).unwrap()));
        let (sender, _) = listener.accept().unwrap();
        sender.set_nonblocking(true).unwrap();
        senders.push(sender);
    }
    let client = lab.client();
    let (way, socket) = (Way::find(&gateway, &client), RawSocket::open(&client, "wan0"));
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut sums = [0.0; 2];
    std::thread::scope(|scope| {
        scope.spawn(|| serve(senders, &stop));
        for connection in receivers {
            scope.spawn(|| fetch(connection, &received));
        }
        let mut syns = 0;
        println!(
            "{DOWNLOADS} downloads of {RATE} bytes/s, a table of {CONNECTIONS}, {SYNS} SYNs in each flood"
        );
        println!(
            "{:>12} {:>12} {:>9} {:>9}",
            "without, B/s", "flood, B/s", "SYNs", "ratio"
        );
        // The first window lets buffers fill, and is of no pair.
        std::thread::park_timeout(Duration::from_secs(1));
        for _ in 0..pairs() {
            let before = syns;
            let rates = [false, true].map(|flooded| {
                let (start, first) = (Instant::now(), received.load(Ordering::Relaxed));
                if flooded {
                    syns += flood(&way, &socket, syns);
                }
                while start.elapsed() < WINDOW {
                    std::thread::park_timeout(WINDOW.saturating_sub(start.elapsed()));
                }
                (received.load(Ordering::Relaxed) - first) as f64 / start.elapsed().as_secs_f64()
            });
            println!(
                "{:>12.0} {:>12.0} {:>9} {:>9.3}",
                rates[0],
                rates[1],
                syns - before,
                rates[1] / rates[0]
            );
            sums = [sums[0] + rates[0], sums[1] + rates[1]];
        }
        let states = gateway.states();
        let established = states.iter().filter(|state| *state == "ESTABLISHED").count();
        println!("{established} of {DOWNLOADS} downloads are still established");
        stop.store(true, Ordering::Relaxed);
    });
    for row in gateway.rows("drops").iter().filter(|row| row["total"] != 0) {
        println!("dropped: {} {}", row["total"], row["reason"]);
    }
    let ratio = sums[1] / sums[0];
    println!("the downloads keep {ratio:.3} of their rate during a flood (wanted: {WANTED})");
    gateway.finish();
    assert!(
        ratio >= WANTED,
        "only {ratio:.3} of the rate is left during a flood"
    );
}
