//! Echo messages (RFC 792, RFC 4443 4) on their way through SNAT (RFC 5508 3): the identifier stands for a port. Pure
//! functions over a frame; which connection it is, is the caller's to find out.

use crate::flow::addresses::pair;
use crate::packet::checksum::Delta;
use crate::packet::{Headers, icmp, icmp6, ipv4, ipv6, rewrite};
use std::net::IpAddr;

/// Where the identifier stands in a message.
const IDENTIFIER: std::ops::Range<usize> = 4..6;

/// An echo request or reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Echo {
    /// It is a reply.
    pub reply: bool,
    /// Its identifier, in host order.
    pub identifier: u16,
}

impl Echo {
    /// Reads a message of this IP protocol, of which at least the header is there. None when it is no echo.
    #[must_use]
    pub fn read(protocol: u8, message: &[u8]) -> Option<Echo> {
        let &[kind, code, _, _, high, low, ..] = message.first_chunk::<{ icmp::HEADER_LEN }>()?;
        let reply = match (protocol, kind) {
            (ipv4::ICMP, icmp::ECHO_REQUEST) | (ipv6::ICMP, icmp6::ECHO_REQUEST) => false,
            (ipv4::ICMP, icmp::ECHO_REPLY) | (ipv6::ICMP, icmp6::ECHO_REPLY) => true,
            _ => return None,
        };
        (code == 0).then_some(Echo {
            reply,
            identifier: u16::from_be_bytes([high, low]),
        })
    }

    /// What stands for its source and destination port in keys: the identifier is the asking side's.
    #[must_use]
    pub const fn ports(self) -> (u16, u16) {
        if self.reply {
            (0, self.identifier)
        } else {
            (self.identifier, 0)
        }
    }
}

/// Writes an identifier, in host order, into a message of at least a header; its change.
pub(super) fn set_identifier(message: &mut [u8], identifier: u16) -> Delta {
    let [high, low] = &mut message[IDENTIFIER] else {
        return Delta::NONE;
    };
    let old = u16::from_be_bytes([*high, *low]);
    [*high, *low] = identifier.to_be_bytes();
    Delta::NONE.word(old, identifier)
}

/// Brings the checksum of a message along.
pub(super) fn mend(message: &mut [u8], delta: Delta) {
    // 0xffff says the same as 0, and also when nothing but zeroes is left to sum, where 0 would be wrong.
    let checksum = match delta.apply(icmp::checksum(message)) {
        0 => 0xffff,
        computed => computed,
    };
    icmp::set_checksum(message, checksum);
}

/// Rewrites an echo message for its way on: addresses, identifier (host order), TTL or hop limit less one, checksums.
/// False, and nothing changed, when the addresses are of another family, or the frame does not hold what its headers
/// say, which cannot be after parsing.
#[must_use]
pub fn rewrite(
    frame: &mut [u8],
    headers: &Headers,
    source: IpAddr,
    destination: IpAddr,
    identifier: u16,
) -> bool {
    let Some((ip, message)) = rewrite::split(frame, headers) else {
        return false;
    };
    let pseudo = match (headers.protocol, source, destination) {
        (ipv4::ICMP, IpAddr::V4(source), IpAddr::V4(destination)) => {
            // The header's own checksum has followed; that of the message does not cover it.
            let _ = ipv4::set_addresses(ip, source, destination);
            ipv4::decrement_ttl(ip);
            Delta::NONE
        }
        (ipv6::ICMP, IpAddr::V6(source), IpAddr::V6(destination)) => {
            super::nat::translate_v6(ip, &pair(source, destination))
        }
        _ => return false,
    };
    let delta = pseudo.and(set_identifier(message, identifier));
    mend(message, delta);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{MacAddr, Packet, PortRules, TestPacket, parse};
    use crate::worker::tests::frames::framed;
    use crate::worker::tests::wire::*;
    use proptest::prelude::*;
    use std::net::Ipv6Addr;

    const GATEWAY: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    fn address(v6: bool, n: u16) -> IpAddr {
        match v6 {
            false => [10, 0, 0, n as u8].into(),
            true => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n).into(),
        }
    }

    fn rewritten(sent: &Wire, to: (IpAddr, IpAddr), identifier: u16) -> Wire {
        let ethertype = if sent.from.is_ipv4() { 0x0800 } else { 0x86dd };
        let mut frame = TestPacket::new(&framed(GATEWAY, ethertype, &sent.packet()));
        let rules = PortRules {
            mac: GATEWAY,
            ..PortRules::default()
        };
        let headers = parse(&frame, &rules).unwrap();
        assert!(rewrite(frame.bytes_mut(), &headers, to.0, to.1, identifier));
        Wire::read(&frame.bytes()[14..])
    }

    #[test]
    fn only_echo_is_echo() {
        let read = |protocol, kind, code| Echo::read(protocol, &[kind, code, 0, 0, 1, 2, 0, 0]);
        let echo = |reply| {
            Some(Echo {
                reply,
                identifier: 0x102,
            })
        };
        assert_eq!((read(1, 8, 0), read(1, 0, 0)), (echo(false), echo(true)));
        assert_eq!((read(58, 128, 0), read(58, 129, 0)), (echo(false), echo(true)));
        assert_eq!(
            (read(1, 8, 1), read(1, 128, 0), read(58, 8, 0), read(6, 8, 0)),
            (None, None, None, None)
        );
        assert_eq!(Echo::read(1, &[8, 0, 0, 0, 1, 2, 0]), None);
        assert_eq!(read(1, 8, 0).map(Echo::ports), Some((0x102, 0)));
        assert_eq!(read(1, 0, 0).map(Echo::ports), Some((0, 0x102)));
    }

    /// A reply of zeroes alone: its checksum has to be 0xffff.
    #[test]
    fn a_message_of_zeroes_keeps_a_right_checksum() {
        let sent = Wire::icmp(address(false, 1), address(false, 2), 0, 0, 0x0007_0000, b"");
        let seen = rewritten(&sent, (address(false, 3), address(false, 4)), 0);
        assert_eq!(seen.message(), (0, 0, 0));
    }

    proptest! {
        #[test]
        fn echo_goes_on_as_the_model_says(
            v6: bool, reply: bool, rest: u32, identifier: u16, hops in 2u8..,
            data in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let kind = match (v6, reply) { (false, false) => 8, (false, true) => 0, (true, false) => 128, _ => 129 };
            let [a, b, c, d] = [1, 2, 3, 4].map(|n| address(v6, n));
            let sent = Wire::icmp(a, b, kind, 0, rest, &data).hops(hops);
            let rest = u32::from(identifier) << 16 | rest & 0xffff;
            let expected = Wire::icmp(c, d, kind, 0, rest, &data).hops(hops - 1);
            prop_assert_eq!(rewritten(&sent, (c, d), identifier), expected);
        }
    }
}
