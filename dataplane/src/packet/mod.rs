//! Packets as bytes: the buffer trait, header views, checksums and the packets that the gateway makes itself.

pub mod arp;
pub mod buffer;
pub mod checksum;
pub mod craft;
pub mod digest;
pub mod ethernet;
pub mod gre;
pub mod gue;
pub mod headers;
pub mod icmp;
pub mod icmp6;
pub mod ipv4;
pub mod ipv6;
pub mod key;
pub mod mac;
pub mod nd;
mod partial;
pub mod rewrite;
pub mod sctp;
pub mod sip;
pub mod tcp;
pub mod udp;
pub mod vlan;
mod wire;

pub use buffer::{ChecksumStatus, Packet, PortId, TestPacket};
pub use digest::AddressDigest;
pub use headers::{Headers, Kind, PortRules, parse, parse_into};
pub use key::FlowKey;
pub use mac::MacAddr;
pub use partial::complete_partial;
