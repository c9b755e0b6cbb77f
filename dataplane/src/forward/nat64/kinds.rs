//! The tables of RFC 7915 4.2 and 5.2: what an ICMP error of one family is called in the other.
//!
//! A parameter problem of ICMPv4 is in them; that it gets here is for who reads errors to decide.

use crate::packet::{icmp, icmp6};

/// ICMPv4 type: parameter problem (RFC 792).
const PARAMETER_PROBLEM: u8 = 12;
/// Codes of ICMPv4's unreachable.
const PROTOCOL_UNREACHABLE: u8 = 2;
const HOST_PROHIBITED: u8 = 10;
/// Codes of ICMPv6's unreachable.
const PROHIBITED: u8 = 1;
const BEYOND_SCOPE: u8 = 2;
/// Codes of parameter problems: ICMPv4 counts a wrong length as another one.
const ERRONEOUS_FIELD: u8 = 0;
const BAD_LENGTH: u8 = 2;
const UNKNOWN_NEXT_HEADER: u8 = 1;
/// Where the fixed IPv6 header says what follows it, and the pointer of which no more is known.
const NEXT_HEADER: u32 = 6;

/// An ICMP error in the words of the other family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Told {
    /// Its type.
    pub(super) message_type: u8,
    /// Its code.
    pub(super) code: u8,
    /// The second word of its header.
    pub(super) rest: Rest,
}

/// What the second word of a translated header holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rest {
    /// Nothing but the length of the quote, where there are extensions behind it (RFC 4884).
    Unused,
    /// An MTU, to be computed.
    Mtu,
    /// Where in the quoted header the fault is, in bytes.
    Pointer(u32),
}

const fn told(message_type: u8, code: u8, rest: Rest) -> Option<Told> {
    Some(Told {
        message_type,
        code,
        rest,
    })
}

/// An ICMPv4 error as ICMPv6 (RFC 7915 4.2); `None` for those that are not translated. `rest` is the second word of
/// its header, in host order.
pub(super) fn to_v6(message_type: u8, code: u8, rest: u32) -> Option<Told> {
    match message_type {
        icmp::UNREACHABLE => unreachable_to_v6(code),
        icmp::TIME_EXCEEDED => told(icmp6::TIME_EXCEEDED, code, Rest::Unused),
        PARAMETER_PROBLEM if matches!(code, ERRONEOUS_FIELD | BAD_LENGTH) => {
            let pointer = pointer_to_v6((rest >> 24) as u8)?;
            told(
                icmp6::PARAMETER_PROBLEM,
                ERRONEOUS_FIELD,
                Rest::Pointer(u32::from(pointer)),
            )
        }
        _ => None,
    }
}

fn unreachable_to_v6(code: u8) -> Option<Told> {
    let unreachable = |code| told(icmp6::UNREACHABLE, code, Rest::Unused);
    match code {
        icmp::FRAGMENTATION_NEEDED => told(icmp6::PACKET_TOO_BIG, 0, Rest::Mtu),
        PROTOCOL_UNREACHABLE => told(
            icmp6::PARAMETER_PROBLEM,
            UNKNOWN_NEXT_HEADER,
            Rest::Pointer(NEXT_HEADER),
        ),
        icmp::PORT_UNREACHABLE => unreachable(icmp6::PORT_UNREACHABLE),
        // Net and host: unreachable, source route failed, unknown, isolated, not for this type of service.
        0 | icmp::HOST_UNREACHABLE | 5..=8 | 11 | 12 => unreachable(icmp6::NO_ROUTE),
        // Prohibited: the net, the host, by a filter; and the precedence.
        9 | HOST_PROHIBITED | 13 | 15 => unreachable(PROHIBITED),
        _ => None,
    }
}

/// An ICMPv6 error as ICMPv4 (RFC 7915 5.2); `None` for those that are not translated.
pub(super) fn to_v4(message_type: u8, code: u8, rest: u32) -> Option<Told> {
    let unreachable = |code| told(icmp::UNREACHABLE, code, Rest::Unused);
    match (message_type, code) {
        (icmp6::UNREACHABLE, icmp6::NO_ROUTE | BEYOND_SCOPE | icmp6::ADDRESS_UNREACHABLE) => {
            unreachable(icmp::HOST_UNREACHABLE)
        }
        (icmp6::UNREACHABLE, PROHIBITED) => unreachable(HOST_PROHIBITED),
        (icmp6::UNREACHABLE, icmp6::PORT_UNREACHABLE) => unreachable(icmp::PORT_UNREACHABLE),
        // RFC 4443 3.2: receivers ignore the code.
        (icmp6::PACKET_TOO_BIG, _) => told(icmp::UNREACHABLE, icmp::FRAGMENTATION_NEEDED, Rest::Mtu),
        (icmp6::TIME_EXCEEDED, _) => told(icmp::TIME_EXCEEDED, code, Rest::Unused),
        (icmp6::PARAMETER_PROBLEM, ERRONEOUS_FIELD) => {
            let pointer = u32::from(pointer_to_v4(rest)?) << 24;
            told(PARAMETER_PROBLEM, ERRONEOUS_FIELD, Rest::Pointer(pointer))
        }
        (icmp6::PARAMETER_PROBLEM, UNKNOWN_NEXT_HEADER) => unreachable(PROTOCOL_UNREACHABLE),
        _ => None,
    }
}

/// RFC 7915 figure 3: the field of the IPv6 header that is the one at `pointer` in IPv4's.
const fn pointer_to_v6(pointer: u8) -> Option<u8> {
    Some(match pointer {
        // Version and header length; type of service.
        0 | 1 => pointer,
        // Total length.
        2 | 3 => 4,
        // TTL.
        8 => 7,
        // Protocol.
        9 => 6,
        12..=15 => 8,
        16..=19 => 24,
        // Identification, fragment offset, checksum, options: IPv6 has no such field.
        _ => return None,
    })
}

/// RFC 7915 figure 6: the field of the IPv4 header that is the one at `pointer` in IPv6's.
const fn pointer_to_v4(pointer: u32) -> Option<u8> {
    Some(match pointer {
        // Version, traffic class.
        0 => 0,
        1 => 1,
        // Payload length.
        4 | 5 => 2,
        // Next header, hop limit.
        6 => 9,
        7 => 8,
        8..=23 => 12,
        24..=39 => 16,
        // The flow label, extension headers: IPv4 has no such field.
        _ => return None,
    })
}
