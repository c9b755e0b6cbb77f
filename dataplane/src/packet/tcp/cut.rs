//! A segment without what it carries.

use super::super::buffer::Packet;
use super::super::checksum::{self, Delta};
use super::super::headers::{Headers, Kind};
use super::super::{ethernet, ipv4, ipv6, rewrite};
use super::{HEADER_LEN, apply, data_offset};

/// Cuts the data off a TCP segment, over either family. The IP length and both checksums follow by increment (RFC 1624),
/// so a wrong one stays wrong. `headers` are those of the packet; the result is theirs after it: only `end` moves.
///
/// `None`, and nothing changed, when there is no data.
#[must_use]
pub fn cut_data<P: Packet>(packet: &mut P, headers: &Headers) -> Option<Headers> {
    let (ip, segment) = rewrite::split(packet.bytes_mut(), headers)?;
    let old = segment.len();
    let kept = data_offset(segment).clamp(HEADER_LEN, old);
    if kept == old {
        return None;
    }
    // Headers are whole words, so the data's own sum is what it adds to that of the segment.
    let data = checksum::sum(&segment[kept..]);
    let delta = Delta::NONE.word(data, 0).word(old as u16, kept as u16);
    apply(segment, delta);
    let gone = (old - kept) as u16;
    if headers.kind == Kind::Flow6 {
        let payload = (ipv6::total_len(ip) - ipv6::HEADER_LEN) as u16;
        ipv6::set_payload_len(ip, payload.saturating_sub(gone));
    } else {
        let total = ipv4::total_len(ip) as u16;
        ipv4::set_total_len(ip, total.saturating_sub(gone));
    }
    let end = usize::from(headers.end - gone);
    let frame_len = end.max(ethernet::LEAST_LEN.min(packet.bytes().len()));
    let shorter = packet.resize(frame_len);
    debug_assert!(shorter, "cutting needs no room");
    // What is left of the data as padding is nobody's business.
    packet.bytes_mut()[end..].fill(0);
    Some(Headers {
        end: end as u16,
        ..*headers
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{MacAddr, PortRules, TestPacket, parse};
    use crate::worker::tests::plan::Family;
    use crate::worker::tests::wire::Wire;
    use proptest::prelude::*;

    const GATEWAY: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    proptest! {
        /// What is left is the same packet as one that was sent without data.
        #[test]
        fn a_segment_is_as_if_it_had_carried_nothing(
            v6: bool, flags: u8, words in 0usize..=10, data in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let family = if v6 { Family::V6 } else { Family::V4 };
            let (from, to) = (family.client(1, 1024), family.vip(80));
            let sent = |data: &[u8]| Wire::tcp(from, to, flags, data).with_options(&vec![1; 4 * words]);
            let frame = crate::worker::tests::carried::link(GATEWAY, &sent(&data).packet());
            let mut packet = TestPacket::new(&frame);
            let rules = PortRules { mac: GATEWAY, ..PortRules::default() };
            let headers = parse(&packet, &rules).unwrap();
            let Some(cut) = cut_data(&mut packet, &headers) else {
                prop_assert!(data.is_empty() && packet.bytes() == frame);
                return Ok(());
            };
            let end = usize::from(headers.end) - data.len();
            prop_assert_eq!(cut, Headers { end: end as u16, ..headers });
            prop_assert_eq!(packet.bytes().len(), end.max(60));
            prop_assert!(packet.bytes()[end..].iter().all(|byte| *byte == 0));
            prop_assert_eq!(Wire::read(&packet.bytes()[14..]), sent(b""));
        }
    }
}
