//! Frames that no kernel would send, on a raw socket.

use super::Host;
use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Instant;

/// A packet socket on one interface of one host. It only sends, unless it was told to listen.
pub(crate) struct RawSocket(OwnedFd);

impl RawSocket {
    /// Opens it; needs root.
    pub(crate) fn open(host: &Host, interface: &str) -> RawSocket {
        RawSocket::listen(host, interface, 0)
    }

    /// Opens one that also receives what comes with this Ethertype; 0 for nothing. Needs root.
    pub(crate) fn listen(host: &Host, interface: &str, ethertype: u16) -> RawSocket {
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
    pub(crate) fn receive(&self, deadline: Instant) -> Option<Vec<u8>> {
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
