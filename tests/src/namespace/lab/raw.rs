//! Frames that no kernel would send, and all that pass an interface, on a raw socket.

use super::Host;
use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Instant;

/// Every protocol, as the kernel knows it.
const ALL: u16 = libc::ETH_P_ALL as u16;

/// A packet socket on one interface of one host.
pub(crate) struct RawSocket(OwnedFd);

impl RawSocket {
    /// Opens one that only sends; needs root.
    pub(crate) fn open(host: &Host, interface: &str) -> RawSocket {
        RawSocket::of_protocol(host, interface, 0)
    }

    /// Opens one that hears what arrives at the interface, but for what it sends itself.
    pub(crate) fn listening(host: &Host, interface: &str) -> RawSocket {
        let socket = RawSocket::of_protocol(host, interface, ALL);
        let on: libc::c_int = 1;
        // SAFETY: the value is valid for the length given, and is only read.
        let code = unsafe {
            libc::setsockopt(
                socket.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_IGNORE_OUTGOING,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        assert_eq!(code, 0, "{interface}: {}", io::Error::last_os_error());
        socket
    }

    /// Opens one that also receives what comes with this Ethertype; 0 for nothing.
    pub(crate) fn of_protocol(host: &Host, interface: &str, ethertype: u16) -> RawSocket {
        let name = CString::new(interface).unwrap();
        host.inside(move || {
            // SAFETY: a system call without pointers.
            let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
            assert!(fd >= 0, "a raw socket: {}", io::Error::last_os_error());
            // SAFETY: the descriptor is new, and owned from here on.
            let socket = RawSocket(unsafe { OwnedFd::from_raw_fd(fd) });
            // SAFETY: the name is a C string that lives until after the call.
            let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
            let address = libc::sockaddr_ll {
                sll_family: libc::AF_PACKET as u16,
                sll_protocol: ethertype.to_be(),
                sll_ifindex: index.cast_signed(),
                sll_hatype: 0,
                sll_pkttype: 0,
                sll_halen: 0,
                sll_addr: [0; 8],
            };
            let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            // SAFETY: the address is valid for the length given, and is only read.
            let code = unsafe { libc::bind(socket.0.as_raw_fd(), (&raw const address).cast(), len) };
            assert_eq!(code, 0, "binding to {name:?}: {}", io::Error::last_os_error());
            socket
        })
    }

    /// A frame that has arrived, from its Ethernet header on, put into `room`; none when there is none.
    pub(crate) fn receive<'r>(&self, room: &'r mut [u8]) -> Option<&'r [u8]> {
        // SAFETY: the slice is valid for its length, and nothing else refers to it.
        let count = unsafe {
            libc::recv(
                self.0.as_raw_fd(),
                room.as_mut_ptr().cast(),
                room.len(),
                libc::MSG_DONTWAIT,
            )
        };
        room.get(..usize::try_from(count).ok()?)
    }

    /// Waits until one of two sockets has a frame, or for so many milliseconds.
    pub(crate) fn wait(sockets: [&RawSocket; 2], milliseconds: i32) {
        let mut polled = sockets.map(|socket| libc::pollfd {
            fd: socket.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: the array is valid for its length. Whatever comes of it, the caller looks for frames.
        unsafe { libc::poll(polled.as_mut_ptr(), 2, milliseconds) };
    }

    /// Sends a frame from its Ethernet header on.
    pub(crate) fn send(&self, frame: &[u8]) {
        // SAFETY: the slice is valid for its length, and is only read.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(
            sent,
            frame.len() as isize,
            "{} bytes: {}",
            frame.len(),
            io::Error::last_os_error()
        );
    }

    /// The next frame, from its Ethernet header on; none when there is none before the deadline.
    pub(crate) fn next(&self, deadline: Instant) -> Option<Vec<u8>> {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut waiting = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let limit = i32::try_from(left.as_millis()).unwrap();
        // SAFETY: one descriptor, in memory that lives until after the call.
        let ready = unsafe { libc::poll(&raw mut waiting, 1, limit) };
        if ready < 1 {
            return None;
        }
        let mut frame = vec![0; 2048];
        // SAFETY: the buffer is valid for its length.
        let len = unsafe { libc::recv(self.0.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), 0) };
        frame.truncate(usize::try_from(len).ok()?);
        Some(frame)
    }
}
