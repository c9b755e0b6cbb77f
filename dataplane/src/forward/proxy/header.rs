//! The header itself, as bytes. Pure: called by what puts it into a stream or a datagram.

use std::net::{IpAddr, SocketAddr};

/// What every header begins with: no protocol of before was likely to begin so.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, command PROXY: the connection is another's, whose ends follow.
const VERSION_AND_COMMAND: u8 = 0x21;
/// Bytes before the addresses: signature, version and command, family and transport, length.
const FIXED_LEN: usize = 16;
/// Bytes of two addresses and two ports.
const ENDS_LEN: usize = 12;
const ENDS6_LEN: usize = 36;
/// Bytes of the longest header.
pub const MOST: usize = FIXED_LEN + ENDS6_LEN;

/// What carries the client's bytes: the lower half of the header's 14th byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Transport {
    /// TCP.
    Stream = 1,
    /// UDP.
    Datagram = 2,
}

/// What a header says. Both addresses are of one family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The client's address and port.
    pub client: SocketAddr,
    /// The VIP and port that the client has sent to.
    pub virtual_address: SocketAddr,
    /// What it stands in.
    pub protocol: Transport,
}

impl Header {
    /// Bytes of a header for clients of IPv6 or IPv4.
    #[must_use]
    pub const fn len(ipv6: bool) -> usize {
        FIXED_LEN + if ipv6 { ENDS6_LEN } else { ENDS_LEN }
    }

    /// Writes the header to the front of `bytes`, all numbers in network order; its length. 0, and nothing written, where
    /// there is no room or where the addresses are of two families.
    #[must_use]
    pub fn write(&self, bytes: &mut [u8]) -> usize {
        let ipv6 = self.client.is_ipv6();
        let len = Header::len(ipv6);
        let Some(bytes) = bytes.get_mut(..len) else {
            return 0;
        };
        let family = if ipv6 { 0x20 } else { 0x10 };
        let (fixed, ends) = bytes.split_at_mut(FIXED_LEN);
        match (self.client.ip(), self.virtual_address.ip()) {
            (IpAddr::V4(client), IpAddr::V4(vip)) => {
                ends[..4].copy_from_slice(&client.octets());
                ends[4..8].copy_from_slice(&vip.octets());
            }
            (IpAddr::V6(client), IpAddr::V6(vip)) => {
                ends[..16].copy_from_slice(&client.octets());
                ends[16..32].copy_from_slice(&vip.octets());
            }
            _ => return 0,
        }
        let ports = ends.len() - 4;
        ends[ports..ports + 2].copy_from_slice(&self.client.port().to_be_bytes());
        ends[ports + 2..].copy_from_slice(&self.virtual_address.port().to_be_bytes());
        fixed[..12].copy_from_slice(&SIGNATURE);
        fixed[12..14].copy_from_slice(&[VERSION_AND_COMMAND, family | self.protocol as u8]);
        fixed[14..].copy_from_slice(&(ends.len() as u16).to_be_bytes());
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(client: &str, virtual_address: &str, protocol: Transport) -> Header {
        Header {
            client: client.parse().unwrap(),
            virtual_address: virtual_address.parse().unwrap(),
            protocol,
        }
    }

    fn written(header: &Header) -> Vec<u8> {
        let mut bytes = [0xaa; MOST + 1];
        let len = header.write(&mut bytes);
        assert!(
            bytes[len..].iter().all(|byte| *byte == 0xaa),
            "written behind its end"
        );
        bytes[..len].to_vec()
    }

    #[test]
    fn an_ipv4_header_has_the_bytes_of_the_specification() {
        let mut bytes = vec![
            0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a, // signature
            0x21, 0x11, 0x00, 0x0c, // version 2, PROXY; IPv4 and stream; 12 bytes follow
            192, 0, 2, 17, 198, 51, 100, 5, // client, VIP
            0xc3, 0x50, 0x00, 0x35, // 50000, 53
        ];
        let ends = ("192.0.2.17:50000", "198.51.100.5:53");
        assert_eq!(written(&header(ends.0, ends.1, Transport::Stream)), bytes);
        bytes[13] = 0x12;
        assert_eq!(written(&header(ends.0, ends.1, Transport::Datagram)), bytes);
        assert_eq!(bytes.len(), Header::len(false));
    }

    #[test]
    fn an_ipv6_header_has_the_bytes_of_the_specification() {
        let mut bytes = vec![
            0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a, // signature
            0x21, 0x21, 0x00, 0x24, // version 2, PROXY; IPv6 and stream; 36 bytes follow
            0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x17, // client
            0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x05, // VIP
            0xc3, 0x50, 0x01, 0xbb, // 50000, 443
        ];
        let ends = ("[2001:db8::17]:50000", "[2001:db8:1::5]:443");
        assert_eq!(written(&header(ends.0, ends.1, Transport::Stream)), bytes);
        bytes[13] = 0x22;
        assert_eq!(written(&header(ends.0, ends.1, Transport::Datagram)), bytes);
        assert_eq!(bytes.len(), Header::len(true));
        assert_eq!(bytes.len(), MOST);
    }

    #[test]
    fn nothing_is_written_without_room_or_between_families() {
        let four = header("192.0.2.17:1", "198.51.100.5:2", Transport::Stream);
        let mut bytes = [0xaa; 27];
        assert_eq!(four.write(&mut bytes), 0);
        assert_eq!(bytes, [0xaa; 27]);
        let mixed = header("192.0.2.17:1", "[2001:db8::5]:2", Transport::Stream);
        assert_eq!(written(&mixed), Vec::<u8>::new());
    }
}
