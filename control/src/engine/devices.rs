//! The Ethernet ports of the configuration, opened.

use super::links::Probe;
use super::peer;
use crate::config::{self, Config, Device};
use crate::gateway::{Look, PortCounters, PortDevice, Spread};
use crate::model::exception_rate;
use anyhow::{Context, Result, bail};
use dataplane::packet::MacAddr;
use dataplane::service::PortSettings;
use dataplane::worker::LARGE;
use dataplane::worker::shard::ShardKey;
use dpdk::{Bond, BondMode, DeviceId, Eal, Mempool, Port, PortInfo, PortOptions};
use nix::errno::Errno;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};

/// Descriptors of each queue: bursts of a few milliseconds on a software port, and little memory.
const DESCRIPTORS: u16 = 1024;
/// Buffers that are neither in a device's queue nor in a cache: waiting packets, bursts under way.
const SPARE_BUFFERS: u32 = 4096;
/// Buffers that each thread's cache keeps.
const CACHE: u32 = 256;
/// Buffers on their way to each worker from the others. All of its rings hold more, but are not full at once.
const BETWEEN_WORKERS: u32 = 2048;
/// Drivers whose device spreads packets over all queues that it has, whether they are looked at or not.
const USE_ALL: [&str; 3] = ["net_af_packet", "net_af_xdp", "net_pcap"];

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
pub(super) fn packet_pool(eal: &Eal, config: &Config, workers: u8) -> Result<Mempool> {
    // The members of a bond have queues each.
    let queues: u32 = super::devices_of(config)
        .map(|(port, device)| {
            2 * u32::from(port.queues.unwrap_or(workers.into())) * device.parts().len() as u32
        })
        .sum();
    let computed = match u32::from(workers) {
        1 => (queues * u32::from(DESCRIPTORS) + SPARE_BUFFERS + 2 * CACHE).next_power_of_two() - 1,
        // No more than that: it is much.
        workers => queues * u32::from(DESCRIPTORS) + SPARE_BUFFERS + workers * (2 * CACHE + BETWEEN_WORKERS),
    };
    let exceptions = config
        .ports
        .iter()
        .filter(|port| port.exception.is_some())
        .count();
    let to_kernel = if exceptions == 0 {
        0
    } else {
        (u32::from(workers) + 1) * super::host::ROOM as u32
    };
    let count = config.node.mbufs.unwrap_or(computed + to_kernel);
    let largest = config
        .ports
        .iter()
        .map(|port| u32::from(port.mtu))
        .max()
        .unwrap_or(1500);
    // An Ethernet header with two VLAN tags and the frame check sequence come on top.
    let room = (largest + 26).next_multiple_of(64).max(2048) as u16;
    Mempool::new(eal, "packets", count, CACHE, room + Mempool::HEADROOM, None).with_context(|| {
        let key = if eal.has_hugepages() {
            "hugepages"
        } else {
            "memory"
        };
        format!(
            "{}:{}: node.mbufs: no memory for {count} packet buffers; lower it, or raise node.{key}",
            config.file, config.node.place
        )
    })
}

/// The pool of buffers for packets that are put together from fragments: `node.limits.fragments` of all workers.
///
/// # Errors
/// Too little memory, with what to do.
pub(super) fn large_pool(eal: &Eal, config: &Config, workers: u8) -> Result<Mempool> {
    let room = LARGE as u16 + Mempool::HEADROOM;
    let each = config.node.limits.sizes(workers, false, 0).fragments;
    let count = u32::from(workers) * u32::from(each);
    Mempool::new(eal, "fragments", count, 0, room, None).with_context(|| {
        format!(
            "{}:{}: node.limits.fragments: no memory for {count} buffers of 64 kB; lower it, or raise node.memory or \
             node.hugepages",
            config.file, config.node.place
        )
    })
}

/// Opens the device of a port of the configuration, with a queue for each of so many workers if it says nothing else.
///
/// # Errors
/// The device is missing, in use, or cannot do what is asked; with what to do.
pub(super) fn open(
    eal: &Eal,
    (number, port): (usize, &config::Port),
    device: &Device,
    (workers, key): (u8, &ShardKey),
    pool: &Mempool,
    file: &str,
) -> Result<OpenPort> {
    let place = || format!("{file}:{}: port {}", port.place, port.name);
    for part in device.parts() {
        if let Some(obstacle) = obstacle(part, eal.has_hugepages()) {
            bail!("{}: {obstacle}", place());
        }
    }
    let Attached {
        id,
        bond,
        uses_all,
        software_peer,
    } = attach(eal, device, number).with_context(place)?;
    let info = PortInfo::read(id).with_context(place)?;
    let queues = port.queues.unwrap_or(workers.into());
    let options = PortOptions {
        rx_queues: if uses_all { info.max_rx_queues } else { queues },
        tx_queues: queues,
        // Which of the two keys suits the port is known once all are open.
        rss_key: (workers > 1 && queues > 1 && has_rss(&info)).then(|| key.rss_keys().0),
        rx_descriptors: DESCRIPTORS,
        tx_descriptors: DESCRIPTORS,
        mtu: Some(port.mtu),
        all_multicast: true,
        ..PortOptions::new(pool.clone())
    };
    let open = match bond {
        None => Port::configure(eal, id, &options),
        Some(bond) => Port::configure_bond(eal, bond, &options),
    };
    let open = open.with_context(place)?;
    if let Some(mac) = port.mac {
        open.set_mac(mac).with_context(place)?;
    }
    let mac = MacAddr(open.mac().with_context(place)?);
    let settings = PortSettings {
        mac: if mac == MacAddr::default() {
            made_up_mac(id.number())
        } else {
            mac
        },
        any_mac: mac == MacAddr::default(),
        vlan: None,
        mtu: open.mtu().unwrap_or(port.mtu).min(port.mtu),
        addresses: port.own_addresses(),
        check_partial: software_peer,
        exception_rate: exception_rate(port),
    };
    Ok(OpenPort { port: open, settings })
}

/// A device, as DPDK has it before it is configured.
struct Attached {
    id: DeviceId,
    bond: Option<Bond>,
    /// Whether every receive queue that it has must be looked at.
    uses_all: bool,
    /// Whether its frames may come from a program whose kernel leaves checksums to an offload that never runs.
    software_peer: bool,
}

/// Attaches a device, or the members of a bond and the bond of port `number` over them.
fn attach(eal: &Eal, device: &Device, number: usize) -> Result<Attached> {
    let mut ids = Vec::new();
    let (mut uses_all, mut software_peer) = (false, false);
    for part in device.parts() {
        let id = eal.probe(part.argument())?;
        let driver = PortInfo::read(id)?.driver;
        uses_all |= USE_ALL.contains(&&*driver);
        software_peer |= has_software_peer(part, &driver);
        ids.push(id);
    }
    let Device::Bond(config::Bond { mode, primary, .. }) = device else {
        let id = ids.first().copied().context("a port has a device")?;
        let bond = None;
        return Ok(Attached {
            id,
            bond,
            uses_all,
            software_peer,
        });
    };
    let mode = match mode {
        config::BondMode::ActiveBackup => BondMode::ActiveBackup,
        config::BondMode::Lacp => BondMode::Lacp,
    };
    let bond = Bond::create(eal, &format!("net_bonding_port{number}"), mode, &ids, *primary)?;
    Ok(Attached {
        id: bond.id(),
        bond: Some(bond),
        uses_all,
        software_peer,
    })
}

/// Why a device cannot be opened, where that is known before DPDK is asked, which would say little.
fn obstacle(device: &Device, hugepages: bool) -> Option<String> {
    if let Device::Pci(address) = device {
        return pci_obstacle(Path::new("/sys/bus/pci/devices"), address, hugepages);
    }
    let interface = peer::interface(device)?;
    (nix::net::if_::if_nametoindex(interface) == Err(Errno::ENODEV)).then(|| {
        format!(
            "there is no interface `{interface}` in this network namespace; `ip link` lists those there are"
        )
    })
}

/// Whether a device hashes by our key and redirects by our table.
fn has_rss(info: &PortInfo) -> bool {
    info.rss && info.reta_size > 0
}

/// The socket that a `net_memif` server makes as a file, and removes when it may.
pub(super) fn socket_file(device: &Device) -> Option<PathBuf> {
    let Device::Vdev(argument) = device else {
        return None;
    };
    let value = |key| argument.split(',').find_map(|part| part.strip_prefix(key));
    let is_file = argument.starts_with("net_memif")
        && matches!(value("role="), Some("server" | "master"))
        && value("socket-abstract=") == Some("no");
    value("socket=").filter(|_| is_file).map(PathBuf::from)
}

/// Logs what a port has become that has just started.
pub(super) fn tell(port: &Port, name: &str, spread: Spread) {
    let mac = MacAddr(port.mac().unwrap_or_default());
    let driver = port.driver_name();
    let (queues, spread) = (port.rx_queues(), spread.name());
    let checksums = if port.info().l4_checksum {
        "device"
    } else {
        "worker"
    };
    tracing::info!(port = name, driver, %mac, queues, spread, checksums, "port is open");
}

/// Why DPDK cannot have a PCI device: it would only say that there is none. `devices` is the kernel's list.
fn pci_obstacle(devices: &Path, address: &str, hugepages: bool) -> Option<String> {
    /// Drivers that hand a device over to DPDK with its physical addresses, and the others: by an IOMMU, or shared with the
    /// kernel as Mellanox's.
    const PHYSICAL: [&str; 2] = ["uio_pci_generic", "igb_uio"];
    const FIT: [&str; 2] = ["vfio-pci", "mlx5_core"];
    let device = devices.join(address);
    if !device.exists() {
        return Some(format!(
            "there is no PCI device {address}; `lspci -D` lists those there are"
        ));
    }
    let remedy = if device.join("iommu_group").exists() {
        format!("bind it to vfio-pci (dpdk-devbind.py -b vfio-pci {address})")
    } else {
        // Without one vfio-pci refuses every device.
        format!(
            "there is no IOMMU for vfio-pci: switch it on in the firmware and on the kernel's command line \
             (intel_iommu=on), or bind the device to uio_pci_generic (dpdk-devbind.py -b uio_pci_generic {address}), \
             which takes hugepages"
        )
    };
    let Ok(driver) = std::fs::read_link(device.join("driver")) else {
        return Some(format!("PCI device {address} has no driver; {remedy}"));
    };
    let driver = driver.file_name().unwrap_or_default().to_string_lossy();
    if PHYSICAL.contains(&driver.as_ref()) {
        return (!hugepages).then(|| {
            format!(
                "PCI device {address} is bound to {driver}, which takes hugepages, and the gateway has none: reserve as \
                 many MB as node.memory says (echo 128 > /proc/sys/vm/nr_hugepages) and do not write `hugepages: off`, \
                 or bind it to vfio-pci, with an IOMMU"
            )
        });
    }
    (!FIT.contains(&driver.as_ref())).then(|| {
        format!(
            "PCI device {address} belongs to the kernel's driver {driver}, and has to be taken from it; {remedy}"
        )
    })
}

/// For a device without a MAC, such as `net_null`: a locally administered one.
fn made_up_mac(number: u16) -> MacAddr {
    let [high, low] = number.to_be_bytes();
    MacAddr([0x02, 0x74, 0x67, 0, high, low])
}

/// Whether the frames of this device, which has that driver, may come from a program on this machine, whose kernel leaves
/// checksums to an offload that never runs; or, for a virtual machine, from one on its host.
fn has_software_peer(device: &Device, driver: &str) -> bool {
    const SOFTWARE: [&str; 4] = ["net_af_packet", "net_tap", "net_af_xdp", "net_virtio_user"];
    match device {
        Device::Pci(_) => driver == "net_virtio",
        Device::Vdev(argument) => SOFTWARE.iter().any(|driver| argument.starts_with(driver)),
        Device::Bond(bond) => bond
            .members
            .iter()
            .any(|member| has_software_peer(member, driver)),
    }
}

/// A device as control sees it while workers use its queues.
pub(super) struct Watched {
    port: Mutex<Port>,
    spread: Spread,
    probe: Mutex<Probe>,
}

impl Watched {
    /// A started port, how it spreads packets, and who tells of its link.
    pub(super) fn new(port: Port, spread: Spread, probe: Probe) -> Watched {
        Watched {
            port: Mutex::new(port),
            spread,
            probe: Mutex::new(probe),
        }
    }
}

impl PortDevice for Watched {
    fn driver(&self) -> String {
        self.port.lock().driver_name().to_owned()
    }

    fn queues(&self) -> u16 {
        self.port.lock().rx_queues()
    }

    fn spread(&self) -> Spread {
        self.spread
    }

    fn look(&self) -> Look {
        self.probe.lock().look(&self.port.lock())
    }

    fn counters(&self) -> PortCounters {
        let stats = self.port.lock().stats().unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_pci_device_that_dpdk_cannot_have_says_why() {
        let folder = std::env::temp_dir().join(format!("tidegate-pci-{}", std::process::id()));
        let device = folder.join("0000:03:00.0");
        let obstacle = |hugepages| pci_obstacle(&folder, "0000:03:00.0", hugepages);
        let has = |hugepages, words: [&str; 2]| {
            let text = obstacle(hugepages).unwrap();
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        };
        let driver = |name: &str| {
            let _ = std::fs::remove_file(device.join("driver"));
            symlink(format!("../../drivers/{name}"), device.join("driver")).unwrap();
        };
        assert!(
            obstacle(true)
                .unwrap()
                .contains("there is no PCI device 0000:03:00.0")
        );
        std::fs::create_dir_all(&device).unwrap();
        has(
            true,
            [
                "has no driver; there is no IOMMU",
                "-b uio_pci_generic 0000:03:00.0",
            ],
        );
        driver("e1000e");
        has(true, ["driver e1000e", "there is no IOMMU"]);
        std::fs::create_dir(device.join("iommu_group")).unwrap();
        has(true, ["driver e1000e", "-b vfio-pci 0000:03:00.0"]);
        driver("vfio-pci");
        assert_eq!(obstacle(false), None);
        driver("uio_pci_generic");
        assert_eq!(obstacle(true), None);
        has(false, ["bound to uio_pci_generic", "hugepages"]);
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// A virtual machine's peer is often another one on its host: virtio hands their frames over as they are.
    #[test]
    fn frames_of_software_peers_may_lack_checksums() {
        let pci = Device::Pci("0000:00:10.0".to_owned());
        assert!(has_software_peer(&pci, "net_virtio"));
        assert!(!has_software_peer(&pci, "net_ixgbe"));
        let vdev = |text: &str| Device::Vdev(text.to_owned());
        assert!(has_software_peer(
            &vdev("net_af_packet0,iface=a"),
            "net_af_packet"
        ));
        assert!(!has_software_peer(&vdev("net_memif0"), "net_memif"));
    }

    #[test]
    fn a_memif_server_leaves_a_socket_only_as_a_file() {
        let of = |text: &str| socket_file(&Device::Vdev(text.to_owned()));
        let server = "net_memif0,role=server,socket=/run/m,socket-abstract=no";
        assert_eq!(of(server), Some("/run/m".into()));
        assert_eq!(of(&server.replace("role=server", "role=client")), None);
        assert_eq!(of("net_memif0,role=server,socket=m"), None);
        assert_eq!(of("net_tap0,role=server,socket=/m,socket-abstract=no"), None);
    }
}
