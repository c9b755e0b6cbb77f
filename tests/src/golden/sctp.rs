//! The SCTP packets that the recorder sent. Its own CRC32c, so that the gateway's is not judged by itself.

use super::frames;
use std::net::SocketAddr;

/// The IP protocol number.
pub(super) const PROTOCOL: u8 = 132;

/// The verification tag of every packet but the client's INIT.
const TAG: u32 = 9;

const DATA: u8 = 0;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
/// The chunk that ends an association at once.
pub(super) const ABORT: u8 = 6;
const SHUTDOWN: u8 = 7;
const COOKIE_ECHO: u8 = 10;

/// The INIT that opens a connection: one stream each way, a receiver window of 65535.
pub(super) fn init(src: SocketAddr, dst: SocketAddr) -> Vec<u8> {
    let chunk = [1, 0, 0, 20, 0, 0, 0, 7, 0, 0, 255, 255, 0, 1, 0, 1, 0, 0, 0, 1];
    packet(src, dst, 0, &chunk)
}

/// The packet of one chunk, by its name in the state tables.
pub(super) fn named(src: SocketAddr, dst: SocketAddr, from_client: bool, chunk: &str) -> Option<Vec<u8>> {
    let kind = kind(chunk)?;
    let value: &[u8] = match kind {
        INIT | INIT_ACK => &[0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1],
        COOKIE_ECHO => b"cookie!!",
        DATA => b"\0\0\0\x01\0\0\0\0\0\0\0\0abcd",
        SHUTDOWN => &[0, 0, 0, 1],
        _ => &[],
    };
    // Data is neither fragmented nor delayed: begin and end of a message.
    let flags = if kind == DATA { 3 } else { 0 };
    let [high, low] = (4 + value.len() as u16).to_be_bytes();
    let tag = if kind == INIT && from_client { 0 } else { TAG };
    Some(packet(
        src,
        dst,
        tag,
        &[&[kind, flags, high, low], value].concat(),
    ))
}

fn kind(name: &str) -> Option<u8> {
    Some(match name {
        "DATA" => DATA,
        "INIT" => INIT,
        "INIT_ACK" => INIT_ACK,
        "SACK" => 3,
        "HEARTBEAT" => 4,
        "ABORT" => ABORT,
        "SHUTDOWN" => SHUTDOWN,
        "SHUTDOWN_ACK" => 8,
        "ERROR" => 9,
        "COOKIE_ECHO" => COOKIE_ECHO,
        "COOKIE_ACK" => 11,
        "SHUTDOWN_COMPLETE" => 14,
        _ => return None,
    })
}

fn packet(src: SocketAddr, dst: SocketAddr, tag: u32, chunks: &[u8]) -> Vec<u8> {
    let mut segment = Vec::with_capacity(12 + chunks.len());
    segment.extend(src.port().to_be_bytes());
    segment.extend(dst.port().to_be_bytes());
    segment.extend(tag.to_be_bytes());
    segment.extend([0; 4]);
    segment.extend(chunks);
    let checksum = crc32c(&segment).to_le_bytes();
    segment[8..12].copy_from_slice(&checksum);
    frames::ip(src.ip(), dst.ip(), PROTOCOL, &segment)
}

/// One bit at a time (RFC 9260 appendix A).
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_those_of_the_recorder() {
        let [client, vip, server] =
            ["10.1.0.1:3001", "10.0.0.100:2905", "192.168.1.11:2905"].map(|text| text.parse().unwrap());
        let hex = |packet: Option<Vec<u8>>| frames::hex(&packet.unwrap());
        let first = "10.1.0.1:1024".parse().unwrap();
        assert_eq!(
            hex(Some(init(first, vip))),
            "4500003400004000408425e10a0100010a00006404000b59000000001ab80f3301000014000000070000ffff0001000100000001"
        );
        assert_eq!(
            hex(named(server, client, false, "DATA")),
            "450000340000400040846e91c0a8010b0a0100010b590bb900000009d48a50e70003001400000001000000000000000061626364"
        );
        assert_eq!(
            hex(named(client, vip, true, "COOKIE_ECHO")),
            "4500002c00004000408425e90a0100010a0000640bb90b59000000094cb3d28e0a00000c636f6f6b69652121"
        );
        assert_eq!(named(client, vip, true, "COOKIE"), None);
    }

    #[test]
    fn only_the_first_packet_of_the_client_has_no_tag() {
        let end = "10.1.0.1:1024".parse().unwrap();
        let tag = |from_client, chunk| named(end, end, from_client, chunk).map(|packet| packet[27]);
        assert_eq!(tag(true, "INIT"), Some(0));
        assert_eq!(tag(false, "INIT"), Some(9));
        assert_eq!(tag(true, "SACK"), Some(9));
    }
}
