//! The end of a TUN server's tunnels, for kernels without the modules for them: raw sockets and a UDP socket take
//! what the gateway sends, and a TUN device hands what is inside to the kernel, which never sees a tunnel.

use super::Host;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The UDP port of GUE.
pub(crate) const GUE_PORT: u16 = 6080;

/// How often the threads look whether they are still wanted.
const LOOK: Duration = Duration::from_millis(100);

const IPIP: u8 = 4;
const IPV6: u8 = 41;
const GRE: u8 = 47;

/// How a packet came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrapping {
    /// As the payload of IP.
    Ip,
    /// Behind a GRE header.
    Gre,
    /// Behind a GUE header, in UDP.
    Gue,
}

/// What has come.
#[derive(Default)]
struct Seen {
    ipip: AtomicU64,
    gre: AtomicU64,
    gue: AtomicU64,
    refused: AtomicU64,
    senders: Mutex<BTreeSet<IpAddr>>,
}

/// The running end of all kinds of tunnels on one host, with the device `tg0`. It ends with this value.
pub(crate) struct TunnelEnd {
    seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl TunnelEnd {
    /// Makes the device, with the VIPs on it, and listens.
    pub(crate) fn start(host: &Host, vips: &[&str]) -> TunnelEnd {
        let (device, sockets) = host.inside(|| (tun_device(), sockets()));
        host.run("ip link set tg0 up");
        for vip in vips {
            let (ip, length, flags) = match vip.contains(':') {
                true => ("ip -6", 128, " nodad preferred_lft 0"),
                false => ("ip", 32, ""),
            };
            host.run(&format!("{ip} address add {vip}/{length} dev tg0{flags}"));
        }
        let device = Arc::new(device);
        let (seen, stop) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
        let threads = sockets.into_iter().map(|(socket, raw_ipv4, wrapping)| {
            let (device, seen, stop) = (Arc::clone(&device), Arc::clone(&seen), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    pass(&socket, raw_ipv4, wrapping, &device, &seen);
                }
            })
        });
        let threads = threads.collect();
        TunnelEnd { seen, stop, threads }
    }

    /// Packets that came as IPIP, as GUE and as GRE.
    pub(crate) fn packets(&self) -> [u64; 3] {
        let seen = &self.seen;
        [&seen.ipip, &seen.gue, &seen.gre].map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Packets that were no tunnel's, or had a bad checksum.
    pub(crate) fn refused(&self) -> u64 {
        self.seen.refused.load(Ordering::Relaxed)
    }

    /// The outer sources.
    pub(crate) fn senders(&self) -> Vec<IpAddr> {
        self.seen.senders.lock().unwrap().iter().copied().collect()
    }
}

impl Drop for TunnelEnd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Takes one packet, and gives the kernel what is inside.
fn pass(socket: &UdpSocket, raw_ipv4: bool, wrapping: Wrapping, device: &File, seen: &Seen) {
    let mut packet = [0; 65_536];
    let Ok((len, from)) = socket.recv_from(&mut packet) else {
        return;
    };
    let packet = &packet[..len];
    // A raw IPv4 socket gives the IP header too, others do not.
    let payload = if raw_ipv4 {
        packet.get(usize::from(packet[0] & 0xf) * 4..)
    } else {
        Some(packet)
    };
    let Some(inner) = payload.and_then(|payload| unwrap(wrapping, payload)) else {
        seen.refused.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let counter = match wrapping {
        Wrapping::Ip => &seen.ipip,
        Wrapping::Gre => &seen.gre,
        Wrapping::Gue => &seen.gue,
    };
    counter.fetch_add(1, Ordering::Relaxed);
    seen.senders.lock().unwrap().insert(from.ip().to_canonical());
    let mut device = device;
    // A full device drops, as any link does.
    let _ = device.write(inner);
}

/// What is inside, when it is an IP packet of the kind that the header says.
fn unwrap(wrapping: Wrapping, payload: &[u8]) -> Option<&[u8]> {
    let (version, inner) = match wrapping {
        Wrapping::Ip => (payload.first()? >> 4, payload),
        Wrapping::Gre => gre(payload)?,
        Wrapping::Gue => gue(payload)?,
    };
    (inner.first()? >> 4 == version && matches!(version, 4 | 6)).then_some(inner)
}

/// GRE (RFC 2784): flags, protocol, and a checksum over all of it when flagged.
fn gre(packet: &[u8]) -> Option<(u8, &[u8])> {
    let version = match packet.get(2..4)? {
        [0x08, 0x00] => 4,
        [0x86, 0xdd] => 6,
        _ => return None,
    };
    match packet[..2] {
        [0, 0] => Some((version, &packet[4..])),
        [0x80, 0] => (ones_complement_sum(packet) == 0xffff)
            .then(|| packet.get(8..))?
            .map(|inner| (version, inner)),
        _ => None,
    }
}

/// GUE variant 0: a control bit, the length of options in words, the protocol inside, flags.
fn gue(packet: &[u8]) -> Option<(u8, &[u8])> {
    let version = match packet.get(1)? {
        &IPIP => 4,
        &IPV6 => 6,
        _ => return None,
    };
    let (kind, words) = (packet[0] >> 5, usize::from(packet[0] & 0x1f));
    (kind == 0)
        .then(|| packet.get(4 + 4 * words..))?
        .map(|inner| (version, inner))
}

/// The sum of 16-bit words in ones' complement (RFC 1071): 0xffff over what holds its own checksum.
fn ones_complement_sum(bytes: &[u8]) -> u32 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum & 0xffff) + (sum >> 16)
}

/// One socket for each protocol of each family; whether it is a raw IPv4 one, and what comes there.
fn sockets() -> Vec<(UdpSocket, bool, Wrapping)> {
    let mut sockets = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        for (protocol, wrapping) in [(IPIP, Wrapping::Ip), (IPV6, Wrapping::Ip), (GRE, Wrapping::Gre)] {
            sockets.push((raw_socket(family, protocol), family == libc::AF_INET, wrapping));
        }
    }
    let gue = UdpSocket::bind(("::", GUE_PORT)).unwrap();
    // GUE over IPv6 has no UDP checksum unless it is asked for (RFC 6935).
    let yes: libc::c_int = 1;
    // SAFETY: the option's value is valid for its size, and is only read.
    let code = unsafe {
        libc::setsockopt(
            gue.as_raw_fd(),
            libc::SOL_UDP,
            UDP_NO_CHECK6_RX,
            (&raw const yes).cast(),
            size_of_val(&yes) as libc::socklen_t,
        )
    };
    assert_eq!(code, 0, "UDP_NO_CHECK6_RX: {}", io::Error::last_os_error());
    sockets.push((gue, false, Wrapping::Gue));
    for (socket, ..) in &sockets {
        socket.set_read_timeout(Some(LOOK)).unwrap();
    }
    sockets
}

/// From linux/udp.h.
const UDP_NO_CHECK6_RX: libc::c_int = 102;

fn raw_socket(family: libc::c_int, protocol: u8) -> UdpSocket {
    // SAFETY: a system call without pointers.
    let fd = unsafe {
        libc::socket(
            family,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::c_int::from(protocol),
        )
    };
    assert!(fd >= 0, "a raw socket: {}", io::Error::last_os_error());
    // SAFETY: the descriptor is new, and owned from here on. Sending and receiving are the same for all datagrams.
    unsafe { OwnedFd::from_raw_fd(fd) }.into()
}

/// The device `tg0`, whose packets have no header before IP's.
fn tun_device() -> File {
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .unwrap();
    // SAFETY: zeros are a valid value of this structure of numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"tg0") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request is valid for as long as the call takes, which reads and writes it.
    let code = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    assert_eq!(code, 0, "a TUN device: {}", io::Error::last_os_error());
    device
}

#[test]
fn wrappings_are_told_apart_from_literal_bytes() {
    let (four, six) = ([0x45, 1, 2], [0x60, 1, 2]);
    assert_eq!(unwrap(Wrapping::Ip, &four), Some(&four[..]));
    assert_eq!(
        unwrap(Wrapping::Gre, &[&[0, 0, 8, 0], &four[..]].concat()),
        Some(&four[..])
    );
    assert_eq!(
        unwrap(Wrapping::Gre, &[&[0, 0, 0x86, 0xdd], &four[..]].concat()),
        None
    );
    // 0x8000 + 0x86dd + 0x6001 + 0x0200 = 0x168de, which is 0x68df; its complement is 0x9720.
    let gre = [&[0x80, 0, 0x86, 0xdd, 0x97, 0x20, 0, 0], &six[..]].concat();
    assert_eq!(unwrap(Wrapping::Gre, &gre), Some(&six[..]));
    let wrong = [&[0x80, 0, 0x86, 0xdd, 0x97, 0x21, 0, 0], &six[..]].concat();
    assert_eq!(unwrap(Wrapping::Gre, &wrong), None);
    assert_eq!(
        unwrap(Wrapping::Gue, &[&[0, 4, 0, 0], &four[..]].concat()),
        Some(&four[..])
    );
    let options = [&[2, 41, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9], &six[..]].concat();
    assert_eq!(unwrap(Wrapping::Gue, &options), Some(&six[..]));
    assert_eq!(unwrap(Wrapping::Gue, &[0, 4, 0, 0]), None);
    assert_eq!(unwrap(Wrapping::Gre, &[0, 0]), None);
}
