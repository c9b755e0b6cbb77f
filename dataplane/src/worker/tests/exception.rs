//! What the kernel gets, what it does not, and what it sends.

use super::carried::{cut, link, tagged};
use super::frames::*;
use super::gateway::*;
use super::plan::*;
use super::wire::{ICMP6, Load, Wire};
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::packet::{MacAddr, PortId};
use crate::service::{PortSettings, Protocol, Vlan};
use crate::time::TICKS_PER_SECOND;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const HOST: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 50);
const HOST_MAC: MacAddr = MacAddr([2, 0, 0, 0, 9, 9]);
const OSPF: u8 = 89;
const VRRP: u8 = 112;

/// A web service and a way to the kernel.
fn open(rate: u32) -> Gateway {
    let mut plan = Plan::dual_web(Mode::Dr, Protocol::Tcp, 1, 80);
    plan.let_kernel_have(rate);
    Gateway::new(plan)
}

/// The MAC of an IPv4 group (RFC 1112 6.4), or of an IPv6 one (RFC 2464 7).
fn group(address: IpAddr) -> MacAddr {
    match address {
        IpAddr::V4(address) => {
            let [_, b, c, d] = address.octets();
            MacAddr([1, 0, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V6(address) => {
            let [.., a, b, c, d] = address.octets();
            MacAddr([0x33, 0x33, a, b, c, d])
        }
    }
}

/// A packet of a protocol that has no ports.
fn raw(to: Ipv4Addr, protocol: u8, data: &[u8]) -> Vec<u8> {
    let sent = Sent {
        protocol: ICMP,
        data: data.to_vec(),
        ..Sent::tcp(end(HOST.octets(), 0), end(to.octets(), 0), 0)
    };
    let mut packet = sent.packet();
    packet[9] = protocol;
    packet[10..12].fill(0);
    let sum = !ones_sum(&[&packet[..20]]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// What the kernel gets of these frames at the WAN port; nothing is sent, and nothing dropped.
fn given(gateway: &mut Gateway, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (dropped, taken) = gateway.dropped_by(|gateway| {
        // One by one: those of connections are dealt with after the others of their burst.
        for frame in frames {
            gateway.arrive(WAN, frame);
            assert_eq!(gateway.turn_raw(), []);
        }
        gateway.worker.io_mut().take_given()
    });
    assert_eq!(dropped, None);
    assert!(taken.iter().all(|(port, _)| *port == WAN));
    taken.into_iter().map(|(_, frame)| frame).collect()
}

/// Asserts that the kernel gets each of these frames as it is.
#[track_caller]
fn assert_given(gateway: &mut Gateway, frames: &[Vec<u8>]) {
    assert_eq!(given(gateway, frames), frames);
}

/// Why a frame at the WAN port is dropped; the kernel gets nothing.
fn refused(gateway: &mut Gateway, frame: &[u8]) -> Option<DropReason> {
    let (dropped, ()) = gateway.dropped_by(|gateway| {
        gateway.arrive(WAN, frame);
        gateway.turn_raw();
        assert_eq!(gateway.worker.io_mut().take_given(), []);
    });
    dropped.map(|(reason, _)| reason)
}

#[test]
fn what_is_to_a_ports_own_address_goes_to_the_kernel() {
    let mut gateway = open(1000);
    for family in Family::BOTH {
        let (own, host) = (family.own(WAN), family.client(1, 40000));
        let ssh = SocketAddr::new(own, 22);
        let quote = Wire::udp(ssh, host, b"asked").packet();
        let (unreachable, echo_reply) = if own.is_ipv4() { (3, 0) } else { (1, 129) };
        let frames = [
            Wire::tcp(host, ssh, SYN, b""),
            Wire::udp(host, SocketAddr::new(own, 68), b"lease"),
            // About a packet of the kernel's, and an answer to one.
            Wire::icmp(host.ip(), own, unreachable, 1, 0, &quote),
            Wire::icmp(host.ip(), own, echo_reply, 0, 7, b"ping"),
        ];
        let frames = frames.map(|wire| link(WAN_MAC, &wire.packet()));
        assert_given(&mut gateway, &frames);
    }
    let frames = [raw(WAN_IP, OSPF, b"hello---"), raw(WAN_IP, VRRP, b"advert--")];
    let frames = frames.map(|packet| link(WAN_MAC, &packet));
    assert_given(&mut gateway, &frames);
    // Field case IP6-03: a protocol that nobody here knows.
    let unknown = Wire::tcp(
        Family::V6.client(1, 1),
        SocketAddr::new(Family::V6.own(WAN), 2),
        ACK,
        b"",
    );
    let mut unknown = link(WAN_MAC, &unknown.packet());
    unknown[14 + 6] = 253;
    assert_given(&mut gateway, &[unknown]);
    // BGP may go by link-local addresses, which are in no table.
    let peer = SocketAddr::new("fe80::50".parse().unwrap(), 179);
    let own = SocketAddr::new(gateway.plan.ports[0].link_local().into(), 40000);
    let frames = [link(WAN_MAC, &Wire::tcp(peer, own, SYN | ACK, b"").packet())];
    assert_given(&mut gateway, &frames);
    // Whoever else's packets pass by here too.
    gateway.change(|plan| plan.settings.transit = true);
    assert_given(&mut gateway, &frames);
}

#[test]
fn groups_and_broadcasts_go_to_the_kernel() {
    let mut gateway = open(1000);
    let host = SocketAddr::new(HOST.into(), 68);
    let multicast =
        |to: [u8; 4], protocol| link(group(IpAddr::from(to)), &raw(to.into(), protocol, b"hello---"));
    let broadcast = |packet: Vec<u8>| link(MacAddr::BROADCAST, &packet);
    let everybody = SocketAddr::new(Ipv4Addr::BROADCAST.into(), 67);
    let all_routers: SocketAddr = "[ff02::5]:0".parse().unwrap();
    let report = Wire::icmp("fe80::50".parse().unwrap(), all_routers.ip(), 143, 0, 1, &[0; 20]);
    let advert = Wire::icmp(
        "fe80::50".parse().unwrap(),
        "ff02::1".parse().unwrap(),
        134,
        0,
        0,
        &[0; 8],
    );
    let frames = [
        multicast([224, 0, 0, 5], OSPF),
        multicast([224, 0, 0, 6], OSPF),
        multicast([224, 0, 0, 18], VRRP),
        broadcast(Wire::udp(host, everybody, b"discover").packet()),
        // A listener's report stands behind a router alert (RFC 2711).
        link(
            group(all_routers.ip()),
            &report.with_between(&[0, 0, 5, 2, 0, 0, 1, 0]).packet(),
        ),
        link(group("ff02::1".parse().unwrap()), &advert.hops(255).packet()),
    ];
    assert_given(&mut gateway, &frames);
}

// Field case FRAG-03: what is no service's is not put together.
#[test]
fn fragments_go_to_the_kernel_byte_by_byte() {
    let mut gateway = open(1000);
    for (to, mac) in [
        (Ipv4Addr::new(224, 0, 0, 5), group([224, 0, 0, 5].into())),
        (WAN_IP, WAN_MAC),
    ] {
        let pieces = cut(&raw(to, OSPF, &[7; 3000]), 1480);
        assert!(pieces.len() > 2);
        let frames: Vec<_> = pieces.iter().map(|piece| link(mac, piece)).collect();
        assert_given(&mut gateway, &frames);
    }
    for family in Family::BOTH {
        let to = SocketAddr::new(family.own(WAN), 500);
        let datagram = Wire::udp(family.client(1, 40000), to, &[7; 3000]).may_be_cut();
        let frames = cut(&datagram.packet(), 1400);
        let frames: Vec<_> = frames.iter().map(|piece| link(WAN_MAC, piece)).collect();
        assert_given(&mut gateway, &frames);
    }
}

#[test]
fn what_is_answered_here_and_what_is_nobodys_does_not() {
    let mut gateway = open(1000);
    for family in Family::BOTH {
        let ping = Wire::ping(family.router(), family.own(WAN), b"ping");
        gateway.arrive(WAN, &link(WAN_MAC, &ping.packet()));
        assert_eq!(gateway.turn_raw().len(), 1, "an echo request is answered");
        assert_eq!(gateway.worker.io_mut().take_given(), []);
    }
    let asks = arp(1, HOST_MAC, HOST, MacAddr::default(), WAN_IP);
    gateway.arrive(WAN, &asks);
    assert_eq!(one(gateway.turn()).icmp.0, 2, "we alone answer");
    assert_eq!(gateway.worker.io_mut().take_given(), []);

    let host = SocketAddr::new(HOST.into(), 40000);
    let to = |to: IpAddr, mac| {
        let to = SocketAddr::new(to, 81);
        let frame = Wire::tcp(host, to, ACK, b"").packet();
        link(mac, &frame)
    };
    let lldp = framed(MacAddr([1, 0x80, 0xc2, 0, 0, 0x0e]), 0x88cc, b"neighbour");
    for (frame, reason) in [
        // VIPs and local addresses, by whatever protocol. Field case RST-01: a port without a service is no way to the
        // host.
        (to(VIP.into(), WAN_MAC), DropReason::NotSyn),
        (
            link(WAN_MAC, &raw(VIP, OSPF, b"hello---")),
            DropReason::UnknownProtocol,
        ),
        (to(LIP.into(), WAN_MAC), DropReason::NoConnection),
        (to(VIP.into(), MacAddr::BROADCAST), DropReason::NotForUs),
        // Somebody else's.
        (
            to(Ipv4Addr::new(203, 0, 113, 77).into(), WAN_MAC),
            DropReason::NotForUs,
        ),
        (to(WAN_IP.into(), HOST_MAC), DropReason::NotOurMac),
        (lldp, DropReason::UnknownEthertype),
        (
            arp(1, HOST_MAC, HOST, MacAddr::default(), VIP),
            DropReason::NotForUs,
        ),
    ] {
        let is_arp = frame[12..14] == [8, 6];
        assert_eq!(refused(&mut gateway, &frame), (!is_arp).then_some(reason));
    }
}

#[test]
fn without_an_exception_nothing_changes() {
    let mut gateway = Gateway::new(Plan::web(Mode::Dr, 1));
    let ssh = Sent::tcp(end(HOST.octets(), 40000), end(WAN_IP.octets(), 22), SYN);
    assert_eq!(
        refused(&mut gateway, &ssh.frame(WAN_MAC)),
        Some(DropReason::NotForUs)
    );
    let tells = arp(2, HOST_MAC, HOST, WAN_MAC, WAN_IP);
    assert_eq!(refused(&mut gateway, &tells), None);
}

#[test]
fn what_neighbours_tell_is_heard_by_both() {
    let mut plan = Plan::dual_web(Mode::Dr, Protocol::Tcp, 1, 80);
    plan.know_nobody();
    plan.let_kernel_have(1000);
    let mut gateway = Gateway::new(plan);
    let reply = arp(2, ROUTER_MAC, ROUTER, WAN_MAC, WAN_IP);
    let gratuitous = arp(1, ROUTER_MAC, ROUTER, MacAddr::default(), ROUTER);
    let router6: std::net::Ipv6Addr = match Family::V6.router() {
        IpAddr::V6(address) => address,
        IpAddr::V4(_) => unreachable!(),
    };
    let told = [&router6.octets()[..], &[2, 1], &ROUTER_MAC.0].concat();
    let own6 = Family::V6.own(WAN);
    let advert = Wire {
        load: Load::Icmp {
            kind: 136,
            code: 0,
            rest: 0x6000_0000,
            data: told,
        },
        ..Wire::icmp(router6.into(), own6, 136, 0, 0, b"").hops(255)
    };
    // The gateway asks, and learns from the answer as well.
    let ping = Wire::ping(router6.into(), own6, b"ping");
    gateway.arrive(WAN, &link(WAN_MAC, &ping.packet()));
    assert_eq!(gateway.turn_raw().len(), 1, "a solicitation");
    assert_given(&mut gateway, &[reply, gratuitous]);
    gateway.arrive(WAN, &link(WAN_MAC, &advert.packet()));
    assert_eq!(gateway.turn_raw().len(), 1, "the reply that has waited");
    assert_eq!(gateway.worker.io_mut().take_given().len(), 1);
    // What asks for somebody else tells the kernel nothing.
    let asks = arp(1, HOST_MAC, HOST, MacAddr::default(), ROUTER);
    assert_eq!(given(&mut gateway, &[asks]), Vec::<Vec<u8>>::new());
}

#[test]
fn a_flood_to_a_ports_address_leaves_routing_and_services_alone() {
    let mut gateway = open(100);
    gateway.worker.io_mut().set_kernel_room(64);
    let flood = |n: u16| {
        let from = end(HOST.octets(), 1024 + n);
        Sent::tcp(from, end(WAN_IP.octets(), 22), SYN).frame(WAN_MAC)
    };
    for n in 0..500 {
        gateway.arrive(WAN, &flood(n));
    }
    while gateway.worker.io_mut().is_waiting() {
        assert_eq!(gateway.turn_raw(), []);
    }
    assert_eq!(gateway.worker.io_mut().take_given().len(), 64);
    // No room for 36 more, and no more than 100 in a second.
    assert_eq!(gateway.drops(DropReason::ExceptionFull), 36);
    assert_eq!(gateway.drops(DropReason::ExceptionRate), 400);
    // Those have a share of their own.
    let bgp = Sent::tcp(end(HOST.octets(), 179), end(WAN_IP.octets(), 40000), ACK).frame(WAN_MAC);
    let bfd = Sent::udp(end(HOST.octets(), 49152), end(WAN_IP.octets(), 3784), b"up").frame(WAN_MAC);
    let vrrp = link(
        group([224, 0, 0, 18].into()),
        &raw([224, 0, 0, 18].into(), VRRP, b"advert--"),
    );
    let reply = arp(2, HOST_MAC, HOST, WAN_MAC, WAN_IP);
    assert_given(&mut gateway, &[bgp, bfd, vrrp, reply]);
    let forwarded = gateway.inbound(&Sent::tcp(client(1, 40000), WEB, SYN));
    assert_eq!(forwarded.len(), 1);
    // The next second has a budget again.
    gateway.pass(TICKS_PER_SECOND);
    assert_given(&mut gateway, &[flood(600)]);
}

#[test]
fn what_the_kernel_sends_leaves_as_it_is() {
    let mut plan = Plan::web(Mode::Dr, 1);
    plan.let_kernel_have(1000);
    let mut ports: Vec<PortSettings> = plan.ports.to_vec();
    ports.push(PortSettings {
        vlan: Some(Vlan { parent: LAN, id: 20 }),
        ..ports[1].clone()
    });
    ports[2].addresses = vec![([10, 2, 0, 1].into(), 24)];
    plan.ports = ports.into();
    let mut gateway = Gateway::new(plan);
    let frame = |mac: MacAddr| {
        let mut frame = link(
            group([224, 0, 0, 18].into()),
            &raw([224, 0, 0, 18].into(), VRRP, b"advert--"),
        );
        frame[6..12].copy_from_slice(&mac.0);
        frame
    };
    gateway.worker.io_mut().send_from_kernel(WAN, &frame(WAN_MAC));
    gateway
        .worker
        .io_mut()
        .send_from_kernel(PortId(2), &frame(LAN_MAC));
    let sent = gateway.turn_raw();
    assert_eq!(sent, [(WAN, frame(WAN_MAC)), (LAN, tagged(20, &frame(LAN_MAC)))]);
    assert_eq!(gateway.stats.from_kernel.get(), 2);
    // And a VLAN's own packets come to it without their tag.
    let ssh = Sent::tcp(end([10, 2, 0, 9], 40000), end([10, 2, 0, 1], 22), SYN).frame(LAN_MAC);
    gateway.arrive(LAN, &tagged(20, &ssh));
    assert_eq!(gateway.turn_raw(), []);
    let given = gateway.worker.io_mut().take_given();
    assert_eq!(given.len(), 1);
    assert_eq!((given[0].0, &given[0].1[..54]), (PortId(2), &ssh[..54]));
    // A kernel that sends nonsense does no harm.
    gateway.worker.io_mut().send_from_kernel(WAN, &[1, 2, 3]);
    let (dropped, sent) = gateway.dropped_by(Gateway::turn_raw);
    assert_eq!((dropped, sent), (Some((DropReason::RuntFrame, 1)), vec![]));
}

#[test]
fn an_icmp_flood_is_no_neighbour_discovery() {
    let mut gateway = open(2);
    let own = Family::V6.own(WAN);
    let host = Family::V6.client(1, 0).ip();
    for _ in 0..5 {
        let message = Wire::icmp(host, own, 129, 0, 7, b"unasked");
        gateway.arrive(WAN, &link(WAN_MAC, &message.packet()));
    }
    gateway.turn_raw();
    assert_eq!(gateway.worker.io_mut().take_given().len(), 2);
    assert_eq!(gateway.drops(DropReason::ExceptionRate), 3);
    assert_eq!(ICMP6, 58);
    let reply = arp(2, HOST_MAC, HOST, WAN_MAC, WAN_IP);
    assert_given(&mut gateway, &[reply]);
}
