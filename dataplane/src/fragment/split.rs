//! Cuts packets that are too long for their way out into fragments (RFC 791 3.2, RFC 8200 4.5). The transmit stage
//! calls it. Whether a packet may be cut at all is the caller's to know: nothing here looks at "don't fragment".
//!
//! The pieces are as long as the limit allows, but for the last one, as the kernel cuts; so a packet that was put
//! together from fragments leaves by the same cuts when the limit is the length of the longest of them.

#[cfg(test)]
mod tests;

use super::{L3, chain};
use crate::drops::DropReason;
use crate::packet::ipv6::Chain;
use crate::packet::{Packet, ipv4, ipv6};

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

/// The limit for [`split6`], as [`limit4`]: what came in fragments smaller than IPv6's least MTU leaves so as well.
#[inline]
#[must_use]
pub fn limit6(mtu: u16, largest_fragment: u16) -> u16 {
    limit4(mtu, largest_fragment)
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
    let Some((header, data)) = parts4(frame) else {
        return Err(DropReason::BadIpHeader);
    };
    if header.len() + data.len() - L3 <= usize::from(limit) {
        out(copy([header, data, &[]], &mut allocate, |_| {})?);
        return Ok(1);
    }
    let (first, more_follow) = (
        ipv4::fragment_offset(&frame[L3..]),
        ipv4::more_fragments(&frame[L3..]),
    );
    let cuts = Cuts::new(data.len(), usize::from(limit).saturating_sub(header.len() - L3))?;
    let mut count = 0;
    for (start, end) in cuts {
        let more = end < data.len() || more_follow;
        out(copy([header, &data[start..end], &[]], &mut allocate, |frame| {
            let packet = &mut frame[L3..];
            if start > 0 {
                blank_options(&mut packet[ipv4::HEADER_LEN..header.len() - L3]);
            }
            // A datagram is shorter than 65,536 bytes.
            ipv4::set_fragment(
                packet,
                packet.len() as u16,
                first.saturating_add(start as u16),
                more,
            );
        })?);
        count += 1;
    }
    Ok(count)
}

/// Cuts an IPv6 packet that is no fragment, as [`split4`] does. `identification` is in host order; it should not come
/// again for the same addresses while older fragments may be under way.
///
/// # Errors
/// As [`split4`].
pub fn split6<P: Packet>(
    packet: &P,
    identification: u32,
    limit: u16,
    mut allocate: impl FnMut() -> Option<P>,
    mut out: impl FnMut(P),
) -> Result<usize, DropReason> {
    let frame = packet.bytes();
    let Some((header, data, chain)) = parts6(frame) else {
        return Err(DropReason::BadIpHeader);
    };
    if header.len() + data.len() - L3 <= usize::from(limit) {
        out(copy([header, data, &[]], &mut allocate, |_| {})?);
        return Ok(1);
    }
    let room = usize::from(limit).saturating_sub(chain.at + ipv6::FRAGMENT_LEN);
    let mut count = 0;
    for (start, end) in Cuts::new(data.len(), room)? {
        let mut fragment = [0; ipv6::FRAGMENT_LEN];
        ipv6::Fragment {
            next_header: chain.protocol,
            offset: start as u16,
            more: end < data.len(),
            identification,
        }
        .write(&mut fragment);
        out(copy(
            [header, &fragment, &data[start..end]],
            &mut allocate,
            |frame| {
                let packet = &mut frame[L3..];
                packet[chain.named_at] = ipv6::FRAGMENT;
                ipv6::set_payload_len(packet, (packet.len() - ipv6::HEADER_LEN) as u16);
            },
        )?);
        count += 1;
    }
    Ok(count)
}

/// The headers of a frame with an IPv4 packet, and what the packet carries; nothing of the link's padding.
fn parts4(frame: &[u8]) -> Option<(&[u8], &[u8])> {
    let packet = frame.get(L3..)?;
    let header = packet.first_chunk::<{ ipv4::HEADER_LEN }>()?;
    let header_len = ipv4::header_len(header);
    let total_len = ipv4::total_len(header);
    let fits = (ipv4::HEADER_LEN..=total_len).contains(&header_len);
    frame
        .get(..L3 + total_len)
        .filter(|_| fits)?
        .split_at_checked(L3 + header_len)
}

/// The headers of a frame with an IPv6 packet that are in every fragment, what is cut, and where the line between
/// them is.
fn parts6(frame: &[u8]) -> Option<(&[u8], &[u8], Chain)> {
    let header = frame.get(L3..)?.first_chunk::<{ ipv6::HEADER_LEN }>()?;
    let frame = frame.get(..L3 + ipv6::total_len(header))?;
    let chain = chain::repeated(&frame[L3..]);
    let (header, data) = frame.split_at_checked(L3 + chain.at)?;
    Some((header, data, chain))
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
