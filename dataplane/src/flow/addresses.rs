//! The addresses of connections with IPv6 keys: their keys hold a digest of these only, so that a record stays one cache
//! line and one index serves both families. The second line, here, is read when the first has been found.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use bytemuck::{Pod, Zeroable};

use super::record::{Direction, Record};
use crate::packet::FlowKey;

/// The addresses of a connection with an IPv6 key, one cache line. The half that belongs to an IPv4 key is zero: that
/// key holds the addresses itself.
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

    /// The addresses of a connection from client to VIP, whose replies go from server to local address, each half as
    /// far as it is IPv6. None when neither is.
    #[must_use]
    pub fn of(inbound: (IpAddr, IpAddr), outbound: Option<(IpAddr, IpAddr)>) -> Option<Addresses6> {
        let half = |ends| match ends {
            Some((IpAddr::V6(source), IpAddr::V6(destination))) => Some(pair(source, destination)),
            _ => None,
        };
        let (inbound, outbound) = (half(Some(inbound)), half(outbound));
        (inbound.is_some() || outbound.is_some()).then(|| Addresses6 {
            inbound: inbound.unwrap_or_default(),
            outbound: outbound.unwrap_or_default(),
        })
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
    /// The ends of a connection; `addresses` are those of one with an IPv6 key. Each key is of a family of its own.
    pub(super) fn new(record: &Record, addresses: Option<&Addresses6>) -> Ends {
        let (inbound, outbound) = (&record.inbound, &record.outbound);
        let [client, virtual_address] = both(inbound, addresses.map(|known| &known.inbound));
        let [server, local] = both(outbound, addresses.map(|known| &known.outbound));
        Ends {
            client,
            virtual_address,
            server,
            local,
        }
    }
}

/// The ends of a key; `known` are its addresses if it is IPv6's.
fn both(key: &FlowKey, known: Option<&[u8; 32]>) -> [SocketAddr; 2] {
    let addresses: [IpAddr; 2] = match known.filter(|_| key.is_v6()) {
        Some(known) => [0, 16].map(|at| half(known, at).into()),
        None => [key.source(), key.destination()].map(IpAddr::from),
    };
    let [source, destination] = addresses;
    [
        SocketAddr::new(source, key.source_port()),
        SocketAddr::new(destination, key.destination_port()),
    ]
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
    use crate::flow::Mode;
    use std::net::Ipv4Addr;

    /// A connection of two families has one half here, and the other in its key.
    #[test]
    fn each_key_has_its_ends_in_its_own_family() {
        let v6 = |n| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n);
        let v4 = |n| Ipv4Addr::new(10, 0, 0, n);
        let key6 = FlowKey::of_v6(0x1234_5678, [0x9c, 0x40, 0, 80]);
        let key4 = FlowKey::new(v4(1), 40000, v4(2), 80);
        let (ends6, ends4) = ((v6(1).into(), v6(2).into()), (v4(1).into(), v4(2).into()));
        let six_to_four = Addresses6::of(ends6, Some(ends4)).unwrap();
        let four_to_six = Addresses6::of(ends4, Some(ends6)).unwrap();
        assert_eq!((six_to_four.outbound, four_to_six.inbound), ([0; 32], [0; 32]));
        for (inbound, outbound, known, front) in [
            (key6, key4, six_to_four, [ends6, ends4]),
            (key4, key6, four_to_six, [ends4, ends6]),
        ] {
            let ends = Ends::new(&Record::new(6, Mode::Fullnat, inbound, outbound), Some(&known));
            assert_eq!((ends.client.ip(), ends.virtual_address.ip()), front[0]);
            assert_eq!((ends.server.ip(), ends.local.ip()), front[1]);
            assert_eq!((ends.client.port(), ends.local.port()), (40000, 80));
        }
        assert_eq!(Addresses6::of(ends4, None), None);
        assert_eq!(Addresses6::of(ends6, None).unwrap().outbound, [0; 32]);
    }

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
