//! Both families, every mode, in fragments and tunnels and VLANs, damaged in any way: nothing stops the worker, its
//! books balance, and what it sends is well formed.

use super::carried::*;
use super::frames::{ACK, FIN, RST, SYN, arp, ones_sum};
use super::gateway::*;
use super::header::word;
use super::plan::*;
use super::wire::*;
use crate::flow::Mode;
use crate::packet::{MacAddr, PortId};
use crate::service::{PortSettings, Protocol, Tunnel, TunnelChecksum, TunnelKind, Vlan};
use crate::time::seconds;
use proptest::prelude::*;
use std::net::IpAddr;

/// What somebody sends.
#[derive(Clone, Debug)]
enum Step {
    /// One of the frames of [`frames`], by a choice of its parts, whole.
    Frame(u8, u8, u8),
    /// The same, a few bytes of it changed: a place and a value each.
    Damaged(u8, u8, u8, Vec<(u16, u8)>),
    /// The same, cut off or with bytes behind it.
    Resized(u8, u8, u8, u16),
    Turn,
    /// Time passes, in ticks.
    Pass(u32),
    /// Settings change.
    Change(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let frame = || (any::<u8>(), any::<u8>(), any::<u8>());
    let damage = proptest::collection::vec((0u16..160, any::<u8>()), 1..4);
    let step = prop_oneof![
        10 => frame().prop_map(|(a, b, c)| Step::Frame(a, b, c)),
        10 => (frame(), damage).prop_map(|((a, b, c), damage)| Step::Damaged(a, b, c, damage)),
        3 => (frame(), 0u16..1600).prop_map(|((a, b, c), length)| Step::Resized(a, b, c, length)),
        6 => Just(Step::Turn),
        2 => prop_oneof![0u32..200, Just(seconds(31)), Just(seconds(700))].prop_map(Step::Pass),
        1 => any::<u8>().prop_map(Step::Change),
    ];
    proptest::collection::vec(step, 1..120)
}

/// A gateway with everything, and little room for it.
fn cramped() -> Gateway {
    let mut plan = Plan::dual();
    plan.sizes.connections = 24;
    plan.sizes.neighbours = 32;
    plan.sizes.fragments = 3;
    plan.settings.icmp_rate = 50;
    plan.use_locals(pool(1, 3000, 3007));
    let mut ports = plan.ports.to_vec();
    ports.push(PortSettings {
        vlan: Some(Vlan { parent: WAN, id: 5 }),
        addresses: vec![],
        ..ports[0].clone()
    });
    plan.ports = ports.into();
    for (family, other) in [(Family::V4, Family::V6), (Family::V6, Family::V4)] {
        for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
            plan.add(family.vip(80), protocol, vec![family.real(1, Mode::Nat, 8080)]);
            let mut wrapped = other.real(2, Mode::Tun, 81);
            wrapped.tunnel = Tunnel {
                kind: TunnelKind::Gue { port: 6080 },
                checksum: TunnelChecksum::Outer,
            };
            let plain = family.real(3, Mode::Tun, 81);
            plan.add(
                family.vip(81),
                protocol,
                vec![wrapped, plain, family.real(4, Mode::Dr, 81)],
            );
        }
        let once = plan.add(family.vip(83), Protocol::Udp, vec![family.real(5, Mode::Nat, 83)]);
        plan.edit(once, |service| {
            service.one_packet = true;
            service.translate_replies = true;
        });
    }
    plan.add(Family::V4.vip(82), Protocol::Tcp, vec![server(6, Mode::Fullnat)]);
    plan.add(Family::V4.vip(82), Protocol::Udp, vec![server(7, Mode::Fullnat)]);
    Gateway::new(plan)
}

/// The packets about one client and one service, from all sides: `kind` says which, `who` whose, `what` how.
fn packets(kind: u8, who: u8, what: u8) -> (PortId, Vec<Vec<u8>>) {
    let family = Family::BOTH[usize::from(who & 1)];
    let client = family.client(1 + (who >> 1 & 3), 2000 + u16::from(who >> 3 & 3));
    let vip = family.vip(80 + u16::from(what & 3));
    let server = family.server(1 + u32::from(what & 7), 8080);
    let flags = [SYN, ACK, SYN | ACK, FIN | ACK, RST, 0][usize::from(what) % 6];
    let data = vec![what; [0, 1, 40, 1200, 1444][usize::from(what) % 5]];
    let chunk = match what % 4 {
        0 => super::sctp::init(&[0, 5, 0, 8, 10, 0, 0, 11]),
        1 => super::sctp::data(b"data"),
        _ => super::sctp::chunk(what % 16, 0, &[1, 2, 3, 4]),
    };
    let extra: &[u8] = match (family, what >> 5) {
        (Family::V4, 1) => &[1, 1, 1, 0],
        (Family::V6, 1) => &[0, 0, 1, 4, 0, 0, 0, 0],
        _ => &[],
    };
    let error = |from: IpAddr, to: IpAddr, about: &Wire| {
        let kinds: [(u8, u8, u32); 3] = match family {
            Family::V4 => [(3, 4, 1300), (11, 0, 0), (5, 0, 0)],
            Family::V6 => [(2, 0, 1300), (3, 0, 0), (1, 4, 0)],
        };
        let (kind, code, rest) = kinds[usize::from(what) % 3];
        let quote = about.packet();
        let length = quote.len().min(28 + usize::from(what));
        Wire::icmp(from, to, kind, code, rest, &quote[..length])
    };
    let router = family.client(254, 0).ip();
    let (port, wire) = match kind % 12 {
        0 | 1 => (WAN, Wire::tcp(client, vip, flags, &data)),
        2 => (WAN, Wire::udp(client, vip, &data)),
        3 => (WAN, Wire::sctp(client, vip, u32::from(what), &chunk)),
        4 => (LAN, Wire::tcp(server, client, flags, &data)),
        5 => (LAN, Wire::udp(server, client, &data)),
        6 => (LAN, Wire::sctp(server, client, u32::from(what), &chunk)),
        7 => (WAN, error(router, vip.ip(), &Wire::tcp(vip, client, ACK, &data))),
        8 => (
            LAN,
            error(server.ip(), client.ip(), &Wire::tcp(client, server, ACK, &data)),
        ),
        9 => return (LAN, vec![tunnel_error(family, client, vip, what)]),
        10 => (WAN, Wire::ping(client.ip(), vip.ip(), &data)),
        _ => {
            let long = Wire::udp(client, vip, &vec![what; 1800 + 400 * usize::from(what % 3)]);
            let mut pieces = cut(&long.may_be_cut().packet(), 8 * (70 + usize::from(what)));
            if what & 4 != 0 {
                pieces.reverse();
            }
            if what & 8 != 0 {
                pieces.pop();
            }
            return (WAN, pieces);
        }
    };
    let wire = wire
        .with_between(extra)
        .hops(what % 4 + if what < 200 { 60 } else { 0 });
    (port, vec![wire.packet()])
}

/// An error from inside a tunnel between families or within one.
fn tunnel_error(
    family: Family,
    client: std::net::SocketAddr,
    vip: std::net::SocketAddr,
    what: u8,
) -> Vec<u8> {
    let inner = Wire::tcp(client, vip, ACK, b"").packet();
    let protocol = if family == Family::V4 { 4 } else { 41 };
    let outer = family.own(LAN);
    // An outer header is one of a UDP packet without its UDP header.
    let mut quote = Wire::udp(
        std::net::SocketAddr::new(outer, 0),
        family.server(3, 0),
        &inner[8.min(inner.len())..],
    )
    .packet();
    let at = if family == Family::V4 { 20 } else { 40 };
    quote[if family == Family::V4 { 9 } else { 6 }] = protocol;
    quote[at..].copy_from_slice(&inner);
    if family == Family::V4 {
        quote[10..12].fill(0);
        let sum = !ones_sum(&[&quote[..20]]);
        quote[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    let (kind, code, rest) = if family == Family::V4 {
        (3, 4, 1300)
    } else {
        (2, 0, 1300)
    };
    let length = quote.len().min(40 + usize::from(what));
    Wire::icmp(
        family.server(7, 0).ip(),
        outer,
        kind,
        code,
        rest,
        &quote[..length],
    )
    .packet()
}

/// Frames for the gateway: packets, and what neighbours say; some with a tag.
fn frames(kind: u8, who: u8, what: u8) -> (PortId, Vec<Vec<u8>>) {
    if kind >= 240 {
        let (port, mac) = if who & 1 == 0 {
            (WAN, WAN_MAC)
        } else {
            (LAN, LAN_MAC)
        };
        let sender = MacAddr([2, 5, 0, 0, who, what]);
        if what & 1 == 0 {
            let from = std::net::Ipv4Addr::new(10, 0, 0, what);
            return (port, vec![arp(1 + (who >> 1 & 1), sender, from, mac, LAN_IP)]);
        }
        let target = match Family::V6.own(port) {
            IpAddr::V6(own) => own.octets(),
            IpAddr::V4(_) => [0; 16],
        };
        let from = Family::V6.server(u32::from(what & 31), 0).ip();
        let (kind, option) = if what & 2 == 0 { (135, 1) } else { (136, 2) };
        let data = [&target[..], &[option, 1], &sender.0].concat();
        let message = Wire::icmp(from, Family::V6.own(port), kind, 0, 0x6000_0000, &data).hops(255);
        return (port, vec![link(mac, &message.packet())]);
    }
    let (port, packets) = packets(kind, who, what);
    let mac = if port == WAN { WAN_MAC } else { LAN_MAC };
    let frame = |packet: Vec<u8>| match who >> 5 {
        1 => tagged(5, &link(mac, &packet)),
        2 => tagged(0, &link(mac, &packet)),
        _ => link(mac, &packet),
    };
    (port, packets.into_iter().map(frame).collect())
}

/// What leaves fits the link, and its headers say what it is.
fn check(port: PortId, frame: Vec<u8>) {
    assert!(frame.len() >= 14 + 20, "{port:?}: {frame:02x?}");
    let out = Out::read((port, frame));
    let packet = &out.packet;
    if out.arp {
        return;
    }
    assert!(
        packet.len() <= 1500,
        "{} bytes: {:02x?}",
        packet.len(),
        &packet[..80]
    );
    if packet[0] >> 4 == 4 {
        let header_len = usize::from(packet[0] & 15) * 4;
        assert_eq!(ones_sum(&[&packet[..header_len]]), 0xffff, "{packet:02x?}");
        assert!(usize::from(word(packet, 2)) <= packet.len() && packet[8] > 0);
    } else {
        assert!(40 + usize::from(word(packet, 4)) <= packet.len() && packet[7] > 0);
    }
}

fn run(steps: Vec<Step>) {
    let mut gateway = cramped();
    for step in steps {
        let arriving = match step {
            Step::Frame(kind, who, what) => frames(kind, who, what),
            Step::Damaged(kind, who, what, damage) => {
                let (port, mut all) = frames(kind, who, what);
                for (at, value) in damage {
                    for frame in &mut all {
                        let length = frame.len();
                        frame[usize::from(at) % length] ^= value;
                    }
                }
                (port, all)
            }
            Step::Resized(kind, who, what, length) => {
                let (port, mut all) = frames(kind, who, what);
                all.iter_mut()
                    .for_each(|frame| frame.resize(usize::from(length), 0));
                (port, all)
            }
            Step::Turn => (WAN, vec![]),
            Step::Pass(ticks) => {
                for (port, frame) in gateway.pass_raw(ticks) {
                    check(port, frame);
                }
                continue;
            }
            Step::Change(what) => {
                let sent = gateway.change_raw(|plan| {
                    let settings = &mut plan.settings;
                    settings.transit = what & 1 != 0;
                    settings.schedule_icmp = what & 2 != 0;
                    settings.pmtu_disc = what & 4 != 0;
                    settings.nat_icmp_send = what & 8 != 0;
                    settings.sloppy_sctp = what & 16 != 0;
                    settings.expire_nodest_conn = what & 32 != 0;
                    plan.set_mtu(LAN, if what & 64 != 0 { 1280 } else { 1500 });
                    if what & 128 != 0 {
                        plan.know_nobody();
                    }
                });
                for (port, frame) in sent {
                    check(port, frame);
                }
                continue;
            }
        };
        let (port, all) = arriving;
        for frame in &all {
            gateway.arrive(port, frame);
        }
        if all.is_empty() || all.len() > 1 {
            for (port, frame) in gateway.turn_raw() {
                check(port, frame);
            }
        }
    }
    gateway.check();
    for (port, frame) in gateway.pass_raw(seconds(1000)) {
        check(port, frame);
    }
    assert_eq!(gateway.stats.connections.get(), 0, "all is over in the end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn nothing_that_arrives_stops_the_worker(steps in steps()) {
        run(steps);
    }
}

/// A frame with padding behind its packet that alone is longer than the link allows: only the packet goes on.
#[test]
fn padding_does_not_make_a_frame_too_long() {
    run(vec![Step::Resized(36, 0, 30, 1515), Step::Turn]);
}
