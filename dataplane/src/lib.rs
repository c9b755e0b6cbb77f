//! The packet path of Tidegate: packets in, packets out, as pure logic over byte buffers.
//!
//! Nothing here performs I/O, names DPDK, reads a clock or draws a random number: packets come through
//! [`packet::Packet`] and [`worker::Io`], time and seeds are arguments. So every rule runs in a unit test,
//! under a fuzzer and in `tidegate replay`, without a NIC.

pub mod drops;
pub mod neighbour;
pub mod packet;
pub mod time;
