//! Packets as bytes: the buffer trait, header views, checksums and the packets that the gateway makes itself.

pub mod buffer;

pub use buffer::{ChecksumStatus, Packet, TestPacket};
