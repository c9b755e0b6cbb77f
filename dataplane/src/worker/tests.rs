//! Tests of the whole pipeline over in-memory ports, by subject. [`frames`] writes and reads frames of IPv4, [`wire`]
//! and [`carried`] those of both families, [`plan`] makes snapshots of a small network, [`gateway`] and [`exchange`]
//! drive a worker and check its books.

mod arp;
mod capacity;
mod carried;
mod checksums;
mod discovery;
mod errors;
mod exchange;
pub(crate) mod frames;
mod gateway;
mod header;
mod hostile;
mod identity;
mod locals;
mod locals_both;
mod marks;
mod messages;
mod modes;
mod nasty;
mod packets;
mod persistence;
mod plan;
mod policies;
mod pools;
mod random;
mod refusals;
mod sctp;
mod services;
mod snapshots;
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
