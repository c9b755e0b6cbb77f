//! The API, the metrics and the command line over a gateway whose devices are in memory.

mod command_line;
mod documentation;
mod metrics;
mod reload;
mod socket;
mod support;
mod views;
