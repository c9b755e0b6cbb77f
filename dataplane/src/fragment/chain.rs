//! The part of an IPv6 packet that each of its fragments repeats (RFC 8200 4.5). Reads only.

use crate::packet::ipv6::{self, Chain};

/// Where the fixed header names what follows it.
const NEXT_HEADER: usize = 6;
/// Headers in a chain at the most: what the parser takes.
const MOST_HEADERS: usize = 8;

/// Where the part ends that every fragment repeats: behind the routing header, or else behind hop-by-hop options, or
/// else behind the fixed header. `packet` begins with that one, which must be there; a header that does not fit into
/// it is not repeated. Offsets are those of [`Chain`].
pub(super) fn repeated(packet: &[u8]) -> Chain {
    let mut chain = Chain {
        protocol: ipv6::next_header(packet),
        at: ipv6::HEADER_LEN,
        named_at: NEXT_HEADER,
    };
    let mut repeated = chain;
    for _ in 0..MOST_HEADERS {
        let repeats = match chain.protocol {
            ipv6::HOP_BY_HOP | ipv6::ROUTING => true,
            ipv6::DESTINATION_OPTIONS => false,
            _ => break,
        };
        let Some(&[next, units]) = packet.get(chain.at..chain.at + 2) else {
            break;
        };
        let end = chain.at + 8 * (usize::from(units) + 1);
        if end > packet.len() {
            break;
        }
        chain = Chain {
            protocol: next,
            at: end,
            named_at: chain.at,
        };
        if repeats {
            repeated = chain;
        }
    }
    repeated
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An IPv6 header with `first` as its next header, and what follows.
    fn packet(first: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; ipv6::HEADER_LEN];
        packet[0] = 0x60;
        packet[6] = first;
        packet.extend_from_slice(rest);
        packet
    }

    /// An extension header of 8 bytes.
    fn short(next: u8) -> [u8; 8] {
        [next, 0, 1, 4, 0, 0, 0, 0]
    }

    fn chain(protocol: u8, at: usize, named_at: usize) -> Chain {
        Chain {
            protocol,
            at,
            named_at,
        }
    }

    #[test]
    fn a_plain_header_is_repeated_alone() {
        assert_eq!(repeated(&packet(17, &[0; 8])), chain(17, 40, 6));
        assert_eq!(repeated(&packet(0, &[])), chain(0, 40, 6));
    }

    #[test]
    fn headers_up_to_the_routing_header_are_repeated() {
        // Hop-by-hop, destination options, routing (16 bytes), destination options, UDP.
        let mut rest = [short(60), short(43), short(60)].concat();
        rest[17] = 1;
        rest.extend_from_slice(&[[0; 8], short(17), [0; 8]].concat());
        assert_eq!(repeated(&packet(0, &rest)), chain(60, 72, 56));
        // The routing header does not fit.
        assert_eq!(repeated(&packet(0, &rest[..31])), chain(60, 48, 40));
    }

    #[test]
    fn destination_options_alone_are_not_repeated() {
        assert_eq!(
            repeated(&packet(60, &[short(17), [0; 8]].concat())),
            chain(60, 40, 6)
        );
        let both = packet(0, &[short(60), short(17), [0; 8]].concat());
        assert_eq!(repeated(&both), chain(60, 48, 40));
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked_within_bounds(first in prop_oneof![Just(0u8), Just(43), Just(60)], bytes: [u8; 128]) {
            let packet = packet(first, &bytes);
            let chain = repeated(&packet);
            prop_assert!(chain.at <= packet.len() && chain.named_at < chain.at);
            prop_assert_eq!(packet[chain.named_at], chain.protocol);
        }
    }
}
