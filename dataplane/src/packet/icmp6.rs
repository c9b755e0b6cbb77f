//! The ICMPv6 header (RFC 4443): its first eight bytes are laid out as ICMP's, its types are not. Functions take
//! the message from the header's first byte and panic on one below [`HEADER_LEN`], which no parsed packet is.
//! The checksum covers the pseudo header as well: see [`super::checksum::l4_sum6`].

pub use super::icmp::{HEADER_LEN, checksum, code, message_type, rest, set_checksum};

/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 1;
/// Type: packet too big; the MTU stands in the rest of the header.
pub const PACKET_TOO_BIG: u8 = 2;
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 3;
/// Type: parameter problem.
pub const PARAMETER_PROBLEM: u8 = 4;
/// Type: echo request.
pub const ECHO_REQUEST: u8 = 128;
/// Type: echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Type: router solicitation (RFC 4861 4.1).
pub const ROUTER_SOLICITATION: u8 = 133;
/// Type: router advertisement (RFC 4861 4.2).
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// Type: neighbour solicitation (RFC 4861 4.3).
pub const NEIGHBOUR_SOLICITATION: u8 = 135;
/// Type: neighbour advertisement (RFC 4861 4.4).
pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// Type: redirect (RFC 4861 4.5).
pub const REDIRECT: u8 = 137;
/// Code of [`UNREACHABLE`]: no route.
pub const NO_ROUTE: u8 = 0;
/// Code of [`UNREACHABLE`]: the address does not answer on its link.
pub const ADDRESS_UNREACHABLE: u8 = 3;
/// Code of [`UNREACHABLE`]: the port.
pub const PORT_UNREACHABLE: u8 = 4;
/// Code of [`TIME_EXCEEDED`]: the hop limit ran out on the way.
pub const HOP_LIMIT_EXCEEDED: u8 = 0;
/// Code of [`PARAMETER_PROBLEM`]: an option that nobody knows.
pub const UNKNOWN_OPTION: u8 = 2;

/// Whether a type is that of an error (RFC 4443 2.1).
#[inline]
#[must_use]
pub fn is_error(message_type: u8) -> bool {
    message_type < 128
}
