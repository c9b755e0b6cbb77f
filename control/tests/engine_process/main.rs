//! The `tidegate` process over DPDK's software devices: each device that works without a NIC, what stops a start,
//! becoming another user, and the orderly end. Each test runs the program itself, as DPDK starts once per process.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests"
)]

mod captures;
mod cpus;
mod devices;
mod end;
mod failures;
mod gateway;
mod namespaces;
mod privileges;
mod syscalls;
