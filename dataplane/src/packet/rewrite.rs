//! The rewrite of a flow's packet: what NAT and FULLNAT do to every packet that passes. It relies on the
//! offsets of [`Headers`] and on nothing else; it knows neither connections nor directions.

use super::checksum::Delta;
use super::headers::Headers;
use super::key::FlowKey;
use super::{ipv4, tcp, udp, wire};

/// Replaces addresses and ports by those of `to`, and brings both checksums along by increment; a UDP checksum
/// of 0 stays. `more` is what else has changed in L4, in host order ([`tcp::set_sequence`] and the like).
/// The TTL stays: [`ipv4::decrement_ttl`] is the caller's. A frame that does not hold these headers, or is no
/// TCP or UDP, is left alone.
#[inline]
pub fn flow(frame: &mut [u8], headers: &Headers, to: &FlowKey, more: Delta) {
    let Some((ip, segment)) = split(frame, headers) else {
        return;
    };
    let addresses = ipv4::set_addresses(ip, to.source(), to.destination());
    let delta = set_ports(segment, to).and(addresses).and(more);
    match headers.protocol {
        ipv4::TCP if segment.len() >= tcp::HEADER_LEN => tcp::apply(segment, delta),
        ipv4::UDP => udp::apply(segment, delta),
        _ => {}
    }
}

/// The packet in two parts: the IPv4 header with its options, and the L4 segment up to the IP packet's end.
/// `None` when the frame does not hold them, which cannot be after parsing.
#[inline]
pub fn split<'f>(frame: &'f mut [u8], headers: &Headers) -> Option<(&'f mut [u8], &'f mut [u8])> {
    let packet = frame.get_mut(usize::from(headers.l3)..usize::from(headers.end))?;
    let header_len = usize::from(headers.l4.checked_sub(headers.l3)?);
    let (ip, segment) = packet.split_at_mut_checked(header_len)?;
    (ip.len() >= ipv4::HEADER_LEN && segment.len() >= udp::HEADER_LEN).then_some((ip, segment))
}

/// Writes both ports into a TCP segment or UDP datagram.
#[inline]
fn set_ports(segment: &mut [u8], to: &FlowKey) -> Delta {
    let old = wire::get_u32(segment, 0);
    let new = u32::from(to.source_port()) << 16 | u32::from(to.destination_port());
    wire::put_u32(segment, 0, new);
    Delta::NONE.double_word(old, new)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::super::buffer::{Packet, TestPacket};
    use super::super::checksum;
    use super::super::digest::AddressDigest;
    use super::super::headers::{PortRules, parse};
    use super::super::mac::MacAddr;
    use super::*;

    const RULES: PortRules = PortRules {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        any_mac: false,
        check_partial: false,
        digest: AddressDigest::from_seed(1),
    };
    const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
    const VIP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);
    const SERVER: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 11);

    /// A frame with IP options (CSUM-04) and right checksums; a UDP one without when asked.
    fn frame(protocol: u8, options: usize, data: &[u8], unsummed: bool) -> TestPacket {
        let mut segment = vec![0; if protocol == ipv4::TCP { 20 } else { 8 }];
        segment[..4].copy_from_slice(&[0x04, 0x00, 0x00, 0x35]);
        segment.extend(data);
        let at = if protocol == ipv4::TCP {
            tcp::CHECKSUM
        } else {
            udp::CHECKSUM
        };
        if protocol == ipv4::TCP {
            segment[12] = 0x50;
        } else {
            let length = segment.len() as u16;
            wire::put_u16(&mut segment, 4, length);
        }
        if !unsummed {
            let sum = match !checksum::l4_sum(CLIENT, VIP, protocol, &segment) {
                0 if protocol == ipv4::UDP => 0xffff,
                computed => computed,
            };
            wire::put_u16(&mut segment, at, sum);
        }
        let header_len = 20 + options * 4;
        let mut ip = vec![1; header_len];
        let fields = ipv4::Fields {
            tos: 0,
            total_len: (header_len + segment.len()) as u16,
            identification: 0,
            dont_fragment: true,
            ttl: 64,
            protocol,
            source: CLIENT,
            destination: VIP,
        };
        ipv4::write(&mut ip, &fields);
        ip[0] = 0x45 + options as u8;
        ipv4::fill_checksum(&mut ip);
        let link = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        TestPacket::new(&[&link[..], &ip[..], &segment[..], &[0xee; 3][..]].concat())
    }

    /// The kernel's translation of "hello" to 192.168.1.11:5353, recorded.
    #[test]
    fn a_datagram_becomes_the_recorded_one() {
        let mut packet = frame(ipv4::UDP, 0, b"hello", false);
        let headers = parse(&packet, &RULES).unwrap();
        flow(
            packet.bytes_mut(),
            &headers,
            &FlowKey::new(CLIENT, 1024, SERVER, 5353),
            Delta::NONE,
        );
        let recorded = [
            0x45, 0, 0, 0x21, 0, 0, 0x40, 0, 0x3f, 0x11, 0x70, 0x17, 10, 1, 0, 1, 192, 168, 1, 11, // IP
            4, 0, 0x14, 0xe9, 0, 13, 0xd7, 0x63, b'h', b'e', b'l', b'l', b'o',
        ];
        ipv4::decrement_ttl(&mut packet.bytes_mut()[14..]);
        assert_eq!(packet.bytes()[14..47], recorded);
    }

    #[test]
    fn a_frame_that_does_not_hold_its_headers_is_left_alone() {
        let packet = frame(ipv4::TCP, 0, &[], false);
        let headers = parse(&packet, &RULES).unwrap();
        for len in 0..usize::from(headers.end) {
            let mut cut = packet.bytes()[..len].to_vec();
            flow(&mut cut, &headers, &FlowKey::default(), Delta::NONE);
            assert_eq!(cut, packet.bytes()[..len]);
        }
    }

    proptest! {
        /// Any key, protocol and option length: nothing but the key and the checksums changes, both checksums
        /// are right, and an uncomputed one stays so (CSUM-01, CSUM-04).
        #[test]
        fn rewritten_packets_say_the_new_key_with_right_checksums(
            protocol in prop_oneof![Just(ipv4::TCP), Just(ipv4::UDP)],
            options in 0usize..=10,
            data in proptest::collection::vec(any::<u8>(), 0..40),
            unsummed: bool,
            source: [u8; 4],
            destination: [u8; 4],
            ports: [u16; 2],
        ) {
            let unsummed = unsummed && protocol == ipv4::UDP;
            let mut packet = frame(protocol, options, &data, unsummed);
            let headers = parse(&packet, &RULES).unwrap();
            let to = FlowKey::new(source.into(), ports[0], destination.into(), ports[1]);
            flow(packet.bytes_mut(), &headers, &to, Delta::NONE);
            let (ip, segment) = split(packet.bytes_mut(), &headers).unwrap();
            prop_assert_eq!(checksum::sum(ip), 0xffff);
            prop_assert!(ip[20..].iter().all(|&byte| byte == 1));
            prop_assert_eq!((ipv4::source(ip), ipv4::destination(ip)), (to.source(), to.destination()));
            prop_assert_eq!((wire::get_u16(segment, 0), wire::get_u16(segment, 2)), (ports[0], ports[1]));
            prop_assert!(segment.ends_with(&data));
            match unsummed {
                true => prop_assert_eq!(wire::get_u16(segment, udp::CHECKSUM), 0),
                false => prop_assert_eq!(checksum::l4_sum(to.source(), to.destination(), protocol, segment), 0xffff),
            }
            prop_assert_eq!(packet.bytes().last(), Some(&0xee));
        }
    }
}
