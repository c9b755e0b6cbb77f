//! The same for SNAT: every protocol, both families, full and dry, with rules that come and go.

use super::carried::*;
use super::frames::{ACK, FIN, SYN};
use super::plan::*;
use super::wire::*;
use super::{ALLOCATED, FREED, Rig};
use dataplane::drops::DropReason;
use dataplane::packet::PortId;
use dataplane::time::seconds;
use dataplane::worker::Order;

fn come(rig: &mut Rig, port: PortId, packet: &[u8]) {
    let mac = if port == WAN { WAN_MAC } else { LAN_MAC };
    rig.arrive(port, &link(mac, packet));
}

/// What a few hosts inside send in one round.
fn traffic(rig: &mut Rig, family: Family, round: u16) {
    for n in 0..6u16 {
        let host = family.server(1 + u32::from(n), 1024 + round);
        let server = family.client(1 + (round % 3) as u8, 443);
        let ping = Wire::ping(host.ip(), server.ip(), b"ping");
        let init = [1, 0, 0, 20, 0, 0, 0, 1, 0, 1, 0, 0, 0, 5, 0, 5, 0, 0, 0, 1];
        let mut packets = vec![
            Wire::tcp(host, server, SYN, b""),
            Wire::udp(host, server, b"query"),
            Wire::sctp(host, server, 0, &init),
            ping.clone(),
            ping.hops(1),
            Wire::tcp(host, server, ACK, &[7; 1400]),
            Wire::icmp(host.ip(), server.ip(), 0, 0, 0x0007_0001, b""),
        ];
        if n % 2 == 0 {
            packets.push(Wire::tcp(host, server, FIN | ACK, b""));
        }
        for packet in packets {
            come(rig, LAN, &packet.packet());
        }
        for piece in cut(&Wire::udp(host, server, &[7; 3000]).may_be_cut().packet(), 1240) {
            come(rig, LAN, &piece);
        }
    }
}

/// Servers answer what reaches them, and a router complains of it; hosts inside refuse what they get.
fn react(rig: &mut Rig, sent: Vec<(PortId, Vec<u8>)>, family: Family) -> usize {
    let router = family.client(254, 0).ip();
    let too_far = if family == Family::V4 { 11 } else { 3 };
    let mut reached = 0;
    for out in sent.into_iter().map(Out::read).filter(|out| !out.arp) {
        if (out.packet[0] >> 4 == 4) != (family == Family::V4) || is_fragment(&out.packet) {
            continue;
        }
        let seen = out.wire();
        let (from, to) = if out.port == WAN {
            (router, seen.from.ip())
        } else {
            (seen.to.ip(), seen.from.ip())
        };
        let answer = match seen.load {
            Load::Icmp { kind: 8, rest, .. } => Wire::icmp(seen.to.ip(), seen.from.ip(), 0, 0, rest, b"ping"),
            Load::Icmp { kind: 128, rest, .. } => {
                Wire::icmp(seen.to.ip(), seen.from.ip(), 129, 0, rest, b"ping")
            }
            Load::Tcp { flags, .. } if out.port == WAN => Wire::tcp(seen.to, seen.from, flags | ACK, b""),
            _ if out.port == WAN => seen.between(seen.to, seen.from),
            _ => continue,
        };
        reached += usize::from(out.port == WAN);
        come(rig, out.port, &answer.packet());
        let error = Wire::icmp(from, to, too_far, 0, 0, &seen.packet());
        come(rig, out.port, &error.packet());
    }
    reached
}

#[test]
fn no_turn_allocates_or_frees_with_snat() {
    let mut plan = Plan::behind_snat(10_000, 10_007);
    plan.sizes.connections = 120;
    plan.settings.expire_nodest_conn = true;
    let rules = plan.snat.clone();
    let mut rig = Rig::new(&mut plan);
    let mut reached = 0;
    for round in 0..200u16 {
        for family in Family::BOTH {
            traffic(&mut rig, family, round);
            for _ in 0..6 {
                let sent = rig.turn_raw();
                reached += react(&mut rig, sent, family);
            }
        }
        plan.snat = rules.clone();
        match round % 10 {
            3 => drop(plan.snat.remove(usize::from(round % 2))),
            5 => plan.snat.iter_mut().for_each(|rule| rule.client_limit = 2),
            7 => plan.route_by("203.0.113.3".parse().unwrap()),
            8 => plan.route_both(),
            _ => {}
        }
        rig.mailbox.orders.push(Order::Publish(plan.snapshot())).unwrap();
        rig.now = rig.now.after(seconds(if round % 20 == 19 { 905 } else { 3 }));
        for _ in 0..6 {
            rig.turn_raw();
        }
        while rig.mailbox.spent.pop().is_some() {}
        while rig.mailbox.events.pop().is_some() {}
    }
    assert_eq!((ALLOCATED.get(), FREED.get()), (0, 0));

    // And it has been through all of that.
    assert!(
        rig.stats.conserves() && reached > 1000,
        "{reached}: {:?}",
        rig.stats
    );
    assert!(rig.stats.opened.get() > 1000, "{:?}", rig.stats);
    for reason in [
        DropReason::SnatLimit,
        DropReason::LocalPortsExhausted,
        DropReason::TableFull,
        DropReason::TtlExceeded,
        DropReason::UnsupportedIcmp,
        DropReason::NotForUs,
    ] {
        let count = rig.stats.drops[reason as usize].get();
        assert!(count > 0, "{}: {:?}", reason.label(), rig.stats);
    }
}
