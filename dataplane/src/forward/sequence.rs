//! FULLNAT's care for TCP sequence numbers: what the server has been shown is remembered, and a connection on a
//! recycled local port is shown to the server with other sequence numbers than its client uses.

use crate::flow::{Direction, Flags, Record};
use crate::packet::{Headers, tcp};

/// Notes what the server is shown by a segment from the client, and shifts sequence numbers where the connection
/// has a shift: the client's on their way in, acknowledgements and SACK blocks (RFC 2018) on their way out.
#[inline]
pub fn adjust(frame: &mut [u8], headers: &Headers, record: &mut Record, direction: Direction) {
    let Some(segment) = frame.get_mut(usize::from(headers.l4)..usize::from(headers.end)) else { return };
    if record.sequence_shift != 0 || record.flags.has(Flags::STRIP_TIMESTAMPS) {
        shift(segment, headers, record, direction);
    }
    if direction == Direction::Inbound {
        let end = tcp::sequence_end(segment);
        let first = headers.tcp_flags & tcp::SYN != 0;
        if first || end.wrapping_sub(record.sequence) <= u32::MAX / 2 {
            record.sequence = end;
        }
    }
}

#[cold]
#[inline(never)]
fn shift(segment: &mut [u8], headers: &Headers, record: &Record, direction: Direction) {
    match direction {
        Direction::Inbound => {
            tcp::add_to_sequence(segment, record.sequence_shift);
            if headers.tcp_flags & tcp::SYN != 0 && record.flags.has(Flags::STRIP_TIMESTAMPS) {
                // A SYN without timestamps is answered without, and so the whole connection has none.
                tcp::strip_timestamps(segment);
            }
        }
        Direction::Outbound => tcp::subtract_from_acknowledgement(segment, record.sequence_shift),
    }
}
