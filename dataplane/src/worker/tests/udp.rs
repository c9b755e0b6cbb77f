//! UDP through both modes.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::time::seconds;

#[test]
fn datagrams_pass_both_ways_and_the_connection_lives_300_seconds() {
    let mut gateway = Gateway::new(Plan::dns(Mode::Fullnat, 2));
    let from = client(1, 5353);
    let query = gateway.forward(&Sent::udp(from, DNS, b"query"));
    assert_eq!(
        (*query.to.ip(), query.to.port(), query.ttl),
        (server_ip(1), SERVER_PORT, 63)
    );
    assert_eq!(query.data, b"query");
    let answer = gateway.answer(&Sent::udp(query.to, query.from, b"an answer"));
    assert_eq!(
        (answer.from, answer.to, &answer.data[..]),
        (DNS, from, &b"an answer"[..])
    );
    assert_eq!((gateway.state(), gateway.counts(1)), (("UDP", 300), (0, 1)));
    gateway.pass(seconds(200));
    let again = gateway.forward(&Sent::udp(from, DNS, b"query"));
    assert_eq!(
        (again.from, again.to),
        (query.from, query.to),
        "the same connection"
    );
    gateway.pass(seconds(300) - 1);
    assert_eq!(gateway.state(), ("UDP", 0));
    gateway.pass(9);
    assert_eq!((gateway.stats.connections.get(), gateway.ports_in_use()), (0, 0));
    let (dropped, sent) =
        gateway.dropped_by(|gateway| gateway.outbound(&Sent::udp(query.to, query.from, b"late")));
    assert_eq!(dropped, Some((DropReason::NoConnection, 1)));
    assert_eq!(
        (one(sent).icmp.0, gateway.stats.connections.get()),
        (3, 0),
        "nothing comes to life again"
    );
}

#[test]
fn a_checksum_of_zero_stays_zero() {
    for mode in [Mode::Fullnat, Mode::Dr] {
        let mut gateway = Gateway::new(Plan::dns(mode, 1));
        let mut packet = Sent::udp(client(1, 5353), DNS, b"unsummed");
        packet.unsummed = true;
        let sent = gateway.forward(&packet);
        assert!(sent.unsummed);
        if mode == Mode::Fullnat {
            let mut reply = Sent::udp(sent.to, sent.from, b"unsummed");
            reply.unsummed = true;
            assert!(gateway.answer(&reply).unsummed);
            reply.unsummed = false;
            assert!(!gateway.answer(&reply).unsummed);
        }
    }
}

/// A computed checksum of 0 is sent as 0xffff: over all values of one word, none may come out as "not computed".
#[test]
fn no_right_checksum_turns_into_none() {
    let mut gateway = Gateway::new(Plan::dns(Mode::Fullnat, 1));
    for value in (0..=u16::MAX).step_by(3) {
        let sent = gateway.forward(&Sent::udp(client(1, 5353), DNS, &value.to_be_bytes()));
        assert!(!sent.unsummed);
    }
}

#[test]
fn dr_datagrams_arrive_as_they_were_sent() {
    let mut gateway = Gateway::new(Plan::dns(Mode::Dr, 1));
    let packet = Sent::udp(client(1, 5353), DNS, b"odd");
    let sent = gateway.forward(&packet);
    assert_eq!(
        (sent.to_mac, sent.packet),
        (server_mac(1), packet.ttl(63).packet())
    );
}

/// One-packet scheduling leaves nothing behind; FULLNAT has to remember whom the answer is for.
#[test]
fn one_packet_services() {
    let mut plan = Plan::dns(Mode::Dr, 2);
    plan.edit(0, |service| service.one_packet = true);
    let mut gateway = Gateway::new(plan);
    let packet = Sent::udp(client(1, 5353), DNS, b"query");
    assert_eq!(gateway.forward(&packet).to_mac, server_mac(1));
    assert_eq!(gateway.forward(&packet).to_mac, server_mac(2));
    assert_eq!(
        (gateway.stats.connections.get(), gateway.stats.opened.get()),
        (0, 2)
    );
    let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&packet.clone().ttl(1)));
    assert_eq!(dropped, Some((DropReason::TtlExceeded, 1)));
    assert_eq!(one(sent).icmp.0, 11);

    // FULLNAT needs a connection to translate replies; the configuration refuses it.
    let mut plan = Plan::dns(Mode::Fullnat, 1);
    plan.edit(0, |service| service.one_packet = true);
    let mut gateway = Gateway::new(plan);
    let (dropped, _) = gateway.dropped_by(|gateway| gateway.inbound(&packet));
    assert_eq!(dropped, Some((DropReason::OnePacketFullnat, 1)));
}

/// UDP-01: a sender that never pauses, and whose server is removed, sends nothing into the void unseen.
#[test]
fn udp_01_no_datagram_goes_to_a_removed_server() {
    for (expire, mode) in [false, true]
        .into_iter()
        .flat_map(|expire| [Mode::Fullnat, Mode::Nat, Mode::Dr].map(|mode| (expire, mode)))
    {
        let mut plan = Plan::dns(mode, 2);
        plan.settings.expire_nodest_conn = expire;
        let mut gateway = Gateway::new(plan);
        let packet = Sent::udp(client(1, 44_117), DNS, b"log");
        let send = |gateway: &mut Gateway, times: u64| {
            for _ in 0..times {
                let sent = gateway.inbound(&packet);
                assert!(sent.iter().all(|seen| seen.to_mac != server_mac(1)));
                gateway.pass(seconds(1) / 10);
            }
        };
        assert_eq!(gateway.forward(&packet).to_mac, server_mac(1));
        gateway.change(|plan| plan.edit(0, |service| service.servers.retain(|server| server.slot != 1)));
        send(&mut gateway, 100);
        let (gone, got) = (
            gateway.drops(DropReason::ServerGone),
            gateway.server(2).inbound_packets.get(),
        );
        assert_eq!((gone, got), if expire { (0, 100) } else { (100, 0) }, "{mode:?}");
    }
}

/// UDP-03: a service deleted and made again with another server never sends to the old one.
#[test]
fn a_service_made_again_forgets_the_server_it_had() {
    for (expire, dropped) in [(false, 1), (true, 0)] {
        let mut plan = Plan::dns(Mode::Fullnat, 1);
        plan.settings.expire_nodest_conn = expire;
        let mut gateway = Gateway::new(plan);
        let packet = Sent::udp(client(1, 5353), DNS, b"query");
        gateway.forward(&packet);
        gateway.change(|plan| plan.services[0] = None);
        let (reason, sent) = gateway.dropped_by(|gateway| gateway.inbound(&packet));
        assert!(reason.is_some() && sent.iter().all(|seen| seen.protocol == ICMP));
        gateway.change(|plan| {
            let slot = plan.add(DNS, crate::service::Protocol::Udp, vec![server(2, Mode::Fullnat)]);
            assert_eq!(slot, 1);
        });
        let before = gateway.drops(DropReason::ServerGone);
        let sent = gateway.inbound(&packet);
        assert_eq!(gateway.drops(DropReason::ServerGone) - before, dropped);
        assert!(sent.iter().all(|seen| *seen.to.ip() == server_ip(2)));
        assert_eq!(sent.len() as u64, 1 - dropped);
    }
}
