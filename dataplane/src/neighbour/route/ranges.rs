//! Nested prefixes of one family as disjoint ranges of addresses, each with its hop.

use super::{Hop, Prefix};
use std::net::IpAddr;

/// The ranges; `B` is an address of the family as a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ranges<B> {
    /// First addresses of the ranges, ascending; apart from the hops, so that a search stays in few lines.
    starts: Box<[B]>,
    hops: Box<[Hop]>,
}

/// No route at all.
impl<B> Default for Ranges<B> {
    fn default() -> Ranges<B> {
        Ranges {
            starts: Box::new([]),
            hops: Box::new([]),
        }
    }
}

impl<B: Copy + Ord> Ranges<B> {
    /// The hop of the range that holds `address`.
    pub(super) fn find(&self, address: B) -> Option<&Hop> {
        let behind = self.starts.partition_point(|&start| start <= address);
        self.hops.get(behind.wrapping_sub(1))
    }

    /// Flattens the prefixes of a family whose last address is `last`. Of several hops for one prefix the first
    /// counts.
    pub(super) fn flatten(mut hops: Vec<(Prefix, Hop)>, last: u128, narrow: impl Fn(u128) -> B) -> Ranges<B> {
        // By first address, the widest first, so that each prefix comes after those around it. The sort is
        // stable and keeps the order of equal prefixes.
        hops.sort_by_key(|(prefix, _)| *prefix);
        hops.dedup_by_key(|(prefix, _)| *prefix);
        let mut ranges = vec![(0, Hop::None)];
        // The prefixes around the current address, each with its last address.
        let mut around = vec![(last, Hop::None)];
        for (prefix, hop) in hops {
            let start = bits(prefix.address());
            close(&mut around, &mut ranges, last, Some(start));
            begin(&mut ranges, start, hop);
            around.push((bits(prefix.last()), hop));
        }
        close(&mut around, &mut ranges, last, None);
        ranges.dedup_by_key(|(_, hop)| *hop);
        Ranges {
            starts: ranges.iter().map(|(start, _)| narrow(*start)).collect(),
            hops: ranges.iter().map(|(_, hop)| *hop).collect(),
        }
    }
}

/// The address as a number.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Ends the prefixes that end before `start` (all, when there is none): behind each the one around it goes on,
/// unless it is the family's `last` address that it ends with.
fn close(around: &mut Vec<(u128, Hop)>, ranges: &mut Vec<(u128, Hop)>, last: u128, start: Option<u128>) {
    while around.len() > 1
        && let Some(&(end, _)) = around.last()
        && start.is_none_or(|start| end < start)
    {
        around.pop();
        if let Some(&(_, hop)) = around.last()
            && end < last
        {
            begin(ranges, end + 1, hop);
        }
    }
}

/// A range begins; one that begins at the same place, and so would be empty, gives way to it.
fn begin(ranges: &mut Vec<(u128, Hop)>, start: u128, hop: Hop) {
    match ranges.last_mut() {
        Some(last) if last.0 == start => last.1 = hop,
        _ => ranges.push((start, hop)),
    }
}
