//! A segment without what it carries.

use super::super::buffer::Packet;
use super::super::checksum::{self, Delta};
use super::super::headers::{Headers, Kind};
use super::super::{ethernet, ipv4, ipv6, rewrite};
use super::{HEADER_LEN, apply, data_offset};

/// Cuts the data off a TCP segment, over either family. The IP length and both checksums follow by increment (RFC 1624),
/// so a wrong one stays wrong. `headers` are those of the packet; the result is theirs after it: only `end` moves.
///
/// `None`, and nothing changed, when there is no data.
#[must_use]
pub fn cut_data<P: Packet>(packet: &mut P, headers: &Headers) -> Option<Headers> {
    let (ip, segment) = rewrite::split(packet.bytes_mut(), headers)?;
    let old = segment.len();
    let kept = data_offset(segment).clamp(HEADER_LEN, old);
    if kept == old {
        return None;
    }
    // Headers are whole words, so the data's own sum is what it adds to that of the segment.
    let data = checksum::sum(&segment[kept..]);
    let delta = Delta::NONE.word(data, 0).word(old as u16, kept as u16);
    apply(segment, delta);
    let gone = (old - kept) as u16;
    if headers.kind == Kind::Flow6 {
        let payload = (ipv6::total_len(ip) - ipv6::HEADER_LEN) as u16;
        ipv6::set_payload_len(ip, payload.saturating_sub(gone));
    } else {
        let total = ipv4::total_len(ip) as u16;
        ipv4::set_total_len(ip, total.saturating_sub(gone));
    }
    let end = usize::from(headers.end - gone);
    let frame_len = end.max(ethernet::LEAST_LEN.min(packet.bytes().len()));
    let shorter = packet.resize(frame_len);
    debug_assert!(shorter, "cutting needs no room");
    // What is left of the data as padding is nobody's business.
    packet.bytes_mut()[end..].fill(0);
    Some(Headers {
        end: end as u16,
        ..*headers
    })
}
