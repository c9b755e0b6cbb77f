//! What few connections need beside their record: one more cache line, only where a service asks for it.

use super::sequences::Sequences;
use bytemuck::{Pod, Zeroable};

/// The extension of a connection, one cache line. Zeroed, it says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Extension {
    /// The index of the addresses of a connection with an IPv6 key; 0 = it has none. The table's.
    pub(super) addresses: u32,
    /// The template by which the connection got its server, as a [`super::RecordId`]; 0 = none. The top bit says that
    /// another worker has it: then the rest is as the worker has noted that.
    pub template: u32,
    /// Where the connection stands with the header of the PROXY protocol.
    pub proxy: ProxyStream,
    /// How far a TCP connection is that may be reset.
    pub sequences: Sequences,
}

/// The header of the PROXY protocol in front of a client's stream, as [`crate::forward::proxy`] keeps it: enough to write
/// the header's segment again at any time. Numbers are in host order; the client's sequence numbers are those that the
/// server is shown. Zeroed, the connection has no header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct ProxyStream {
    /// What the server acknowledges when it takes the client's last SYN.
    pub asked: u32,
    /// The sequence number of the header's first byte.
    pub first: u32,
    /// The highest acknowledgement number of the client; before there is one, what it is to be.
    pub acknowledgement: u32,
    /// The client's latest TSval, and the TSecr beside it (RFC 7323 3.2).
    pub timestamps: [u32; 2],
    /// When the header was sent last, as a tick.
    pub sent_at: u32,
    /// The client's latest window, as on the wire: unscaled.
    pub window: u16,
    /// A [`crate::forward::proxy::stream::Stage`] as a number.
    pub stage: u8,
    /// How often the timer has had the header sent again.
    pub tries: u8,
    /// Bits of [`crate::forward::proxy::stream`].
    pub flags: u8,
    /// DSCP of the client's segment that the header was sent in front of, as the upper bits of the TOS or traffic class.
    pub traffic_class: u8,
    unused: [u8; 2],
}

const _: () = assert!(size_of::<Extension>() == 64);
