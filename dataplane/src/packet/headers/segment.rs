//! L4 headers as the parser sees them, over either family: that they are whole, and what of them later stages
//! want to know.

use super::super::{checksum, sctp, udp};
use crate::drops::DropReason;

/// What the parser takes from an L4 header.
pub(super) struct Segment {
    /// [`super::Headers::l4_flags`].
    pub(super) flags: u8,
    /// The bytes that the checksum covers, from the header's first on.
    pub(super) length: usize,
    /// The checksum field, in host order; 0 for SCTP, whose checksum is another one.
    pub(super) sum: u16,
}

impl Segment {
    /// Of a protocol that has neither flags nor a checksum that the parser looks at.
    pub(super) const UNSUMMED: Segment = Segment {
        flags: 0,
        length: 0,
        sum: 0,
    };
}

/// TCP (RFC 9293 3.1): the options end inside the packet.
#[inline(always)]
pub(super) fn tcp(segment: &[u8]) -> Result<Segment, DropReason> {
    let Some(header) = segment.first_chunk::<20>() else {
        return Err(DropReason::BadL4Header);
    };
    let data_offset = usize::from(header[12] >> 4) * 4;
    if data_offset < 20 || data_offset > segment.len() {
        return Err(DropReason::BadL4Header);
    }
    Ok(Segment {
        flags: header[13],
        length: segment.len(),
        sum: u16::from_be_bytes([header[16], header[17]]),
    })
}

/// UDP (RFC 768): the datagram may end before the IP packet does.
#[inline(always)]
pub(super) fn udp(segment: &[u8]) -> Result<Segment, DropReason> {
    let Some(header) = segment.first_chunk::<{ udp::HEADER_LEN }>() else {
        return Err(DropReason::BadL4Header);
    };
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if length < udp::HEADER_LEN || length > segment.len() {
        return Err(DropReason::BadL4Header);
    }
    Ok(Segment {
        flags: 0,
        length,
        sum: u16::from_be_bytes([header[6], header[7]]),
    })
}

/// SCTP (RFC 9260 3.1). Out of line: its chunks are walked over, and it is rare beside the others. With
/// `check_partial`, a checksum of 0 is looked at: that is what a sender leaves to an offload.
#[cold]
#[inline(never)]
pub(super) fn sctp(segment: &[u8], check_partial: bool) -> Result<Segment, DropReason> {
    if segment.len() < sctp::HEADER_LEN {
        return Err(DropReason::BadL4Header);
    }
    if check_partial && segment[8..sctp::HEADER_LEN] == [0; 4] && !sctp::is_right(segment) {
        return Err(DropReason::PartialChecksum);
    }
    Ok(Segment {
        flags: sctp::event(segment) as u8,
        length: segment.len(),
        sum: 0,
    })
}

/// Refuses a segment in whose checksum field only the pseudo header's sum stands, as an offload wants to find
/// it, unless that is right: one valid packet in 65,536 has this very checksum.
#[inline(always)]
pub(super) fn partial_checksum(pseudo: u16, segment: &[u8], field: u16) -> Result<(), DropReason> {
    if field == pseudo && is_wrong(pseudo, segment) {
        return Err(DropReason::PartialChecksum);
    }
    Ok(())
}

/// Whether the checksum in a whole segment is wrong. Cold: asked of one right packet in 65,536.
#[cold]
#[inline(never)]
fn is_wrong(pseudo: u16, segment: &[u8]) -> bool {
    checksum::add(pseudo, checksum::sum(segment)) != 0xffff
}
