//! The end of a TUN server's tunnels, for kernels without the modules for them: raw sockets and a UDP socket take
//! what the gateway sends, and the TUN device `tg0` hands what is inside to the kernel, which never sees a tunnel.
//!
//! Namespace tests run it in threads, the demo as the program `tunnel-end`. Real servers have the kernel's own
//! devices: `tidegate server-setup`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The UDP port of GUE, host order.
pub const GUE_PORT: u16 = 6080;

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

/// Where packets of one wrapping come in.
#[derive(Debug)]
struct Entrance {
    socket: UdpSocket,
    /// Raw IPv4 sockets give the IP header too, others do not.
    with_header: bool,
    wrapping: Wrapping,
}

/// What has come.
#[derive(Debug, Default)]
struct Seen {
    ipip: AtomicU64,
    gre: AtomicU64,
    gue: AtomicU64,
    refused: AtomicU64,
    senders: Mutex<BTreeSet<IpAddr>>,
}

/// The running end of all kinds of tunnels. It ends with this value.
#[derive(Debug)]
pub struct TunnelEnd {
    seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl TunnelEnd {
    /// Makes the device, which is down and has no address, and listens. All of it belongs to the network namespace of
    /// the calling thread. Needs root.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open() -> io::Result<TunnelEnd> {
        let device = Arc::new(tun_device()?);
        let entrances = entrances()?;
        let (seen, stop) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
        let threads = entrances.into_iter().map(|entrance| {
            let (device, seen, stop) = (Arc::clone(&device), Arc::clone(&seen), Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut packet = vec![0; 65_536];
                while !stop.load(Ordering::Relaxed) {
                    pass(&entrance, &mut packet, &device, &seen);
                }
            })
        });
        let threads = threads.collect();
        Ok(TunnelEnd { seen, stop, threads })
    }

    /// Packets that came as IPIP, as GUE and as GRE.
    #[must_use]
    pub fn packets(&self) -> [u64; 3] {
        let seen = &self.seen;
        [&seen.ipip, &seen.gue, &seen.gre].map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Packets that were no tunnel's, or had a bad checksum.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.seen.refused.load(Ordering::Relaxed)
    }

    /// The outer sources.
    #[must_use]
    pub fn senders(&self) -> Vec<IpAddr> {
        let senders = self.seen.senders.lock();
        senders
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .copied()
            .collect()
    }

    /// Runs until the process is ended.
    pub fn wait(mut self) {
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
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
fn pass(entrance: &Entrance, packet: &mut [u8], mut device: &File, seen: &Seen) {
    let Ok((len, from)) = entrance.socket.recv_from(packet) else {
        return;
    };
    let packet = &packet[..len];
    let payload = match packet.first() {
        Some(first) if entrance.with_header => packet.get(usize::from(first & 0xf) * 4..),
        _ => Some(packet),
    };
    let Some(inner) = payload.and_then(|payload| inside(entrance.wrapping, payload)) else {
        seen.refused.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let counter = match entrance.wrapping {
        Wrapping::Ip => &seen.ipip,
        Wrapping::Gre => &seen.gre,
        Wrapping::Gue => &seen.gue,
    };
    counter.fetch_add(1, Ordering::Relaxed);
    let mut senders = seen.senders.lock().unwrap_or_else(PoisonError::into_inner);
    senders.insert(from.ip().to_canonical());
    // A full device drops, as any link does.
    let _ = device.write(inner);
}

/// What is inside, when it is an IP packet of the kind that the header says.
fn inside(wrapping: Wrapping, payload: &[u8]) -> Option<&[u8]> {
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
        [0x80, 0] if ones_complement_sum(packet) == 0xffff => Some((version, packet.get(8..)?)),
        _ => None,
    }
}

/// GUE variant 0: a control bit, the length of options in words, the protocol inside, flags.
fn gue(packet: &[u8]) -> Option<(u8, &[u8])> {
    let version = match *packet.get(1)? {
        IPIP => 4,
        IPV6 => 6,
        _ => return None,
    };
    let (kind, words) = (packet[0] >> 5, usize::from(packet[0] & 0x1f));
    (kind == 0)
        .then(|| packet.get(4 + 4 * words..))?
        .map(|inner| (version, inner))
}

/// The sum of 16-bit words in ones' complement (RFC 1071): 0xffff over what holds its own checksum.
fn ones_complement_sum(bytes: &[u8]) -> u32 {
    let pairs = bytes.chunks(2);
    let sum: u32 = pairs
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum & 0xffff) + (sum >> 16)
}

/// One entrance for each protocol of each family.
fn entrances() -> io::Result<Vec<Entrance>> {
    let mut entrances = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        for (protocol, wrapping) in [(IPIP, Wrapping::Ip), (IPV6, Wrapping::Ip), (GRE, Wrapping::Gre)] {
            entrances.push(Entrance {
                socket: raw_socket(family, protocol)?,
                with_header: family == libc::AF_INET,
                wrapping,
            });
        }
    }
    let gue = UdpSocket::bind(("::", GUE_PORT))?;
    take_no_checksum(&gue)?;
    entrances.push(Entrance {
        socket: gue,
        with_header: false,
        wrapping: Wrapping::Gue,
    });
    for entrance in &entrances {
        entrance.socket.set_read_timeout(Some(LOOK))?;
    }
    Ok(entrances)
}

/// Zero when the kernel has done it, else its error.
fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// GUE over IPv6 has no UDP checksum unless it is asked for (RFC 6935).
fn take_no_checksum(socket: &UdpSocket) -> io::Result<()> {
    /// From linux/udp.h.
    const UDP_NO_CHECK6_RX: libc::c_int = 102;
    let yes: libc::c_int = 1;
    // SAFETY: the option's value is valid for its size, and is only read.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            UDP_NO_CHECK6_RX,
            (&raw const yes).cast(),
            size_of_val(&yes) as libc::socklen_t,
        )
    })
}

/// A raw socket, with the calls of any datagram socket.
fn raw_socket(family: libc::c_int, protocol: u8) -> io::Result<UdpSocket> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: a system call without pointers.
    let fd = unsafe { libc::socket(family, kind, libc::c_int::from(protocol)) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and owned from here on.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

/// The device, whose packets have nothing before the IP header.
fn tun_device() -> io::Result<File> {
    let device = File::options().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: zeros are a valid value of this structure of numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"tg0") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request is valid for as long as the call takes, which reads and writes it.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: [u8; 3] = [0x45, 1, 2];
    const SIX: [u8; 3] = [0x60, 1, 2];

    fn behind(header: &[u8], inner: &[u8]) -> Vec<u8> {
        [header, inner].concat()
    }

    #[test]
    fn what_is_inside_must_be_what_the_header_says() {
        assert_eq!(inside(Wrapping::Ip, &FOUR), Some(&FOUR[..]));
        assert_eq!(inside(Wrapping::Ip, &[0x50, 1, 2]), None);
        let gre = behind(&[0, 0, 8, 0], &FOUR);
        assert_eq!(inside(Wrapping::Gre, &gre), Some(&FOUR[..]));
        assert_eq!(inside(Wrapping::Gre, &behind(&[0, 0, 0x86, 0xdd], &FOUR)), None);
        assert_eq!(inside(Wrapping::Gre, &[0, 0]), None);
        assert_eq!(inside(Wrapping::Gue, &[0, 4, 0, 0]), None);
    }

    #[test]
    fn gre_with_a_checksum_is_verified() {
        // 0x8000 + 0x86dd + 0x6001 + 0x0200 = 0x168de, which is 0x68df; its complement is 0x9720.
        let good = behind(&[0x80, 0, 0x86, 0xdd, 0x97, 0x20, 0, 0], &SIX);
        assert_eq!(inside(Wrapping::Gre, &good), Some(&SIX[..]));
        let bad = behind(&[0x80, 0, 0x86, 0xdd, 0x97, 0x21, 0, 0], &SIX);
        assert_eq!(inside(Wrapping::Gre, &bad), None);
    }

    #[test]
    fn gue_may_have_options() {
        let plain = behind(&[0, 4, 0, 0], &FOUR);
        assert_eq!(inside(Wrapping::Gue, &plain), Some(&FOUR[..]));
        let options = behind(&[2, 41, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9], &SIX);
        assert_eq!(inside(Wrapping::Gue, &options), Some(&SIX[..]));
        assert_eq!(inside(Wrapping::Gue, &options[..8]), None);
        assert_eq!(inside(Wrapping::Gue, &behind(&[0x20, 4, 0, 0], &FOUR)), None);
    }
}
