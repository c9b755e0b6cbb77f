//! TAP devices: Ethernet devices of the kernel whose other end is a file. What the kernel sends is read there, one frame
//! at a time, and what is written arrives at the device. A device is gone with its file. `tidegate`'s exception path
//! uses them; nothing here knows of packets, addresses or DPDK.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

const CONTROL: &str = "/dev/net/tun";
/// From `linux/if_tun.h`; the C library does not have it.
const TUNSETCARRIER: libc::c_ulong = 0x4004_54e2;

/// A TAP device of the network namespace in which it was made.
#[derive(Debug)]
pub struct Tap {
    file: File,
}

impl Tap {
    /// Makes the device `name`, which is down and has no address. Reads and writes of it do not block.
    ///
    /// # Errors
    /// The name is too long, there is a device of another kind with this name, or this process may not make one.
    pub fn create(name: &str) -> io::Result<Tap> {
        let mut options = File::options();
        options.read(true).write(true);
        let file = options
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(CONTROL)?;
        // SAFETY: zeros are a valid value of this structure of numbers.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // One byte less: the kernel wants a zero at the end.
        if name.len() >= request.ifr_name.len() {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the request is valid for as long as the call takes, which reads and writes it.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        check(done)?;
        Ok(Tap { file })
    }

    /// Whether the device has a carrier, as if a cable had been pulled or plugged in.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_carrier(&self, up: bool) -> io::Result<()> {
        let up = libc::c_int::from(up);
        // SAFETY: the number is valid for as long as the call takes, which only reads it.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETCARRIER, &raw const up) })
    }

    /// Takes a frame that the kernel has sent; its length.
    ///
    /// # Errors
    /// There is none, or the device is down.
    pub fn receive(&self, frame: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(frame)
    }

    /// Lets a frame arrive at the device.
    ///
    /// # Errors
    /// The kernel does not take it, for instance as the device is down.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        (&self.file).write_all(frame)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_kernel_would_cut_is_refused() {
        let error = Tap::create("a-name-far-too-long").unwrap_err();
        assert!(matches!(
            error.raw_os_error(),
            // Without root, or in a container without the device, it comes no farther than that.
            Some(libc::ENAMETOOLONG | libc::EACCES | libc::ENOENT | libc::EPERM)
        ));
    }
}
