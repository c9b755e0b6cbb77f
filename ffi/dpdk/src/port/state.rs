//! What a port says of itself: addresses, link, counters. Read by `control`, at its own pace.

use std::mem::zeroed;

use dpdk_sys as sys;

use super::error::failed;
use super::{Port, PortError};
use crate::text_of;

/// What a device counted since it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortStats {
    /// Frames received.
    pub rx_packets: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames lost because the receive queue was full.
    pub rx_missed: u64,
    /// Frames received damaged.
    pub rx_errors: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
    /// Times that the mempool was empty.
    pub rx_no_mbuf: u64,
}

/// The state of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// Whether it is up.
    pub up: bool,
    /// Mbit/s; 0 when the device does not know.
    pub speed: u32,
}

impl Port {
    pub(super) fn check(&self, step: &str, code: i32) -> Result<(), PortError> {
        if code < 0 {
            Err(failed(&self.info.device, step, code))
        } else {
            Ok(())
        }
    }

    /// The MAC address, in the order of the wire.
    ///
    /// # Errors
    /// The driver's reason.
    pub fn mac(&self) -> Result<[u8; 6], PortError> {
        let mut mac = [0; 6];
        // SAFETY: the port is ours; there is room for 6 bytes.
        let code = unsafe { sys::tg_port_mac(self.number(), mac.as_mut_ptr()) };
        self.check("read the MAC address", code).map(|()| mac)
    }

    /// Changes the MAC address.
    ///
    /// # Errors
    /// The driver's reason; many virtual drivers cannot.
    pub fn set_mac(&self, mac: [u8; 6]) -> Result<(), PortError> {
        // SAFETY: the port is ours; 6 bytes are read.
        let code = unsafe { sys::tg_port_set_mac(self.number(), mac.as_ptr()) };
        self.check("set the MAC address", code)
    }

    /// The MTU, bytes without Ethernet header.
    ///
    /// # Errors
    /// The driver's reason.
    pub fn mtu(&self) -> Result<u16, PortError> {
        let mut mtu = 0;
        // SAFETY: the port is ours; `mtu` is a place for one number.
        let code = unsafe { sys::tg_port_mtu(self.number(), &raw mut mtu) };
        self.check("read the MTU", code).map(|()| mtu)
    }

    /// The state of the link, now.
    ///
    /// # Errors
    /// The driver's reason.
    pub fn link(&self) -> Result<Link, PortError> {
        let mut speed = 0;
        // SAFETY: the port is ours; `speed` is a place for one number.
        let code = unsafe { sys::tg_port_link(self.number(), &raw mut speed) };
        self.check("read the link state", code)
            .map(|()| Link { up: code == 1, speed })
    }

    /// Whether the link is up; false when the driver cannot say.
    #[must_use]
    pub fn link_up(&self) -> bool {
        self.link().is_ok_and(|link| link.up)
    }

    /// The device's counters.
    ///
    /// # Errors
    /// The driver's reason.
    pub fn stats(&self) -> Result<PortStats, PortError> {
        // SAFETY: all zeros is a valid value of a struct of numbers.
        let mut raw: sys::tg_port_stats = unsafe { zeroed() };
        // SAFETY: the port is ours; `raw` is a place for the struct.
        let code = unsafe { sys::tg_port_stats(self.number(), &raw mut raw) };
        self.check("read statistics", code).map(|()| PortStats {
            rx_packets: raw.rx_packets,
            tx_packets: raw.tx_packets,
            rx_bytes: raw.rx_bytes,
            tx_bytes: raw.tx_bytes,
            rx_missed: raw.rx_missed,
            rx_errors: raw.rx_errors,
            tx_errors: raw.tx_errors,
            rx_no_mbuf: raw.rx_no_mbuf,
        })
    }

    /// All of the driver's counters, by its own names.
    ///
    /// # Errors
    /// The driver's reason.
    pub fn xstats(&self) -> Result<Vec<(String, u64)>, PortError> {
        let mut entries: Vec<sys::tg_xstat> = Vec::new();
        loop {
            let room = entries.len();
            // SAFETY: the port is ours; there are `room` entries.
            let code = unsafe { sys::tg_port_xstats(self.number(), entries.as_mut_ptr(), room as u32) };
            self.check("read extended statistics", code)?;
            let count = usize::try_from(code).unwrap_or(0);
            if count <= room {
                entries.truncate(count);
                return Ok(entries.iter().map(|e| (text_of(&e.name), e.value)).collect());
            }
            // SAFETY: all zeros is a valid value of a struct of numbers.
            entries.resize_with(count, || unsafe { zeroed() });
        }
    }
}
