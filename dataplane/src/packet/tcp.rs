//! The TCP header and its options (RFC 9293 3.1). Functions take the segment from the header's first byte to
//! the IP packet's end, and panic on one below [`HEADER_LEN`], which no parsed packet is. Nothing here writes
//! the checksum by itself: changes come back as a [`Delta`] of host-order words, to be applied once.

use super::checksum::{self, Delta};
use super::wire;

mod cut;
mod insert;
mod options;

pub use cut::cut_data;
pub use insert::insert_option;
pub use options::{drop_sack, has_sack, strip_fast_open, timestamps};

/// The length of a header without options, in bytes.
pub const HEADER_LEN: usize = 20;
/// Flag: the sender has no more data.
pub const FIN: u8 = 0x01;
/// Flag: sequence numbers are synchronised; opens a connection.
pub const SYN: u8 = 0x02;
/// Flag: the connection is reset.
pub const RST: u8 = 0x04;
/// Flag: push.
pub const PSH: u8 = 0x08;
/// Flag: the acknowledgement number counts.
pub const ACK: u8 = 0x10;
/// Flag: the urgent pointer counts.
pub const URG: u8 = 0x20;

const SEQUENCE: usize = 4;
const ACKNOWLEDGEMENT: usize = 8;
pub(super) const DATA_OFFSET: usize = 12;
const FLAGS: usize = 13;
pub(super) const WINDOW: usize = 14;
pub(super) const CHECKSUM: usize = 16;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// The sequence number.
#[inline]
#[must_use]
pub fn sequence(segment: &[u8]) -> u32 {
    wire::get_u32(segment, SEQUENCE)
}

/// The acknowledgement number; it means something only beside [`ACK`].
#[inline]
#[must_use]
pub fn acknowledgement(segment: &[u8]) -> u32 {
    wire::get_u32(segment, ACKNOWLEDGEMENT)
}

/// Sets the sequence number.
#[inline]
#[must_use]
pub fn set_sequence(segment: &mut [u8], value: u32) -> Delta {
    let old = sequence(segment);
    wire::put_u32(segment, SEQUENCE, value);
    Delta::NONE.double_word(old, value)
}

/// Sets the acknowledgement number.
#[inline]
#[must_use]
pub fn set_acknowledgement(segment: &mut [u8], value: u32) -> Delta {
    let old = acknowledgement(segment);
    wire::put_u32(segment, ACKNOWLEDGEMENT, value);
    Delta::NONE.double_word(old, value)
}

/// The flags.
#[inline]
#[must_use]
pub fn flags(segment: &[u8]) -> u8 {
    segment[FLAGS]
}

/// The window, as on the wire: unscaled.
#[inline]
#[must_use]
pub fn window(segment: &[u8]) -> u16 {
    wire::get_u16(segment, WINDOW)
}

/// The header's length in bytes as it says itself, options included: the offset of the data.
#[inline]
#[must_use]
pub fn data_offset(segment: &[u8]) -> usize {
    usize::from(segment[DATA_OFFSET] >> 4) * 4
}

/// How many bytes of data the segment carries.
#[inline]
#[must_use]
pub fn payload_len(segment: &[u8]) -> usize {
    segment.len().saturating_sub(data_offset(segment))
}

/// How far the segment moves the sequence number: its data, and one each for SYN and FIN (RFC 9293 3.4).
#[inline]
#[must_use]
pub fn sequence_len(segment: &[u8]) -> u32 {
    let flags = flags(segment);
    payload_len(segment) as u32 + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0)
}

/// Updates the checksum by a change of words in host order.
#[inline]
pub fn apply(segment: &mut [u8], delta: Delta) {
    let checksum = delta.apply(wire::get_u16(segment, CHECKSUM));
    wire::put_u16(segment, CHECKSUM, checksum);
}

/// As [`apply`], by a change of words as they are on the wire.
#[inline]
pub fn apply_wire(segment: &mut [u8], delta: Delta) {
    let checksum = delta.apply(wire::load_u16(segment, CHECKSUM));
    wire::store_u16(segment, CHECKSUM, checksum);
}

/// The maximum segment size that the segment, a SYN, announces in bytes (RFC 9293 3.7.1).
#[must_use]
pub fn mss(segment: &[u8]) -> Option<u16> {
    let options = options(segment);
    Walk::over(options)
        .find(|option| option.kind == MSS && option.len == 4)
        .map(|option| wire::get_u16(options, option.at + 2))
}

/// Lowers the maximum segment size that a SYN announces to `most` bytes (RFC 9293 3.7.1). It never raises one, and
/// adds none: a host that announces nothing is sent 536 bytes at most, or 1220 over IPv6. Segments without SYN, and
/// options of a wrong length, are left alone.
#[must_use]
pub fn clamp_mss(segment: &mut [u8], most: u16) -> Delta {
    let options = options(segment);
    let too_large = |option: TcpOption| {
        option.kind == MSS && option.len == 4 && wire::get_u16(options, option.at + 2) > most
    };
    if flags(segment) & SYN == 0 || !Walk::over(options).any(too_large) {
        return Delta::NONE;
    }
    change_options(segment, MSS, |option| {
        if option.len() == 4 {
            let value = wire::get_u16(option, 2).min(most);
            wire::put_u16(option, 2, value);
        }
    })
}

/// Lowers the maximum segment size that a SYN announces by `by` bytes, to make room for what the other side's
/// segments get on their way. One that is as small already becomes 1. As [`clamp_mss`] for what is left alone.
#[must_use]
pub fn lower_mss(segment: &mut [u8], by: u16) -> Delta {
    if flags(segment) & SYN == 0 {
        return Delta::NONE;
    }
    change_options(segment, MSS, |option| {
        if option.len() == 4 {
            let value = wire::get_u16(option, 2).saturating_sub(by).max(1);
            wire::put_u16(option, 2, value);
        }
    })
}

/// Overwrites a timestamps option (RFC 7323) by NOPs, so that no length changes.
#[must_use]
pub fn strip_timestamps(segment: &mut [u8]) -> Delta {
    blank(segment, TIMESTAMPS)
}

/// Overwrites every option of a kind by NOPs, so that no length changes.
#[must_use]
pub fn blank(segment: &mut [u8], kind: u8) -> Delta {
    change_options(segment, kind, |option| option.fill(NOP))
}

/// Adds `shift` to both edges of every SACK block (RFC 2018), modulo 2^32: the answer's half of a shift of
/// sequence numbers. A block cut short by a wrong option length stays.
#[must_use]
pub fn shift_sack(segment: &mut [u8], shift: u32) -> Delta {
    change_options(segment, SACK, |option| {
        let blocks = option.get_mut(2..).unwrap_or(&mut []);
        for block in blocks.chunks_exact_mut(8) {
            for edge in [0, 4] {
                let value = wire::get_u32(block, edge).wrapping_add(shift);
                wire::put_u32(block, edge, value);
            }
        }
    })
}

/// Lets `change` rewrite each option of one kind in place.
fn change_options(segment: &mut [u8], kind: u8, change: impl Fn(&mut [u8])) -> Delta {
    let end = data_offset(segment).clamp(HEADER_LEN, segment.len());
    let options = &mut segment[HEADER_LEN..end];
    let mut walk = Walk::default();
    let mut before = None;
    while let Some(option) = walk.step(options) {
        if option.kind == kind {
            // Options stand at odd places as well: the sum of all is simpler than words across two of them.
            before.get_or_insert_with(|| checksum::sum(options));
            change(&mut options[option.at..option.at + option.len]);
        }
    }
    match before {
        Some(before) => Delta::NONE.word(before, checksum::sum(options)),
        None => Delta::NONE,
    }
}

/// The options' bytes.
fn options(segment: &[u8]) -> &[u8] {
    let end = data_offset(segment).clamp(HEADER_LEN, segment.len());
    &segment[HEADER_LEN..end]
}

/// An option: its kind, where it stands among the options, and its length with kind and length bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct TcpOption {
    kind: u8,
    at: usize,
    len: usize,
}

/// Walks over options; NOPs are not shown. It ends at the end of list, and at the first option whose length
/// cannot be: each step moves on by at least one of at most 40 bytes.
#[derive(Default)]
struct Walk {
    at: usize,
}

impl Walk {
    fn over(options: &[u8]) -> impl Iterator<Item = TcpOption> + '_ {
        let mut walk = Walk::default();
        std::iter::from_fn(move || walk.step(options))
    }

    fn step(&mut self, options: &[u8]) -> Option<TcpOption> {
        loop {
            let at = self.at;
            match *options.get(at)? {
                END => return None,
                NOP => self.at += 1,
                kind => {
                    let len = usize::from(*options.get(at + 1)?);
                    if len < 2 || len > options.len() - at {
                        return None;
                    }
                    self.at += len;
                    return Some(TcpOption { kind, at, len });
                }
            }
        }
    }
}

/// Writes a header without options, data or window, with ports 0 and checksum 0.
pub(super) fn write_bare(segment: &mut [u8], sequence: u32, acknowledgement: u32, flags: u8) {
    segment[..HEADER_LEN].fill(0);
    wire::put_u32(segment, SEQUENCE, sequence);
    wire::put_u32(segment, ACKNOWLEDGEMENT, acknowledgement);
    segment[DATA_OFFSET] = 0x50;
    segment[FLAGS] = flags;
}

#[cfg(test)]
mod tests;
