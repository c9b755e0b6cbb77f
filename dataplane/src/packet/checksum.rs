//! The Internet checksum: whole (RFC 1071) and by increment (RFC 1624). Every rewrite of a packet goes through
//! here; nothing here reads or writes a packet by itself.
//!
//! A one's complement sum does not care about byte order as long as all its words share one (RFC 1071, 2 B).
//! The sums here add words as the machine loads them, and only the result is turned to host order.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The one's complement sum of `bytes` as big-endian 16-bit words, folded, in host order. An odd last byte
/// counts as if a zero followed. A range that contains its own right checksum sums to 0xffff.
#[inline]
#[must_use]
pub fn sum(bytes: &[u8]) -> u16 {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut total = 0u64;
    for word in words {
        total = add_carry(total, u64::from_ne_bytes(*word));
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        total = add_carry(total, u64::from_ne_bytes(last));
    }
    u16::from_be(fold(total))
}

/// The sum of an IPv4 header without options, as [`sum`] gives it: the straight line that most packets take.
#[inline]
#[must_use]
pub fn sum20(header: &[u8; 20]) -> u16 {
    let [
        a0,
        a1,
        a2,
        a3,
        b0,
        b1,
        b2,
        b3,
        c0,
        c1,
        c2,
        c3,
        d0,
        d1,
        d2,
        d3,
        e0,
        e1,
        e2,
        e3,
    ] = *header;
    // Five 32-bit words cannot overflow 64 bits: no carry to look after.
    let total = u64::from(u32::from_ne_bytes([a0, a1, a2, a3]))
        + u64::from(u32::from_ne_bytes([b0, b1, b2, b3]))
        + u64::from(u32::from_ne_bytes([c0, c1, c2, c3]))
        + u64::from(u32::from_ne_bytes([d0, d1, d2, d3]))
        + u64::from(u32::from_ne_bytes([e0, e1, e2, e3]));
    u16::from_be(fold(total))
}

/// The one's complement sum of two folded sums.
#[inline]
#[must_use]
pub const fn add(a: u16, b: u16) -> u16 {
    let (total, carry) = a.overflowing_add(b);
    total + carry as u16
}

/// The folded sum of the pseudo header of TCP and UDP (RFC 9293 3.1, RFC 768), in host order; `length` is that
/// of the L4 header and its data, in bytes.
#[inline]
#[must_use]
pub fn pseudo_header(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length: u16) -> u16 {
    let total = u64::from(u32::from_ne_bytes(source.octets()))
        + u64::from(u32::from_ne_bytes(destination.octets()))
        + u64::from(u16::from(protocol).to_be())
        + u64::from(length.to_be());
    u16::from_be(fold(total))
}

/// The sum of a whole TCP segment or UDP datagram with its pseudo header: 0xffff when the checksum in it is
/// right; with zeroes in the checksum field, the complement of what belongs there.
#[inline]
#[must_use]
pub fn l4_sum(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, segment: &[u8]) -> u16 {
    // An IPv4 packet holds at most 65,535 bytes, so the cut never bites on a parsed one.
    add(
        pseudo_header(source, destination, protocol, segment.len() as u16),
        sum(segment),
    )
}

/// The folded sum of the IPv6 pseudo header (RFC 8200 8.1), in host order; `length` is that of the L4 header and
/// its data, in bytes, without extension headers.
#[inline]
#[must_use]
pub fn pseudo_header6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, length: u32) -> u16 {
    let addresses = add(sum(&source.octets()), sum(&destination.octets()));
    let total = u64::from(u32::from(protocol).to_be()) + u64::from(length.to_be());
    add(addresses, u16::from_be(fold(total)))
}

/// As [`l4_sum`], over IPv6: TCP, UDP and ICMPv6 alike.
#[inline]
#[must_use]
pub fn l4_sum6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, segment: &[u8]) -> u16 {
    add(
        pseudo_header6(source, destination, protocol, segment.len() as u32),
        sum(segment),
    )
}

/// The change of a checksum that the changes of some 16-bit words cause, collected in any order and applied
/// once. It may be applied to several checksums: that of the addresses to the IP header and to the pseudo
/// header of L4.
///
/// Words, and the checksum it is applied to, must share one byte order: all in host order, or all as the
/// machine loads them from the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delta(u64);

impl Delta {
    /// No change.
    pub const NONE: Delta = Delta(0);

    /// Also changes a 16-bit word, or a folded sum, from `old` to `new`.
    #[inline]
    #[must_use]
    pub const fn word(self, old: u16, new: u16) -> Delta {
        // RFC 1624 eqn. 3: the sum gains the complement of the old word, and the new word. 64 bits hold the
        // sum of 2^31 such pairs of 32 bits: no carry to look after.
        Delta(self.0 + !old as u64 + new as u64)
    }

    /// Also changes an aligned 32-bit word (an address, both ports, a sequence number) from `old` to `new`.
    #[inline]
    #[must_use]
    pub const fn double_word(self, old: u32, new: u32) -> Delta {
        Delta(self.0 + !old as u64 + new as u64)
    }

    /// Both changes together.
    #[inline]
    #[must_use]
    pub const fn and(self, other: Delta) -> Delta {
        Delta(self.0 + other.0)
    }

    /// A change of words in host order as the change of the same words as the machine loads them from a packet: one's
    /// complement sums do not care (RFC 1071, 2 B).
    #[inline]
    #[must_use]
    pub const fn on_the_wire(self) -> Delta {
        Delta(fold(self.0).to_be() as u64)
    }

    /// The checksum of IPv4, TCP or ICMP after the changes.
    #[inline]
    #[must_use]
    pub const fn apply(self, checksum: u16) -> u16 {
        !fold(self.0 + !checksum as u64)
    }

    /// The checksum of UDP after the changes: 0 says that the sender computed none and stays so; a computed 0
    /// is sent as 0xffff (RFC 768).
    #[inline]
    #[must_use]
    pub const fn apply_udp(self, checksum: u16) -> u16 {
        if checksum == 0 {
            return 0;
        }
        match self.apply(checksum) {
            0 => 0xffff,
            computed => computed,
        }
    }
}

/// One's complement addition of 64-bit words: the carry comes in again at the bottom.
#[inline]
const fn add_carry(total: u64, word: u64) -> u64 {
    let (total, carry) = total.overflowing_add(word);
    total + carry as u64
}

/// Brings a sum of words down to 16 bits; zero only comes from zero.
#[inline]
const fn fold(total: u64) -> u16 {
    // Adding both halves to each other in both places leaves, above, their sum with its carry come in again.
    let total = (total.wrapping_add(total.rotate_left(32)) >> 32) as u32;
    (total.wrapping_add(total.rotate_left(16)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 as its first page states it.
    fn naive_sum(bytes: &[u8]) -> u16 {
        let mut total = 0u32;
        for pair in bytes.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624() {
        // Section 4: HC = 0xdd2f, m = 0x5555, m' = 0x3285; eqn. 3 gives 0x0000, where eqn. 2 gave 0xffff.
        assert_eq!(Delta::NONE.word(0x5555, 0x3285).apply(0xdd2f), 0x0000);
        assert_eq!(Delta::NONE.word(0x5555, 0x3285).apply_udp(0xdd2f), 0xffff);
    }

    #[test]
    fn a_recorded_header_sums_to_all_ones() {
        let header = [
            0x45, 0x00, 0x00, 0x21, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x26, 0x67, 0x0a, 0x01, 0x00, 0x01,
            0x0a, 0x00, 0x00, 0x64,
        ];
        assert_eq!(sum20(&header), 0xffff);
        let datagram = [
            0x04, 0x00, 0x00, 0x35, 0x00, 0x0d, 0xa3, 0x67, 0x68, 0x65, 0x6c, 0x6c, 0x6f,
        ];
        assert_eq!(
            l4_sum([10, 1, 0, 1].into(), [10, 0, 0, 100].into(), 17, &datagram),
            0xffff
        );
    }

    /// CSUM-01: a word of the payload runs through all its values, so that the checksum does as well.
    #[test]
    fn udp_checksums_stay_right_and_never_become_zero() {
        let [client, vip] = [[10, 1, 0, 1], [10, 0, 0, 100]].map(Ipv4Addr::from);
        let [local, server] = [[192, 168, 1, 200], [192, 168, 1, 11]].map(Ipv4Addr::from);
        let delta = Delta::NONE
            .double_word(client.to_bits(), local.to_bits())
            .double_word(vip.to_bits(), server.to_bits());
        for value in 0..=u16::MAX {
            let mut datagram = [0x04, 0x00, 0x00, 0x35, 0x00, 0x0a, 0, 0, 0, 0];
            datagram[8..].copy_from_slice(&value.to_be_bytes());
            let sent = match !l4_sum(client, vip, 17, &datagram) {
                0 => 0xffff,
                computed => computed,
            };
            let forwarded = delta.apply_udp(sent);
            assert_ne!(forwarded, 0);
            datagram[6..8].copy_from_slice(&forwarded.to_be_bytes());
            assert_eq!(
                l4_sum(local, server, 17, &datagram),
                0xffff,
                "payload {value:#06x}"
            );
        }
        assert_eq!(delta.apply_udp(0), 0);
    }

    proptest! {
        #[test]
        fn sums_agree_with_the_naive_one(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(sum(&bytes), naive_sum(&bytes));
            if let Some(header) = bytes.first_chunk::<20>() {
                prop_assert_eq!(sum20(header), naive_sum(header));
            }
        }

        #[test]
        fn the_pseudo_header_sums_as_its_bytes(source: [u8; 4], destination: [u8; 4], protocol: u8, length: u16) {
            let [high, low] = length.to_be_bytes();
            let bytes = [&source[..], &destination[..], &[0, protocol, high, low][..]].concat();
            let computed = pseudo_header(source.into(), destination.into(), protocol, length);
            prop_assert_eq!(computed, naive_sum(&bytes));
        }

        #[test]
        fn the_pseudo_header_of_ipv6_sums_as_its_bytes(
            source: [u8; 16],
            destination: [u8; 16],
            protocol: u8,
            length: u32,
            data in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let bytes = |length: u32| {
                [&source[..], &destination, &length.to_be_bytes(), &[0, 0, 0, protocol]].concat()
            };
            let computed = pseudo_header6(source.into(), destination.into(), protocol, length);
            prop_assert_eq!(computed, naive_sum(&bytes(length)));
            let whole = [bytes(data.len() as u32), data.clone()].concat();
            let computed = l4_sum6(source.into(), destination.into(), protocol, &data);
            prop_assert_eq!(computed, naive_sum(&whole));
        }

        /// Any words change, in any order and in either byte order: the increment equals the recomputation.
        #[test]
        fn increments_agree_with_recomputation(
            mut words in proptest::collection::vec(any::<u16>(), 4..40),
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u16>()), 0..12),
            pair: [u16; 2],
        ) {
            let recomputed = |words: &[u16]| !naive_sum(&words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<_>>());
            let both = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
            // The first word stays, and is not zero: only all-zero data, which no header is, has two checksums.
            words[0] |= 0x4000;
            let before = recomputed(&words);
            let (mut delta, mut swapped) = (Delta::NONE, Delta::NONE);
            for (index, new) in changes {
                let at = 1 + index.index(words.len() - 1);
                delta = delta.word(words[at], new);
                swapped = swapped.word(words[at].swap_bytes(), new.swap_bytes());
                words[at] = new;
            }
            let (old, new) = (both(words[2], words[3]), both(pair[0], pair[1]));
            delta = Delta::NONE.double_word(old, new).and(delta);
            swapped = swapped.double_word(old.swap_bytes(), new.swap_bytes());
            words[2..4].copy_from_slice(&pair);
            prop_assert_eq!(delta.apply(before), recomputed(&words));
            prop_assert_eq!(swapped.apply(before.swap_bytes()).swap_bytes(), recomputed(&words));
        }
    }
}
