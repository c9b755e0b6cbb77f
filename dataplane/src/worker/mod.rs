//! Workers: the burst pipeline, and which worker owns what.

pub mod shard;
