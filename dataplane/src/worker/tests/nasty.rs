//! Frames and sequences that somebody has once sent to a gateway to break it. Each ends under one named reason, and
//! leaves what goes on beside it alone.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::drops::DropReason::{self, *};
use crate::flow::Mode;
use crate::packet::MacAddr;
use crate::time::seconds;

fn spoiled(mut packet: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
    packet[at] = byte;
    packet
}

/// With another IP header byte, its checksum made right again.
fn ip(packet: &Sent, at: usize, byte: u8) -> Vec<u8> {
    let mut packet = spoiled(packet.packet(), at, byte);
    packet[10..12].fill(0);
    let sum = !ones_sum(&[&packet[..20]]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    framed(WAN_MAC, 0x0800, &packet)
}

/// Frames that no connection comes of, each with its reason.
fn corpus() -> Vec<(&'static str, Vec<u8>, DropReason)> {
    let tcp = Sent::tcp(client(1, 40000), WEB, SYN);
    let udp = Sent::udp(client(1, 40000), DNS, b"query");
    let raw = |packet: &[u8]| framed(WAN_MAC, 0x0800, packet);
    let from = |address: [u8; 4]| Sent::tcp(end(address, 1), WEB, SYN).frame(WAN_MAC);
    let inner = tcp.packet();
    let mut quote = [&[3, 3, 0, 0, 0, 0, 0, 0], &inner[..28]].concat();
    let sum = !ones_sum(&[&quote]);
    quote[2..4].copy_from_slice(&sum.to_be_bytes());
    let icmp = |data: &[u8]| {
        Sent {
            protocol: ICMP,
            data: data.to_vec(),
            ..tcp.clone()
        }
        .frame(WAN_MAC)
    };
    let carried = |protocol: u8, data: &[u8]| {
        ip(
            &Sent {
                protocol: ICMP,
                data: data.to_vec(),
                ..tcp.clone()
            },
            9,
            protocol,
        )
    };
    let ask = arp(1, MacAddr([2, 0, 0, 0, 9, 9]), ROUTER, MacAddr::default(), VIP);
    vec![
        ("nothing", vec![], RuntFrame),
        ("half a MAC", vec![2, 0, 0], RuntFrame),
        ("a link header alone", raw(&[])[..14].to_vec(), RuntFrame),
        ("half an IP header", tcp.frame(WAN_MAC)[..30].to_vec(), RuntFrame),
        ("zeroes", vec![0; 60], NotOurMac),
        ("ones", vec![0xff; 60], UnknownEthertype),
        (
            "another station's",
            tcp.frame(MacAddr([2, 9, 9, 9, 9, 9])),
            NotOurMac,
        ),
        ("IPv4 by broadcast", tcp.frame(MacAddr::BROADCAST), NotForUs),
        (
            "IPv6 beyond its frame",
            framed(WAN_MAC, 0x86dd, &[0x60; 60]),
            TruncatedFrame,
        ),
        (
            "a VLAN tag",
            framed(WAN_MAC, 0x8100, &[&[0, 5, 8, 0], &inner[..]].concat()),
            VlanTag,
        ),
        ("version 6 in IPv4", ip(&tcp, 0, 0x65), BadIpHeader),
        ("a header of 16 bytes", ip(&tcp, 0, 0x44), BadIpHeader),
        ("a header beyond the packet", ip(&tcp, 0, 0x4f), BadIpHeader),
        ("a total length of 0", ip(&tcp, 3, 0), BadIpHeader),
        ("a total length of 64 kB", ip(&tcp, 2, 0xff), TruncatedFrame),
        (
            "a wrong IP checksum",
            raw(&spoiled(inner.clone(), 10, inner[10] ^ 1)),
            BadIpChecksum,
        ),
        ("a first fragment of 20 bytes", ip(&tcp, 6, 0x20), BadIpHeader),
        ("from loopback", from([127, 0, 0, 1]), BadSource),
        ("from multicast", from([224, 0, 0, 1]), BadSource),
        ("from everybody", from([255; 4]), BadSource),
        ("from nobody", from([0; 4]), BadSource),
        (
            "land: from the VIP to itself",
            Sent::tcp(WEB, WEB, SYN).frame(WAN_MAC),
            BadSource,
        ),
        ("GRE", carried(47, &[0, 0, 8, 0, 0x45, 0, 0, 0]), UnknownProtocol),
        ("IP in IP", carried(4, &inner), UnknownProtocol),
        (
            "an SCTP INIT to a TCP service",
            carried(132, &[0x9c, 0x40, 0, 80, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 20]),
            NoService,
        ),
        ("protocol 255 without data", carried(255, &[]), UnknownProtocol),
        ("half a TCP header", ip(&tcp, 3, 30), BadL4Header),
        (
            "TCP data offset 4",
            raw(&spoiled(inner.clone(), 32, 0x40)),
            BadL4Header,
        ),
        (
            "TCP data offset 15",
            raw(&spoiled(inner.clone(), 32, 0xf0)),
            BadL4Header,
        ),
        (
            "a UDP length of 7",
            raw(&spoiled(udp.packet(), 25, 7)),
            BadL4Header,
        ),
        (
            "a UDP length beyond the packet",
            raw(&spoiled(udp.packet(), 25, 200)),
            BadL4Header,
        ),
        ("an ICMP error about a connection", icmp(&quote), NoConnection),
        ("half an ICMP header", icmp(&[3, 3, 0, 0]), BadL4Header),
        (
            "an echo with a wrong checksum",
            icmp(&[8, 0, 1, 2, 0, 7, 0, 1]),
            BadL4Checksum,
        ),
        (
            "an echo reply",
            icmp(&[0, 0, 0xff, 0xf7, 0, 7, 0, 1]),
            UnsupportedIcmp,
        ),
        ("half an ARP packet", ask[..30].to_vec(), MalformedArp),
        ("ARP for Token Ring", spoiled(ask.clone(), 15, 6), MalformedArp),
        ("an ARP operation of 9", spoiled(ask.clone(), 21, 9), MalformedArp),
        ("ARP of a group", spoiled(ask, 22, 1), MalformedArp),
        (
            "no flags",
            Sent::tcp(client(1, 40000), WEB, 0).frame(WAN_MAC),
            NotSyn,
        ),
        (
            "all flags",
            Sent::tcp(client(1, 40000), WEB, 0x3f).frame(WAN_MAC),
            NotSyn,
        ),
        (
            "to a neighbour of ours",
            Sent::tcp(client(1, 1), end([203, 0, 113, 1], 80), SYN).frame(WAN_MAC),
            NotForUs,
        ),
    ]
}

#[test]
fn every_nasty_frame_has_its_reason_and_does_no_harm() {
    for mode in [Mode::Fullnat, Mode::Dr] {
        let mut gateway = Gateway::new(Plan::web(mode, 1));
        let from = client(9, 40000);
        gateway.establish(from, WEB);
        for (name, frame, reason) in corpus() {
            let (dropped, _) = gateway.dropped_by(|gateway| {
                gateway.arrive(WAN, &frame);
                gateway.turn()
            });
            assert_eq!(dropped, Some((reason, 1)), "{name}");
            assert_eq!(gateway.stats.opened.get(), 1, "{name}");
        }
        // All of them at once, between packets of the connection.
        let frames = corpus();
        for (_, frame, _) in &frames {
            gateway.arrive(WAN, frame);
            gateway.arrive(WAN, &Sent::tcp(from, WEB, ACK).frame(WAN_MAC));
        }
        let mut served = 0;
        for _ in 0..4 {
            served += gateway.turn().iter().filter(|seen| seen.port == 1).count();
        }
        assert_eq!(served, frames.len());
        assert_eq!(gateway.state().0, "ESTABLISHED");
    }
}

/// BAD-01: an ICMP error about a connection that is over, and data after it, bring nothing back.
#[test]
fn what_is_over_stays_over() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 1));
    for round in 0..200 {
        let from = client(1, 1024 + round);
        let local = gateway.establish(from, WEB);
        let server = end(server_ip(1).octets(), SERVER_PORT);
        match round % 3 {
            0 => gateway.finish(from, WEB),
            1 => drop(gateway.forward(&Sent::tcp(from, WEB, RST | ACK))),
            _ => {}
        }
        gateway.pass(seconds(901));
        assert_eq!(gateway.stats.connections.get(), 0);
        let mut quoting = [
            &[3, 1, 0, 0, 0, 0, 0, 0],
            &Sent::tcp(local, server, ACK).packet()[..28],
        ]
        .concat();
        let sum = !ones_sum(&[&quoting]);
        quoting[2..4].copy_from_slice(&sum.to_be_bytes());
        let error = Sent {
            protocol: ICMP,
            data: quoting,
            ..Sent::tcp(server, local, 0)
        };
        assert_eq!(gateway.outbound(&error), []);
        assert_eq!(
            one(gateway.outbound(&Sent::tcp(server, local, ACK).data(b"late"))).flags,
            RST
        );
        assert_eq!(one(gateway.inbound(&Sent::tcp(from, WEB, FIN | ACK))).flags, RST);
        assert_eq!(gateway.stats.connections.get(), 0);
    }
    // The error, and the late segment.
    assert_eq!(gateway.drops(NoConnection), 400);
}

/// CSUM-10: a partial checksum is what a veth peer leaves to an offload that never runs.
#[test]
fn a_partial_checksum_is_completed_and_counted() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 1));
    let mut packet = Sent::tcp(client(1, 40000), WEB, SYN).packet();
    let length = (packet.len() - 20) as u16;
    let pseudo = ones_sum(&[&packet[12..20], &[0, TCP], &length.to_be_bytes()]);
    packet[36..38].copy_from_slice(&pseudo.to_be_bytes());
    gateway.arrive(WAN, &framed(WAN_MAC, 0x0800, &packet));
    // What is sent is read with all its checksums verified.
    let (dropped, sent) = gateway.dropped_by(Gateway::turn);
    assert_eq!((dropped, sent.len()), (None, 1));
    assert_eq!(gateway.stats.completed_checksums.get(), 1);
}
