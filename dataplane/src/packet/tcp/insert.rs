//! One option more in a segment that was sent without it. The bytes in front of it move, and the data stays: the
//! frame grows at its front, where every packet buffer has room.

use super::super::buffer::Packet;
use super::super::checksum::Delta;
use super::super::headers::Headers;
use super::super::{rewrite, wire};
use super::{DATA_OFFSET, HEADER_LEN, apply, data_offset};

/// What a header and its options can take together, in bytes: data offset 15 (RFC 9293 3.1).
const MOST: usize = 60;

/// Puts `option` (its kind and length bytes first, whole 32-bit words) in front of all others of a TCP segment, over
/// either family. The IP length and both checksums follow by increment (RFC 1624), so a wrong one stays wrong.
/// `headers` are those of the packet; the result is theirs after it: only `end` moves.
///
/// `None`, and nothing changed, when the options have no room for it, the packet would be too long for an IP packet,
/// or its buffer has no headroom.
#[must_use]
pub fn insert_option<P: Packet>(packet: &mut P, headers: &Headers, option: &[u8]) -> Option<Headers> {
    let len = option.len();
    let at = usize::from(headers.l4) + HEADER_LEN;
    let longer = Headers {
        end: headers.end.checked_add(u16::try_from(len).ok()?)?,
        ..*headers
    };
    let segment = packet
        .bytes()
        .get(usize::from(headers.l4)..usize::from(headers.end))?;
    let fits = segment.len() >= HEADER_LEN && data_offset(segment) + len <= MOST;
    if !fits || !len.is_multiple_of(4) || !packet.prepend(len) {
        return None;
    }
    let frame = packet.bytes_mut();
    frame.copy_within(len..len + at, 0);
    frame[at..at + len].copy_from_slice(option);
    if let Some((ip, segment)) = rewrite::split(frame, &longer) {
        rewrite::lengthen(ip, headers.kind, len as u16);
        lengthen_segment(segment, len);
    }
    Some(longer)
}

/// Data offset and checksum of a segment in which `by` bytes stand behind the header that were not there before. The
/// pseudo header has grown too: its length is that of the segment.
fn lengthen_segment(segment: &mut [u8], by: usize) {
    let (old_len, new_len) = ((segment.len() - by) as u16, segment.len() as u16);
    let old = wire::get_u16(segment, DATA_OFFSET);
    // In words of 4 bytes, in the upper 4 bits of the word.
    let new = old + ((by as u16 / 4) << 12);
    wire::put_u16(segment, DATA_OFFSET, new);
    let changed = Delta::NONE.word(old_len, new_len).word(old, new);
    let delta = (HEADER_LEN..HEADER_LEN + by)
        .step_by(2)
        .fold(changed, |delta, at| delta.word(0, wire::get_u16(segment, at)));
    apply(segment, delta);
}

#[cfg(test)]
mod tests;
