//! Real frames through a MAC swap: a TAP device in a network namespace of its own, and a raw socket there.
//! Needs root and /dev/net/tun. Buffers are small, so that a full-size frame comes in segments.
// A test's helpers are tests as well.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use dpdk::{Burst, Eal, EalOptions, Hugepages, Mempool, Port, PortOptions, RxQueue, TxQueue, mbuf};

/// Local experimental EtherType 1: the kernel sends none of its own.
const ETHERTYPE: u16 = 0x88b5;
/// What net_tap states as its maximum in DPDK 22.11, whatever the kernel's TAP could carry.
const MTU: u16 = 1504;
/// Room for 512 bytes of a frame.
const DATA_ROOM: u16 = 512 + Mempool::HEADROOM;
const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// A network namespace that goes away with this value, whatever the test does.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Namespace {
        ip(&["netns", "add", name]);
        Namespace(name.to_owned())
    }

    /// Takes an interface in, and brings it up there.
    fn adopt(&self, interface: &str) {
        ip(&["link", "set", interface, "netns", &self.0]);
        ip(&["-n", &self.0, "link", "set", interface, "up"]);
    }

    /// Moves the calling thread in.
    fn enter(&self) {
        let file = File::open(format!("/var/run/netns/{}", self.0)).unwrap();
        // SAFETY: a system call on a descriptor that is open.
        let code = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
        assert_eq!(code, 0, "{}", io::Error::last_os_error());
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "ip {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A raw packet socket on one interface, for our EtherType only.
struct RawSocket(OwnedFd);

impl RawSocket {
    fn open(interface: &str) -> RawSocket {
        let name = std::ffi::CString::new(interface).unwrap();
        let protocol = ETHERTYPE.to_be();
        // SAFETY: system calls with valid arguments; the descriptor is new and owned from here on.
        unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from(protocol));
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            let socket = RawSocket(OwnedFd::from_raw_fd(fd));
            let mut address: libc::sockaddr_ll = zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = protocol;
            address.sll_ifindex = libc::if_nametoindex(name.as_ptr()).cast_signed();
            let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            assert_eq!(libc::bind(fd, (&raw const address).cast(), len), 0);
            // A frame that does not come back fails the test instead of hanging it.
            let limit = libc::timeval {
                tv_sec: 5,
                tv_usec: 0,
            };
            let len = size_of::<libc::timeval>() as libc::socklen_t;
            let limit = (&raw const limit).cast();
            assert_eq!(
                libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, limit, len),
                0
            );
            socket
        }
    }

    fn send(&self, frame: &[u8]) {
        // SAFETY: the slice is valid for its length.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
    }

    fn receive(&self) -> Vec<u8> {
        let mut frame = vec![0; 10_000];
        // SAFETY: the buffer is valid for its length.
        let got = unsafe { libc::recv(self.0.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), 0) };
        assert!(got > 0, "nothing came back: {}", io::Error::last_os_error());
        frame.truncate(got.cast_unsigned());
        frame
    }
}

fn frame(len: usize, seed: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = OTHER
        .into_iter()
        .chain(CLIENT)
        .chain(ETHERTYPE.to_be_bytes())
        .collect();
    frame.extend((frame.len()..len).map(|n| (n * 7 + seed) as u8));
    frame
}

/// Swaps and sends back until told to stop. What the kernel sends by itself goes the same way.
fn forward(rx: &mut RxQueue, tx: &mut TxQueue, stop: &AtomicBool) {
    let mut burst = Burst::new();
    while !stop.load(Ordering::Acquire) {
        if rx.burst(&mut burst) == 0 {
            thread::yield_now();
            continue;
        }
        for frame in &mut burst {
            let (destination, source) = frame.bytes_mut()[..12].split_at_mut(6);
            destination.swap_with_slice(source);
        }
        tx.burst(&mut burst);
        mbuf::free_all(&mut burst);
    }
}

/// Ends the forwarder also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn client(namespace: &Namespace, interface: &str) {
    namespace.enter();
    let socket = RawSocket::open(interface);
    for (seed, len) in [60, 61, 512, 513, 1024, 1025, 1518]
        .into_iter()
        .cycle()
        .take(70)
        .enumerate()
    {
        let sent = frame(len, seed);
        socket.send(&sent);
        let back = socket.receive();
        assert_eq!((&back[..6], &back[6..12]), (&CLIENT[..], &OTHER[..]));
        assert_eq!(back.len(), len);
        assert!(
            back[12..] == sent[12..],
            "frame {seed} of {len} bytes came back changed"
        );
    }
}

#[test]
fn frames_come_back_with_swapped_addresses() {
    let unique = std::process::id();
    let interface = format!("tg{unique}");
    let namespace = Namespace::new(&format!("tgffi{unique}"));
    let eal = Eal::init(&EalOptions {
        program: "macswap-tap".to_owned(),
        hugepages: Hugepages::Off,
        no_pci: true,
        ..EalOptions::default()
    })
    .unwrap();
    let folder = eal.runtime_dir();
    let pool = Mempool::new(&eal, "tap", 8191, 64, DATA_ROOM, None).unwrap();
    let id = eal.probe(&format!("net_tap0,iface={interface}")).unwrap();
    let options = PortOptions {
        mtu: Some(MTU),
        promiscuous: true,
        ..PortOptions::new(pool.clone())
    };
    let mut port = Port::configure(&eal, id, &options).unwrap();
    let (mut rx, mut tx) = port.start().unwrap();
    assert_eq!((port.driver_name(), port.mtu().unwrap()), ("net_tap", MTU));
    namespace.adopt(&interface);

    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (rx, tx) = (&mut rx[0], &mut tx[0]);
        let stop = &stop;
        let (eal, namespace, interface) = (&eal, &namespace, &interface);
        scope.spawn(move || {
            let _guard = eal.register_thread().unwrap();
            forward(rx, tx, stop);
        });
        let _stop = Stop(stop);
        let client = scope.spawn(move || client(namespace, interface));
        client.join().unwrap();
    });

    let stats = port.stats().unwrap();
    assert!(stats.rx_packets >= 70 && stats.tx_packets >= 70, "{stats:?}");
    drop((rx, tx, port));
    assert_eq!(pool.in_use(), 0, "the driver gives everything back");
    assert!(folder.exists());
    drop((options, pool, eal));
    assert!(!folder.exists(), "EAL has ended, on the thread that started it");
}
