//! Several next hops (ECMP): flows spread over them and keep to their way, and a dead next hop is left by its own flows
//! alone.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::flow::Mode;
use crate::neighbour::{Connected, Prefix, Route, RouteTable};
use crate::packet::{MacAddr, PortId};
use crate::service::Protocol;
use crate::time::{Tick, seconds};
use crate::worker::Event;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

/// Router `number` of a port, which is no static neighbour.
fn router(port: PortId, number: u8) -> (Ipv4Addr, MacAddr) {
    let address = match port {
        WAN => Ipv4Addr::new(203, 0, 113, 240 + number),
        _ => Ipv4Addr::new(10, 0, 0, 240 + number),
    };
    (address, MacAddr([2, 0, 0, 0, port.0 + 7, number]))
}

/// The routes to `to` by these routers of a port.
pub(super) fn by(to: Prefix, port: PortId, routers: &[u8]) -> Vec<Route> {
    let route = |number: &u8| Route {
        to,
        via: router(port, *number).0.into(),
        port: None,
        weight: 1,
    };
    routers.iter().map(route).collect()
}

pub(super) fn set_routes(plan: &mut Plan, routes: &[Route]) {
    let connected: Vec<Connected> = [(WAN, WAN_IP), (LAN, LAN_IP)]
        .map(|(port, own)| Connected {
            port,
            prefix: Prefix::around(own.into(), 24),
        })
        .into();
    plan.routes = Arc::new(RouteTable::new(&connected, routes, &[]).unwrap());
}

/// Lets time pass while those of the routers answer that live; the numbers of routers asked, in order.
pub(super) fn live(gateway: &mut Gateway, ticks: u32, living: &[u8]) -> Vec<u8> {
    let mut asked = Vec::new();
    let until: Tick = gateway.now.after(ticks);
    while gateway.now != until {
        let step = until.since(gateway.now).min(10);
        for seen in gateway.pass(step) {
            let routers =
                (1..=4).flat_map(|number| [WAN, LAN].map(|port| (number, port, router(port, number))));
            for (number, port, (address, mac)) in routers {
                if seen.protocol != 0 || seen.icmp.0 != 1 || *seen.to.ip() != address {
                    continue;
                }
                asked.push(number);
                if living.contains(&number) {
                    gateway.arrive(port, &arp(2, mac, address, seen.from_mac, *seen.from.ip()));
                }
            }
        }
    }
    gateway.turn_raw();
    asked
}

fn number_of(seen: &Seen) -> u8 {
    assert_eq!(seen.to_mac.0[4], seen.port + 7, "{seen:?}");
    seen.to_mac.0[5]
}

fn source(flow: u32) -> SocketAddrV4 {
    client((flow % 200) as u8, 1000 + (flow / 200) as u16)
}

/// The way of each flow's replies, through a gateway that has NAT servers on its LAN.
pub(super) fn reply_ways(gateway: &mut Gateway, flows: u32) -> Vec<u8> {
    let way = |flow| {
        let request = gateway.forward(&Sent::udp(source(flow), DNS, b"query"));
        let reply = Sent::udp(request.to, request.from, b"reply");
        number_of(&gateway.answer(&reply))
    };
    (0..flows).map(way).collect()
}

pub(super) fn moved<'w>(before: &'w [u8], after: &'w [u8]) -> impl Iterator<Item = (u8, u8)> + 'w {
    let pairs = before.iter().copied().zip(after.iter().copied());
    pairs.filter(|(before, after)| before != after)
}

fn count(ways: &[u8], number: u8) -> usize {
    ways.iter().filter(|way| **way == number).count()
}

/// A resolver whose clients are behind these routers.
fn resolver(routers: &[u8]) -> Gateway {
    let mut plan = Plan::dns(Mode::Nat, 4);
    plan.sizes.connections = 16_384;
    set_routes(&mut plan, &by(Prefix::DEFAULT, WAN, routers));
    let mut gateway = Gateway::starting(plan);
    live(&mut gateway, seconds(2), &[1, 2, 3, 4]);
    gateway
}

#[test]
fn ten_thousand_flows_spread_and_only_those_of_a_dead_next_hop_move_and_come_back() {
    const FLOWS: u32 = 10_000;
    let routers = [1, 2, 3];
    let mut gateway = resolver(&routers);
    let before = reply_ways(&mut gateway, FLOWS);
    for number in routers {
        let share = count(&before, number);
        assert!(
            (3000..3667).contains(&share),
            "{share} of {FLOWS} by router {number}"
        );
    }
    assert_eq!(
        reply_ways(&mut gateway, FLOWS),
        before,
        "a connection keeps its way"
    );

    // Router 2 falls silent. 2 s after its last answer it is asked three times, a second apart.
    let asked = live(&mut gateway, seconds(6), &[1, 3]);
    assert!(count(&asked, 2) >= 3, "{asked:?}");
    let told = Event::NextHopFailed {
        port: WAN,
        address: router(WAN, 2).0.into(),
    };
    assert_eq!(gateway.events(), [told]);
    let during = reply_ways(&mut gateway, FLOWS);
    assert!(moved(&before, &during).all(|(before, _)| before == 2));
    assert_eq!(
        moved(&before, &during).count(),
        count(&before, 2),
        "all of its flows have left"
    );
    let to_first = moved(&before, &during).filter(|(_, after)| *after == 1).count();
    let left = count(&before, 2);
    assert!(
        to_first.abs_diff(left / 2) < left / 10,
        "{to_first} of {left} to router 1"
    );

    // It is asked on, though no packet wants it, and is used again once it answers.
    let asked = live(&mut gateway, seconds(30), &[1, 3]);
    assert!(count(&asked, 2) >= 25, "{asked:?}");
    live(&mut gateway, seconds(2), &routers);
    assert_eq!(reply_ways(&mut gateway, FLOWS), before);
    assert_eq!(gateway.drops(crate::drops::DropReason::NeighbourFailed), 0);
}

#[test]
fn a_hop_that_is_withdrawn_gives_up_its_own_flows_and_one_that_is_added_takes_its_share() {
    let mut gateway = resolver(&[1, 2]);
    let two = reply_ways(&mut gateway, 2000);
    gateway.change(|plan| set_routes(plan, &by(Prefix::DEFAULT, WAN, &[1, 2, 3, 4])));
    live(&mut gateway, seconds(3), &[1, 2, 3, 4]);
    let four = reply_ways(&mut gateway, 2000);
    assert!(moved(&two, &four).all(|(_, after)| after > 2));
    for number in 1..=4 {
        assert!(
            (400..600).contains(&count(&four, number)),
            "{}",
            count(&four, number)
        );
    }
    gateway.change(|plan| set_routes(plan, &by(Prefix::DEFAULT, WAN, &[1, 2])));
    live(&mut gateway, seconds(3), &[1, 2, 3, 4]);
    assert_eq!(reply_ways(&mut gateway, 2000), two);
    // Who is in no route is not asked any more.
    let asked = live(&mut gateway, seconds(20), &[1, 2]);
    assert!(asked.iter().all(|number| *number <= 2), "{asked:?}");
}

#[test]
fn with_all_next_hops_dead_packets_are_dropped_and_the_first_to_answer_gets_all() {
    let mut gateway = resolver(&[1, 2]);
    reply_ways(&mut gateway, 100);
    live(&mut gateway, seconds(8), &[]);
    let request = gateway.forward(&Sent::udp(source(0), DNS, b"query"));
    let reply = Sent::udp(request.to, request.from, b"reply");
    assert!(
        gateway.outbound(&reply).iter().all(|seen| seen.protocol == 0),
        "at most a question"
    );
    live(&mut gateway, seconds(2), &[2]);
    assert!(reply_ways(&mut gateway, 100).iter().all(|way| *way == 2));
}

/// To servers as well: connections to one server part by flow, in each mode, and a tunnel keeps its source.
#[test]
fn connections_to_a_server_behind_several_routers_part() {
    let far = Prefix::around(Ipv4Addr::new(10, 9, 0, 0).into(), 16);
    for mode in [Mode::Nat, Mode::Fullnat, Mode::Dr, Mode::Tun] {
        let mut plan = Plan::empty();
        let mut server = server(1, mode);
        server.address = Ipv4Addr::new(10, 9, 0, 11).into();
        plan.add(DNS, Protocol::Udp, vec![server]);
        let mut routes = by(far, LAN, &[1, 2]);
        routes.extend(by(Prefix::DEFAULT, WAN, &[3]));
        set_routes(&mut plan, &routes);
        let mut gateway = Gateway::starting(plan);
        live(&mut gateway, seconds(2), &[1, 2, 3]);
        let ways = |gateway: &mut Gateway| -> Vec<u8> {
            let way = |flow| {
                gateway.arrive(WAN, &Sent::udp(source(flow), DNS, b"query").frame(WAN_MAC));
                let sent = gateway.turn_raw();
                assert_eq!(sent.len(), 1);
                let (port, frame) = &sent[0];
                assert_eq!((*port, frame[4]), (LAN, 8));
                assert!(mode != Mode::Tun || frame[26..30] == LAN_IP.octets());
                frame[5]
            };
            (0..400).map(way).collect()
        };
        let before = ways(&mut gateway);
        let share = count(&before, 1);
        assert!((150..250).contains(&share), "{share} of 400, {mode:?}");
        live(&mut gateway, seconds(6), &[2, 3]);
        let during = ways(&mut gateway);
        assert!(during.iter().all(|way| *way == 2), "{mode:?}");
        live(&mut gateway, seconds(3), &[1, 2, 3]);
        assert_eq!(ways(&mut gateway), before, "{mode:?}");
    }
}
