//! Fragments through the pipeline: put together, forwarded as one packet, and cut again.

use super::carried::*;
use super::exchange::*;
use super::frames::{ACK, SYN};
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::packet::{MacAddr, PortId};
use crate::service::{Protocol, TunnelChecksum, TunnelKind};
use crate::time::seconds;
use std::net::SocketAddr;

/// Bytes of payload in each fragment of an ordinary link, by family.
fn step(family: Family) -> usize {
    match family {
        Family::V4 => 1480,
        Family::V6 => 1400,
    }
}

fn fragments(packet: &Wire, family: Family) -> Vec<Vec<u8>> {
    cut(&packet.packet(), step(family))
}

/// What a turn sends by that port, put together.
fn whole(sent: Vec<Out>, port: PortId) -> Vec<u8> {
    assert!(
        sent.iter()
            .all(|out| out.port == port && out.packet.len() <= 1500)
    );
    assemble(&sent.into_iter().map(|out| out.packet).collect::<Vec<_>>())
}

/// Fragments arrive at a port, one a turn; what comes out at the end.
fn all(gateway: &mut Gateway, port: PortId, pieces: &[Vec<u8>]) -> Vec<Out> {
    let (last, before) = pieces.split_last().unwrap();
    for piece in before {
        gateway.come(port, piece);
        assert_eq!(gateway.out(), [], "sent before it was whole");
    }
    gateway.come(port, last);
    gateway.out()
}

fn modes() -> [(Family, Mode); 8] {
    [
        (Family::V4, Mode::Nat),
        (Family::V4, Mode::Fullnat),
        (Family::V4, Mode::Dr),
        (Family::V4, Mode::Tun),
        (Family::V6, Mode::Nat),
        (Family::V6, Mode::Fullnat),
        (Family::V6, Mode::Dr),
        (Family::V6, Mode::Tun),
    ]
}

fn service(family: Family, mode: Mode) -> Gateway {
    let mut plan = Plan::dual();
    let port = if matches!(mode, Mode::Nat | Mode::Fullnat) {
        8080
    } else {
        80
    };
    plan.add(family.vip(80), Protocol::Udp, vec![family.real(1, mode, port)]);
    Gateway::new(plan)
}

/// FRAG-01: a datagram in fragments, in order, reversed, and between another client's, reaches one server whole, and
/// the answer the client.
#[test]
fn datagrams_in_fragments_arrive_whole() {
    for (family, mode) in modes() {
        let mut gateway = service(family, mode);
        let vip = family.vip(80);
        let payload: Vec<u8> = (0..3000u32).map(|at| (at * 7 % 251) as u8).collect();
        let query = |number| Wire::udp(family.client(number, 40000), vip, &payload).may_be_cut();
        let (one, two) = (query(1), query(2));
        let pieces = fragments(&one, family);
        assert_eq!(pieces.len(), 3);
        let reversed: Vec<_> = pieces.iter().rev().cloned().collect();
        for pieces in [&pieces, &reversed] {
            let arrived = whole(all(&mut gateway, WAN, pieces), LAN);
            check(&arrived, &one, family, mode);
        }
        let others = fragments(&two, family);
        let mut sent = Vec::new();
        for (piece, other) in pieces.iter().zip(&others) {
            gateway.come(WAN, piece);
            gateway.come(WAN, other);
            sent.extend(gateway.out());
        }
        let second = sent.split_off(sent.len() / 2);
        check(&whole(sent, LAN), &one, family, mode);
        check(&whole(second, LAN), &two, family, mode);
        assert_eq!(gateway.stats.held.get(), 0);
        assert_eq!(gateway.connections().len(), 2);
        answer(&mut gateway, &payload, family, mode);
    }
}

/// What the server gets is what the client has sent.
fn check(arrived: &[u8], sent: &Wire, family: Family, mode: Mode) {
    match mode {
        Mode::Tun => assert_eq!(unwrap(arrived).2, sent.later()),
        Mode::Dr => assert_eq!(Wire::read(arrived), sent.later()),
        Mode::Nat => {
            let expected = sent.between(sent.from, family.server(1, 8080)).later();
            assert_eq!(Wire::read(arrived), expected);
        }
        Mode::Fullnat => {
            let seen = Wire::read(arrived);
            assert_ne!(seen.from, sent.from);
            assert_eq!(
                relabelled(&seen, sent),
                sent.between(seen.from, family.server(1, 8080)).later()
            );
        }
    }
}

fn answer(gateway: &mut Gateway, payload: &[u8], family: Family, mode: Mode) {
    if !matches!(mode, Mode::Nat | Mode::Fullnat) {
        return;
    }
    let (client, vip) = (family.client(1, 40000), family.vip(80));
    let local = gateway.towards_server(&Wire::udp(client, vip, b"")).from;
    let reply = Wire::udp(family.server(1, 8080), local, payload).may_be_cut();
    let mut pieces = fragments(&reply, family);
    pieces.swap(0, 1);
    let arrived = whole(all(gateway, LAN, &pieces), WAN);
    let seen = Wire::read(&arrived);
    let seen = if mode == Mode::Fullnat {
        relabelled(&seen, &reply)
    } else {
        seen
    };
    assert_eq!(seen, reply.between(vip, client).later());
}

/// A packet from a shared address, with the identification that its sender gave it; IPv6 keeps its flow label.
fn relabelled(seen: &Wire, sent: &Wire) -> Wire {
    let mut seen = seen.clone();
    if seen.from.is_ipv4() {
        assert_ne!(seen.label, sent.label, "an identification of the gateway's");
        seen.label = sent.label;
    }
    seen
}

/// FRAG: two clients behind one local address, and two servers behind one VIP, may choose one identification. What is
/// put together from their fragments would be a mixture, so the gateway chooses anew.
#[test]
fn fragments_from_a_shared_address_are_told_apart() {
    for family in Family::BOTH {
        let mut gateway = service(family, Mode::Fullnat);
        let (vip, payload) = (family.vip(80), [7; 3000]);
        let mut known = Vec::new();
        let mut locals = Vec::new();
        for number in 1..=3 {
            let query = Wire::udp(family.client(number, 40000), vip, &payload).may_be_cut();
            let sent = all(&mut gateway, WAN, &fragments(&query, family));
            known.push(identification(&sent));
            locals.push(Wire::read(&whole(sent, LAN)).from);
        }
        for local in locals {
            let reply = Wire::udp(family.server(1, 8080), local, &payload).may_be_cut();
            known.push(identification(&all(
                &mut gateway,
                LAN,
                &fragments(&reply, family),
            )));
        }
        // What came whole and is too long for its way out, too.
        gateway.change_raw(|plan| plan.set_mtu(LAN, 1280));
        if family == Family::V4 {
            let query = Wire::udp(family.client(1, 40000), vip, &[7; 1400]).may_be_cut();
            gateway.come(WAN, &query.packet());
            known.push(identification(&gateway.out()));
        }
        let count = known.len();
        known.sort_unstable();
        known.dedup();
        assert_eq!(known.len(), count, "{family:?}");
    }
}

/// The identification that all of these fragments have.
fn identification(sent: &[Out]) -> u32 {
    assert!(sent.len() > 1);
    let of = |packet: &[u8]| match packet[0] >> 4 {
        4 => u16::from_be_bytes([packet[4], packet[5]]).into(),
        _ => {
            assert_eq!(packet[6], 44, "a fragment");
            u32::from_be_bytes(packet[44..48].try_into().unwrap())
        }
    };
    let first = of(&sent[0].packet);
    assert!(sent.iter().all(|out| of(&out.packet) == first));
    first
}

/// The way that the packet came by was known to its sender: it leaves in pieces no larger than it came in.
#[test]
fn pieces_leave_no_larger_than_they_came() {
    for (family, step, most) in [(Family::V4, 680, 700), (Family::V6, 1240, 1288)] {
        let mut gateway = service(family, Mode::Nat);
        let packet = Wire::udp(family.client(1, 40000), family.vip(80), &[7; 3000]).may_be_cut();
        let sent = all(&mut gateway, WAN, &cut(&packet.packet(), step));
        assert_eq!(sent[0].packet.len(), most);
        assert!(sent.iter().all(|out| out.packet.len() <= most));
        check(&whole(sent, LAN), &packet, family, Mode::Nat);
    }
}

/// A packet that fits the way out is not put into a tunnel in one piece when it came in several: its tunnel packets
/// are cut for the link.
#[test]
fn tunnel_packets_of_fragments_fit_the_link() {
    for (inner, outer) in Family::BOTH
        .into_iter()
        .flat_map(|inner| Family::BOTH.map(|outer| (inner, outer)))
    {
        let plan = super::modes::tunnelled(
            inner,
            outer,
            TunnelKind::Gue { port: 6080 },
            TunnelChecksum::Outer,
        );
        let mut gateway = Gateway::new(plan);
        for length in [1300, 1452, 1473, 2000, 8000] {
            let packet = Wire::udp(inner.client(1, 40000), inner.vip(80), &vec![9; length]).may_be_cut();
            let sent = all(&mut gateway, WAN, &cut(&packet.packet(), 1240));
            let arrived = whole(sent, LAN);
            assert_eq!(
                unwrap(&arrived).2,
                packet.later(),
                "{inner:?} in {outer:?}, {length}"
            );
        }
    }
}

/// Fragments of IPv6 that are longer than the way out were too big for it: their sender is told, as it would be by any
/// router, and may cut smaller. Those of IPv4 are cut again.
#[test]
fn fragments_that_do_not_fit_the_way_out_are_told_or_cut() {
    for family in Family::BOTH {
        for mode in [Mode::Nat, Mode::Tun] {
            let mut gateway = service(family, mode);
            gateway.change_raw(|plan| plan.set_mtu(LAN, 1400));
            let packet = Wire::udp(family.client(1, 40000), family.vip(80), &[7; 3000]).may_be_cut();
            let sent = all(&mut gateway, WAN, &fragments(&packet, family));
            if family == Family::V4 {
                assert!(sent.iter().all(|out| out.packet.len() <= 1400));
                check(&whole(sent, LAN), &packet, family, mode);
                continue;
            }
            let room = if mode == Mode::Nat { 1400 } else { 1360 };
            assert_eq!(only(sent).wire().message(), (2, 0, room));
            let smaller = all(&mut gateway, WAN, &cut(&packet.packet(), 1304));
            check(&whole(smaller, LAN), &packet, family, mode);
        }
    }
}

/// A lone fragment goes nowhere, and is counted when its time is over; the rest of its packet comes too late.
#[test]
fn what_never_becomes_whole_is_given_up() {
    for family in Family::BOTH {
        let mut gateway = service(family, Mode::Nat);
        let packet = Wire::udp(family.client(1, 40000), family.vip(80), &[7; 3000]).may_be_cut();
        let pieces = fragments(&packet, family);
        gateway.come(WAN, &pieces[0]);
        gateway.come(WAN, &pieces[2]);
        assert_eq!(gateway.out(), []);
        assert_eq!(gateway.stats.held.get(), 2);
        let (dropped, _) = gateway.dropped_by(|gateway| gateway.pass_raw(seconds(31)));
        assert_eq!(dropped, Some((DropReason::FragmentTimeout, 2)));
        gateway.come(WAN, &pieces[1]);
        assert_eq!(gateway.out(), []);
        assert_eq!((gateway.stats.held.get(), gateway.stats.opened.get()), (1, 0));
    }
}

/// Fragments that overlap are an attack (RFC 5722): nothing of their packet goes on.
#[test]
fn overlapping_fragments_take_their_packet_with_them() {
    for family in Family::BOTH {
        let mut gateway = service(family, Mode::Nat);
        let packet = Wire::udp(family.client(1, 40000), family.vip(80), &[7; 2000]).may_be_cut();
        let (wide, narrow) = (cut(&packet.packet(), 1000), cut(&packet.packet(), 504));
        let (dropped, sent) = gateway.dropped_by(|gateway| {
            gateway.come(WAN, &wide[0]);
            gateway.come(WAN, &narrow[1]);
            gateway.out()
        });
        assert_eq!((dropped, sent), (Some((DropReason::FragmentOverlap, 2)), vec![]));
    }
}

/// FRAG-03: fragments of what is nothing to the gateway are not kept: OSPF to its routers' group, and a stranger's.
#[test]
fn fragments_of_strangers_are_not_gathered() {
    let mut gateway = service(Family::V4, Mode::Dr);
    let router = SocketAddr::new(Family::V4.router(), 1);
    let mut packet = Wire::udp(router, "224.0.0.5:1".parse().unwrap(), &[1; 2000])
        .may_be_cut()
        .packet();
    packet[9] = 89;
    packet[10..12].fill(0);
    let sum = !super::frames::ones_sum(&[&packet[..20]]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let (dropped, sent) = gateway.dropped_by(|gateway| {
        for piece in cut(&packet, 1480) {
            gateway.arrive(WAN, &link(MacAddr([1, 0, 0x5e, 0, 0, 5]), &piece));
        }
        gateway.out()
    });
    assert_eq!((dropped, sent), (Some((DropReason::NotForUs, 2)), vec![]));
    let stranger = Wire::udp(
        Family::V4.client(1, 1),
        "192.0.2.9:1".parse().unwrap(),
        &[1; 2000],
    )
    .may_be_cut();
    let (dropped, sent) = gateway.dropped_by(|gateway| {
        for piece in fragments(&stranger, Family::V4) {
            gateway.come(WAN, &piece);
        }
        gateway.out()
    });
    assert_eq!((dropped, sent), (Some((DropReason::NotForUs, 2)), vec![]));
    assert_eq!(gateway.stats.held.get(), 0);
}

/// A TCP segment in fragments moves the state of its connection as a whole one does.
#[test]
fn segments_in_fragments_move_the_state() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::dual_web(Mode::Nat, Protocol::Tcp, 1, 8080));
        let (client, vip) = (family.client(1, 40000), family.vip(80));
        let server = family.server(1, 8080);
        let syn = Wire::tcp(client, vip, SYN, &[1; 1600]).may_be_cut();
        let arrived = whole(all(&mut gateway, WAN, &fragments(&syn, family)), LAN);
        assert_eq!(Wire::read(&arrived), syn.between(client, server).later());
        gateway.towards_client(&Wire::tcp(server, client, SYN | ACK, b""));
        let ack = Wire::tcp(client, vip, ACK, &[1; 1600]).may_be_cut();
        all(&mut gateway, WAN, &fragments(&ack, family));
        assert_eq!(gateway.state().0, "ESTABLISHED");
    }
}
