//! The addresses of IPv6 connections: their keys hold a digest of these only, so that a record stays one cache
//! line and one index serves both families. The second line, here, is read when the first has been found.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use bytemuck::{Pod, Zeroable};

use super::record::{Direction, Record};

/// The four ends of an IPv6 connection, one cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Addresses6 {
    /// Client and VIP as in the header of a packet from the client: source, destination.
    pub inbound: [u8; 32],
    /// Server and local address as in the header of a packet from the server; the local address is the client's
    /// own where the source is not translated. Zero where replies do not pass the gateway.
    pub outbound: [u8; 32],
}

const _: () = assert!(size_of::<Addresses6>() == 64);

impl Addresses6 {
    /// The addresses of a connection from `client` to `virtual_address`, whose replies come from `server` to
    /// `local`.
    #[must_use]
    pub fn new(client: Ipv6Addr, virtual_address: Ipv6Addr, server: Ipv6Addr, local: Ipv6Addr) -> Addresses6 {
        Addresses6 {
            inbound: pair(client, virtual_address),
            outbound: pair(server, local),
        }
    }

    /// The client's address.
    #[must_use]
    pub fn client(&self) -> Ipv6Addr {
        half(&self.inbound, 0)
    }

    /// The VIP.
    #[must_use]
    pub fn virtual_address(&self) -> Ipv6Addr {
        half(&self.inbound, 16)
    }

    /// The server's address; zero where replies do not pass the gateway.
    #[must_use]
    pub fn server(&self) -> Ipv6Addr {
        half(&self.outbound, 0)
    }

    /// What the server takes for its client's address; zero where replies do not pass the gateway.
    #[must_use]
    pub fn local(&self) -> Ipv6Addr {
        half(&self.outbound, 16)
    }

    /// Source and destination of packets in this direction, as they arrive.
    #[inline]
    #[must_use]
    pub fn arriving(&self, direction: Direction) -> &[u8; 32] {
        match direction {
            Direction::Inbound => &self.inbound,
            Direction::Outbound => &self.outbound,
        }
    }

    /// Source and destination of packets in this direction once they are translated.
    #[inline]
    #[must_use]
    pub fn leaving(&self, direction: Direction) -> [u8; 32] {
        let other = match direction {
            Direction::Inbound => &self.outbound,
            Direction::Outbound => &self.inbound,
        };
        let mut swapped = *other;
        swapped.rotate_left(16);
        swapped
    }
}

/// The ends of a connection, whatever its family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// The client.
    pub client: SocketAddr,
    /// The virtual address and port that it asked for.
    pub virtual_address: SocketAddr,
    /// The server; zero where replies do not pass the gateway.
    pub server: SocketAddr,
    /// Whom the server answers to: the local address and port, or the client; zero where replies do not pass the
    /// gateway.
    pub local: SocketAddr,
}

impl Ends {
    /// The ends of a connection; `addresses` are those of one with IPv6 keys.
    pub(super) fn new(record: &Record, addresses: Option<&Addresses6>) -> Ends {
        let (inbound, outbound) = (&record.inbound, &record.outbound);
        let [client, vip, server, local] = match addresses {
            Some(known) => [
                known.client(),
                known.virtual_address(),
                known.server(),
                known.local(),
            ]
            .map(IpAddr::from),
            None => [
                inbound.source(),
                inbound.destination(),
                outbound.source(),
                outbound.destination(),
            ]
            .map(IpAddr::from),
        };
        Ends {
            client: SocketAddr::new(client, inbound.source_port()),
            virtual_address: SocketAddr::new(vip, inbound.destination_port()),
            server: SocketAddr::new(server, outbound.source_port()),
            local: SocketAddr::new(local, outbound.destination_port()),
        }
    }
}

/// Two addresses as they stand in an IPv6 header.
#[must_use]
pub fn pair(source: Ipv6Addr, destination: Ipv6Addr) -> [u8; 32] {
    let mut pair = [0; 32];
    pair[..16].copy_from_slice(&source.octets());
    pair[16..].copy_from_slice(&destination.octets());
    pair
}

fn half(pair: &[u8; 32], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&pair[at..at + 16]);
    octets.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_leaves_with_the_addresses_of_the_other_side() {
        let [a, b, c, d] = [1u16, 2, 3, 4].map(|n| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n));
        let addresses = Addresses6::new(a, b, c, d);
        assert_eq!((addresses.client(), addresses.virtual_address()), (a, b));
        assert_eq!((addresses.server(), addresses.local()), (c, d));
        assert_eq!(addresses.leaving(Direction::Inbound), pair(d, c));
        assert_eq!(addresses.leaving(Direction::Outbound), pair(b, a));
    }
}
