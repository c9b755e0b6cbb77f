//! What few connections need beside their record: one more cache line, only where a service asks for it.

use super::sequences::Sequences;
use bytemuck::{Pod, Zeroable};

/// The extension of a connection, one cache line. Zeroed, it says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Extension {
    /// The index of the addresses of a connection with an IPv6 key; 0 = it has none. The table's.
    pub(super) addresses: u32,
    /// The template by which the connection got its server, as a [`super::RecordId`]; 0 = none.
    pub template: u32,
    /// How far a TCP connection is that may be reset.
    pub sequences: Sequences,
    /// Room for what else may be asked for.
    pub rest: [u32; 8],
}
