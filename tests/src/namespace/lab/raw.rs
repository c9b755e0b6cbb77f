//! Frames that no kernel would send, on a raw socket.

use super::Host;
use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A packet socket on one interface of one host. It only sends.
pub(crate) struct RawSocket(OwnedFd);

impl RawSocket {
    /// Opens it; needs root.
    pub(crate) fn open(host: &Host, interface: &str) -> RawSocket {
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
                sll_protocol: 0,
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
}
