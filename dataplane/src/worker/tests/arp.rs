//! ARP: answers, resolution and its limits, announcements.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::neighbour::NeighbourState;
use crate::packet::{MacAddr, PortId};
use crate::time::{TICKS_PER_SECOND, seconds};
use crate::worker::{Event, Listing, Order};
use std::net::Ipv4Addr;
use std::sync::Arc;

const ASKER: MacAddr = MacAddr([2, 0, 0, 0, 9, 9]);

fn unresolved(mode: Mode, servers: u32) -> Gateway {
    let mut plan = Plan::web(mode, servers);
    plan.know_nobody();
    Gateway::new(plan)
}

/// The frame by which a host at `address` answers the question `seen`.
fn answered(seen: &Seen, mac: MacAddr) -> Vec<u8> {
    arp(2, mac, *seen.to.ip(), seen.from_mac, *seen.from.ip())
}

fn asks(seen: &Seen) -> Option<Ipv4Addr> {
    (seen.protocol == 0 && seen.icmp.0 == 1).then_some(*seen.to.ip())
}

#[test]
fn questions_for_our_addresses_are_answered_on_their_port_only() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 1));
    let nobody = Ipv4Addr::UNSPECIFIED;
    for (address, port, mac) in [
        (WAN_IP, 0, WAN_MAC),
        (VIP, 0, WAN_MAC),
        (LAN_IP, 1, LAN_MAC),
        (LIP, 1, LAN_MAC),
    ] {
        let asker = Ipv4Addr::new(
            if port == 0 { 203 } else { 10 },
            0,
            if port == 0 { 113 } else { 0 },
            77,
        );
        for sender in [asker, nobody] {
            for on in [0, 1] {
                gateway.arrive(PortId(on), &arp(1, ASKER, sender, MacAddr::default(), address));
                let sent = gateway.turn();
                if on != port {
                    assert_eq!(sent, []);
                    continue;
                }
                let reply = one(sent);
                assert_eq!(
                    (reply.icmp.0, reply.port, reply.to_mac, reply.from_mac),
                    (2, port, ASKER, mac)
                );
                assert_eq!((*reply.from.ip(), *reply.to.ip()), (address, sender));
            }
        }
    }
    gateway.arrive(
        WAN,
        &arp(
            1,
            ASKER,
            ROUTER,
            MacAddr::default(),
            Ipv4Addr::new(203, 0, 113, 50),
        ),
    );
    assert_eq!(gateway.turn(), []);
    // Somebody claims our VIP: nothing to learn, and counted.
    let (dropped, sent) = gateway.dropped_by(|gateway| {
        gateway.arrive(WAN, &arp(1, ASKER, VIP, MacAddr::default(), VIP));
        gateway.turn()
    });
    assert_eq!((dropped, sent.len()), (Some((DropReason::BadSource, 1)), 0));
}

#[test]
fn the_first_packet_asks_and_the_answer_lets_it_go() {
    let mut gateway = unresolved(Mode::Fullnat, 1);
    let packet = Sent::tcp(client(1, 40000), WEB, SYN);
    let question = one(gateway.inbound(&packet));
    assert_eq!((asks(&question), question.port), (Some(server_ip(1)), 1));
    assert_eq!(
        (*question.from.ip(), question.to_mac),
        (LAN_IP, MacAddr::BROADCAST)
    );
    assert_eq!(gateway.inbound(&packet), [], "asked once a second at most");
    assert_eq!(gateway.stats.held.get(), 2);
    gateway.arrive(LAN, &answered(&question, server_mac(1)));
    let sent = gateway.turn();
    assert_eq!(sent.len(), 2);
    assert!(
        sent.iter()
            .all(|seen| seen.to_mac == server_mac(1) && seen.flags == SYN)
    );
    // Towards the client the router is asked for.
    let question = one(gateway.outbound(&Sent::tcp(sent[0].to, sent[0].from, SYN | ACK)));
    assert_eq!((asks(&question), *question.from.ip()), (Some(ROUTER), WAN_IP));
    gateway.arrive(WAN, &answered(&question, ROUTER_MAC));
    assert_eq!(one(gateway.turn()).to_mac, ROUTER_MAC);
    assert_eq!(gateway.stats.held.get(), 0);
}

#[test]
fn a_server_that_moves_is_followed_at_once() {
    let mut gateway = unresolved(Mode::Dr, 1);
    let question = one(gateway.inbound(&Sent::tcp(client(1, 40000), WEB, SYN)));
    gateway.arrive(LAN, &answered(&question, server_mac(1)));
    gateway.turn();
    // Gratuitous ARP, as after a failover.
    gateway.arrive(
        LAN,
        &arp(1, ASKER, server_ip(1), MacAddr::default(), server_ip(1)),
    );
    gateway.turn();
    let data = gateway.inbound(&Sent::tcp(client(1, 40000), WEB, ACK));
    let data: Vec<_> = data.into_iter().filter(|seen| seen.protocol == TCP).collect();
    assert_eq!(one(data).to_mac, ASKER);
}

/// ARP-04: a dead server under a flood holds a bounded queue, is asked once a second, and disturbs nobody.
#[test]
fn a_dead_server_under_flood_disturbs_nobody() {
    let mut plan = Plan::web(Mode::Fullnat, 2);
    plan.know_nobody();
    plan.settings.timeouts.tcp = plan.settings.timeouts.tcp.map(|_| seconds(1));
    let mut gateway = Gateway::new(plan);
    let mut questions = 0;
    let mut served = 0;
    for tick in 0..seconds(10) {
        for n in 0..4u16 {
            let from = client((tick % 250) as u8, 1024 + (tick as u16) * 4 + n);
            gateway.arrive(WAN, &Sent::tcp(from, WEB, SYN).frame(WAN_MAC));
        }
        for seen in gateway.turn() {
            match asks(&seen) {
                Some(address) if address == server_ip(2) => {
                    gateway.arrive(LAN, &answered(&seen, server_mac(2)));
                }
                Some(_) => questions += 1,
                None => served += u32::from(*seen.to.ip() == server_ip(2)),
            }
        }
        assert!(gateway.stats.held.get() <= 8 + 2);
        gateway.now = gateway.now.after(1);
    }
    assert!(
        (3..=11).contains(&questions),
        "{questions} questions in ten seconds"
    );
    assert_eq!(served, 2 * seconds(10), "the other server got every second SYN");
    let lost = gateway.drops(DropReason::NeighbourFailed) + gateway.drops(DropReason::NeighbourQueueFull);
    assert_eq!(lost + gateway.stats.held.get(), u64::from(2 * seconds(10)));
    let failures = gateway
        .events()
        .iter()
        .filter(|event| **event == Event::NeighbourFailed)
        .count();
    assert!((1..=10).contains(&failures), "{failures} events");
    gateway.pass(seconds(10));
}

#[test]
fn static_neighbours_are_never_asked_for_nor_overwritten() {
    let mut gateway = Gateway::new(Plan::web(Mode::Dr, 1));
    let packet = Sent::tcp(client(1, 40000), WEB, SYN);
    assert_eq!(gateway.forward(&packet).to_mac, server_mac(1));
    gateway.arrive(LAN, &arp(2, ASKER, server_ip(1), LAN_MAC, LAN_IP));
    gateway.turn();
    assert_eq!(gateway.forward(&packet).to_mac, server_mac(1));
    assert_eq!(gateway.pass(seconds(120)), []);
    // No longer static, it is used as it is, and confirmed.
    gateway.change(Plan::know_nobody);
    gateway.forward(&packet);
    let questions: Vec<_> = gateway
        .pass(2 * TICKS_PER_SECOND)
        .iter()
        .filter_map(asks)
        .collect();
    assert!(questions.contains(&server_ip(1)), "{questions:?}");
    // And static again, at another MAC: packets that waited go there.
    gateway.change(|plan| {
        plan.know_neighbours();
        let mut known = plan.neighbours.to_vec();
        known[0].mac = ASKER;
        plan.neighbours = known.into();
    });
    assert_eq!(gateway.forward(&packet).to_mac, ASKER);
}

#[test]
fn a_static_neighbour_lets_waiting_packets_go() {
    let mut gateway = unresolved(Mode::Dr, 1);
    let packet = Sent::tcp(client(1, 40000), WEB, SYN);
    for _ in 0..8 {
        gateway.inbound(&packet);
    }
    let sent = gateway.change(Plan::know_neighbours);
    assert_eq!(sent.len(), 8);
    assert!(sent.iter().all(|seen| seen.to_mac == server_mac(1)));
}

#[test]
fn every_answered_address_is_announced_three_times_in_both_forms() {
    let mut gateway = Gateway::starting(Plan::web(Mode::Fullnat, 1));
    let ours = [WAN_IP, LAN_IP, VIP, LIP];
    let mut announced = gateway.pass(seconds(5));
    assert!(
        announced
            .iter()
            .all(|seen| seen.protocol == 0 && seen.from == seen.to)
    );
    assert!(announced.iter().all(|seen| seen.to_mac == MacAddr::BROADCAST));
    for address in ours {
        for form in [1, 2] {
            let count = announced
                .iter()
                .filter(|seen| *seen.from.ip() == address && seen.icmp.0 == form);
            assert_eq!(count.count(), 3, "{address} in form {form}");
        }
    }
    assert_eq!(gateway.stats.made.get(), announced.len() as u64);
    // A new VIP is announced as well.
    gateway.change(|plan| {
        plan.add(end(VIP2.octets(), 80), crate::service::Protocol::Tcp, Vec::new());
    });
    announced = gateway.pass(seconds(5));
    assert!(announced.iter().any(|seen| *seen.from.ip() == VIP2));
    assert_eq!(gateway.pass(seconds(60)), []);
}

#[test]
fn a_changed_route_leads_known_connections_another_way() {
    let mut plan = Plan::web(Mode::Fullnat, 1);
    let other = Ipv4Addr::new(203, 0, 113, 3);
    let mut known = plan.neighbours.to_vec();
    known.push(crate::service::StaticNeighbour {
        port: WAN,
        address: other.into(),
        mac: ASKER,
    });
    plan.neighbours = known.into();
    let mut gateway = Gateway::new(plan);
    // More connections than one slice of the sweep.
    let clients: Vec<_> = (0..400).map(|n| client(1, 40_000 + n)).collect();
    let locals: Vec<_> = clients.iter().map(|from| gateway.establish(*from, WEB)).collect();
    gateway.change(|plan| plan.route_by(other));
    gateway.pass(5);
    for local in locals {
        let reply = Sent::tcp(end(server_ip(1).octets(), SERVER_PORT), local, ACK);
        assert_eq!(gateway.answer(&reply).to_mac, ASKER);
    }
}

/// Neighbours come and go by the hundred through a table of few places; connections never send to a stranger.
#[test]
fn places_of_old_neighbours_are_swept_and_used_again() {
    let mut plan = Plan::web(Mode::Fullnat, 1);
    plan.sizes.neighbours = 16;
    let mut gateway = Gateway::new(plan);
    let mut everybody = Vec::new();
    for round in 0..12u8 {
        // Clients on the link itself, each its own neighbour.
        for n in 0..6u8 {
            let host = Ipv4Addr::new(203, 0, 113, 120 + 6 * round + n);
            let mac = MacAddr([2, 1, 0, 0, round, n]);
            let syn = gateway.forward(&Sent::tcp(end(host.octets(), 40000), WEB, SYN));
            let question = one(gateway.outbound(&Sent::tcp(syn.to, syn.from, SYN | ACK)));
            assert_eq!(asks(&question), Some(host));
            gateway.arrive(WAN, &answered(&question, mac));
            let reply = one(gateway.turn());
            assert_eq!((*reply.to.ip(), reply.to_mac), (host, mac));
            gateway.forward(&Sent::tcp(end(host.octets(), 40000), WEB, ACK));
            everybody.push((host, mac, syn));
        }
        // They fall silent: after ten idle minutes their entries are retired, and swept when room is short.
        gateway.pass(seconds(700));
        for (host, ..) in &everybody {
            // The connections live on.
            gateway.inbound(&Sent::tcp(end(host.octets(), 40000), WEB, ACK));
        }
    }
    assert_eq!(gateway.stats.connections.get(), 72);
    assert_eq!(gateway.drops(DropReason::NeighbourTableFull), 0);
    // A packet to an old client asks for it again, and goes to nobody else.
    let (host, mac, syn) = everybody[0].clone();
    let question = one(gateway.outbound(&Sent::tcp(syn.to, syn.from, ACK)));
    assert_eq!(asks(&question), Some(host));
    gateway.arrive(WAN, &answered(&question, mac));
    assert_eq!(one(gateway.turn()).to_mac, mac);
}

#[test]
fn neighbours_are_listed() {
    let mut gateway = unresolved(Mode::Dr, 1);
    let question = one(gateway.inbound(&Sent::tcp(client(1, 40000), WEB, SYN)));
    gateway.arrive(LAN, &answered(&question, server_mac(1)));
    gateway.turn();
    let listing = Arc::new(Listing::new(8));
    gateway
        .mailbox
        .orders
        .push(Order::ListNeighbours(Arc::clone(&listing)))
        .unwrap();
    gateway.turn();
    assert!(listing.is_complete());
    let view = listing.entries.pop().unwrap();
    assert_eq!(
        (view.address, view.port, view.mac),
        (server_ip(1).into(), LAN, Some(server_mac(1)))
    );
    assert_eq!(view.state, NeighbourState::Reachable);
    assert!(gateway.mailbox.spent.pop().is_some());
}
