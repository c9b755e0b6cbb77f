//! Single packets: options, TTL, MTU, echo.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::packet::PortId;
use crate::service::Protocol;

/// CSUM-04: IP options stay, and both checksums are right, whatever their length.
#[test]
fn ip_options_pass_in_both_modes() {
    for mode in [Mode::Fullnat, Mode::Dr] {
        let mut plan = Plan::web(mode, 1);
        plan.add(DNS, Protocol::Udp, vec![server(2, mode)]);
        let mut gateway = Gateway::new(plan);
        for words in 1..=10u16 {
            let options: Vec<u8> = (0..4 * words).map(|at| if at % 4 == 3 { 0 } else { 1 }).collect();
            let from = client(1, 40_000 + words);
            for packet in [
                Sent::tcp(from, WEB, SYN)
                    .options(&[1, 1, 1, 0])
                    .ip_options(&options),
                Sent::udp(from, DNS, b"odd").ip_options(&options),
            ] {
                let sent = gateway.forward(&packet);
                assert_eq!(
                    (sent.ttl, &sent.ip_options, &sent.data),
                    (63, &options, &packet.data)
                );
                if mode == Mode::Fullnat {
                    let (from, to) = (sent.to, sent.from);
                    let reply = Sent {
                        from,
                        to,
                        ..packet.clone()
                    };
                    let sent = gateway.answer(&reply);
                    assert_eq!((sent.to, &sent.ip_options), (packet.from, &options));
                }
            }
        }
    }
}

/// TTL 1: ICMP time exceeded from the VIP, and the connection has been created.
#[test]
fn a_ttl_of_one_ends_here_and_the_sender_is_told() {
    for (mode, ttl) in [
        (Mode::Fullnat, 1),
        (Mode::Dr, 1),
        (Mode::Fullnat, 0),
        (Mode::Dr, 0),
    ] {
        let mut gateway = Gateway::new(Plan::web(mode, 1));
        let packet = Sent::tcp(client(1, 40000), WEB, SYN).ttl(ttl);
        let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&packet));
        assert_eq!(dropped, Some((DropReason::TtlExceeded, 1)));
        let error = one(sent);
        assert_eq!(
            (error.from.ip(), error.to.ip(), error.icmp),
            (&VIP, packet.from.ip(), (11, 0, 0))
        );
        assert_eq!(error.data, packet.packet(), "quoted as the client sent it");
        assert_eq!((error.port, error.to_mac), (0, ROUTER_MAC));
        assert_eq!(gateway.state(), ("SYN_RECV", 60));
    }
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 1));
    let local = gateway.establish(client(1, 40000), WEB);
    let reply = Sent::tcp(end(server_ip(1).octets(), SERVER_PORT), local, ACK).ttl(1);
    let error = one(gateway.outbound(&reply));
    assert_eq!(
        (error.from.ip(), *error.to.ip(), error.icmp.0),
        (local.ip(), server_ip(1), 11)
    );
    assert_eq!((error.data, error.to_mac), (reply.packet(), server_mac(1)));
}

#[test]
fn what_is_too_big_is_told_the_mtu_or_goes_in_fragments() {
    for mode in [Mode::Fullnat, Mode::Dr] {
        let mut plan = Plan::web(mode, 1);
        plan.set_mtu(LAN, 1000);
        let mut gateway = Gateway::new(plan);
        let from = client(1, 40000);
        let local = gateway.establish(from, WEB);
        let fitting = Sent::tcp(from, WEB, ACK).data(&[7; 960]);
        assert_eq!(gateway.forward(&fitting).data.len(), 960);
        let mut packet = Sent::tcp(from, WEB, ACK).data(&[7; 961]);
        let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&packet));
        assert_eq!(dropped, Some((DropReason::ExceedsMtu, 1)));
        let error = one(sent);
        assert_eq!((error.from.ip(), error.icmp), (&VIP, (3, 4, 1000)));
        assert_eq!(error.packet.len(), 576);
        // Quoted with the hop counted, as Linux does.
        assert_eq!(error.data, packet.clone().ttl(63).packet()[..548]);
        packet.dont_fragment = false;
        gateway.arrive(WAN, &packet.frame(WAN_MAC));
        let pieces = gateway.turn_raw();
        let lengths: Vec<_> = pieces.iter().map(|(_, frame)| frame.len() - 14).collect();
        assert_eq!(lengths, [996, 25]);
        if mode == Mode::Fullnat {
            // What comes in longer than the port's MTU was merged by an offload that has to be off (CSUM-09).
            let reply = Sent::tcp(end(server_ip(1).octets(), SERVER_PORT), local, ACK).data(&[7; 1460]);
            let (dropped, sent) = gateway.dropped_by(|gateway| gateway.outbound(&reply));
            assert_eq!((dropped, sent.len()), (Some((DropReason::OversizedFrame, 1)), 0));
        }
    }
}

#[test]
fn echo_to_every_address_of_ours_is_answered() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 1));
    for to in [WAN_IP, LAN_IP, VIP, LIP] {
        for (port, from, mac) in [
            (WAN, client(1, 0), ROUTER_MAC),
            (LAN, end([10, 0, 0, 11], 0), server_mac(1)),
        ] {
            let reply = one(gateway.send(port, &Sent::echo(*from.ip(), to, b"ping data").ttl(1)));
            assert_eq!(
                (reply.from.ip(), reply.to.ip(), reply.icmp),
                (&to, from.ip(), (0, 0, 0x0007_0001))
            );
            assert_eq!(
                (&reply.data[..], reply.to_mac, reply.ttl),
                (&b"ping data"[..], mac, 64)
            );
            assert_eq!(PortId(reply.port), port);
        }
    }
    let elsewhere = Sent::echo(*client(1, 0).ip(), "192.0.2.9".parse().unwrap(), b"");
    let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&elsewhere));
    assert_eq!((dropped, sent.len()), (Some((DropReason::NotForUs, 1)), 0));
}

/// A packet that says it comes from one of our addresses would have us talk to ourselves.
#[test]
fn our_own_addresses_send_us_nothing() {
    let mut plan = Plan::web(Mode::Fullnat, 1);
    plan.add(DNS, Protocol::Udp, vec![server(2, Mode::Dr)]);
    let mut gateway = Gateway::new(plan);
    for from in [WAN_IP, LAN_IP, VIP, LIP] {
        let from = end(from.octets(), 80);
        for packet in [
            Sent::tcp(from, WEB, SYN),
            Sent::udp(from, DNS, b""),
            Sent::echo(*from.ip(), VIP, b""),
            Sent::tcp(from, end(VIP.octets(), 81), SYN),
        ] {
            let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&packet));
            assert_eq!(
                (dropped, sent.len()),
                (Some((DropReason::BadSource, 1)), 0),
                "{packet:?}"
            );
        }
    }
    assert_eq!(gateway.stats.opened.get(), 0);
}

#[test]
fn link_padding_is_not_part_of_a_packet() {
    let mut gateway = Gateway::new(Plan::dns(Mode::Fullnat, 1));
    let mut frame = Sent::udp(client(1, 1), DNS, b"x").frame(WAN_MAC);
    frame[43..].fill(0xee);
    gateway.arrive(WAN, &frame);
    assert_eq!(one(gateway.turn()).data, b"x");
    assert_eq!(gateway.server(1).inbound_bytes.get(), 29);
}
