//! Why a port does not work, with the remedy where there is one.

use thiserror::Error;

use crate::errno_text;

/// Why a port does not work.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PortError {
    /// Another [`Port`](super::Port) has the device.
    #[error("device {device} is in use by another port: name each device once")]
    InUse {
        /// The device.
        device: String,
    },
    /// The device cannot carry frames of this size.
    #[error("device {device}: MTU {wanted} is not possible: it takes {min} to {max}")]
    Mtu {
        /// The device.
        device: String,
        /// What was asked for.
        wanted: u16,
        /// The smallest possible.
        min: u16,
        /// The largest possible.
        max: u16,
    },
    /// The mempool's buffers cannot carry frames of this size.
    #[error(
        "device {device}: MTU {mtu} needs buffers of {needed} bytes, the mempool's have {have}, and its driver \
         cannot spread a frame over several: raise the buffer size or lower the MTU"
    )]
    Buffer {
        /// The device.
        device: String,
        /// The MTU.
        mtu: u16,
        /// The buffer size that is needed, headroom included.
        needed: u32,
        /// The buffer size that is there.
        have: u16,
    },
    /// Queues are still out; they end with their workers.
    #[error("device {device}: cannot stop while workers hold its queues")]
    QueuesHeld {
        /// The device.
        device: String,
    },
    /// The driver refuses.
    #[error("device {device}: cannot {step}: {reason}")]
    Driver {
        /// The device.
        device: String,
        /// What was tried.
        step: String,
        /// What the driver said.
        reason: String,
    },
}

/// From a negative errno alone.
pub(super) fn failed(device: &str, step: &str, code: i32) -> PortError {
    PortError::Driver {
        device: device.to_owned(),
        step: step.to_owned(),
        reason: errno_text(code),
    }
}
