//! VLANs and jumbo frames: sub-ports of one device, and links of other sizes.

use super::carried::*;
use super::exchange::*;
use super::frames::{ACK, SYN, arp};
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::neighbour::{Connected, Prefix, RouteTable};
use crate::packet::{MacAddr, PortId};
use crate::service::{PortSettings, Protocol, StaticNeighbour, TunnelChecksum, TunnelKind, Vlan};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// VLAN 10 of `lan` with 10.10.0.0/24, VLAN 20 with 10.20.0.0/24.
pub(super) const TEN: PortId = PortId(2);
const TWENTY: PortId = PortId(3);

fn in_vlan(id: u8, host: u8) -> IpAddr {
    Ipv4Addr::new(10, id, 0, host).into()
}

/// Adds the VLANs to a plan's ports and routes; only so many of them have an address, a neighbour and a network.
pub(super) fn with_vlans(plan: &mut Plan, live: usize) {
    let mut ports = plan.ports[..2].to_vec();
    for (at, id) in [10, 20].into_iter().enumerate() {
        let own = (in_vlan(id as u8, 1), 24);
        ports.push(PortSettings {
            vlan: Some(Vlan { parent: LAN, id }),
            addresses: if at < live { vec![own] } else { vec![] },
            ..ports[1].clone()
        });
    }
    let connected: Vec<_> = (0..)
        .zip(&ports)
        .flat_map(|(port, settings)| {
            settings.addresses.iter().map(move |&(own, length)| Connected {
                port: PortId(port),
                prefix: Prefix::around(own, length),
            })
        })
        .collect();
    let mut known: Vec<_> = plan
        .neighbours
        .iter()
        .filter(|known| known.port.0 < 2)
        .copied()
        .collect();
    for (id, port) in [(10, TEN), (20, TWENTY)].into_iter().take(live) {
        known.push(StaticNeighbour {
            port,
            address: in_vlan(id, 11),
            mac: server_mac(u32::from(id)),
        });
    }
    let default = crate::neighbour::Route {
        to: Prefix::DEFAULT,
        via: ROUTER.into(),
        port: None,
        weight: 1,
    };
    plan.routes = Arc::new(RouteTable::new(&connected, &[default], &[]).unwrap());
    plan.ports = ports.into();
    plan.neighbours = known.into();
}

pub(super) fn behind(id: u8, slot: u32) -> crate::service::Server {
    crate::service::Server {
        address: in_vlan(id, 11),
        port: 8080,
        slot,
        ..server(1, Mode::Nat)
    }
}

/// Servers in two VLANs: what goes there has the tag, what comes from there is taken by it.
#[test]
fn each_vlan_is_a_link_of_its_own() {
    let mut plan = Plan::empty();
    with_vlans(&mut plan, 2);
    plan.add(WEB, Protocol::Udp, vec![behind(10, 1), behind(20, 2)]);
    let mut gateway = Gateway::new(plan);
    let vip = SocketAddr::from(WEB);
    for (number, id, port) in [(1, 10, TEN), (2, 20, TWENTY)] {
        let client = SocketAddr::from(client(1, number));
        let server = SocketAddr::new(in_vlan(id, 11), 8080);
        let packet = Wire::udp(client, vip, b"query");
        let out = gateway.pass_on(WAN, &packet);
        assert_eq!(
            (out.port, out.tag),
            (LAN, Some(id.into())),
            "the device's queue, the VLAN's tag"
        );
        assert_eq!((out.to_mac, out.from_mac), (server_mac(id.into()), LAN_MAC));
        assert_eq!(out.wire(), packet.between(client, server).later());
        let reply = Wire::udp(server, client, b"answer");
        let out = gateway.pass_on(port, &reply);
        assert_eq!((out.port, out.tag), (WAN, None));
        assert_eq!(out.wire(), reply.between(vip, client).later());
    }
    // A VLAN that the device does not have, and one of the other device.
    for (port, id) in [(LAN, 30), (WAN, 10)] {
        let mac = gateway.plan.ports[usize::from(port.0)].mac;
        let frame = tagged(id, &link(mac, &Wire::udp(client(1, 9).into(), vip, b"").packet()));
        let (dropped, sent) = gateway.dropped_by(|gateway| {
            gateway.arrive(port, &frame);
            gateway.out()
        });
        assert_eq!((dropped, sent), (Some((DropReason::VlanTag, 1)), vec![]));
    }
    // A priority alone is no VLAN (IEEE 802.1Q 6.9.1).
    let frame = link(WAN_MAC, &Wire::udp(client(1, 9).into(), vip, b"").packet());
    gateway.arrive(WAN, &tagged(0xe000, &frame));
    assert_eq!(gateway.out().len(), 1);
}

/// VLAN-01: everything on a VLAN is withdrawn, its address, network and service, and comes back. (The port itself
/// cannot go while the gateway runs.) Its connections find no way meanwhile; nothing is left that could answer.
#[test]
fn what_is_on_a_vlan_goes_away_and_comes_back() {
    let mut plan = Plan::empty();
    with_vlans(&mut plan, 2);
    plan.add(WEB, Protocol::Udp, vec![behind(20, 1)]);
    let mut gateway = Gateway::new(plan);
    let packet = Wire::udp(client(1, 1).into(), WEB.into(), b"query");
    assert_eq!(gateway.pass_on(WAN, &packet).tag, Some(20));
    for _ in 0..3 {
        gateway.change_raw(|plan| {
            with_vlans(plan, 1);
            plan.services[0] = None;
        });
        assert_eq!(gateway.plan.ports[3].addresses, []);
        gateway.pass_raw(crate::time::seconds(4));
        let (dropped, sent) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &packet));
        assert!(sent.is_empty() && dropped.is_some(), "{dropped:?}");
        let asked = arp(
            1,
            MacAddr([2, 5, 0, 0, 0, 1]),
            Ipv4Addr::new(10, 20, 0, 9),
            MacAddr::default(),
            Ipv4Addr::new(10, 20, 0, 1),
        );
        gateway.arrive(LAN, &tagged(20, &asked));
        assert_eq!(gateway.out(), [], "its address is nobody's");

        gateway.change_raw(|plan| {
            plan.services.clear();
            with_vlans(plan, 2);
            plan.add(WEB, Protocol::Udp, vec![behind(20, 1)]);
        });
        gateway.pass_raw(crate::time::seconds(4));
        let out = gateway.pass_on(WAN, &packet);
        assert_eq!((out.port, out.tag, out.to_mac), (LAN, Some(20), server_mac(20)));
        gateway.arrive(LAN, &tagged(20, &asked));
        assert_eq!(only(gateway.out()).tag, Some(20));
    }
}

/// ARP-02: an address of one VLAN is not answered for in another, nor on the device itself.
#[test]
fn an_address_is_answered_for_in_its_own_vlan_only() {
    let mut plan = Plan::empty();
    with_vlans(&mut plan, 2);
    let mut gateway = Gateway::new(plan);
    let asker = MacAddr([2, 5, 0, 0, 0, 1]);
    for sender in [
        Ipv4Addr::new(10, 20, 0, 9),
        Ipv4Addr::new(10, 10, 0, 9),
        Ipv4Addr::UNSPECIFIED,
    ] {
        let asked = arp(1, asker, sender, MacAddr::default(), Ipv4Addr::new(10, 10, 0, 1));
        for frame in [tagged(20, &asked), asked.clone()] {
            gateway.arrive(LAN, &frame);
            assert_eq!(gateway.out(), []);
        }
        gateway.arrive(LAN, &tagged(10, &asked));
        let told = only(gateway.out());
        assert_eq!((told.tag, told.to_mac, told.arp), (Some(10), asker, true));
    }
}

/// A tagged frame may be as long as the link's MTU allows, its tag on top.
#[test]
fn a_full_frame_has_room_for_its_tag() {
    let mut plan = Plan::empty();
    with_vlans(&mut plan, 2);
    plan.add(WEB, Protocol::Udp, vec![behind(10, 1)]);
    let mut gateway = Gateway::new(plan);
    let (client, server) = (
        SocketAddr::from(client(1, 1)),
        SocketAddr::new(in_vlan(10, 11), 8080),
    );
    let packet = Wire::udp(client, WEB.into(), &[7; 1472]);
    let out = gateway.pass_on(WAN, &packet);
    assert_eq!((out.packet.len(), out.tag), (1500, Some(10)));
    let reply = Wire::udp(server, client, &[7; 1472]);
    assert_eq!(gateway.pass_on(TEN, &reply).packet.len(), 1500);
}

/// JUMBO-01: with an MTU of 9000, datagrams of 8972 bytes and segments of 9000 pass; one byte more is counted; a
/// tunnel tells 8980.
#[test]
fn jumbo_frames_pass_whole() {
    for (mode, protocol) in [Mode::Nat, Mode::Fullnat, Mode::Dr]
        .into_iter()
        .flat_map(|m| [Protocol::Tcp, Protocol::Udp].map(|p| (m, p)))
    {
        let mut plan = Plan::dual();
        plan.set_mtu(WAN, 9000);
        plan.set_mtu(LAN, 9000);
        plan.add(WEB, protocol, vec![Family::V4.real(1, mode, 80)]);
        let mut gateway = Gateway::new(plan);
        let (from, vip) = (SocketAddr::from(client(1, 1)), SocketAddr::from(WEB));
        let packet = |length: usize| match protocol {
            Protocol::Udp => Wire::udp(from, vip, &vec![7; length]),
            _ => Wire::tcp(from, vip, SYN, &vec![7; length - 12]),
        };
        let seen = gateway.towards_server(&packet(8972));
        assert_eq!((seen.packet().len(), seen.load), (9000, packet(8972).load));
        let (dropped, sent) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &packet(8973)));
        assert_eq!((dropped, sent), (Some((DropReason::OversizedFrame, 1)), vec![]));
    }
    let mut plan = super::modes::tunnelled(Family::V4, Family::V4, TunnelKind::Ipip, TunnelChecksum::None);
    plan.set_mtu(WAN, 9000);
    plan.set_mtu(LAN, 9000);
    let mut gateway = Gateway::new(plan);
    let (from, vip) = (SocketAddr::from(client(1, 1)), SocketAddr::from(WEB));
    let fitting = Wire::tcp(from, vip, SYN, &[7; 8940]);
    let out = gateway.pass_on(WAN, &fitting);
    assert_eq!(out.packet.len(), 9000);
    assert_eq!(unwrap(&out.packet).2, fitting.later());
    let told = gateway.told(&Wire::tcp(from, vip, ACK, &[7; 8960]));
    assert_eq!(told.message(), (3, 4, 8980));
}
