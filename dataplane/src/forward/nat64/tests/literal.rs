//! Packets to the last byte: the hosts H6 and H4 of RFC 7915's appendix A, with new ports.

use super::*;
use crate::forward::icmp::{Inner, read};

const H6: &str = "2001:db8:1c0:2:21::";
const H4_IN_V6: &str = "2001:db8:1c6:3364:2::";
const SYN6: &str = "6b9123450018064020010db801c00002002100000000000020010db801c633640002000000000000\
                    04000050000003e80000000060022000dd810000020405a0";
const SYN4: &str = "45b9002c123400003f067c88c0000221c633640207d01f90000003e80000000060022000609b0000020405a0";
/// With an option, and without a checksum.
const DATAGRAM4: &str = "460200250007000009113064c6336402c00002219404000014e90035000d000068656c6c6f";
const DATAGRAM6: &str = "60200000000d110820010db801c63364000200000000000020010db801c000020021000000000000\
                         14e90035000d146368656c6c6f";
/// From 192.0.2.254: fragmentation needed, 1,400 bytes, about a packet of 1,500.
const TOO_LONG4: &str = "45c00038004d0000fa013a98c00002fec00002210304bc9b0000057845b905dc123440003d0638d8\
                         c0000221c633640207d01f9000001388";
/// Packet too big, 1,420 bytes; the quoted sequence number is 1,000 less.
const TOO_LONG6: &str = "6c00000000383af920010db801c63364000200000000000020010db801c000020021000000000000\
                         020047790000058c6b90000005c8063d20010db801c00002002100000000000020010db801c63364\
                         00020000000000000400005000000fa0";
const UNREACHABLE6: &str = "60000000003d3a4020010db801c00002002100000000000020010db801c633640002000000000000\
                            0104fab70000000060200000000d113c20010db801c63364000200000000000020010db801c00002\
                            002100000000000014e90035000d146368656c6c6f";
const UNREACHABLE4: &str = "4500003dabcd00003f01e39bc0000221c63364020303e9720000000045020021000000003c119273\
                            c6336402c000022114e90035000dba8c68656c6c6f";

fn on6(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

#[test]
fn a_syn_to_ipv4() {
    let (mut packet, headers) = received(&bytes(SYN6));
    let to = target(end("192.0.2.33:2000"), end("198.51.100.2:8080"), 0x1234);
    translate(&mut packet, &headers, &to, Delta::NONE).unwrap();
    assert_eq!(packet.bytes(), sent(&bytes(SYN4)));
}

#[test]
fn a_datagram_with_options_and_no_checksum_to_ipv6() {
    let (mut packet, headers) = received(&bytes(DATAGRAM4));
    let to = target(on6(H4_IN_V6, 5353), on6(H6, 53), 0);
    translate(&mut packet, &headers, &to, Delta::NONE).unwrap();
    assert_eq!(packet.bytes(), sent(&bytes(DATAGRAM6)));
}

#[test]
fn fragmentation_needed_is_packet_too_big() {
    let (mut packet, headers) = received(&bytes(TOO_LONG4));
    let quote = read(packet.bytes(), &headers, &DIGEST).unwrap();
    let inner = Inner::fullnat(on6(H6, 1024), on6(H4_IN_V6, 80), 1000u32.wrapping_neg());
    let from = outer(H4_IN_V6.parse().unwrap(), H6.parse().unwrap(), 0);
    translate_error(&mut packet, &headers, &quote, &from, &inner, MTUS).unwrap();
    assert_eq!(packet.bytes(), sent(&bytes(TOO_LONG6)));
}

#[test]
fn port_unreachable_to_ipv4() {
    let (mut packet, headers) = received(&bytes(UNREACHABLE6));
    let quote = read(packet.bytes(), &headers, &DIGEST).unwrap();
    let inner = Inner::fullnat(end("198.51.100.2:5353"), end("192.0.2.33:53"), 0);
    let from = outer(
        "192.0.2.33".parse().unwrap(),
        "198.51.100.2".parse().unwrap(),
        0xabcd,
    );
    translate_error(&mut packet, &headers, &quote, &from, &inner, MTUS).unwrap();
    assert_eq!(packet.bytes(), sent(&bytes(UNREACHABLE4)));
}
