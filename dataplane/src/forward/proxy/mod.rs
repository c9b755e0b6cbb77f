//! PROXY protocol v2: FULLNAT's servers learn their client's address and port, and the address that it asked for, from a
//! header in front of what the client sends: of its stream in TCP, of the payload of each datagram in UDP. Servers have to
//! expect it; those that do not take it for data of the client. The layout is that of HAProxy's
//! `doc/proxy-protocol.txt`, section 2.2.

pub mod datagram;
pub mod header;
pub mod stream;

pub use header::{Header, Transport};
