//! What can go wrong while EAL starts or a device is attached, with the remedy in each message.

use thiserror::Error;

use super::options::Host;
use crate::errno_text;

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const ENOMEM: i32 = 12;
const EACCES: i32 = 13;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;

/// Why EAL did not start, or a device was not attached.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum EalError {
    /// EAL starts at most once per process, even when it failed.
    #[error("DPDK was started before in this process: start a new process")]
    AlreadyStarted,
    /// Hugepages were demanded and there are not enough.
    #[error(
        "no hugepages: {wanted_mb} MB wanted, {free_mb} MB free: reserve some \
         (echo {pages} > /proc/sys/vm/nr_hugepages) or configure hugepages: off"
    )]
    NoHugepages {
        /// What was asked for, MB.
        wanted_mb: u32,
        /// What the kernel has free, MB.
        free_mb: u64,
        /// How many pages of 2 MB that is.
        pages: u32,
    },
    /// A living process has the runtime folder of this prefix.
    #[error(
        "file prefix {prefix} is in use by {}: stop it, or choose another prefix",
        EalError::owner_text(owner)
    )]
    PrefixInUse {
        /// The prefix.
        prefix: String,
        /// What the owner wrote about itself: its process id.
        owner: String,
    },
    /// The kernel refused.
    #[error(
        "no permission: run as root, or give the program CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK and CAP_SYS_ADMIN ({reason})"
    )]
    Permission {
        /// What DPDK said.
        reason: String,
    },
    /// There is not enough memory.
    #[error("not enough memory for DPDK: lower the memory size, or free memory or hugepages ({reason})")]
    Memory {
        /// What DPDK said.
        reason: String,
    },
    /// DPDK did not accept its arguments.
    #[error("DPDK does not accept its arguments: check cores, drivers and extra EAL arguments ({reason})")]
    Arguments {
        /// What DPDK said.
        reason: String,
    },
    /// Anything else at start.
    #[error("DPDK does not start: {reason}")]
    Start {
        /// What DPDK said.
        reason: String,
    },
    /// A device cannot be attached.
    #[error("device {device}: {reason}: {remedy}")]
    Device {
        /// As it was named.
        device: String,
        /// What DPDK or the kernel said.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The device is there but is no Ethernet port.
    #[error("device {device} has no Ethernet port: name a network device, by PCI address or as net_...")]
    NoPort {
        /// As it was named.
        device: String,
    },
    /// A thread cannot be registered.
    #[error("thread cannot be registered with DPDK: {reason}: use fewer threads")]
    Thread {
        /// What DPDK said.
        reason: String,
    },
}

/// DPDK's own words where it said something, else the meaning of the number.
fn reason(code: i32, log: &str) -> String {
    if log.is_empty() {
        errno_text(code)
    } else {
        log.to_owned()
    }
}

impl EalError {
    /// From a failed start: `code` is a negative errno, `log` what DPDK said meanwhile.
    pub(super) fn start(code: i32, log: &str, host: &Host) -> EalError {
        let reason = reason(code, log);
        match -code {
            EPERM | EACCES => EalError::Permission { reason },
            _ if !host.root && log.to_ascii_lowercase().contains("permission") => {
                EalError::Permission { reason }
            }
            ENOMEM => EalError::Memory { reason },
            EINVAL => EalError::Arguments { reason },
            _ => EalError::Start { reason },
        }
    }

    /// From a failed attach.
    pub(super) fn device(device: &str, code: i32, log: &str) -> EalError {
        let reason = reason(code, log);
        let remedy = remedy(device, -code, &reason.to_ascii_lowercase());
        EalError::Device {
            device: device.to_owned(),
            reason,
            remedy,
        }
    }
}

/// What helps. Drivers return all sorts of numbers for the same fault, so the log's words come first.
fn remedy(device: &str, errno: i32, reason: &str) -> &'static str {
    let virtual_device = device.contains("net_") || device.contains("eth_");
    // DPDK returns -1 here, which is not meant as EPERM.
    if reason.contains("failed to select iommu type") {
        return "load vfio_iommu_type1 (modprobe vfio_iommu_type1); on a machine whose IOMMU does not remap interrupts it \
                wants to be told that this is known (options vfio_iommu_type1 allow_unsafe_interrupts=1)";
    }
    if reason.contains("permission") || reason.contains("not permitted") || matches!(errno, EPERM | EACCES) {
        return "run as root, or with CAP_NET_ADMIN and CAP_NET_RAW";
    }
    // The driver does not tell why, and there is only one reason.
    if reason.contains("could not open af_packet socket") {
        return "no permission: run as root, or with CAP_NET_RAW";
    }
    if reason.contains("failed to parse device") {
        return "check the driver's name, and that it is installed or loaded (-d)";
    }
    if virtual_device {
        if reason.contains("no such device") && device.contains("iface=") && errno != EINVAL {
            return "check that the interface named by iface= exists (ip link) and that the driver is installed";
        }
        return match errno {
            ENOENT | ENODEV | EINVAL => {
                "check the driver's name and arguments, that the interface it names exists (ip link), and that its driver is installed or loaded (-d)"
            }
            ENOMEM => "give DPDK more memory",
            _ => "check the driver's arguments, and that the interface or file it names exists",
        };
    }
    "check the address (lspci -D) and bind the device to vfio-pci (dpdk-devbind.py -b vfio-pci ADDRESS)"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(root: bool) -> Host {
        Host {
            root,
            ..Host::default()
        }
    }

    #[test]
    fn a_failed_start_names_reason_and_remedy() {
        let e = EalError::start(-EACCES, "", &host(false));
        assert!(
            e.to_string().contains("Permission denied") && e.to_string().contains("run as root"),
            "{e}"
        );
        let e = EalError::start(-ENOMEM, "EAL: cannot reserve memory", &host(true));
        assert!(
            e.to_string().contains("cannot reserve memory") && e.to_string().contains("lower"),
            "{e}"
        );
        let e = EalError::start(-1000, "EAL: Cannot open: Permission denied", &host(false));
        assert!(matches!(e, EalError::Permission { .. }));
    }

    #[test]
    fn a_failed_device_names_reason_and_remedy() {
        let e = EalError::device("0000:03:00.0", -ENODEV, "");
        assert!(e.to_string().contains("vfio-pci"), "{e}");
        let e = EalError::device("net_tap0", -EPERM, "TAP: Unable to open /dev/net/tun interface");
        assert!(e.to_string().contains("root"), "{e}");
        let e = EalError::device(
            "0000:03:00.0",
            -1,
            "EAL: 0000:03:00.0 failed to select IOMMU type",
        );
        assert!(e.to_string().contains("modprobe vfio_iommu_type1"), "{e}");
        let e = EalError::device("net_nonsense0", -EINVAL, "");
        assert!(e.to_string().contains("driver's name"), "{e}");
    }
}
