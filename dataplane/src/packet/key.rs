//! The flow key: whose packet this is. The parser builds it, the connection table hashes and compares it; it
//! knows nothing of protocols, and never checks what it is given.

use std::fmt;
use std::net::Ipv4Addr;

use bytemuck::{Pod, Zeroable};

/// Source address, destination address, source port and destination port: 12 bytes in the order and the byte
/// order of the wire, so that a key is three loads from a packet, and comparing two is one 8-byte and one
/// 4-byte compare. The protocol is not part of it: lookups carry that beside the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Pod, Zeroable)]
#[repr(C)]
pub struct FlowKey {
    /// Source address, destination address, ports (source first): wire bytes, as the machine loads them.
    words: [u32; 3],
}

const _: () = assert!(size_of::<FlowKey>() == 12 && align_of::<FlowKey>() == 4);

impl FlowKey {
    /// No flow: all zero.
    pub const NONE: FlowKey = FlowKey { words: [0; 3] };

    /// The key of a packet from `source` to `destination`; ports in host order.
    #[inline]
    #[must_use]
    pub const fn new(
        source: Ipv4Addr,
        source_port: u16,
        destination: Ipv4Addr,
        destination_port: u16,
    ) -> FlowKey {
        let [s0, s1] = source_port.to_be_bytes();
        let [d0, d1] = destination_port.to_be_bytes();
        FlowKey {
            words: [
                u32::from_ne_bytes(source.octets()),
                u32::from_ne_bytes(destination.octets()),
                u32::from_ne_bytes([s0, s1, d0, d1]),
            ],
        }
    }

    /// The key from the bytes of a packet: both addresses of the IPv4 header (its bytes 12 to 19), and the
    /// first four bytes of TCP or UDP, or zeroes where a protocol has no ports.
    #[inline]
    #[must_use]
    pub const fn from_wire(addresses: &[u8; 8], ports: &[u8; 4]) -> FlowKey {
        let [s0, s1, s2, s3, d0, d1, d2, d3] = *addresses;
        FlowKey {
            words: [
                u32::from_ne_bytes([s0, s1, s2, s3]),
                u32::from_ne_bytes([d0, d1, d2, d3]),
                u32::from_ne_bytes(*ports),
            ],
        }
    }

    /// The key of an IPv6 packet: `digest` is [`super::AddressDigest::of`] its addresses, `ports` the first four
    /// bytes of its L4 header. It can never equal an IPv4 packet's: its source address would be in 0.0.0.0/8,
    /// where no packet comes from (RFC 1122 3.2.1.3).
    #[inline]
    #[must_use]
    pub const fn of_v6(digest: u64, ports: [u8; 4]) -> FlowKey {
        let [d0, d1, d2, d3, d4, d5, d6, _] = digest.to_ne_bytes();
        FlowKey {
            words: [
                u32::from_ne_bytes([0, d0, d1, d2]),
                // Never all zero, which would be no key.
                u32::from_ne_bytes([d3 | 1, d4, d5, d6]),
                u32::from_ne_bytes(ports),
            ],
        }
    }

    /// Whether this is an IPv6 packet's key, whose addresses are only known as a digest.
    #[inline]
    #[must_use]
    pub const fn is_v6(&self) -> bool {
        let [first, ..] = self.words[0].to_ne_bytes();
        first == 0 && self.words[1] != 0
    }

    /// The three words as the machine loads them from the wire: source address, destination address, ports.
    /// For hashing and for checksum deltas; their value depends on the machine's byte order.
    #[inline]
    #[must_use]
    pub const fn words(&self) -> [u32; 3] {
        self.words
    }

    /// The key of three such words.
    #[inline]
    #[must_use]
    pub const fn from_words(words: [u32; 3]) -> FlowKey {
        FlowKey { words }
    }

    /// The source address.
    #[inline]
    #[must_use]
    pub const fn source(&self) -> Ipv4Addr {
        let [a, b, c, d] = self.words[0].to_ne_bytes();
        Ipv4Addr::new(a, b, c, d)
    }

    /// The destination address.
    #[inline]
    #[must_use]
    pub const fn destination(&self) -> Ipv4Addr {
        let [a, b, c, d] = self.words[1].to_ne_bytes();
        Ipv4Addr::new(a, b, c, d)
    }

    /// The source port, in host order.
    #[inline]
    #[must_use]
    pub const fn source_port(&self) -> u16 {
        let [a, b, _, _] = self.words[2].to_ne_bytes();
        u16::from_be_bytes([a, b])
    }

    /// The destination port, in host order.
    #[inline]
    #[must_use]
    pub const fn destination_port(&self) -> u16 {
        let [_, _, c, d] = self.words[2].to_ne_bytes();
        u16::from_be_bytes([c, d])
    }

    /// The key of the answer: source and destination change places.
    #[inline]
    #[must_use]
    pub const fn reversed(&self) -> FlowKey {
        let [source, destination, ports] = self.words;
        FlowKey {
            words: [destination, source, ports.rotate_left(16)],
        }
    }
}

/// As operators read it: `10.1.0.1:1024 > 10.0.0.100:80`.
impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{} > {}:{}",
            self.source(),
            self.source_port(),
            self.destination(),
            self.destination_port()
        )
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
    const VIP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);

    #[test]
    fn a_key_is_the_twelve_bytes_of_the_wire() {
        let key = FlowKey::new(CLIENT, 1024, VIP, 80);
        assert_eq!(
            bytemuck::bytes_of(&key),
            [10, 1, 0, 1, 10, 0, 0, 100, 4, 0, 0, 80]
        );
        assert_eq!(
            key,
            FlowKey::from_wire(&[10, 1, 0, 1, 10, 0, 0, 100], &[4, 0, 0, 80])
        );
        assert_eq!((key.source(), key.source_port()), (CLIENT, 1024));
        assert_eq!((key.destination(), key.destination_port()), (VIP, 80));
    }

    #[test]
    fn the_answer_has_both_ends_exchanged() {
        let key = FlowKey::new(CLIENT, 1024, VIP, 80);
        assert_eq!(key.reversed(), FlowKey::new(VIP, 80, CLIENT, 1024));
        assert_eq!(key.reversed().reversed(), key);
        assert_eq!(key.to_string(), "10.1.0.1:1024 > 10.0.0.100:80");
    }
}
