//! The packets that the recorder sent, and what the frames that come back are.

use super::gateway::{Injected, Port, Sent};
use super::rig;
use super::sctp;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// TCP flags.
pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const PSH: u8 = 8;
pub(super) const ACK: u8 = 16;

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMP: u8 = 1;
pub(super) const ICMP6: u8 = 58;

pub(super) fn sum(bytes: &[u8], start: u32) -> u32 {
    bytes.chunks(2).fold(start, |sum, pair| {
        sum + u32::from(pair[0]) * 256 + u32::from(*pair.get(1).unwrap_or(&0))
    })
}

pub(super) fn fold(sum: u32) -> [u8; 2] {
    let once = (sum & 0xffff) + (sum >> 16);
    let twice = (once & 0xffff) + (once >> 16);
    (!(twice as u16)).to_be_bytes()
}

/// A packet of the addresses' family: TTL or hop limit 64; in IPv4 identification 0 and don't-fragment.
pub(super) fn ip(src: IpAddr, dst: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => ipv4(src, dst, protocol, payload),
        (src, dst) => ipv6(v6(src), v6(dst), protocol, payload),
    }
}

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

fn ipv6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (payload.len() as u16).to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, high, low, protocol, 64];
    packet.extend(src.octets());
    packet.extend(dst.octets());
    packet.extend(payload);
    packet
}

fn ipv4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (20 + payload.len() as u16).to_be_bytes();
    let mut packet = vec![0x45, 0, high, low, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    packet.extend(src.octets());
    packet.extend(dst.octets());
    let checksum = fold(sum(&packet, 0));
    packet[10..12].copy_from_slice(&checksum);
    packet.extend(payload);
    packet
}

/// The sum of an address' words, as both families' pseudo headers have it.
fn sum_of(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => sum(&address.octets(), 0),
        IpAddr::V6(address) => sum(&address.octets(), 0),
    }
}

fn with_checksum(src: IpAddr, dst: IpAddr, protocol: u8, at: usize, mut segment: Vec<u8>) -> Vec<u8> {
    let pseudo = sum_of(src) + sum_of(dst) + u32::from(protocol) + segment.len() as u32;
    let checksum = fold(sum(&segment, pseudo));
    segment[at..at + 2].copy_from_slice(&checksum);
    ip(src, dst, protocol, &segment)
}

/// A TCP segment without data or options, window 64240.
pub(super) fn tcp(src: SocketAddr, dst: SocketAddr, flags: u8, seq: u32, ack: u32) -> Vec<u8> {
    let mut segment = Vec::with_capacity(20);
    segment.extend(src.port().to_be_bytes());
    segment.extend(dst.port().to_be_bytes());
    segment.extend(seq.to_be_bytes());
    segment.extend(ack.to_be_bytes());
    segment.extend([5 << 4, flags]);
    segment.extend(64240u16.to_be_bytes());
    segment.extend([0; 4]);
    with_checksum(src.ip(), dst.ip(), TCP, 16, segment)
}

/// A UDP datagram.
pub(super) fn udp(src: SocketAddr, dst: SocketAddr, data: &[u8]) -> Vec<u8> {
    let mut segment = Vec::with_capacity(8 + data.len());
    segment.extend(src.port().to_be_bytes());
    segment.extend(dst.port().to_be_bytes());
    segment.extend((8 + data.len() as u16).to_be_bytes());
    segment.extend([0; 2]);
    segment.extend(data);
    with_checksum(src.ip(), dst.ip(), UDP, 6, segment)
}

/// The frame that carries a layer-3 packet to the gateway.
pub(super) fn frame(port: Port, packet: &[u8]) -> Vec<u8> {
    let (to, from) = rig::macs(port);
    let ethertype = if packet.first().is_some_and(|byte| byte >> 4 == 6) {
        [0x86, 0xdd]
    } else {
        [8, 0]
    };
    [&to[..], &from[..], &ethertype[..], packet].concat()
}

/// The layer-3 packet of a frame, without padding; `None` for what is not IP.
pub(super) fn packet(frame: &[u8]) -> Option<&[u8]> {
    let packet = frame.get(14..)?;
    let length = match frame[12..14] {
        [8, 0] => usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?])),
        [0x86, 0xdd] => 40 + usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?])),
        _ => return None,
    };
    packet.get(..length)
}

/// Whom a frame was sent to: `rsN`, `router`, or the MAC.
pub(super) fn receiver(frame: &[u8]) -> String {
    let mac = frame.get(..6).unwrap_or_default();
    if mac == rig::ROUTER_MAC {
        return "router".to_owned();
    }
    rig::server_of_mac(mac).unwrap_or_else(|| {
        mac.iter()
            .map(|b| format!("{b:02x}"))
            .collect::<Vec<_>>()
            .join(":")
    })
}

/// Where a packet went, in the words of the recordings. In DR the frame must carry the packet as it came, apart
/// from the TTL.
pub(super) fn went(injected: &[Injected], sources: &[Vec<u8>], dr: bool) -> String {
    let mut servers = Vec::new();
    let mut back = Vec::new();
    for (injected, source) in injected.iter().zip(sources) {
        for Sent { port, frame } in &injected.sent {
            let Some(packet) = packet(frame) else { continue };
            match port {
                Port::Lan => {
                    let mangled = if dr && !same_but_ttl(source, packet) {
                        "(altered)"
                    } else {
                        ""
                    };
                    servers.push(receiver(frame) + mangled);
                }
                Port::Wan => back.push(answer(packet)),
            }
        }
    }
    for list in [&mut servers, &mut back] {
        list.sort();
        list.dedup();
    }
    let all = [servers, back].concat();
    if all.is_empty() {
        "drop".to_owned()
    } else {
        all.join("+")
    }
}

fn answer(packet: &[u8]) -> String {
    let Some((protocol, at)) = transport(packet) else {
        return "reply:?".to_owned();
    };
    match (protocol, packet.get(at..)) {
        (ICMP, Some([kind, code, ..])) => format!("icmp:{kind}/{code}"),
        (ICMP6, Some([kind, code, ..])) => format!("icmp6:{kind}/{code}"),
        (TCP, Some(segment)) if segment.get(13).is_some_and(|flags| flags & RST != 0) => "rst".to_owned(),
        (TCP, _) => "reply:TCP".to_owned(),
        (UDP, _) => "reply:UDP".to_owned(),
        (sctp::PROTOCOL, _) => "reply:SCTP".to_owned(),
        _ => "reply:?".to_owned(),
    }
}

/// The protocol of a packet, and where its header is. Extension headers of IPv6 are protocols of their own here.
pub(super) fn transport(packet: &[u8]) -> Option<(u8, usize)> {
    match packet.first()? >> 4 {
        4 => Some((*packet.get(9)?, usize::from(packet[0] & 15) * 4)),
        6 => Some((*packet.get(6)?, 40)),
        _ => None,
    }
}

/// Whether a forwarded packet is the one that came, one hop on, with a right header checksum.
pub(super) fn same_but_ttl(came: &[u8], went: &[u8]) -> bool {
    let mut expected = came.to_vec();
    let ttl = if came.first().is_some_and(|byte| byte >> 4 == 6) {
        7
    } else {
        8
    };
    if expected.len() < 20 || expected[ttl] == 0 {
        return false;
    }
    expected[ttl] -= 1;
    if ttl == 8 {
        set_header_checksum(&mut expected);
    }
    expected == went
}

/// Computes an IPv4 header's checksum anew.
pub(super) fn set_header_checksum(packet: &mut [u8]) {
    let header = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let checksum = fold(sum(packet.get(..header).unwrap_or_default(), 0));
    packet[10..12].copy_from_slice(&checksum);
}

/// Computes the checksum of an ICMP message anew, in an IPv4 packet without options.
pub(super) fn set_icmp_checksum(packet: &mut [u8]) {
    packet[22..24].fill(0);
    let checksum = fold(sum(&packet[20..], 0));
    packet[22..24].copy_from_slice(&checksum);
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// Bytes from hexadecimal.
pub(super) fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        std::str::from_utf8(pair)
            .ok()
            .and_then(|p| u8::from_str_radix(p, 16).ok())
    };
    match digits.map(byte).collect::<Option<Vec<u8>>>() {
        Some(bytes) if text.len().is_multiple_of(2) => Ok(bytes),
        _ => Err(format!("not whole bytes in hexadecimal: {text}")),
    }
}

/// Source endpoint of the first TCP, UDP or SCTP packet over IPv4 sent to a server.
pub(super) fn source_towards_server(injected: &Injected) -> Option<SocketAddr> {
    let frame = injected.sent.iter().find(|sent| sent.port == Port::Lan)?;
    let packet = packet(&frame.frame)?;
    let (_, at) = transport(packet).filter(|_| packet[0] >> 4 == 4)?;
    let address: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
    let port = packet.get(at..at + 2)?;
    Some(SocketAddr::new(
        address.into(),
        u16::from_be_bytes([port[0], port[1]]),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_those_of_the_recorder() {
        let (client, vip) = ("10.1.0.1:1024".parse().unwrap(), "10.0.0.100:53".parse().unwrap());
        // From udp_flows.json, the same datagram on its way in and out.
        let came = "4500002100004000401126670a0100010a00006404000035000da36768656c6c6f";
        let went = "45000021000040003f1127670a0100010a00006404000035000da36768656c6c6f";
        assert_eq!(hex(&udp(client, vip, b"hello")), came);
        assert!(same_but_ttl(&unhex(came).unwrap(), &unhex(went).unwrap()));
        assert!(!same_but_ttl(&unhex(came).unwrap(), &unhex(came).unwrap()));
        // From tcp_flows.json.
        let vip = "10.0.0.100:80".parse().unwrap();
        let ack = "45000028000040004006266b0a0100010a00006404000050000003e9000007d15010faf090740000";
        assert_eq!(hex(&tcp(client, vip, ACK, 1001, 2001)), ack);
    }

    #[test]
    fn hexadecimal_must_be_whole_bytes() {
        assert_eq!(unhex("0aff"), Ok(vec![10, 255]));
        assert!(unhex("0af").is_err() && unhex("0g").is_err() && unhex("aabb...").is_err());
    }
}
