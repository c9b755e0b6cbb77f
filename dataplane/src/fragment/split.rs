//! Cuts packets that are too long for their way out into fragments (RFC 791 3.2, RFC 8200 4.5). The transmit stage
//! calls it. Whether a packet may be cut at all is the caller's to know: nothing here looks at "don't fragment".
//!
//! The pieces are as long as the limit allows, but for the last one, as the kernel cuts; so a packet that was put
//! together from fragments leaves by the same cuts when the limit is the length of the longest of them.

#[cfg(test)]
mod tests;

use super::{FRAGMENT_HEADER, FRAGMENT_HEADER_LEN, HEADER6_LEN, L3, chain, put_word, word};
use crate::drops::DropReason;
use crate::packet::{Packet, ipv4};

const MORE4: u16 = 0x2000;
const OFFSET4: u16 = 0x1fff;
const MORE6: u16 = 0x0001;
/// The MTU that every IPv6 link has (RFC 8200 5).
const LEAST_MTU6: u16 = 1280;

/// The limit for [`split4`]: the MTU, and not more than the longest of the fragments that came in (0 = it came whole),
/// so that a path that its sender knows to be narrow is not taken for wider.
#[inline]
#[must_use]
pub fn limit4(mtu: u16, largest_fragment: u16) -> u16 {
    match largest_fragment {
        0 => mtu,
        largest => mtu.min(largest),
    }
}

/// The limit for [`split6`], as [`limit4`]; but nobody has to send less than IPv6's least MTU.
#[inline]
#[must_use]
pub fn limit6(mtu: u16, largest_fragment: u16) -> u16 {
    match largest_fragment {
        0 => mtu,
        largest => mtu.min(largest.max(LEAST_MTU6)),
    }
}

/// Cuts an IPv4 packet into fragments of at most `limit` bytes each, IP header included, and hands them to `out` in
/// order, in buffers from `allocate`. It may be a fragment itself. One that is not too long comes out as it is.
/// Returns how many came out.
///
/// # Errors
/// [`DropReason::NoBuffer`]: buffers have run out; what has come out until then is of no use to anybody.
/// [`DropReason::ExceedsMtu`]: `limit` has no room for a header and 8 bytes. [`DropReason::BadIpHeader`]: the header
/// does not fit the frame.
pub fn split4<P: Packet>(
    packet: &P,
    limit: u16,
    mut allocate: impl FnMut() -> Option<P>,
    mut out: impl FnMut(P),
) -> Result<usize, DropReason> {
    let frame = packet.bytes();
    let l4 = L3 + usize::from(frame.get(L3).unwrap_or(&0) & 15) * 4;
    let end = L3 + usize::from(word(frame, L3 + 2));
    if l4 < L3 + ipv4::HEADER_LEN || end < l4 || end > frame.len() {
        return Err(DropReason::BadIpHeader);
    }
    if end - L3 <= usize::from(limit) {
        out(copy([&frame[..end], &[], &[]], &mut allocate, |_| {})?);
        return Ok(1);
    }
    let (header, data) = (&frame[..l4], &frame[l4..end]);
    let flags = word(frame, L3 + 6);
    let cuts = Cuts::new(data.len(), usize::from(limit).saturating_sub(l4 - L3))?;
    let mut count = 0;
    for (start, end) in cuts {
        let more = end < data.len() || flags & MORE4 != 0;
        // A packet is shorter than 65,536 bytes, so that its last offset fits into 13 bits.
        let offset = (flags & OFFSET4) + (start / 8) as u16;
        out(copy([header, &[], &data[start..end]], &mut allocate, |frame| {
            let packet = &mut frame[L3..];
            put_word(packet, 2, packet.len() as u16);
            put_word(packet, 6, offset | if more { MORE4 } else { 0 });
            if start > 0 {
                blank_options(&mut packet[ipv4::HEADER_LEN..l4 - L3]);
            }
            ipv4::fill_checksum(packet);
        })?);
        count += 1;
    }
    Ok(count)
}

/// Cuts an IPv6 packet that is no fragment, as [`split4`] does. Its first `unfragmentable_len` bytes, which
/// [`unfragmentable_len`](super::unfragmentable_len) finds, are repeated in each fragment; `identification` is in
/// host order.
///
/// # Errors
/// As [`split4`].
pub fn split6<P: Packet>(
    packet: &P,
    unfragmentable_len: usize,
    identification: u32,
    limit: u16,
    mut allocate: impl FnMut() -> Option<P>,
    mut out: impl FnMut(P),
) -> Result<usize, DropReason> {
    let frame = packet.bytes();
    let end = L3 + HEADER6_LEN + usize::from(word(frame, L3 + 4));
    let l4 = L3 + unfragmentable_len;
    let field = chain::field_of(frame, l4).ok_or(DropReason::BadIpHeader)?;
    if end < l4 || end > frame.len() {
        return Err(DropReason::BadIpHeader);
    }
    if end - L3 <= usize::from(limit) {
        out(copy([&frame[..end], &[], &[]], &mut allocate, |_| {})?);
        return Ok(1);
    }
    let (header, data) = (&frame[..l4], &frame[l4..end]);
    let room = usize::from(limit).saturating_sub(unfragmentable_len + FRAGMENT_HEADER_LEN);
    let [a, b, c, d] = identification.to_be_bytes();
    let mut count = 0;
    for (start, end) in Cuts::new(data.len(), room)? {
        // A multiple of 8, so that the flags below it are free.
        let [high, low] = (start as u16 | if end < data.len() { MORE6 } else { 0 }).to_be_bytes();
        let fragment_header = [frame[field], 0, high, low, a, b, c, d];
        out(copy(
            [header, &fragment_header, &data[start..end]],
            &mut allocate,
            |frame| {
                put_word(frame, L3 + 4, (frame.len() - L3 - HEADER6_LEN) as u16);
                frame[field] = FRAGMENT_HEADER;
            },
        )?);
        count += 1;
    }
    Ok(count)
}

/// Where a payload is cut: ranges of it, in order.
struct Cuts {
    next: usize,
    len: usize,
    room: usize,
}

impl Cuts {
    /// Of `len` bytes, with room for `room` in each fragment.
    fn new(len: usize, room: usize) -> Result<Cuts, DropReason> {
        if room < 8 {
            return Err(DropReason::ExceedsMtu);
        }
        Ok(Cuts { next: 0, len, room })
    }
}

impl Iterator for Cuts {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        let left = self.len - self.next;
        if left == 0 {
            return None;
        }
        // Offsets count in 8 bytes, so that only the last piece may have a length between.
        let piece = if left <= self.room { left } else { self.room & !7 };
        let start = self.next;
        self.next += piece;
        Some((start, self.next))
    }
}

/// A packet that holds `parts` one after the other, then changed by `finish`.
fn copy<P: Packet>(
    parts: [&[u8]; 3],
    allocate: &mut impl FnMut() -> Option<P>,
    finish: impl FnOnce(&mut [u8]),
) -> Result<P, DropReason> {
    let mut packet = allocate().ok_or(DropReason::NoBuffer)?;
    if !packet.resize(parts.iter().map(|part| part.len()).sum()) {
        return Err(DropReason::NoBuffer);
    }
    let mut rest = packet.bytes_mut();
    for part in parts {
        let (place, after) = rest.split_at_mut(part.len());
        place.copy_from_slice(part);
        rest = after;
    }
    finish(packet.bytes_mut());
    Ok(packet)
}

/// Takes the IPv4 options out that only the first fragment has (RFC 791 3.1: those without the copied flag). Others
/// stay where they are, so that all headers are equally long; what follows a malformed one goes too.
fn blank_options(options: &mut [u8]) {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const COPIED: u8 = 0x80;
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        match kind {
            END => return,
            NO_OPERATION => at += 1,
            _ => {
                let len = options.get(at + 1).map_or(0, |&len| usize::from(len));
                if len < 2 || at + len > options.len() {
                    options[at..].fill(END);
                    return;
                }
                if kind & COPIED == 0 {
                    options[at..at + len].fill(NO_OPERATION);
                }
                at += len;
            }
        }
    }
}
