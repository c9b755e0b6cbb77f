//! Options that are looked at or changed on few connections only: timestamps, SACK blocks, fast open. As all of
//! [`super`], over a segment of a parsed packet, with the change of its words for the checksum.

use super::super::checksum::Delta;
use super::super::wire;
use super::{NOP, SACK, TIMESTAMPS, Walk, blank, change_options, options};

/// Fast open (RFC 7413 4.1.1), and its form of before: an experiment's kind with a number of its own (RFC 6994 3).
const FAST_OPEN: u8 = 34;
const EXPERIMENT: u8 = 254;
const FAST_OPEN_NUMBER: u16 = 0xf989;
/// Bytes of a SACK block: both edges (RFC 2018 3).
const BLOCK: usize = 8;

/// TSval and TSecr of the timestamps option (RFC 7323 3.2), in host order.
#[must_use]
pub fn timestamps(segment: &[u8]) -> Option<[u32; 2]> {
    let options = options(segment);
    Walk::over(options)
        .find(|option| option.kind == TIMESTAMPS && option.len == 10)
        .map(|option| [2, 6].map(|at| wire::get_u32(options, option.at + at)))
}

/// Whether the segment reports at least one SACK block.
#[must_use]
pub fn has_sack(segment: &[u8]) -> bool {
    Walk::over(options(segment)).any(|option| option.kind == SACK && option.len >= 2 + BLOCK)
}

/// Takes those SACK blocks out whose left edge `goes` names; NOPs fill their place, so that no length changes.
#[must_use]
pub fn drop_sack(segment: &mut [u8], goes: impl Fn(u32) -> bool) -> Delta {
    change_options(segment, SACK, |option| {
        let len = option.len();
        let mut kept = 2;
        let mut at = 2;
        while at + BLOCK <= len {
            if !goes(wire::get_u32(option, at)) {
                option.copy_within(at..at + BLOCK, kept);
                kept += BLOCK;
            }
            at += BLOCK;
        }
        // Nothing to take out: what is no whole block stays too.
        if kept == at {
            return;
        }
        if kept == 2 {
            kept = 0;
        } else {
            option[1] = kept as u8;
        }
        option[kept..].fill(NOP);
    })
}

/// Overwrites a request for fast open by NOPs, in both of its forms, so that whoever gets the SYN takes no data with it.
#[must_use]
pub fn strip_fast_open(segment: &mut [u8]) -> Delta {
    blank(segment, FAST_OPEN).and(change_options(segment, EXPERIMENT, |option| {
        if option.len() >= 4 && wire::get_u16(option, 2) == FAST_OPEN_NUMBER {
            option.fill(NOP);
        }
    }))
}

#[cfg(test)]
mod tests;
