//! The API, the metrics and the command line over a gateway whose devices are in memory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod command_line;
mod documentation;
mod metrics;
mod operate;
mod reload;
mod snat;
mod socket;
mod support;
mod views;
