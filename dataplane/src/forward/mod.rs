//! What forwarding does to a packet, one file per mode: rewrites in place with incremental checksums (RFC 1624).
//! Pure functions over a frame and its validated [`Headers`](crate::packet::Headers); they know nothing of tables.
//! DR needs no file: [`crate::packet::ipv4::decrement_ttl`] is all it does to the IP packet.

pub mod echo;
pub mod fullnat;
pub mod icmp;
pub mod nat;
pub mod nat64;
pub mod proxy;
pub mod toa;
pub mod tun;
