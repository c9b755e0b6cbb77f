//! The packet path of Tidegate: packets in, packets out, as pure logic over byte buffers.
//!
//! Nothing here performs I/O, names DPDK, reads a clock or draws a random number: packets come through
//! [`packet::Packet`] and [`worker::Io`], time and seeds are arguments. So every rule runs in a unit test,
//! under a fuzzer and in `tidegate replay`, without a NIC.

/// Tests that are also built as programs of their own name this crate in the same way from inside.
#[cfg(test)]
extern crate self as dataplane;

pub mod arch;
pub mod drops;
pub mod flow;
pub mod forward;
pub mod fragment;
pub mod local;
pub mod memory;
pub mod neighbour;
pub mod packet;
pub mod scheduler;
pub mod service;
pub mod time;
pub mod worker;
