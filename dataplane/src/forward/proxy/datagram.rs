//! The header in UDP: in front of the payload of each datagram of the client, since a server has no other way to tell
//! whose it is. It goes in on the way to the server, and out of what an ICMP error from there quotes.

use super::header::{Header, MOST};
use crate::forward::icmp::Quote;
use crate::packet::checksum;
use crate::packet::{Headers, Kind, Packet, icmp, ipv4, ipv6, rewrite, udp};

/// Puts `header` in front of a datagram's payload. The bytes before it move to the front of the frame, and the payload
/// stays. Both lengths and both checksums follow by increment (RFC 1624), so that a wrong one stays wrong, and a UDP
/// checksum of 0 stays none (RFC 768). The datagram's new headers: only `end` moves.
///
/// `None`, and nothing changed, when it would be too long for an IP packet, or when its buffer has no headroom.
#[must_use]
pub fn put_header<P: Packet>(packet: &mut P, headers: &Headers, header: &Header) -> Option<Headers> {
    let mut room = [0; MOST];
    let len = header.write(&mut room);
    let bytes = &room[..len];
    let longer = Headers {
        end: headers.end.checked_add(len as u16)?,
        ..*headers
    };
    let at = usize::from(headers.l4) + udp::HEADER_LEN;
    let (_, datagram) = rewrite::split(packet.bytes_mut(), headers)?;
    let length = u16::try_from(udp::length(datagram) + len).ok()?;
    if len == 0 || !packet.prepend(len) {
        return None;
    }
    let frame = packet.bytes_mut();
    frame.copy_within(len..len + at, 0);
    frame[at..at + len].copy_from_slice(bytes);
    if let Some((ip, datagram)) = rewrite::split(frame, &longer) {
        rewrite::lengthen(ip, headers.kind, len as u16);
        let changed = udp::set_length(datagram, length);
        udp::apply(datagram, changed.word(0, checksum::sum(bytes)));
    }
    Some(longer)
}

/// Takes `header` out of the datagram that an ICMP error quotes, as far as the quote reaches: lengths and checksum of the
/// datagram become its sender's. What followed the header moves up, and the message ends earlier; where more stands
/// behind the quote (RFC 4884), zeroes close the gap. The message's checksum is right afterwards, if its frame was parsed.
/// The new headers of the message and its quote.
///
/// `None`, and nothing changed, when the quoted datagram has no such header.
#[must_use]
pub fn take_from_quote(
    frame: &mut [u8],
    headers: &Headers,
    quote: &Quote,
    header: &Header,
) -> Option<(Headers, Quote)> {
    let mut room = [0; MOST];
    let len = header.write(&mut room);
    let bytes = &room[..len];
    let at = quote.l4 + udp::HEADER_LEN;
    let datagram = frame.get(quote.l4..quote.end)?;
    let present = datagram.len().checked_sub(udp::HEADER_LEN)?.min(bytes.len());
    let length = udp::length(datagram);
    let shorter = length.checked_sub(bytes.len())?;
    if quote.protocol != ipv4::UDP
        || bytes.is_empty()
        || shorter < udp::HEADER_LEN
        || datagram[udp::HEADER_LEN..][..present] != bytes[..present]
    {
        return None;
    }
    shorten_ip(&mut frame[quote.ip..], quote, length, bytes.len());
    let datagram = &mut frame[quote.l4..quote.end];
    let changed = udp::set_length(datagram, shorter as u16);
    udp::apply(datagram, changed.word(checksum::sum(bytes), 0));
    frame.copy_within(at + present..quote.end, at);
    frame[quote.end - present..quote.end].fill(0);
    let cut = if quote.end == usize::from(headers.end) {
        present as u16
    } else {
        0
    };
    let ended = Headers {
        end: headers.end - cut,
        ..*headers
    };
    set_length(&mut frame[usize::from(headers.l3)..], &ended);
    sum_again(frame, &ended);
    let quote = Quote {
        end: quote.end - present,
        ..*quote
    };
    Some((ended, quote))
}

/// The quoted IP header, unless it is that of a fragment: then its length is not the datagram's.
fn shorten_ip(packet: &mut [u8], quote: &Quote, datagram: usize, by: usize) {
    let before = quote.l4 - quote.ip;
    let total = if quote.v6 {
        ipv6::total_len(packet)
    } else {
        ipv4::total_len(packet)
    };
    if total == before + datagram {
        let total = (total - by) as u16;
        if quote.v6 {
            ipv6::set_payload_len(packet, total - ipv6::HEADER_LEN as u16);
        } else {
            ipv4::set_total_len(packet, total);
        }
    }
}

/// The length of the message's own IP packet.
fn set_length(packet: &mut [u8], headers: &Headers) {
    let total = headers.end - headers.l3;
    if headers.kind == Kind::Icmp6 {
        ipv6::set_payload_len(packet, total - ipv6::HEADER_LEN as u16);
    } else {
        ipv4::set_total_len(packet, total);
    }
}

/// Computes the message's checksum anew: [`crate::forward::icmp::read`] has found it right.
fn sum_again(frame: &mut [u8], headers: &Headers) {
    let Some((ip, message)) = rewrite::split(frame, headers) else {
        return;
    };
    icmp::set_checksum(message, 0);
    let sum = match ip.first_chunk::<{ ipv6::HEADER_LEN }>() {
        Some(ip) if headers.kind == Kind::Icmp6 => {
            checksum::l4_sum6(ipv6::source(ip), ipv6::destination(ip), ipv6::ICMP, message)
        }
        _ => checksum::sum(message),
    };
    icmp::set_checksum(message, !sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::proxy::Transport;
    use crate::packet::{MacAddr, PortRules, TestPacket, parse};
    use crate::worker::tests::frames::framed;
    use crate::worker::tests::wire::Wire;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    /// Without room in front, or among the lengths, nothing changes.
    #[test]
    fn a_datagram_without_room_stays_as_it_is() {
        let (client, vip) = ("192.0.2.17:50000", "198.51.100.5:53");
        let (client, virtual_address) = (client.parse().unwrap(), vip.parse().unwrap());
        let header = Header {
            client,
            virtual_address,
            protocol: Transport::Datagram,
        };
        let sent = Wire::udp(client, virtual_address, b"data").packet();
        let mut packet = TestPacket::new(&framed(MAC, 0x0800, &sent));
        let rules = PortRules {
            mac: MAC,
            ..PortRules::default()
        };
        let mut headers = parse(&packet, &rules).unwrap();
        // 27 bytes are left.
        assert!(packet.prepend(101));
        for offset in [&mut headers.l3, &mut headers.l4, &mut headers.end] {
            *offset += 101;
        }
        let before = packet.clone();
        assert_eq!(put_header(&mut packet, &headers, &header), None);
        assert!(packet == before);
        assert!(packet.trim_front(1));
        for offset in [&mut headers.l3, &mut headers.l4, &mut headers.end] {
            *offset -= 1;
        }
        let longer = put_header(&mut packet, &headers, &header).unwrap();
        assert_eq!(longer.end, headers.end + 28);
        let expected = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x12"[..], &[0, 12]].concat();
        assert_eq!(packet.bytes()[usize::from(headers.l4) + 8..][..16], expected);
    }
}
