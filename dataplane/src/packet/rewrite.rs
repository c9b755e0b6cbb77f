//! What every rewrite of a packet begins with. It relies on the offsets of [`Headers`] and on nothing else.

use super::headers::{Headers, Kind};
use super::{ipv4, ipv6, udp};

/// The packet in two parts: the IP header with options or extension headers, and the L4 segment up to the IP packet's
/// end. `None` when the frame does not hold them, which cannot be after parsing.
#[inline]
pub fn split<'f>(frame: &'f mut [u8], headers: &Headers) -> Option<(&'f mut [u8], &'f mut [u8])> {
    let packet = frame.get_mut(usize::from(headers.l3)..usize::from(headers.end))?;
    let header_len = usize::from(headers.l4.checked_sub(headers.l3)?);
    let (ip, segment) = packet.split_at_mut_checked(header_len)?;
    (ip.len() >= ipv4::HEADER_LEN && segment.len() >= udp::HEADER_LEN).then_some((ip, segment))
}

/// The IP header of a packet that has grown by `by` bytes: its length, and the checksum of IPv4.
pub(crate) fn lengthen(ip: &mut [u8], kind: Kind, by: u16) {
    if kind == Kind::Flow6 {
        let payload = ipv6::total_len(ip) - ipv6::HEADER_LEN;
        ipv6::set_payload_len(ip, payload as u16 + by);
    } else {
        let total = ipv4::total_len(ip) as u16;
        ipv4::set_total_len(ip, total + by);
    }
}
