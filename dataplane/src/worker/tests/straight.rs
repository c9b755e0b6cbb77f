//! The straight way against the long one: two gateways, one of which takes no packet the straight way, are given the same
//! packets. They send the same, count the same and remember the same.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::flow::Mode;
use crate::packet::PortId;
use crate::service::{ClientAddress, Protocol, Tunnel, TunnelKind};
use proptest::prelude::*;
use std::net::SocketAddrV4;

#[derive(Clone, Debug)]
struct Step {
    /// Which of a few clients, and whether its server is the sender.
    client: u8,
    from_server: bool,
    udp: bool,
    flags: u8,
    sequence: u32,
    length: usize,
    ttl: u8,
    ip_options: bool,
    /// Bytes of link padding behind the packet.
    padding: usize,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let flags = prop_oneof![
        4 => Just(ACK),
        3 => Just(ACK | PSH),
        1 => Just(SYN),
        1 => Just(SYN | ACK),
        1 => Just(FIN | ACK),
        1 => Just(RST),
        1 => any::<u8>(),
    ];
    let length = prop_oneof![4 => 0usize..64, 1 => 1380usize..1500];
    let rest = (
        length,
        prop_oneof![4 => Just(64u8), 1 => 0u8..3],
        prop::bool::weighted(0.1),
        0usize..8,
    );
    let step = (0u8..3, any::<bool>(), any::<bool>(), flags, 0u32..4000, rest);
    let step = step.prop_map(
        |(client, from_server, udp, flags, sequence, (length, ttl, ip_options, padding))| Step {
            client,
            from_server,
            udp,
            flags,
            sequence,
            length,
            ttl,
            ip_options,
            padding,
        },
    );
    proptest::collection::vec(step, 1..60)
}

/// The gateway of one service for each protocol, with two servers each.
fn gateway(mode: Mode, kind: TunnelKind, toa: bool) -> Gateway {
    let mut plan = Plan::empty();
    let servers = |first: u32| {
        let mut servers = vec![server(first, mode), server(first + 1, mode)];
        for server in &mut servers {
            server.tunnel = Tunnel {
                kind,
                ..Tunnel::default()
            };
        }
        servers
    };
    let web = plan.add(WEB, Protocol::Tcp, servers(1));
    plan.add(DNS, Protocol::Udp, servers(3));
    if toa {
        plan.edit(web, |service| service.client_address = ClientAddress::Toa);
    }
    Gateway::new(plan)
}

/// Where the last packet of each client went, as its server would answer.
type Answers = [[Option<(SocketAddrV4, SocketAddrV4)>; 2]; 3];

fn packet(step: &Step, answers: &Answers) -> Option<(PortId, Sent)> {
    let from = client(step.client, 40000 + u16::from(step.client));
    let to = if step.udp { DNS } else { WEB };
    let (port, from, to) = if step.from_server {
        let (from, to) = answers[usize::from(step.client)][usize::from(step.udp)]?;
        (LAN, from, to)
    } else {
        (WAN, from, to)
    };
    let data = vec![step.client; step.length];
    let sent = if step.udp {
        Sent::udp(from, to, &data)
    } else {
        Sent::tcp(from, to, step.flags)
            .at(step.sequence, 5000)
            .data(&data)
    };
    let options: &[u8] = if step.ip_options { &[1; 4] } else { &[] };
    Some((port, sent.ttl(step.ttl).ip_options(options)))
}

fn run(gateway: &mut Gateway, steps: &[Step], bursts: bool) -> Vec<(PortId, Vec<u8>)> {
    let mut answers: Answers = [[None; 2]; 3];
    let mut all = Vec::new();
    for step in steps {
        let Some((port, sent)) = packet(step, &answers) else {
            continue;
        };
        let mac = gateway.plan.ports[usize::from(port.0)].mac;
        let mut frame = sent.frame(mac);
        frame.resize(frame.len() + step.padding, 0xee);
        gateway.arrive(port, &frame);
        // Several packets of one connection in a burst, or each alone.
        if bursts && step.length % 3 != 0 {
            continue;
        }
        gateway.now = gateway.now.after(step.sequence % 50);
        let frames = gateway.turn_raw();
        for (port, frame) in &frames {
            let is_plain = *port == LAN && frame[12..15] == [8, 0, 0x45];
            if is_plain && let [source, destination] = ends_of(frame) {
                let udp = frame[23] == UDP;
                answers[usize::from(step.client)][usize::from(udp)] = Some((destination, source));
            }
        }
        all.extend(frames);
    }
    all.extend(gateway.turn_raw());
    all
}

/// Source and destination of a packet of TCP or UDP.
fn ends_of(frame: &[u8]) -> [SocketAddrV4; 2] {
    [(26, 34), (30, 36)].map(|(address, port)| {
        let octets: [u8; 4] = frame[address..address + 4].try_into().unwrap();
        end(octets, u16::from_be_bytes([frame[port], frame[port + 1]]))
    })
}

/// Everything that the worker remembers of its connections.
fn memory(gateway: &Gateway) -> String {
    let mut all = String::new();
    gateway
        .worker
        .table
        .scan(0, usize::MAX, |id, record| all += &format!("{id:?} {record:?}\n"));
    all
}

fn modes() -> impl Strategy<Value = (Mode, TunnelKind, bool)> {
    prop_oneof![
        Just((Mode::Nat, TunnelKind::Ipip, false)),
        Just((Mode::Dr, TunnelKind::Ipip, false)),
        Just((Mode::Tun, TunnelKind::Ipip, false)),
        Just((Mode::Tun, TunnelKind::Gre, false)),
        Just((Mode::Tun, TunnelKind::Gue { port: 6080 }, false)),
        Just((Mode::Fullnat, TunnelKind::Ipip, false)),
        Just((Mode::Fullnat, TunnelKind::Ipip, true)),
    ]
}

proptest! {
    #[test]
    fn both_ways_are_one((mode, kind, toa) in modes(), steps in steps(), bursts: bool) {
        let mut straight = gateway(mode, kind, toa);
        let mut long = gateway(mode, kind, toa);
        long.worker.only_long = true;
        prop_assert_eq!(run(&mut straight, &steps, bursts), run(&mut long, &steps, bursts));
        prop_assert_eq!(memory(&straight), memory(&long));
        prop_assert_eq!(format!("{:?}", straight.stats), format!("{:?}", long.stats));
    }
}

/// That the test above tests something: packets in the middle of connections do take the straight way.
#[test]
fn established_connections_go_straight() {
    for mode in [Mode::Nat, Mode::Dr, Mode::Fullnat] {
        let mut gateway = gateway(mode, TunnelKind::Ipip, false);
        let from = client(1, 40000);
        gateway.establish(from, WEB);
        let sent = Sent::tcp(from, WEB, ACK).at(1001, 5001).data(b"straight");
        let frame = sent.frame(WAN_MAC);
        let mut packet = crate::packet::TestPacket::new(&frame);
        let headers = crate::packet::parse(&packet, &gateway.worker.rules[0]).unwrap();
        let query = gateway.worker.table.announce(headers.key, headers.protocol);
        let mut found = [0];
        gateway.worker.table.find_candidates(&[query], &mut found);
        let next = gateway
            .worker
            .go_straight(&mut packet, &headers, &query, found[0]);
        assert!(next.is_some(), "{mode:?}");
    }
}
