//! Packets as bytes: the buffer trait, header views, checksums and the packets that the gateway makes itself.

pub mod buffer;
pub mod key;

pub use buffer::{ChecksumStatus, Packet, TestPacket};
pub use key::FlowKey;
