//! The safe layer over DPDK: EAL, Ethernet ports, mempools, mbufs, rings, a hash and the clock.
//!
//! `control` starts EAL, configures ports and hands each worker its queues; the worker then receives and sends
//! bursts of [`Mbuf`]. Everything that touches DPDK's memory is in this crate and in the C shim below it; what is
//! public here cannot be used to break memory safety. It never looks into a packet and knows nothing of services.
//!
//! Ownership. An [`Mbuf`] owns its packet and gives it back when dropped. Ports, mempools, rings and hashes each
//! hold a handle of [`Eal`], so DPDK outlives them. A queue belongs to one thread at a time.

pub mod clock;
pub mod eal;
pub mod hash;
mod log;
pub mod mbuf;
pub mod mempool;
pub mod port;
pub mod ring;

pub use eal::{DeviceId, Eal, EalError, EalOptions, Hugepages};
pub use log::{LogLevel, LogSink};
pub use mbuf::{Burst, Checksum, Mbuf};
pub use mempool::{Mempool, MempoolError};
pub use port::{Bond, BondMode, Port, PortError, PortInfo, PortOptions, PortStats, RxQueue, TxQueue};
pub use ring::{Consumer, Producer};

use std::ffi::CString;
use std::ffi::c_char;

/// A string for C. Nothing that we pass may hold a zero byte; one that does is cut there, which at worst names
/// a device that does not exist.
fn c_string(text: &str) -> CString {
    let until = text.bytes().position(|b| b == 0).unwrap_or(text.len());
    CString::new(&text.as_bytes()[..until]).unwrap_or_default()
}

/// The text of a fixed-size C array, up to its zero byte.
fn text_of(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars
        .iter()
        .map(|&c| c.cast_unsigned())
        .take_while(|&b| b != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a negative errno means, in words, without the number that the standard library appends.
fn errno_text(code: i32) -> String {
    let text = std::io::Error::from_raw_os_error(code.saturating_abs()).to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
