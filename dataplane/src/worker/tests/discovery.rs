//! Neighbours of both families: packets wait until one is found, questions for our addresses are answered, and a
//! start is announced.

use super::carried::*;
use super::exchange::*;
use super::frames::{SYN, arp};
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::flow::Mode;
use crate::packet::{MacAddr, PortId};
use crate::service::Protocol;
use crate::time::seconds;
use std::net::{IpAddr, Ipv6Addr};

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Flags of an advertisement.
const SOLICITED: u32 = 1 << 30;
const OVERRIDE: u32 = 1 << 29;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V6(address) => address,
        IpAddr::V4(_) => panic!("IPv4"),
    }
}

/// RFC 4291 2.7.1.
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::new(
        0xff02,
        0,
        0,
        0,
        0,
        1,
        0xff00 | u16::from(a),
        u16::from_be_bytes([b, c]),
    )
}

/// RFC 2464 7.
fn group_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

/// A message of neighbour discovery: its flags, its target, and its MAC option with that type.
fn message(
    from: Ipv6Addr,
    to: Ipv6Addr,
    kind: u8,
    flags: u32,
    target: Ipv6Addr,
    mac: Option<(u8, MacAddr)>,
) -> Wire {
    let mut data = target.octets().to_vec();
    if let Some((option, mac)) = mac {
        data.extend([&[option, 1], &mac.0[..]].concat());
    }
    Wire::icmp(from.into(), to.into(), kind, 0, flags, &data).hops(255)
}

fn nobody_known(mode: Mode) -> Plan {
    let mut plan = Plan::dual_web(mode, Protocol::Tcp, 1, 80);
    plan.know_nobody();
    plan
}

/// The first packets for a server wait; one question goes out, to the solicited-node group for IPv6; the answer lets
/// them go, in order.
#[test]
fn packets_wait_for_a_neighbour_of_either_family() {
    for (family, mode) in [Mode::Nat, Mode::Dr]
        .into_iter()
        .flat_map(|mode| Family::BOTH.map(|f| (f, mode)))
    {
        let mut gateway = Gateway::new(nobody_known(mode));
        let (client, vip, server) = (family.client(1, 40000), family.vip(80), family.server(1, 80));
        let question = gateway.pass_on(WAN, &Wire::tcp(client, vip, SYN, b""));
        assert_eq!((question.port, question.from_mac), (LAN, LAN_MAC));
        let own = family.own(LAN);
        match (own, server.ip()) {
            (IpAddr::V4(own), IpAddr::V4(server)) => {
                let expected = arp(1, LAN_MAC, own, MacAddr::default(), server);
                assert_eq!(
                    (question.to_mac, &question.packet[..18]),
                    (MacAddr::BROADCAST, &expected[14..32])
                );
                assert_eq!(question.packet[24..28], server.octets());
            }
            (IpAddr::V6(own), IpAddr::V6(server)) => {
                let group = solicited_node(server);
                assert_eq!(question.to_mac, group_mac(group));
                let expected = message(own, group, SOLICITATION, 0, server, Some((1, LAN_MAC)));
                let asked = question.wire();
                assert_eq!(
                    (asked.from, asked.to, asked.hops),
                    (expected.from, expected.to, 255)
                );
                assert_eq!(asked.load, expected.load);
            }
            _ => panic!("two families"),
        }
        // The second packet waits as well, without another question.
        assert_eq!(gateway.exchange(WAN, &Wire::tcp(client, vip, SYN, b"second")), []);
        assert_eq!(gateway.stats.held.get(), 2);

        match (own, server.ip()) {
            (IpAddr::V4(own), IpAddr::V4(server)) => {
                gateway.arrive(LAN, &arp(2, server_mac(1), server, LAN_MAC, own));
            }
            (own, server) => {
                let target = Some((2, server_mac(1)));
                let (own, server) = (v6(own), v6(server));
                let told = message(server, own, ADVERTISEMENT, SOLICITED | OVERRIDE, server, target);
                gateway.come(LAN, &told.packet());
            }
        }
        let released = gateway.out();
        let data: Vec<_> = released.iter().map(|out| out.wire().data().to_vec()).collect();
        assert_eq!(data, [&b""[..], b"second"]);
        assert!(
            released
                .iter()
                .all(|out| (out.port, out.to_mac) == (LAN, server_mac(1)))
        );
        assert_eq!(gateway.stats.held.get(), 0);
        // From now on nothing waits.
        assert_eq!(
            gateway
                .pass_on(WAN, &Wire::tcp(client, vip, SYN, b"third"))
                .to_mac,
            server_mac(1)
        );
    }
}

/// A tunnel's server is a neighbour of the outer family.
#[test]
fn a_tunnel_waits_for_the_neighbour_of_its_outer_family() {
    let kind = crate::service::TunnelKind::Ipip;
    let mut plan = super::modes::tunnelled(Family::V4, Family::V6, kind, Default::default());
    plan.know_nobody();
    let mut gateway = Gateway::new(plan);
    let syn = Wire::tcp(Family::V4.client(1, 40000), Family::V4.vip(80), SYN, b"");
    let server = v6(Family::V6.server(1, 0).ip());
    let asked = gateway.pass_on(WAN, &syn).wire();
    assert_eq!(asked.message().0, SOLICITATION);
    assert_eq!(asked.data()[..16], server.octets());
    let own = v6(Family::V6.own(LAN));
    let told = message(
        server,
        own,
        ADVERTISEMENT,
        SOLICITED | OVERRIDE,
        server,
        Some((2, server_mac(1))),
    );
    let out = gateway.pass_on(LAN, &told);
    assert_eq!(out.to_mac, server_mac(1));
    assert_eq!(unwrap(&out.packet).2, syn.later());
}

/// Each IPv6 address that is answered for is announced three times after the start, to all nodes (RFC 4861 7.2.6).
#[test]
fn a_start_announces_ipv6_addresses() {
    let mut gateway = Gateway::starting(nobody_known(Mode::Nat));
    let sent = gateway.pass_raw(seconds(10));
    let announced = sent.into_iter().map(Out::read).filter(|out| !out.arp);
    let mut times = [0; 7];
    let ours = [
        (Family::V6.own(WAN), WAN),
        (Family::V6.own(LAN), LAN),
        (Family::V6.vip(80).ip(), WAN),
        (Family::V6.local(0), LAN),
        (Family::V6.local(1), LAN),
        (Family::V6.local(2), LAN),
        (Family::V6.local(3), LAN),
    ];
    for out in announced {
        let told = out.wire();
        let at = ours
            .iter()
            .position(|(address, _)| told.data()[..16] == v6(*address).octets())
            .unwrap();
        times[at] += 1;
        let mac = gateway.plan.ports[usize::from(ours[at].1.0)].mac;
        assert_eq!(
            (out.port, out.from_mac, out.to_mac),
            (ours[at].1, mac, group_mac(ALL_NODES))
        );
        assert_eq!(
            (told.from.ip(), told.to.ip(), told.hops),
            (ours[at].0, ALL_NODES.into(), 255)
        );
        let (kind, code, flags) = told.message();
        assert_eq!(
            (kind, code, flags & (SOLICITED | OVERRIDE)),
            (ADVERTISEMENT, 0, OVERRIDE)
        );
        assert_eq!(told.data()[16..], [&[2, 1], &mac.0[..]].concat());
    }
    assert_eq!(times, [3; 7]);
}

/// A question for the VIP is answered on its own link, also one from a link-local address; a probe for it is told to
/// everybody, so that the prober gives the address up (RFC 4862 5.4.3).
#[test]
fn questions_and_probes_for_a_vip_are_answered_on_its_link() {
    let mut gateway = Gateway::new(nobody_known(Mode::Nat));
    let vip = v6(Family::V6.vip(80).ip());
    let group = solicited_node(vip);
    let station = MacAddr([2, 0xff, 0, 0, 0, 1]);
    let link_local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0xff, 0xfe00, 0, 1);
    for from in [link_local, v6(Family::V6.router())] {
        let question = message(from, group, SOLICITATION, 0, vip, Some((1, station)));
        gateway.arrive(WAN, &link(group_mac(group), &question.packet()));
        let out = only(gateway.out());
        let told = out.wire();
        assert_eq!((out.port, out.from_mac, out.to_mac), (WAN, WAN_MAC, station));
        assert_eq!(
            (told.from.ip(), told.to.ip(), told.hops),
            (vip.into(), from.into(), 255)
        );
        let (kind, _, flags) = told.message();
        assert_eq!(
            (kind, flags & (SOLICITED | OVERRIDE)),
            (ADVERTISEMENT, SOLICITED | OVERRIDE)
        );
        assert_eq!(told.data(), [&vip.octets()[..], &[2, 1], &WAN_MAC.0].concat());
    }
    let probe = message(Ipv6Addr::UNSPECIFIED, group, SOLICITATION, 0, vip, None);
    gateway.arrive(WAN, &link(group_mac(group), &probe.packet()));
    let out = only(gateway.out());
    let told = out.wire();
    assert_eq!(
        (out.to_mac, told.to.ip()),
        (group_mac(ALL_NODES), IpAddr::from(ALL_NODES))
    );
    assert_eq!(told.message().2 & (SOLICITED | OVERRIDE), OVERRIDE);

    // On the other link nobody is told.
    for packet in [
        probe,
        message(link_local, group, SOLICITATION, 0, vip, Some((1, station))),
    ] {
        gateway.arrive(LAN, &link(group_mac(group), &packet.packet()));
        assert_eq!(gateway.out(), []);
    }
}

/// Servers find a local address as they find any neighbour, on its own link alone.
#[test]
fn questions_for_a_local_address_are_answered_on_its_link() {
    let mut gateway = Gateway::new(nobody_known(Mode::Fullnat));
    let local = v6(Family::V6.local(1));
    let (from, station) = (v6(Family::V6.server(1, 0).ip()), server_mac(1));
    let group = solicited_node(local);
    let question = message(from, group, SOLICITATION, 0, local, Some((1, station)));
    let frame = link(group_mac(group), &question.packet());
    gateway.arrive(WAN, &frame);
    assert_eq!(gateway.out(), []);
    gateway.arrive(LAN, &frame);
    let out = only(gateway.out());
    assert_eq!((out.port, out.from_mac, out.to_mac), (LAN, LAN_MAC, station));
    let told = out.wire();
    assert_eq!((told.from.ip(), told.to.ip()), (local.into(), from.into()));
    assert_eq!(told.data(), [&local.octets()[..], &[2, 1], &LAN_MAC.0].concat());
}

/// The gateway's own link-local address is each port's own.
#[test]
fn a_ports_link_local_address_is_answered_for_there() {
    let mut gateway = Gateway::new(nobody_known(Mode::Nat));
    let from = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    for (port, other) in [(WAN, LAN), (LAN, WAN)] {
        let own = gateway.plan.ports[usize::from(port.0)].link_local();
        let group = solicited_node(own);
        let question = message(
            from,
            group,
            SOLICITATION,
            0,
            own,
            Some((1, MacAddr([2, 0xff, 0, 0, 0, 1]))),
        );
        let frame = link(group_mac(group), &question.packet());
        gateway.arrive(port, &frame);
        assert_eq!(only(gateway.out()).wire().from.ip(), IpAddr::from(own));
        gateway.arrive(PortId(other.0), &frame);
        assert_eq!(gateway.out(), []);
    }
}
