//! How far both ends of a TCP connection are, so that a reset can be made that they accept: only one whose sequence
//! number is the next that an end expects closes the connection at once (RFC 5961 3.2).

use super::record::Direction;
use bytemuck::{Pod, Zeroable};

/// What was seen of both ends' sequence numbers. Zeroed, nothing was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Sequences {
    client: End,
    server: End,
}

/// What one end has said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
struct End {
    /// The number after the last that it has sent.
    next: u32,
    /// The last acknowledgement number that it has sent: what it expects next.
    expected: u32,
    /// [`SENT`] and [`ACKNOWLEDGED`].
    seen: u8,
    unused: [u8; 3],
}

/// The end has sent a segment.
const SENT: u8 = 1;
/// One of them had an acknowledgement number.
const ACKNOWLEDGED: u8 = 2;

/// The numbers of resets to one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResetAt {
    /// The sequence number that it expects next, by what it has acknowledged.
    pub expected: Option<u32>,
    /// The sequence number that it expects next, if it has got all that the other end has sent.
    pub sent: Option<u32>,
    /// The acknowledgement number: what it has sent, as far as was seen.
    pub acknowledgement: u32,
}

impl Sequences {
    /// Notes a segment that goes this way: the number after its end, and its acknowledgement number, if it has one.
    /// Both as its sender wrote them.
    #[inline]
    pub fn note(&mut self, direction: Direction, next: u32, acknowledgement: Option<u32>) {
        let end = match direction {
            Direction::Inbound => &mut self.client,
            Direction::Outbound => &mut self.server,
        };
        if end.seen & SENT == 0 || is_after(next, end.next) {
            end.next = next;
            end.seen |= SENT;
        }
        if let Some(expected) = acknowledgement
            && (end.seen & ACKNOWLEDGED == 0 || is_after(expected, end.expected))
        {
            end.expected = expected;
            end.seen |= ACKNOWLEDGED;
        }
    }

    /// The numbers of resets to the end that packets of this direction arrive at. All are as that end's own segments or
    /// the other's had them; of an end that was never seen, what the other has acknowledged stands for what it has sent.
    #[must_use]
    pub fn reset(&self, towards: Direction) -> ResetAt {
        let (from, to) = match towards {
            Direction::Inbound => (&self.client, &self.server),
            Direction::Outbound => (&self.server, &self.client),
        };
        let has = |end: &End, what| end.seen & what != 0;
        ResetAt {
            expected: has(to, ACKNOWLEDGED).then_some(to.expected),
            sent: has(from, SENT).then_some(from.next),
            acknowledgement: if has(to, SENT) { to.next } else { from.expected },
        }
    }
}

/// Whether a sequence number lies after another (RFC 9293 3.4).
fn is_after(one: u32, other: u32) -> bool {
    let distance = one.wrapping_sub(other);
    distance != 0 && distance <= u32::MAX / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Inbound, Outbound};

    fn at(expected: Option<u32>, sent: Option<u32>, acknowledgement: u32) -> ResetAt {
        ResetAt {
            expected,
            sent,
            acknowledgement,
        }
    }

    #[test]
    fn a_reset_is_what_an_end_expects_next() {
        let mut known = Sequences::default();
        assert_eq!(known.reset(Inbound), at(None, None, 0));
        known.note(Inbound, 101, None);
        assert_eq!(known.reset(Outbound), at(None, None, 101));
        assert_eq!(known.reset(Inbound), at(None, Some(101), 0));
        known.note(Outbound, 501, Some(101));
        known.note(Inbound, 101, Some(501));
        assert_eq!(known.reset(Inbound), at(Some(101), Some(101), 501));
        assert_eq!(known.reset(Outbound), at(Some(501), Some(501), 101));
        // Data under way: the server may have it, or not.
        known.note(Inbound, 201, Some(501));
        assert_eq!(known.reset(Inbound), at(Some(101), Some(201), 501));
        assert_eq!(known.reset(Outbound), at(Some(501), Some(501), 201));
    }

    #[test]
    fn numbers_only_move_forward_and_wrap() {
        let mut known = Sequences::default();
        known.note(Inbound, u32::MAX, Some(u32::MAX - 5));
        known.note(Inbound, 10, Some(5));
        known.note(Inbound, u32::MAX - 100, Some(u32::MAX));
        assert_eq!(known.reset(Outbound), at(Some(5), None, 10));
    }

    #[test]
    fn without_the_servers_segments_the_clients_tell_of_both() {
        let mut known = Sequences::default();
        known.note(Inbound, 101, None);
        known.note(Inbound, 151, Some(501));
        assert_eq!(known.reset(Inbound), at(None, Some(151), 501));
        assert_eq!(known.reset(Outbound), at(Some(501), None, 151));
    }
}
