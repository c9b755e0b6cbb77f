//! Tests of the whole pipeline over in-memory ports, by subject. [`frames`] writes and reads frames of IPv4, [`wire`]
//! and [`carried`] those of both families, [`plan`] makes snapshots of a small network, [`gateway`] and [`exchange`]
//! drive a worker and check its books.

mod arp;
mod capacity;
pub(crate) mod carried;
mod checksums;
mod discovery;
mod endings;
mod errors;
mod exchange;
pub(crate) mod frames;
mod gateway;
mod header;
mod hostile;
mod identity;
mod limits;
mod locals;
mod locals_both;
mod marks;
mod messages;
mod modes;
mod nasty;
mod nat64;
mod packets;
mod persistence;
pub(crate) mod plan;
mod policies;
mod pools;
mod proxy;
mod proxy_udp;
mod random;
mod refusals;
mod reuse;
mod sctp;
mod services;
mod snapshots;
mod snat;
mod special;
mod split;
mod steering;
mod tcp;
mod templates;
mod toa;
mod tunnels;
mod udp;
mod vlan;
pub(crate) mod wire;
