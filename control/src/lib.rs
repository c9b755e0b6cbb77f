//! The library behind the `tidegate` program: what surrounds the packet path and never touches a packet.

pub mod api;
pub mod bench;
pub mod cli;
pub mod config;
pub mod engine;
pub mod gateway;
pub mod ipvsadm;
pub mod metrics;
pub mod model;
pub mod replay;
pub mod server_setup;
pub mod view;
