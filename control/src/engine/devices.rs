//! The Ethernet ports of the configuration, opened.

use crate::config::{self, Config, Device};
use crate::gateway::{PortCounters, PortDevice};
use anyhow::{Context, Result};
use dataplane::packet::MacAddr;
use dataplane::service::PortSettings;
use dpdk::{Eal, Mempool, Port, PortOptions};
use parking_lot::Mutex;

/// Descriptors of each queue: bursts of a few milliseconds on a software port, and little memory.
const DESCRIPTORS: u16 = 1024;
/// Buffers that are neither in a device's queue nor in a cache: waiting packets, bursts under way.
const SPARE_BUFFERS: u32 = 4096;
/// Buffers that each thread's cache keeps.
const CACHE: u32 = 256;

/// An opened port.
pub(super) struct OpenPort {
    /// The device.
    pub(super) port: Port,
    /// What the packet path knows of it.
    pub(super) settings: PortSettings,
}

/// The pool of packet buffers for all ports.
///
/// # Errors
/// Too little memory, with what to do.
pub(super) fn packet_pool(eal: &Eal, config: &Config, workers: u32) -> Result<Mempool> {
    let queues = 2 * config.ports.len() as u32 * workers;
    let computed =
        (queues * u32::from(DESCRIPTORS) + SPARE_BUFFERS + workers * 2 * CACHE).next_power_of_two() - 1;
    let count = config.node.mbufs.unwrap_or(computed);
    let largest = config
        .ports
        .iter()
        .map(|port| u32::from(port.mtu))
        .max()
        .unwrap_or(1500);
    // An Ethernet header with two VLAN tags and the frame check sequence come on top.
    let room = (largest + 26).next_multiple_of(64).max(2048) as u16;
    Mempool::new(eal, "packets", count, CACHE, room + Mempool::HEADROOM, None)
        .context("no memory for packet buffers; raise node.memory, or lower node.mbufs")
}

/// Opens one port of the configuration.
///
/// # Errors
/// The device is missing, in use, or cannot do what is asked; with what to do.
pub(super) fn open(eal: &Eal, port: &config::Port, pool: &Mempool, file: &str) -> Result<OpenPort> {
    let place = || {
        format!(
            "{file}:{}: port {} ({})",
            port.place,
            port.name,
            port.device.argument()
        )
    };
    let id = eal.probe(port.device.argument()).with_context(place)?;
    let options = PortOptions {
        rx_descriptors: DESCRIPTORS,
        tx_descriptors: DESCRIPTORS,
        mtu: Some(port.mtu),
        ..PortOptions::new(pool.clone())
    };
    let device = Port::configure(eal, id, &options).with_context(place)?;
    if let Some(mac) = port.mac {
        device.set_mac(mac).with_context(place)?;
    }
    let mac = MacAddr(device.mac().with_context(place)?);
    let settings = PortSettings {
        mac: if mac == MacAddr::default() {
            made_up_mac(id.number())
        } else {
            mac
        },
        any_mac: mac == MacAddr::default(),
        mtu: device.mtu().unwrap_or(port.mtu).min(port.mtu),
        addresses: port
            .addresses
            .iter()
            .map(|own| (own.address, own.length))
            .collect(),
        check_partial: has_software_peer(&port.device),
    };
    Ok(OpenPort {
        port: device,
        settings,
    })
}

/// For a device without a MAC, such as `net_null`: a locally administered one.
fn made_up_mac(number: u16) -> MacAddr {
    let [high, low] = number.to_be_bytes();
    MacAddr([0x02, 0x74, 0x67, 0, high, low])
}

/// Whether the frames of this device may come from a program on this machine, whose kernel leaves checksums to an
/// offload that never runs.
pub(super) fn has_software_peer(device: &Device) -> bool {
    const SOFTWARE: [&str; 4] = ["net_af_packet", "net_tap", "net_af_xdp", "net_virtio_user"];
    match device {
        Device::Pci(_) => false,
        Device::Vdev(argument) => SOFTWARE.iter().any(|driver| argument.starts_with(driver)),
    }
}

/// A device as control sees it while workers use its queues.
pub(super) struct Watched(pub(super) Mutex<Port>);

impl PortDevice for Watched {
    fn driver(&self) -> String {
        self.0.lock().driver_name().to_owned()
    }

    fn link_up(&self) -> bool {
        self.0.lock().link_up()
    }

    fn counters(&self) -> PortCounters {
        let stats = self.0.lock().stats().unwrap_or_default();
        PortCounters {
            received_packets: stats.rx_packets,
            received_bytes: stats.rx_bytes,
            sent_packets: stats.tx_packets,
            sent_bytes: stats.tx_bytes,
            missed: stats.rx_missed,
            receive_errors: stats.rx_errors,
            transmit_errors: stats.tx_errors,
            no_buffer: stats.rx_no_mbuf,
        }
    }
}
