//! Real traffic through the program, in network namespaces of each test's own: `./scripts/test namespace`.
//!
//! Needs root, and the program: `TIDEGATE_BIN`, or the one that cargo built beside this test. Each test makes a
//! [`lab::Lab`], which goes away on every exit. None depends on how fast the machine is, only on generous deadlines.
// A test's helpers are tests as well.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod balance;
mod bonds;
mod client_address;
mod client_address_toa6;
mod clock;
mod dns;
mod endings;
mod exception;
mod failure;
mod flood;
mod fragments;
mod lab;
mod links;
mod marks;
mod modes;
mod nat64;
mod offload;
mod operate;
mod persistence;
mod pmtu;
mod pools;
mod ports;
mod quiet;
mod refusals;
mod reload;
mod routes;
mod server_setup;
mod snat;
mod tap;
