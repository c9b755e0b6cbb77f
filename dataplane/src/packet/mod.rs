//! Packets as bytes: the buffer trait, header views, checksums and the packets that the gateway makes itself.

pub mod buffer;
pub mod checksum;
pub mod headers;
pub mod key;
pub mod mac;

pub use buffer::{ChecksumStatus, Packet, PortId, TestPacket};
pub use headers::{Headers, Kind, PortRules, parse};
pub use key::FlowKey;
pub use mac::MacAddr;
