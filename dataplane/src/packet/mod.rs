//! Packets as bytes: the buffer trait, header views, checksums and the packets that the gateway makes itself.

pub mod buffer;
pub mod mac;

pub use buffer::{ChecksumStatus, Packet, PortId, TestPacket};
pub use mac::MacAddr;
