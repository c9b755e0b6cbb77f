//! Adding, removing and listing the kernel's addresses, in the calling thread's network namespace.

use super::super::netlink::Netlink;
use super::message::{self, Entry};
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::SockProtocol;
use std::io;
use std::net::IpAddr;

/// NLM_F_CREATE and NLM_F_REPLACE.
const PUT: u16 = 0x400 | 0x100;

/// Gives a device an address; `marked`: to announce a VIP.
pub(super) fn add(device: &str, address: IpAddr, length: u8, marked: bool) -> io::Result<()> {
    let body = message::of_address(index(device)?, address, length, marked);
    Netlink::open(SockProtocol::NetlinkRoute)?.order(message::NEW_ADDRESS, PUT, &body)
}

/// Takes an address from a device, if it has it.
pub(super) fn remove(device: &str, address: IpAddr, length: u8) -> io::Result<()> {
    let body = message::of_address(index(device)?, address, length, false);
    let done = Netlink::open(SockProtocol::NetlinkRoute)?.order(message::REMOVE_ADDRESS, 0, &body);
    match done {
        Err(error) if error.raw_os_error() == Some(Errno::EADDRNOTAVAIL as i32) => Ok(()),
        done => done,
    }
}

/// All addresses of all devices.
pub(super) fn all() -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    let mut kernel = Netlink::open(SockProtocol::NetlinkRoute)?;
    kernel.dump(
        message::GET_ADDRESS,
        &message::of_all_addresses(),
        |kind, payload| found.extend(message::read(kind, payload)),
    )?;
    Ok(found)
}

/// Switches a device on, with that MAC and MTU.
pub(super) fn switch_on(device: &str, mac: [u8; 6], mtu: u16) -> io::Result<()> {
    let body = message::of_link(index(device)?, mac, mtu);
    Netlink::open(SockProtocol::NetlinkRoute)?.order(message::NEW_LINK, 0, &body)
}

pub(super) fn index(device: &str) -> io::Result<u32> {
    Ok(if_nametoindex(device)?)
}
