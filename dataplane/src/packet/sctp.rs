//! The SCTP header, its chunks and its checksum (RFC 9260 3). The parser and the state machine ask what a packet
//! is, the forwarding modes rewrite ports and addresses in it. Functions take the segment from the header's
//! first byte to the IP packet's end, and panic on one below [`HEADER_LEN`], which no parsed packet is; the
//! lengths inside it are never trusted. Verification tags are the ends' own: the gateway only reads them.

mod parameters;

use super::wire;

pub use parameters::pad_addresses;

/// The length of the common header in bytes.
pub const HEADER_LEN: usize = 12;
/// The length of a chunk's header in bytes: type, flags and length.
pub const CHUNK_HEADER_LEN: usize = 4;

const VERIFICATION_TAG: usize = 4;
const CHECKSUM: usize = 8;

/// Chunk type: user data.
pub const DATA: u8 = 0;
/// Chunk type: opens an association.
pub const INIT: u8 = 1;
/// Chunk type: the answer to INIT, with a cookie.
pub const INIT_ACK: u8 = 2;
/// Chunk type: the association is aborted.
pub const ABORT: u8 = 6;
/// Chunk type: the sender has no more data.
pub const SHUTDOWN: u8 = 7;
/// Chunk type: the answer to SHUTDOWN.
pub const SHUTDOWN_ACK: u8 = 8;
/// Chunk type: an error that does not end the association.
pub const ERROR: u8 = 9;
/// Chunk type: the cookie comes back.
pub const COOKIE_ECHO: u8 = 10;
/// Chunk type: the answer to COOKIE ECHO.
pub const COOKIE_ACK: u8 = 11;
/// Chunk type: the answer to SHUTDOWN ACK.
pub const SHUTDOWN_COMPLETE: u8 = 14;

/// What a packet is to the state machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum Event {
    /// DATA, and every chunk that changes no state: SACK, HEARTBEAT, and types that are not known.
    #[default]
    Data = 0,
    /// INIT.
    Init = 1,
    /// INIT ACK.
    InitAck = 2,
    /// COOKIE ECHO.
    CookieEcho = 3,
    /// COOKIE ACK.
    CookieAck = 4,
    /// SHUTDOWN.
    Shutdown = 5,
    /// SHUTDOWN ACK.
    ShutdownAck = 6,
    /// SHUTDOWN COMPLETE.
    ShutdownComplete = 7,
    /// ERROR.
    Error = 8,
    /// ABORT.
    Abort = 9,
    /// The packet has no chunk, or not the whole header of its first one.
    None = 10,
}

impl Event {
    /// Every event, in the order of their numbers.
    pub const ALL: [Event; 11] = [
        Event::Data,
        Event::Init,
        Event::InitAck,
        Event::CookieEcho,
        Event::CookieAck,
        Event::Shutdown,
        Event::ShutdownAck,
        Event::ShutdownComplete,
        Event::Error,
        Event::Abort,
        Event::None,
    ];

    /// The event of this number, as [`super::Headers::l4_flags`] holds it; unknown numbers are [`Event::None`].
    #[inline]
    #[must_use]
    pub fn from_number(number: u8) -> Event {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Event::None)
    }

    const fn of_chunk(kind: u8) -> Event {
        match kind {
            INIT => Event::Init,
            INIT_ACK => Event::InitAck,
            ABORT => Event::Abort,
            SHUTDOWN => Event::Shutdown,
            SHUTDOWN_ACK => Event::ShutdownAck,
            ERROR => Event::Error,
            COOKIE_ECHO => Event::CookieEcho,
            COOKIE_ACK => Event::CookieAck,
            SHUTDOWN_COMPLETE => Event::ShutdownComplete,
            _ => Event::Data,
        }
    }
}

/// The verification tag, in host order; 0 in a packet that opens an association.
#[inline]
#[must_use]
pub fn verification_tag(segment: &[u8]) -> u32 {
    wire::get_u32(segment, VERIFICATION_TAG)
}

/// The initiate tag of a packet whose first chunk is INIT or INIT ACK, in host order: the verification tag of
/// every packet to its sender, an ABORT in answer to it included (RFC 9260 8.4).
#[must_use]
pub fn initiate_tag(segment: &[u8]) -> Option<u32> {
    let init = Chunks::of(segment).next()?;
    (matches!(init.kind, INIT | INIT_ACK) && init.end - init.at >= 8)
        .then(|| wire::get_u32(segment, init.at + CHUNK_HEADER_LEN))
}

/// What the packet is to the state machine: its first chunk. An ABORT right behind a COOKIE ECHO or COOKIE ACK
/// counts instead, as it does for the kernel: these two are sent with others behind them.
#[must_use]
pub fn event(segment: &[u8]) -> Event {
    // The length of the first chunk does not matter unless there may be another that does.
    if segment.len() < HEADER_LEN + CHUNK_HEADER_LEN {
        return Event::None;
    }
    match Event::of_chunk(segment[HEADER_LEN]) {
        event @ (Event::CookieEcho | Event::CookieAck) => match Chunks::of(segment).nth(1) {
            Some(second) if second.kind == ABORT => Event::Abort,
            _ => event,
        },
        event => event,
    }
}

/// Whether any chunk has this type: an ABORT anywhere forbids an answer (RFC 9260 8.4).
#[must_use]
pub fn has_chunk(segment: &[u8], kind: u8) -> bool {
    Chunks::of(segment).any(|chunk| chunk.kind == kind)
}

/// A chunk within its segment, cut at the segment's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Chunk {
    kind: u8,
    /// Where its header begins.
    at: usize,
    /// Where its value ends, without padding.
    end: usize,
}

/// Walks over chunks. It ends at the segment's end, and behind a chunk whose length cannot be: each step moves
/// on by at least a chunk header.
struct Chunks<'a> {
    segment: &'a [u8],
    at: usize,
}

impl Chunks<'_> {
    fn of(segment: &[u8]) -> Chunks<'_> {
        Chunks {
            segment,
            at: HEADER_LEN,
        }
    }
}

impl Iterator for Chunks<'_> {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        let at = self.at;
        let header = self.segment.get(at..at + CHUNK_HEADER_LEN)?;
        let len = usize::from(wire::get_u16(header, 2));
        let end = (at + len).clamp(at + CHUNK_HEADER_LEN, self.segment.len());
        self.at = if len < CHUNK_HEADER_LEN {
            self.segment.len()
        } else {
            at + len.next_multiple_of(4)
        };
        Some(Chunk {
            kind: header[0],
            at,
            end,
        })
    }
}

/// The CRC32c of the segment with a checksum field of 0 (RFC 9260 6.8).
#[must_use]
pub fn checksum(segment: &[u8]) -> u32 {
    let before = crc32c::crc32c(&segment[..CHECKSUM]);
    let zero = crc32c::crc32c_append(before, &[0; 4]);
    crc32c::crc32c_append(zero, &segment[HEADER_LEN..])
}

/// Whether the checksum is that of the segment.
#[must_use]
pub fn is_right(segment: &[u8]) -> bool {
    let field = &segment[CHECKSUM..HEADER_LEN];
    field == checksum(segment).to_le_bytes()
}

/// Computes the checksum anew; a CRC has no way to follow a change of a few bytes that is cheaper than that.
/// Addresses are no part of it. It is the one field in little-endian order: RFC 9260 appendix A sends the bits
/// in the order in which Ethernet's CRC would.
pub fn set_checksum(segment: &mut [u8]) {
    let checksum = checksum(segment);
    segment[CHECKSUM..HEADER_LEN].copy_from_slice(&checksum.to_le_bytes());
}

#[cfg(test)]
mod tests;
