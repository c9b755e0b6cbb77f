//! What is forwarded and comes back is, to the client, what it would be without a gateway: any mode, family, protocol,
//! length, options. Reading computes every checksum anew, naively, and so differs from all that follow by increment.

use super::carried::*;
use super::frames::{ACK, PSH, SYN};
use super::gateway::*;
use super::modes::KINDS;
use super::plan::*;
use super::wire::*;
use crate::flow::Mode;
use crate::service::{Protocol, Tunnel};
use proptest::prelude::*;
use std::net::SocketAddr;

/// What varies of a packet.
#[derive(Clone, Debug)]
struct Shape {
    data: Vec<u8>,
    /// Words of IPv4 options, or of IPv6 extension headers.
    between: usize,
    /// Words of TCP options.
    options: usize,
    hops: u8,
    tos: u8,
    label: u16,
    whole: bool,
    number: u32,
}

fn shape() -> impl Strategy<Value = Shape> {
    let length = prop_oneof![0usize..64, 1284usize..1325];
    let data = length.prop_flat_map(|length| proptest::collection::vec(any::<u8>(), length));
    let rest = (
        0usize..=10,
        0usize..=10,
        2u8..,
        any::<u8>(),
        any::<u16>(),
        any::<bool>(),
        any::<u32>(),
    );
    (data, rest).prop_map(
        |(data, (between, options, hops, tos, label, whole, number))| Shape {
            data,
            between,
            options,
            hops,
            tos,
            label,
            whole,
            number,
        },
    )
}

impl Shape {
    /// A packet of this shape that is not the first of its connection.
    fn packet(&self, protocol: Protocol, from: SocketAddr, to: SocketAddr) -> Wire {
        let mut packet = match protocol {
            Protocol::Udp => Wire::udp(from, to, &self.data),
            Protocol::Sctp => Wire::sctp(from, to, self.number, &super::sctp::data(&self.data)),
            Protocol::Tcp => {
                let options = vec![1; 4 * self.options];
                let mut segment = Wire::tcp(from, to, PSH | ACK, &self.data).with_options(&options);
                if let Load::Tcp {
                    sequence,
                    acknowledgement,
                    ..
                } = &mut segment.load
                {
                    (*sequence, *acknowledgement) = (self.number, !self.number);
                }
                segment
            }
        };
        (packet.hops, packet.tos, packet.label) = (self.hops, self.tos, self.label);
        packet.whole = self.whole && from.is_ipv4();
        let between = if from.is_ipv4() {
            vec![1; 4 * self.between]
        } else {
            // Destination options, one header after another.
            [60, 0, 1, 4, 0, 0, 0, 0].repeat(self.between % 4)
        };
        packet.with_between(&between)
    }
}

/// The first packet of a connection.
fn first(protocol: Protocol, from: SocketAddr, to: SocketAddr) -> Wire {
    match protocol {
        Protocol::Tcp => Wire::tcp(from, to, SYN, b""),
        Protocol::Udp => Wire::udp(from, to, b""),
        Protocol::Sctp => Wire::sctp(from, to, 0, &super::sctp::init(&[])),
    }
}

fn protocols() -> impl Strategy<Value = Protocol> {
    prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp), Just(Protocol::Sctp)]
}

fn families() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::V4), Just(Family::V6)]
}

proptest! {
    /// NAT and FULLNAT: the server sees the client's packet between other ends, the client the server's.
    #[test]
    fn translation_there_and_back_is_the_identity(
        mode in prop_oneof![Just((Mode::Nat, Family::V4)), Just((Mode::Nat, Family::V6)), Just((Mode::Fullnat, Family::V4)),
            Just((Mode::Fullnat, Family::V6))],
        protocol in protocols(),
        ports: (u16, u16),
        shapes in proptest::collection::vec((any::<bool>(), shape()), 1..6),
    ) {
        let (mode, family) = mode;
        let ports = (ports.0.max(1), ports.1.max(1));
        let mut plan = Plan::dual();
        plan.add(family.vip(80), protocol, vec![family.real(1, mode, ports.1)]);
        let mut gateway = Gateway::new(plan);
        let (client, vip) = (family.client(1, ports.0), family.vip(80));
        let seen = gateway.towards_server(&first(protocol, client, vip));
        let (local, server) = (seen.from, seen.to);
        prop_assert_eq!(server, family.server(1, ports.1));
        for (there, shape) in &shapes {
            if *there {
                let packet = shape.packet(protocol, client, vip);
                prop_assert_eq!(gateway.towards_server(&packet), packet.between(local, server).later());
            } else {
                let packet = shape.packet(protocol, server, local);
                prop_assert_eq!(gateway.towards_client(&packet), packet.between(vip, client).later());
            }
        }
        prop_assert_eq!(gateway.connections().len(), 1);
    }

    /// DR and TUN: the server has the client's packet, a hop later, whatever stands around it.
    #[test]
    fn what_is_wrapped_unwraps_to_itself(
        inner in families(),
        outer in prop_oneof![Just(None), families().prop_map(Some)],
        kind in 0..KINDS.len(),
        protocol in protocols(),
        port in 1u16..,
        shapes in proptest::collection::vec(shape(), 1..6),
    ) {
        let mut server = match outer {
            None => inner.real(1, Mode::Dr, 80),
            Some(outer) => outer.real(1, Mode::Tun, 80),
        };
        let (kind, checksum, _) = KINDS[kind];
        server.tunnel = Tunnel { kind, checksum };
        let mut plan = Plan::dual();
        plan.add(inner.vip(80), protocol, vec![server]);
        let mut gateway = Gateway::new(plan);
        let (client, vip) = (inner.client(1, port), inner.vip(80));
        gateway.pass_on(WAN, &first(protocol, client, vip));
        for shape in &shapes {
            let packet = shape.packet(protocol, client, vip);
            let out = gateway.pass_on(WAN, &packet);
            prop_assert_eq!(out.to_mac, server_mac(1));
            let seen = match outer {
                None => out.wire(),
                Some(_) => unwrap(&out.packet).2,
            };
            prop_assert_eq!(seen, packet.later());
        }
        prop_assert_eq!(gateway.connections().len(), 1);
    }
}
