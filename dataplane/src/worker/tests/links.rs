//! Links that go down and come up.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use super::several::{by, live, moved, reply_ways, set_routes};
use super::vlan::{TEN, behind, with_vlans};
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::neighbour::Prefix;
use crate::packet::PortId;
use crate::service::Protocol;
use crate::time::seconds;
use crate::worker::Order;

/// The link of a device changes, as control tells.
fn link(gateway: &mut Gateway, port: PortId, up: bool) {
    gateway.mailbox.orders.push(Order::Link { port, up }).unwrap();
}

/// How many announcements there are on a port among what was sent.
fn announced(sent: &[Seen], port: PortId) -> usize {
    sent.iter()
        .filter(|seen| seen.protocol == 0 && seen.port == port.0 && seen.from.ip() == seen.to.ip())
        .count()
}

/// ARP-01: after a link flap announcements come again.
#[test]
fn what_would_leave_by_a_dead_link_is_dropped_until_it_is_back_and_addresses_are_announced_anew() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 1));
    let from = client(1, 1000);
    gateway.establish(from, WEB);
    link(&mut gateway, LAN, false);
    assert!(gateway.turn().is_empty());
    let packet = Sent::tcp(from, WEB, ACK).at(1001, 5001).data(b"late");
    for _ in 0..3 {
        let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&packet));
        assert_eq!((dropped, sent.len()), (Some((DropReason::LinkDown, 1)), 0));
    }
    // What leaves by the other link does.
    let ping = Sent::echo(*from.ip(), *WEB.ip(), b"ping");
    assert_eq!(gateway.forward(&ping).port, WAN.0);
    link(&mut gateway, LAN, true);
    let sent = gateway.pass(seconds(4));
    // Both forms of the port's own address and of four local ones, three times.
    assert_eq!(announced(&sent, LAN), 30);
    assert_eq!(announced(&sent, WAN), 0);
    let seen = gateway.forward(&packet);
    assert_eq!((seen.port, seen.to_mac), (LAN.0, server_mac(1)));
    // One that is up as before has moved to another switch port, which has to learn of us.
    link(&mut gateway, LAN, true);
    assert_eq!(announced(&gateway.pass(seconds(4)), LAN), 30);
}

#[test]
fn a_vlan_has_the_link_of_its_parent() {
    let mut plan = Plan::empty();
    with_vlans(&mut plan, 1);
    plan.add(WEB, Protocol::Udp, vec![behind(10, 1)]);
    let mut gateway = Gateway::new(plan);
    link(&mut gateway, LAN, false);
    let packet = Sent::udp(client(1, 1), WEB, b"query");
    gateway.arrive(WAN, &packet.frame(WAN_MAC));
    let (dropped, frames) = gateway.dropped_by(Gateway::turn_raw);
    assert_eq!((dropped, frames.len()), (Some((DropReason::LinkDown, 1)), 0));
    link(&mut gateway, LAN, true);
    gateway.arrive(WAN, &packet.frame(WAN_MAC));
    let frames = gateway.pass_raw(seconds(8));
    let tagged = |frame: &&(PortId, Vec<u8>)| frame.0 == LAN && frame.1[12..16] == [0x81, 0, 0, 10];
    let own = frames.iter().filter(tagged);
    let (arp, data): (Vec<_>, Vec<_>) = own.partition(|(_, frame)| frame[16..18] == [8, 6]);
    assert_eq!(
        (arp.len(), data.len()),
        (6, 1),
        "announcements on {TEN:?}, and the packet"
    );
}

#[test]
fn flows_leave_a_next_hop_behind_a_dead_link_at_once_and_come_back() {
    const FLOWS: u32 = 1000;
    let mut plan = Plan::dns(Mode::Nat, 4);
    plan.sizes.connections = 16_384;
    let mut routes = by(Prefix::DEFAULT, WAN, &[1, 2]);
    routes.extend(by(Prefix::DEFAULT, LAN, &[3]));
    set_routes(&mut plan, &routes);
    let mut gateway = Gateway::starting(plan);
    live(&mut gateway, seconds(2), &[1, 2, 3]);
    let before = reply_ways(&mut gateway, FLOWS);
    assert!(before.contains(&3) && before.contains(&1));

    link(&mut gateway, WAN, false);
    gateway.turn_raw();
    let way = |gateway: &mut Gateway, flow: u32| {
        // Requests still come in: it is only this side that knows of a dead link.
        let request = gateway.forward(&Sent::udp(
            client((flow % 200) as u8, 1000 + (flow / 200) as u16),
            DNS,
            b"?",
        ));
        gateway
            .answer(&Sent::udp(request.to, request.from, b"reply"))
            .to_mac
            .0[5]
    };
    assert!((0..FLOWS).all(|flow| way(&mut gateway, flow) == 3));
    assert!(gateway.events().is_empty(), "nobody has failed to answer");

    link(&mut gateway, WAN, true);
    live(&mut gateway, seconds(2), &[1, 2, 3]);
    let after = reply_ways(&mut gateway, FLOWS);
    assert_eq!(moved(&before, &after).count(), 0, "all are back");
}

/// One whose MAC is configured never fails, and is left all the same.
#[test]
fn a_static_next_hop_behind_a_dead_link_is_left() {
    let mut plan = Plan::dns(Mode::Nat, 4);
    let router = by(Prefix::DEFAULT, WAN, &[1])[0].via;
    let mut known = plan.neighbours.to_vec();
    known.push(crate::service::StaticNeighbour {
        port: WAN,
        address: router,
        mac: crate::packet::MacAddr([2, 0, 0, 0, WAN.0 + 7, 1]),
    });
    plan.neighbours = known.into();
    let mut routes = by(Prefix::DEFAULT, WAN, &[1]);
    routes.extend(by(Prefix::DEFAULT, LAN, &[3]));
    set_routes(&mut plan, &routes);
    let mut gateway = Gateway::starting(plan);
    live(&mut gateway, seconds(2), &[3]);
    let before = reply_ways(&mut gateway, 100);
    assert!(before.contains(&1) && before.contains(&3));
    link(&mut gateway, WAN, false);
    live(&mut gateway, seconds(1), &[3]);
    assert!(reply_ways(&mut gateway, 100).iter().all(|way| *way == 3));
    link(&mut gateway, WAN, true);
    live(&mut gateway, seconds(1), &[3]);
    assert_eq!(reply_ways(&mut gateway, 100), before);
}
