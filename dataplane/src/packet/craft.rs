//! Packets that the gateway makes itself: echo replies, ICMP errors, TCP resets and SCTP aborts, over both
//! families. They answer a received packet, are written into a buffer of the caller's, and leave both MAC
//! addresses zero for the resolve stage. Whether to answer at all, and how often, is the caller's to decide;
//! whether one *may* answer is checked here (RFC 1122 3.2.2, RFC 4443 2.4). On false, what `out` holds is
//! unspecified.

mod icmp4;
mod icmp6;
mod refuse;
mod reset;
mod segment;

pub use icmp4::{echo_reply_in_place, icmp_error};
pub use icmp6::{echo6_reply_in_place, icmp6_error};
pub use refuse::{sctp_abort, tcp_reset};
pub use reset::tcp_reset_between;
pub use segment::{Segment, tcp_segment};

use super::buffer::Packet;
use super::mac::MacAddr;
use super::{ethernet, ipv4, ipv6};

/// The TTL or hop limit of everything that starts here (RFC 1700).
const TTL: u8 = 64;

/// Sizes `out` for an IPv4 packet of these fields, writes the Ethernet and IP headers, and gives the room behind.
fn start<'o, P: Packet>(out: &'o mut P, fields: &ipv4::Fields) -> Option<&'o mut [u8]> {
    let packet = start_link(out, usize::from(fields.total_len), ethernet::IPV4)?;
    let (ip, payload) = packet.split_at_mut(ipv4::HEADER_LEN);
    ipv4::write(ip, fields);
    Some(payload)
}

/// The same for an IPv6 packet.
fn start6<'o, P: Packet>(out: &'o mut P, fields: &ipv6::Fields) -> Option<&'o mut [u8]> {
    let total_len = ipv6::HEADER_LEN + usize::from(fields.payload_len);
    let packet = start_link(out, total_len, ethernet::IPV6)?;
    let (ip, payload) = packet.split_at_mut(ipv6::HEADER_LEN);
    ipv6::write(ip, fields);
    Some(payload)
}

/// Sizes `out` for an IP packet of `len` bytes, and gives the room behind the Ethernet header.
fn start_link<P: Packet>(out: &mut P, len: usize, ethertype: u16) -> Option<&mut [u8]> {
    if !out.resize(ethernet::HEADER_LEN + len) {
        return None;
    }
    let (link, packet) = out.bytes_mut().split_at_mut(ethernet::HEADER_LEN);
    ethernet::write(link, MacAddr::default(), MacAddr::default(), ethertype);
    Some(packet)
}

#[cfg(test)]
mod tests;
