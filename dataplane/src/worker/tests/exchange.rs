//! What [`Gateway`] does with packets of either family.

use super::carried::*;
use super::frames::{ACK, SYN};
use super::gateway::*;
use super::header::word;
use super::plan::*;
use super::wire::*;
use crate::packet::PortId;
use std::net::{IpAddr, SocketAddr};

impl Gateway {
    /// One turn; the frames that come out.
    pub(super) fn out(&mut self) -> Vec<Out> {
        self.turn_raw().into_iter().map(Out::read).collect()
    }

    /// A packet for the gateway arrives at that port; nothing happens yet.
    pub(super) fn come(&mut self, port: PortId, packet: &[u8]) {
        let settings = &self.plan.ports[usize::from(port.0)];
        let frame = link(settings.mac, packet);
        match settings.vlan {
            Some(vlan) => self.arrive(vlan.parent, &tagged(vlan.id, &frame)),
            None => self.arrive(port, &frame),
        }
    }

    /// A packet for the gateway at that port; what comes out.
    pub(super) fn exchange(&mut self, port: PortId, packet: &Wire) -> Vec<Out> {
        self.come(port, &packet.packet());
        self.out()
    }

    /// As [`Gateway::exchange`], where exactly one frame comes out.
    pub(super) fn pass_on(&mut self, port: PortId, packet: &Wire) -> Out {
        only(self.exchange(port, packet))
    }

    /// A packet from a client that goes on, not in a tunnel; what the server gets.
    pub(super) fn towards_server(&mut self, packet: &Wire) -> Wire {
        let out = self.pass_on(WAN, packet);
        assert_eq!((out.port, out.from_mac), (LAN, LAN_MAC));
        out.wire()
    }

    /// A packet from a server that goes on; what the client gets.
    pub(super) fn towards_client(&mut self, packet: &Wire) -> Wire {
        let out = self.pass_on(LAN, packet);
        assert_eq!((out.port, out.to_mac, out.from_mac), (WAN, ROUTER_MAC, WAN_MAC));
        out.wire()
    }

    /// The answer that a packet from a client gets from the gateway itself.
    pub(super) fn told(&mut self, packet: &Wire) -> Wire {
        let out = self.pass_on(WAN, packet);
        assert_eq!((out.port, out.to_mac, out.from_mac), (WAN, ROUTER_MAC, WAN_MAC));
        out.wire()
    }

    /// A TCP connection through a server that answers through the gateway: client and server have opened it. What
    /// the server takes for its client, and the server.
    pub(super) fn open_both(&mut self, client: SocketAddr, vip: SocketAddr) -> (SocketAddr, SocketAddr) {
        let syn = self.towards_server(&Wire::tcp(client, vip, SYN, b""));
        let answer = self.towards_client(&Wire::tcp(syn.to, syn.from, SYN | ACK, b""));
        assert_eq!((answer.from, answer.to), (vip, client));
        self.towards_server(&Wire::tcp(client, vip, ACK, b""));
        (syn.from, syn.to)
    }

    /// The states of all connections, in no order.
    pub(super) fn states(&mut self) -> Vec<&'static str> {
        self.connections().iter().map(|shown| shown.state).collect()
    }
}

/// The only frame.
pub(super) fn only(mut sent: Vec<Out>) -> Out {
    assert_eq!(sent.len(), 1, "{sent:#?}");
    sent.remove(0)
}

/// The ends of a packet that an ICMP error quotes, of which there are at least eight bytes of the transport header.
/// The checksum of an IPv4 header is verified.
pub(super) fn quoted(quote: &[u8]) -> (SocketAddr, SocketAddr) {
    let (at, addresses): (usize, [IpAddr; 2]) = if quote[0] >> 4 == 4 {
        let at = usize::from(quote[0] & 15) * 4;
        assert_eq!(
            super::frames::ones_sum(&[&quote[..at]]),
            0xffff,
            "quoted IP checksum"
        );
        let address = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&quote[at..at + 4]).unwrap());
        (at, [address(12), address(16)])
    } else {
        let address = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&quote[at..at + 16]).unwrap());
        (40, [address(8), address(24)])
    };
    assert!(quote.len() >= at + 8);
    let [from, to] = addresses;
    (
        SocketAddr::new(from, word(quote, at)),
        SocketAddr::new(to, word(quote, at + 2)),
    )
}
