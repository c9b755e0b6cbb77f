//! Local ports: their number, their recycling, and that they always come back.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::time::seconds;
use crate::worker::Event;
use std::net::SocketAddrV4;

/// One local address with so many ports.
fn few_ports(ports: u16, servers: u32) -> Gateway {
    let mut plan = Plan::web(Mode::Fullnat, servers);
    plan.use_locals(pool(1, 10_000, 9_999 + ports));
    Gateway::new(plan)
}

const SERVER: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(10, 0, 0, 11), SERVER_PORT);

/// LPORT-01.
#[test]
fn a_hundred_ports_are_a_hundred_connections() {
    let mut gateway = few_ports(100, 1);
    let mut seen = std::collections::HashSet::new();
    for n in 0..100 {
        let local = gateway.establish(client(1, 1024 + n), WEB);
        assert!((10_000..10_100).contains(&local.port()) && seen.insert(local));
    }
    for _ in 0..3 {
        let refused = Sent::tcp(client(2, 1), WEB, SYN);
        let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&refused));
        assert_eq!(
            (dropped, sent.len()),
            (Some((DropReason::LocalPortsExhausted, 1)), 0)
        );
    }
    let event = Event::LocalPortsExhausted {
        virtual_address: VIP.into(),
        virtual_port: 80,
        server: server_ip(1).into(),
        server_port: SERVER_PORT,
        local: Some(Family::V4.local(0)),
        locals: 1,
    };
    let events = gateway.events();
    let (low, dry) = events.split_at(2);
    assert!(
        low.iter()
            .all(|event| matches!(event, Event::LocalPortsLow { .. }))
    );
    assert_eq!(dry, [event], "one a second");
    // Existing connections are fine; an address more is a hundred ports more, at once.
    gateway.forward(&Sent::tcp(client(1, 1024), WEB, ACK));
    gateway.change(|plan| plan.use_locals(pool(2, 10_000, 10_099)));
    for n in 0..100 {
        let local = gateway.establish(client(2, 1024 + n), WEB);
        assert!(seen.insert(local));
    }
    assert_eq!(gateway.inbound(&Sent::tcp(client(3, 1), WEB, SYN)), []);
    assert_eq!(gateway.ports_in_use(), 200);
}

#[test]
fn each_server_has_all_ports() {
    let mut gateway = few_ports(100, 2);
    for n in 0..200 {
        gateway.establish(client(1, 1024 + n), WEB);
    }
    assert_eq!((gateway.counts(1).0, gateway.counts(2).0), (100, 100));
}

/// A second group of local addresses serves when the first is dry, before anything is recycled.
#[test]
fn groups_are_tried_in_their_order() {
    let mut gateway = few_ports(10, 1);
    gateway.change(|plan| {
        let ports = crate::local::PortRange::new(20_000, 20_009).unwrap();
        let second = std::sync::Arc::new(crate::local::LipPool::new([Family::V4.local(3)], ports));
        plan.edit(0, |service| service.local_pools.push(second));
    });
    let mut locals: Vec<_> = (0..10)
        .map(|n| gateway.establish(client(1, 1024 + n), WEB))
        .collect();
    gateway.finish(client(1, 1024), WEB);
    locals.extend((10..20).map(|n| gateway.establish(client(1, 1024 + n), WEB)));
    assert!(locals[..10].iter().all(|local| local.port() < 20_000));
    assert!(locals[10..].iter().all(|local| local.port() >= 20_000));
    let again = gateway.forward(&Sent::tcp(client(2, 1), WEB, SYN));
    assert_eq!(again.from, locals[0], "recycled");
    // Before, the second group had ports: that the first could have recycled one does not count.
    let recycled: u64 = gateway
        .worker
        .locals
        .addresses()
        .map(|address| address.recycled)
        .sum();
    assert_eq!(recycled, 1);
}

/// LPORT-01: the connection that has been closing longest gives up its port, and the server, which may still
/// remember it, is shown a sequence number above the old one's last, and no timestamp.
#[test]
fn a_recycled_port_is_shown_to_the_server_as_a_new_connection() {
    // The old connection ends at this sequence number; near the wrap too.
    for last in [900_000_000, u32::MAX - 10, 5, 0x7fff_fffe] {
        // The new client starts a little below, half a circle above, just above.
        for (initial, shifted) in [
            (last - 5_000_000u32.min(last), last > 0),
            (last.wrapping_add(0x9000_0000), true),
            (last.wrapping_add(1), false),
        ] {
            if initial != last.wrapping_add(1) || !shifted {
                recycle(last, initial, shifted && initial != last.wrapping_add(1));
            }
        }
        recycle(last, last, true);
    }
}

fn recycle(last: u32, initial: u32, shifted: bool) {
    let mut gateway = few_ports(2, 1);
    let (first, second, third) = (client(1, 1024), client(2, 1024), client(3, 1024));
    // Ends at `last`: SYN, data and FIN take a sequence number each.
    let start = last.wrapping_sub(6);
    let syn = gateway.forward(&Sent::tcp(first, WEB, SYN).at(start, 0));
    gateway.answer(&Sent::tcp(SERVER, syn.from, SYN | ACK).at(1, start.wrapping_add(1)));
    gateway.forward(
        &Sent::tcp(first, WEB, PSH | ACK)
            .at(start.wrapping_add(1), 2)
            .data(b"data"),
    );
    gateway.answer(&Sent::tcp(SERVER, syn.from, FIN | ACK).at(2, start.wrapping_add(5)));
    gateway.forward(&Sent::tcp(first, WEB, FIN | ACK).at(start.wrapping_add(5), 3));
    gateway.establish(second, WEB);
    assert_eq!(gateway.ports_in_use(), 2);

    let timestamps = [8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 1];
    let packet = Sent::tcp(third, WEB, SYN).at(initial, 0).options(&timestamps);
    let new = gateway.forward(&packet);
    assert_eq!(new.from, syn.from, "the port of the closing connection");
    let above = new.sequence.wrapping_sub(last);
    assert!(
        (1..0x8000_0000).contains(&above),
        "{last} then {initial}: {above} above"
    );
    assert_eq!(
        new.sequence != initial,
        shifted,
        "{last} then {initial}: shown {}",
        new.sequence
    );
    assert_eq!(new.options, [1; 12]);
    assert_eq!(gateway.server(1).connections.get(), 3);
    let old = gateway.connections();
    assert!(old.len() == 2 && old.iter().all(|connection| connection.client != first.into()));

    // Acknowledgements and SACK blocks go back to the client in its own numbers.
    let shift = new.sequence.wrapping_sub(initial);
    let reply = gateway.answer(&Sent::tcp(SERVER, new.from, SYN | ACK).at(70, new.sequence.wrapping_add(1)));
    assert_eq!(
        (reply.sequence, reply.acknowledgement),
        (70, initial.wrapping_add(1))
    );
    let ack = gateway.forward(
        &Sent::tcp(third, WEB, ACK)
            .at(initial.wrapping_add(1), 71)
            .options(&timestamps),
    );
    assert_eq!(
        (ack.sequence, ack.acknowledgement),
        (new.sequence.wrapping_add(1), 71)
    );
    assert_eq!(
        ack.options, timestamps,
        "the server ignores what the SYN did not offer"
    );
    let edge = |by: u32| initial.wrapping_add(by).wrapping_add(shift).to_be_bytes();
    let sack = [&[1, 1, 5, 10][..], &edge(100), &edge(200)].concat();
    let reply = gateway.answer(
        &Sent::tcp(SERVER, new.from, ACK)
            .at(71, new.sequence.wrapping_add(1))
            .options(&sack),
    );
    assert_eq!(reply.options[4..8], initial.wrapping_add(100).to_be_bytes());
    assert_eq!(reply.options[8..12], initial.wrapping_add(200).to_be_bytes());
    // A reset without ACK has no acknowledgement to shift.
    let reset = gateway.answer(&Sent::tcp(SERVER, new.from, RST).at(71, 0));
    assert_eq!((reset.sequence, reset.acknowledgement), (71, 0));
}

#[test]
fn a_port_that_was_free_is_shown_as_it_is() {
    let mut gateway = few_ports(2, 1);
    let options = [8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 1];
    let syn = gateway.forward(&Sent::tcp(client(1, 1), WEB, SYN).at(5, 0).options(&options));
    assert_eq!((syn.sequence, &syn.options[..]), (5, &options[..]));
}

/// Ports go round: the one that was used least recently comes next, and the longest closing is recycled first.
#[test]
fn the_longest_closing_goes_first_and_a_live_one_never() {
    let mut gateway = few_ports(4, 1);
    let clients: Vec<_> = (0..4).map(|n| client(1, 1024 + n)).collect();
    let locals: Vec<_> = clients.iter().map(|from| gateway.establish(*from, WEB)).collect();
    for at in [2, 0, 3] {
        let local = locals[at];
        gateway.answer(&Sent::tcp(SERVER, local, FIN | ACK));
        gateway.forward(&Sent::tcp(clients[at], WEB, FIN | ACK));
        gateway.pass(10);
    }
    for (n, at) in [2, 0, 3].into_iter().enumerate() {
        assert_eq!(gateway.establish(client(2, 1 + n as u16), WEB), locals[at]);
    }
    assert_eq!(gateway.inbound(&Sent::tcp(client(3, 1), WEB, SYN)), []);
    assert_eq!(gateway.drops(DropReason::LocalPortsExhausted), 1);
    let recycled: u64 = gateway
        .worker
        .locals
        .addresses()
        .map(|address| address.recycled)
        .sum();
    assert_eq!(recycled, 3);
    gateway.forward(&Sent::tcp(clients[1], WEB, ACK));
}

/// A connection's place is recycled by a SYN earlier in the burst that brings a packet of the old one, and one of
/// the old server's: they must not reach the new connection.
#[test]
fn a_recycled_connection_gets_nothing_out_of_the_same_burst() {
    let mut gateway = few_ports(1, 1);
    let (old, new) = (client(1, 1024), client(2, 1024));
    let local = gateway.establish(old, WEB);
    gateway.answer(&Sent::tcp(SERVER, local, FIN | ACK));
    gateway.forward(&Sent::tcp(old, WEB, FIN | ACK));
    for packet in [
        Sent::tcp(new, WEB, SYN).at(1000, 0),
        Sent::tcp(old, WEB, ACK).at(1002, 5002),
        Sent::tcp(new, WEB, ACK).at(1001, 1),
    ] {
        gateway.arrive(WAN, &packet.frame(WAN_MAC));
    }
    let sent = gateway.turn();
    let resets: Vec<_> = sent.iter().filter(|seen| seen.port == 0).collect();
    assert_eq!((resets.len(), resets[0].to, resets[0].flags), (1, old, RST));
    let forwarded: Vec<_> = sent.iter().filter(|seen| seen.port == 1).collect();
    assert_eq!(forwarded.len(), 2);
    assert!(
        forwarded
            .iter()
            .all(|seen| seen.from == local && seen.to == SERVER)
    );
    assert_eq!(gateway.connections()[0].client, new.into());
}

/// LPORT-02: however connections end, every port comes back.
#[test]
fn ports_come_back_however_connections_end() {
    let mut plan = Plan::web(Mode::Fullnat, 2);
    plan.settings.expire_nodest_conn = true;
    plan.use_locals(pool(1, 10_000, 10_199));
    let mut gateway = Gateway::new(plan);
    for round in 0..10 {
        for way in 0..5 {
            let clients: Vec<_> = (0..100)
                .map(|n| client(way + 1, 1024 + n + 100 * round))
                .collect();
            for from in &clients {
                gateway.establish(*from, WEB);
            }
            assert_eq!(gateway.ports_in_use(), 100);
            match way {
                0 => clients.iter().for_each(|from| gateway.finish(*from, WEB)),
                1 => clients
                    .iter()
                    .for_each(|from| drop(gateway.forward(&Sent::tcp(*from, WEB, RST)))),
                2 => {}
                3 => {
                    let servers = gateway.plan.services[0].as_ref().unwrap().servers.clone();
                    gateway.change(|plan| plan.edit(0, |service| service.servers.clear()));
                    gateway.pass(10);
                    assert_eq!(gateway.ports_in_use(), 0);
                    gateway.change(|plan| plan.edit(0, |service| service.servers = servers));
                }
                _ => {
                    let service = gateway.plan.services[0].take();
                    gateway.change(|_| {});
                    gateway.pass(10);
                    assert_eq!(gateway.ports_in_use(), 0);
                    gateway.change(|plan| plan.services[0] = service);
                }
            }
            gateway.pass(seconds(910));
            assert_eq!((gateway.ports_in_use(), gateway.stats.connections.get()), (0, 0));
            gateway.check();
        }
    }
    let taken: u64 = gateway
        .worker
        .locals
        .addresses()
        .map(|address| address.taken)
        .sum();
    assert_eq!(taken, 5000);
}
