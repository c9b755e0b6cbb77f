//! A TCP reset that no packet has asked for: it ends a connection between two other hosts.

use super::super::buffer::Packet;
use super::super::{checksum, ipv4, ipv6, tcp, wire};
use super::TTL;
use std::net::{IpAddr, SocketAddr};

/// Makes `out` a reset from one end of a connection to the other (RFC 9293 3.5.2), with these sequence and
/// acknowledgement numbers. It has the ACK flag, without which an end that has only sent a SYN does not take it.
///
/// False when the ends are of two families, or `out` has no room.
#[must_use]
pub fn tcp_reset_between<P: Packet>(
    out: &mut P,
    from: SocketAddr,
    to: SocketAddr,
    sequence: u32,
    acknowledgement: u32,
) -> bool {
    let len = tcp::HEADER_LEN;
    let started = match (from.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let fields = ipv4::Fields {
                tos: 0,
                total_len: (ipv4::HEADER_LEN + len) as u16,
                identification: 0,
                dont_fragment: true,
                ttl: TTL,
                protocol: ipv4::TCP,
                source,
                destination,
            };
            let pseudo = checksum::pseudo_header(source, destination, ipv4::TCP, len as u16);
            super::start(out, &fields).map(|room| (room, pseudo))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let fields = ipv6::Fields {
                traffic_class: 0,
                flow_label: 0,
                payload_len: len as u16,
                next_header: ipv4::TCP,
                hop_limit: TTL,
                source,
                destination,
            };
            let pseudo = checksum::pseudo_header6(source, destination, ipv4::TCP, len as u32);
            super::start6(out, &fields).map(|room| (room, pseudo))
        }
        _ => None,
    };
    let Some((reset, pseudo)) = started else {
        return false;
    };
    tcp::write_bare(reset, sequence, acknowledgement, tcp::RST | tcp::ACK);
    wire::put_u16(reset, 0, from.port());
    wire::put_u16(reset, 2, to.port());
    let checksum = !checksum::add(pseudo, checksum::sum(reset));
    wire::put_u16(reset, tcp::CHECKSUM, checksum);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Kind, PortRules, TestPacket, parse};

    #[test]
    fn a_reset_byte_by_byte() {
        let ends = |text: &str| text.parse::<SocketAddr>().unwrap();
        let mut out = TestPacket::new(&[]);
        let (client, vip) = (ends("198.51.100.1:40000"), ends("203.0.113.100:80"));
        assert!(tcp_reset_between(&mut out, client, vip, 0x0102_0304, 0x0506_0708));
        let mut expected = vec![0x45, 0, 0, 0x28, 0, 0, 0x40, 0, 0x40, 6, 0xd4, 0x36];
        expected.extend([198, 51, 100, 1, 203, 0, 113, 100, 0x9c, 0x40, 0, 80]);
        expected.extend([1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x14, 0, 0]);
        assert_eq!(out.bytes()[14..50], expected);
        assert!(parse(&out, &PortRules::default()).is_ok(), "checksums are right");
        let (client, vip) = (ends("[2001:db8::1]:40000"), ends("[2001:db8:1::1]:80"));
        assert!(tcp_reset_between(&mut out, client, vip, 1, 2));
        let headers = parse(&out, &PortRules::default()).unwrap();
        assert_eq!(
            (headers.kind, headers.l4_flags),
            (Kind::Flow6, tcp::RST | tcp::ACK)
        );
        let v4 = ends("203.0.113.100:80");
        assert!(!tcp_reset_between(&mut out, client, v4, 1, 2));
    }
}
