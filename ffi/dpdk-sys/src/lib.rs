//! Raw bindings to the C shim over DPDK (`shim/shim.h`), generated at build time from the installed libdpdk.
//!
//! Only the `dpdk` crate calls these; it holds every safety argument. No DPDK structure is visible here: the
//! shim speaks in small structs of its own and in opaque pointers, so that what changes between DPDK releases
//! stays in C. What each function does, its units and its errors are written in `shim.h`.
#![allow(missing_docs, non_camel_case_types, non_upper_case_globals, non_snake_case)]
#![allow(unreachable_pub, unused_qualifications, clippy::undocumented_unsafe_blocks)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
