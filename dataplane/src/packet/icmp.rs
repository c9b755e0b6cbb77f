//! The ICMP header (RFC 792). Functions take the message from the header's first byte and panic on one below
//! [`HEADER_LEN`], which no parsed packet is.

use super::wire;

/// The length of the part that all messages share, in bytes.
pub const HEADER_LEN: usize = 8;
/// Type: echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 3;
/// Type: echo request.
pub const ECHO_REQUEST: u8 = 8;
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 11;
/// Code of [`UNREACHABLE`]: the host.
pub const HOST_UNREACHABLE: u8 = 1;
/// Code of [`UNREACHABLE`]: the port.
pub const PORT_UNREACHABLE: u8 = 3;
/// Code of [`UNREACHABLE`]: too big, and not to be fragmented; the MTU stands in the rest of the header.
pub const FRAGMENTATION_NEEDED: u8 = 4;
/// Code of [`TIME_EXCEEDED`]: the TTL ran out on the way.
pub const TTL_EXCEEDED: u8 = 0;

const CHECKSUM: usize = 2;
const REST: usize = 4;

/// The message's type.
#[inline]
#[must_use]
pub fn message_type(message: &[u8]) -> u8 {
    message[0]
}

/// The message's code, which refines the type.
#[inline]
#[must_use]
pub fn code(message: &[u8]) -> u8 {
    message[1]
}

/// The checksum, in host order.
#[inline]
#[must_use]
pub fn checksum(message: &[u8]) -> u16 {
    wire::get_u16(message, CHECKSUM)
}

/// Writes the checksum.
#[inline]
pub fn set_checksum(message: &mut [u8], checksum: u16) {
    wire::put_u16(message, CHECKSUM, checksum);
}

/// The second word of the header, in host order: of echo the identifier and the sequence number, of
/// [`FRAGMENTATION_NEEDED`] the MTU.
#[inline]
#[must_use]
pub fn rest(message: &[u8]) -> u32 {
    wire::get_u32(message, REST)
}

/// Writes the second word of the header, from host order; the checksum stays.
#[inline]
pub fn set_rest(message: &mut [u8], rest: u32) {
    wire::put_u32(message, REST, rest);
}

/// Whether a type is that of a query or its answer. About anything else, errors and types that nobody knows, no
/// ICMP error may be sent (RFC 1122 3.2.2).
#[inline]
#[must_use]
pub fn is_query(message_type: u8) -> bool {
    matches!(message_type, ECHO_REPLY | ECHO_REQUEST | 9 | 10 | 13..=18)
}

/// Writes a header with checksum 0.
pub(super) fn write(message: &mut [u8], message_type: u8, code: u8, rest: u32) {
    message[0] = message_type;
    message[1] = code;
    set_checksum(message, 0);
    wire::put_u32(message, REST, rest);
}
