//! FULLNAT: new addresses and ports in both directions, and the care for TCP sequence numbers. What the server
//! has been shown is remembered, and a connection on a recycled local port is shown to the server with other
//! sequence numbers than its client uses.

use super::nat::{self, Target};
use crate::flow::{Direction, Flags, Record};
use crate::packet::checksum::Delta;
use crate::packet::{Headers, ipv4, rewrite, tcp};

/// Rewrites a packet of the connection for its way on: addresses, ports, TTL (RFC 1812 5.3.1), sequence numbers,
/// both checksums. `headers` are those that the packet came with.
#[inline(always)]
pub fn rewrite(frame: &mut [u8], headers: &Headers, record: &mut Record, direction: Direction) {
    let to = match direction {
        Direction::Inbound => record.outbound.reversed(),
        Direction::Outbound => record.inbound.reversed(),
    };
    let Some((ip, segment)) = rewrite::split(frame, headers) else {
        return;
    };
    let sequence = match headers.protocol {
        ipv4::TCP => adjust_sequence(segment, record, direction),
        _ => Delta::NONE,
    };
    nat::translate(ip, segment, headers, &to, sequence);
}

/// As [`rewrite()`], for any TCP, UDP or SCTP packet of either family: `to` is where it goes, of the packet's own family.
/// What [`nat::rewrite_any`] says of SCTP holds here too.
pub fn rewrite_any(
    frame: &mut [u8],
    headers: &Headers,
    record: &mut Record,
    direction: Direction,
    to: Target<'_>,
) {
    let Some((ip, segment)) = rewrite::split(frame, headers) else {
        return;
    };
    let sequence = match headers.protocol {
        ipv4::TCP if segment.len() >= tcp::HEADER_LEN => adjust_sequence(segment, record, direction),
        _ => Delta::NONE,
    };
    nat::translate_any(ip, segment, headers, to, sequence);
}

/// Shifts sequence numbers where the connection has a shift, and notes what the server is shown.
/// The change of its words, in host order, is for the checksum.
#[inline]
pub fn adjust_sequence(segment: &mut [u8], record: &mut Record, direction: Direction) -> Delta {
    let mut delta = Delta::NONE;
    if record.sequence_shift != 0 || record.flags.has(Flags::STRIP_TIMESTAMPS) {
        delta = shift(segment, record, direction);
    }
    if direction == Direction::Inbound && !record.holds_server_isn() {
        let end = tcp::sequence(segment).wrapping_add(tcp::sequence_len(segment));
        let opening = tcp::flags(segment) & tcp::SYN != 0;
        if opening || end.wrapping_sub(record.sequence) <= u32::MAX / 2 {
            record.sequence = end;
        }
    }
    delta
}

/// The client's sequence numbers move up on their way in; acknowledgements and SACK blocks (RFC 2018) move back
/// on their way out. A SYN without timestamps is answered without, so that the connection has none.
#[cold]
#[inline(never)]
fn shift(segment: &mut [u8], record: &Record, direction: Direction) -> Delta {
    let by = record.sequence_shift;
    match direction {
        Direction::Inbound => {
            let moved = tcp::sequence(segment).wrapping_add(by);
            let delta = tcp::set_sequence(segment, moved);
            if record.flags.has(Flags::STRIP_TIMESTAMPS) && tcp::flags(segment) & tcp::SYN != 0 {
                delta.and(tcp::strip_timestamps(segment))
            } else {
                delta
            }
        }
        Direction::Outbound if tcp::flags(segment) & tcp::ACK != 0 => {
            let moved = tcp::acknowledgement(segment).wrapping_sub(by);
            tcp::set_acknowledgement(segment, moved).and(tcp::shift_sack(segment, by.wrapping_neg()))
        }
        Direction::Outbound => Delta::NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Mode;
    use crate::packet::{FlowKey, MacAddr, Packet, PortRules, TestPacket, parse};
    use crate::worker::tests::frames::*;
    use proptest::prelude::*;
    use std::net::SocketAddrV4;

    const GATEWAY: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    fn ends() -> [SocketAddrV4; 4] {
        [
            end([198, 51, 100, 1], 40000),
            end([203, 0, 113, 100], 80),
            end([10, 0, 0, 200], 2000),
            end([10, 0, 0, 11], 8080),
        ]
    }

    fn key(from: SocketAddrV4, to: SocketAddrV4) -> FlowKey {
        FlowKey::new(*from.ip(), from.port(), *to.ip(), to.port())
    }

    fn record(protocol: u8) -> Record {
        let [client, vip, local, server] = ends();
        Record::new(protocol, Mode::Fullnat, key(client, vip), key(server, local))
    }

    /// The packet as it goes on.
    fn rewritten(packet: &Sent, record: &mut Record, direction: Direction) -> Seen {
        let mut frame = TestPacket::new(&packet.frame(GATEWAY));
        let rules = PortRules {
            mac: GATEWAY,
            ..PortRules::default()
        };
        let headers = parse(&frame, &rules).unwrap();
        rewrite(frame.bytes_mut(), &headers, record, direction);
        Seen::read(0, frame.bytes())
    }

    #[test]
    fn a_syn_byte_by_byte() {
        let mut frame = [
            &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0][..],
            &[
                0x45, 0, 0, 0x28, 0, 0, 0x40, 0, 0x40, 6, 0x77, 0x65, 198, 51, 100, 1, 203, 0, 113, 100,
            ],
            &[
                0x9c, 0x40, 0, 80, 0, 0, 3, 0xe8, 0, 0, 0, 0, 0x50, 2, 0x20, 0, 0x93, 0x72, 0, 0,
            ],
        ]
        .concat();
        // Both checksums by hand, so that what comes out is known to the last bit.
        let ip_sum = !ones_sum(&[&frame[14..24], &[0, 0], &frame[26..34]]);
        frame[24..26].copy_from_slice(&ip_sum.to_be_bytes());
        let sum = !ones_sum(&[&frame[26..34], &[0, 6, 0, 20], &frame[34..50], &[0, 0, 0, 0]]);
        frame[50..52].copy_from_slice(&sum.to_be_bytes());
        let packet = TestPacket::new(&frame);
        let headers = parse(
            &packet,
            &PortRules {
                mac: GATEWAY,
                ..PortRules::default()
            },
        )
        .unwrap();
        let mut record = record(ipv4::TCP);
        rewrite(&mut frame, &headers, &mut record, Direction::Inbound);
        assert_eq!(frame[26..34], [10, 0, 0, 200, 10, 0, 0, 11]);
        assert_eq!(frame[34..42], [7, 0xd0, 0x1f, 0x90, 0, 0, 3, 0xe8]);
        assert_eq!((frame[22], record.sequence), (63, 1001));
        Seen::read(0, &frame);
    }

    #[test]
    fn what_the_server_was_shown_is_the_highest_whatever_the_order() {
        let [client, vip, ..] = ends();
        let mut record = record(ipv4::TCP);
        let mut send = |flags, sequence, data: &[u8]| {
            let packet = Sent::tcp(client, vip, flags).at(sequence, 1).data(data);
            rewritten(&packet, &mut record, Direction::Inbound);
            record.sequence
        };
        assert_eq!(send(SYN, u32::MAX - 1, b""), u32::MAX);
        assert_eq!(send(ACK, u32::MAX, b"abcd"), 3);
        assert_eq!(send(ACK, u32::MAX, b"a"), 3, "a retransmission");
        assert_eq!(send(FIN | ACK, 3, b""), 4);
        assert_eq!(send(ACK, 4, b""), 4);
        assert_eq!(send(ACK, 4u32.wrapping_sub(2), b""), 4);
        assert_eq!(send(SYN, 77, b""), 78, "a SYN starts afresh");
    }

    #[test]
    fn a_datagram_keeps_its_missing_checksum() {
        let [client, vip, ..] = ends();
        let mut packet = Sent::udp(client, vip, b"query");
        packet.unsummed = true;
        assert!(rewritten(&packet, &mut record(ipv4::UDP), Direction::Inbound).unsummed);
    }

    #[test]
    fn a_frame_that_does_not_hold_its_headers_is_left_alone() {
        let [client, vip, ..] = ends();
        let packet = TestPacket::new(&Sent::tcp(client, vip, SYN).frame(GATEWAY));
        let headers = parse(
            &packet,
            &PortRules {
                mac: GATEWAY,
                ..PortRules::default()
            },
        )
        .unwrap();
        for len in 0..usize::from(headers.end) {
            let mut cut = packet.bytes()[..len].to_vec();
            rewrite(&mut cut, &headers, &mut record(ipv4::TCP), Direction::Inbound);
            assert_eq!(cut, packet.bytes()[..len]);
        }
    }

    /// Options in some order, padded: each a kind and what it is.
    fn options() -> impl Strategy<Value = Vec<u8>> {
        let option = prop_oneof![
            Just(vec![1]),
            Just(vec![2, 4, 5, 0xb4]),
            any::<[u8; 8]>().prop_map(|value| [&[8, 10][..], &value].concat()),
            any::<[u8; 8]>().prop_map(|value| [&[5, 10][..], &value].concat()),
            any::<[u8; 16]>().prop_map(|value| [&[5, 18][..], &value].concat()),
        ];
        proptest::collection::vec(option, 0..4).prop_map(|options| {
            let mut bytes = options.concat();
            bytes.truncate(40);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        })
    }

    /// The options as the rules change them: timestamps become NOPs, SACK edges move.
    fn changed(options: &[u8], strip: bool, shift: u32) -> Vec<u8> {
        let mut bytes = options.to_vec();
        let mut at = 0;
        while at < bytes.len() && bytes[at] != 0 {
            let len = if bytes[at] == 1 {
                1
            } else {
                usize::from(*bytes.get(at + 1).unwrap_or(&0))
            };
            if len == 0 || at + len > bytes.len() || (bytes[at] != 1 && len < 2) {
                break;
            }
            if bytes[at] == 8 && strip {
                bytes[at..at + len].fill(1);
            } else if bytes[at] == 5 {
                for edge in bytes[at + 2..at + len].chunks_exact_mut(4) {
                    let value = u32::from_be_bytes(edge.try_into().unwrap()).wrapping_add(shift);
                    edge.copy_from_slice(&value.to_be_bytes());
                }
            }
            at += len;
        }
        bytes
    }

    proptest! {
        /// Against a naive model, with and without a shift: every field, and the checksums by [`Seen::read`].
        #[test]
        fn segments_go_on_as_the_model_says(
            inbound: bool, flags: u8, sequence: u32, acknowledgement: u32, shift: u32, shifted: bool, strip: bool,
            options in options(), data in proptest::collection::vec(any::<u8>(), 0..40), ttl in 2u8..,
        ) {
            let [client, vip, local, server] = ends();
            let mut record = record(ipv4::TCP);
            let shift = if shifted { shift } else { 0 };
            record.sequence_shift = shift;
            record.flags.set(Flags::STRIP_TIMESTAMPS, strip);
            let (from, to) = if inbound { (client, vip) } else { (server, local) };
            let packet = Sent::tcp(from, to, flags).at(sequence, acknowledgement).options(&options).data(&data);
            let direction = if inbound { Direction::Inbound } else { Direction::Outbound };
            let seen = rewritten(&packet.ttl(ttl), &mut record, direction);
            let (new_from, new_to) = if inbound { (local, server) } else { (vip, client) };
            prop_assert_eq!((seen.from, seen.to, seen.ttl, seen.flags), (new_from, new_to, ttl - 1, flags));
            prop_assert_eq!(&seen.data, &data);
            if inbound {
                prop_assert_eq!((seen.sequence, seen.acknowledgement), (sequence.wrapping_add(shift), acknowledgement));
                let strip = strip && flags & SYN != 0;
                prop_assert_eq!(seen.options, changed(&options, strip, 0));
            } else {
                let acked = flags & ACK != 0 && (shift != 0 || strip);
                let back = if acked { shift } else { 0 };
                prop_assert_eq!((seen.sequence, seen.acknowledgement), (sequence, acknowledgement.wrapping_sub(back)));
                prop_assert_eq!(seen.options, changed(&options, false, back.wrapping_neg()));
            }
        }

        #[test]
        fn datagrams_go_on_as_the_model_says(
            inbound: bool, data in proptest::collection::vec(any::<u8>(), 0..60), unsummed: bool, options in 0usize..=10,
        ) {
            let [client, vip, local, server] = ends();
            let (from, to) = if inbound { (client, vip) } else { (server, local) };
            let mut packet = Sent::udp(from, to, &data).ip_options(&vec![1; 4 * options]);
            packet.unsummed = unsummed;
            let direction = if inbound { Direction::Inbound } else { Direction::Outbound };
            let seen = rewritten(&packet, &mut record(ipv4::UDP), direction);
            let (from, to) = if inbound { (local, server) } else { (vip, client) };
            prop_assert_eq!((seen.from, seen.to, seen.unsummed, seen.data), (from, to, unsummed, data));
            prop_assert_eq!(seen.ip_options, vec![1; 4 * options]);
        }
    }
}
