//! The library behind the `tidegate` program: what surrounds the packet path and never touches a packet.

pub mod config;
pub mod engine;
pub mod gateway;
pub mod ipvsadm;
pub mod model;
pub mod replay;
