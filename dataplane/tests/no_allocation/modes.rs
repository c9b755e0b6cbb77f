//! The same for every mode, both families, fragments, tunnels, SCTP, and ICMP in all directions.

use super::carried::*;
use super::frames::{ACK, FIN, SYN, arp};
use super::plan::*;
use super::wire::*;
use super::{ALLOCATED, FREED, Rig};
use dataplane::drops::DropReason;
use dataplane::flow::Mode;
use dataplane::neighbour::Prefix;
use dataplane::packet::{MacAddr, PortId};
use dataplane::service::{ClientAddress, MarkRule, Persistence, Protocol};
use dataplane::time::seconds;
use dataplane::worker::Order;
use std::net::SocketAddr;

/// In both families: TCP, UDP and SCTP by NAT at port 80, a tunnel to the other family at 81, DR with persistence at 82,
/// single packets by NAT with their replies at 83, TCP and UDP by FULLNAT to the other family at 85; and a firewall
/// mark that no service is for.
fn plan() -> Plan {
    let mut plan = Plan::dual();
    plan.sizes.connections = 400;
    plan.sizes.neighbours = 32;
    plan.sizes.fragments = 2;
    plan.settings.icmp_rate = 15;
    plan.settings.transit = true;
    plan.settings.fragment_timeout = seconds(1);
    plan.marks = vec![MarkRule {
        mark: 7,
        destination: Prefix::around(Family::V4.vip(0).ip(), 24),
        source: None,
        protocol: None,
        ports: Vec::new(),
        input: None,
    }];
    for (family, other) in [(Family::V4, Family::V6), (Family::V6, Family::V4)] {
        for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
            let slot = plan.add(family.vip(80), protocol, vec![family.real(1, Mode::Nat, 8080)]);
            plan.edit(slot, |service| service.mss_clamp = 1300);
        }
        plan.add(family.vip(81), Protocol::Tcp, vec![other.real(2, Mode::Tun, 81)]);
        let kept = plan.add(family.vip(82), Protocol::Tcp, vec![family.real(3, Mode::Dr, 82)]);
        plan.edit(kept, |service| {
            service.persistence = Some(Persistence::new(seconds(2)))
        });
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let slot = plan.add(family.vip(85), protocol, vec![other.real(6, Mode::Fullnat, 85)]);
            plan.edit(slot, |service| service.client_address = ClientAddress::Toa);
        }
        let once = plan.add(family.vip(83), Protocol::Udp, vec![family.real(4, Mode::Nat, 83)]);
        plan.edit(once, |service| {
            service.one_packet = true;
            service.translate_replies = true;
        });
    }
    plan
}

fn come(rig: &mut Rig, port: PortId, packet: &[u8]) {
    let mac = if port == WAN { WAN_MAC } else { LAN_MAC };
    rig.arrive(port, &link(mac, packet));
}

/// One client's packets in one family, and what servers and routers send about them.
fn traffic(rig: &mut Rig, family: Family, number: u16) {
    let client = family.client(1 + (number % 200) as u8, 1024 + number);
    let (vip, server) = (family.vip(80), family.server(1, 8080));
    let tcp = |to: SocketAddr, flags, data: &[u8]| Wire::tcp(client, to, flags, data);
    let init = [
        &[1, 0, 0, 20, 0, 0, 0, 1][..],
        &[0, 1, 0, 0, 0, 5, 0, 5, 0, 0, 0, 1],
    ]
    .concat();
    let long = Wire::udp(client, vip, &[7; 3000]).may_be_cut().packet();
    let mut inbound = vec![
        tcp(vip, SYN, b"").with_options(&[2, 4, 5, 180]),
        Wire::udp(client, vip, b"query"),
        Wire::sctp(client, vip, 0, &init),
        tcp(family.vip(81), SYN, b""),
        tcp(family.vip(81), ACK, &[7; 1400]),
        tcp(family.vip(81), ACK, &[7; 1440]),
        tcp(family.vip(82), SYN, b""),
        Wire::udp(client, family.vip(83), b"once"),
        tcp(family.vip(84), SYN, b""),
        tcp(family.vip(85), SYN, b"").with_options(&[2, 4, 5, 180]),
        tcp(family.vip(85), ACK, &[7; 1440]),
        Wire::udp(client, family.vip(85), b"query"),
        Wire::ping(client.ip(), vip.ip(), b"ping"),
        tcp(vip, ACK, b"last hop").hops(1),
        Wire::ping(client.ip(), family.server(5, 0).ip(), b"to a stranger"),
    ];
    if number.is_multiple_of(3) {
        inbound.push(tcp(vip, FIN | ACK, b""));
    }
    for packet in inbound {
        come(rig, WAN, &packet.packet());
    }
    // Whole, or never.
    let pieces = cut(&long, 1240);
    let count = if number.is_multiple_of(4) { 2 } else { 3 };
    for piece in &pieces[..count] {
        come(rig, WAN, piece);
    }
    let across = Wire::udp(client, family.vip(85), &[7; 2000]).may_be_cut();
    for piece in cut(&across.packet(), 1240) {
        come(rig, WAN, &piece);
    }
    let too_big = if family == Family::V4 {
        (3, 4, 1300)
    } else {
        (2, 0, 1300)
    };
    let error = |from, to, quote: &Wire| {
        let (kind, code, rest) = too_big;
        Wire::icmp(from, to, kind, code, rest, &quote.packet()).packet()
    };
    let router = family.client(254, 0).ip();
    come(
        rig,
        WAN,
        &error(router, vip.ip(), &Wire::tcp(vip, client, ACK, b"page")),
    );
    come(
        rig,
        WAN,
        &error(
            router,
            family.vip(82).ip(),
            &Wire::tcp(family.vip(82), client, ACK, b"page"),
        ),
    );
    for packet in [
        Wire::tcp(server, client, SYN | ACK, b""),
        Wire::udp(server, client, b"answer"),
        Wire::udp(family.server(4, 83), client, b"answer"),
    ] {
        come(rig, LAN, &packet.packet());
    }
    come(
        rig,
        LAN,
        &error(server.ip(), client.ip(), &Wire::tcp(client, server, ACK, b"page")),
    );
}

/// What was sent has its effects: neighbours answer questions, and a router complains of some tunnel packets.
fn react(rig: &mut Rig, sent: Vec<(PortId, Vec<u8>)>, answering: bool) {
    for out in sent.into_iter().map(Out::read) {
        let packet = &out.packet;
        let mac = if out.port == LAN {
            server_mac(1)
        } else {
            ROUTER_MAC
        };
        if out.port == LAN && !out.arp {
            answer_across(rig, packet);
        }
        if out.arp && packet[7] == 1 && answering {
            let address = |at: usize| <[u8; 4]>::try_from(&packet[at..at + 4]).unwrap().into();
            rig.arrive(out.port, &arp(2, mac, address(24), out.from_mac, address(14)));
        } else if !out.arp && packet[0] >> 4 == 6 && packet[6] == 58 && packet[40] == 135 && answering {
            advertise(rig, &out, mac);
        } else if out.port == LAN && matches!(packet[if packet[0] >> 4 == 4 { 9 } else { 6 }], 4 | 41) {
            let family = if packet[0] >> 4 == 4 {
                Family::V4
            } else {
                Family::V6
            };
            let router = family.server(7, 0).ip();
            let quote = &packet[..packet.len().min(200)];
            let about = Wire::icmp(
                router,
                family.own(LAN),
                if family == Family::V4 { 11 } else { 3 },
                0,
                0,
                quote,
            );
            come(rig, LAN, &about.packet());
        }
    }
}

/// A server of the other family answers, and a router complains of what it was sent.
fn answer_across(rig: &mut Rig, packet: &[u8]) {
    let v4 = packet[0] >> 4 == 4;
    if is_fragment(packet) || !matches!(packet[if v4 { 9 } else { 6 }], 6 | 17) {
        return;
    }
    let seen = Wire::read(packet);
    if seen.to.port() != 85 {
        return;
    }
    let reply = match seen.flags() {
        0 => Wire::udp(seen.to, seen.from, b"answer"),
        _ => Wire::tcp(seen.to, seen.from, SYN | ACK, b"").with_options(&[2, 4, 5, 180]),
    };
    come(rig, LAN, &reply.packet());
    let (kind, code, mtu) = if v4 { (3, 4, 1300) } else { (2, 0, 1300) };
    let error = Wire::icmp(seen.to.ip(), seen.from.ip(), kind, code, mtu, packet);
    come(rig, LAN, &error.packet());
}

fn advertise(rig: &mut Rig, question: &Out, mac: MacAddr) {
    let asked = question.wire();
    let target = <[u8; 16]>::try_from(&asked.data()[..16]).unwrap();
    let data = [&target[..], &[2, 1], &mac.0].concat();
    let told = Wire::icmp(target.into(), asked.from.ip(), 136, 0, 0x6000_0000, &data).hops(255);
    rig.arrive(question.port, &link(question.from_mac, &told.packet()));
}

#[test]
fn no_turn_allocates_or_frees_in_any_mode() {
    let mut plan = plan();
    let known = plan.neighbours.clone();
    let mut rig = Rig::new(&mut plan);
    for round in 0..120u16 {
        for n in 0..4 {
            for family in Family::BOTH {
                traffic(&mut rig, family, round * 4 + n);
            }
            for _ in 0..6 {
                let sent = rig.turn_raw();
                react(&mut rig, sent, round % 7 != 3);
            }
        }
        match round % 10 {
            2 => plan.know_nobody(),
            7 => plan.neighbours = known.clone(),
            9 => plan.set_mtu(LAN, if round % 20 == 9 { 1280 } else { 1500 }),
            _ => {}
        }
        rig.mailbox.orders.push(Order::Publish(plan.snapshot())).unwrap();
        for _ in 0..if round % 10 == 3 { 6 } else { 1 } {
            rig.now = rig.now.after(seconds(1));
            let sent = rig.turn_raw();
            react(&mut rig, sent, false);
        }
        if round % 20 == 19 {
            rig.now = rig.now.after(seconds(905));
            for _ in 0..20 {
                rig.turn_raw();
            }
        }
        while rig.mailbox.spent.pop().is_some() {}
        while rig.mailbox.events.pop().is_some() {}
    }
    assert_eq!((ALLOCATED.get(), FREED.get()), (0, 0));

    // And it has been through all of that.
    assert!(rig.stats.conserves());
    assert!(rig.stats.opened.get() > 2000, "{:?}", rig.stats);
    let count = |reason: DropReason| rig.stats.drops[reason as usize].get();
    for reason in [
        DropReason::TtlExceeded,
        DropReason::NoService,
        DropReason::ExceedsMtu,
        DropReason::IcmpRate,
        DropReason::FragmentTimeout,
        DropReason::FragmentTableFull,
        DropReason::NeighbourFailed,
    ] {
        assert!(count(reason) > 0, "{}", reason.label());
    }
}
