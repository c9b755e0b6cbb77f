//! Tests of the whole pipeline over in-memory ports, by subject. [`frames`] writes and reads frames, [`plan`] makes
//! snapshots of a small network, [`gateway`] drives a worker and checks its books.

mod arp;
mod capacity;
pub(crate) mod frames;
mod gateway;
mod locals;
mod nasty;
mod packets;
mod plan;
mod random;
mod refusals;
mod services;
mod snapshots;
mod steering;
mod tcp;
mod udp;
