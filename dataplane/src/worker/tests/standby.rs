//! Addresses of which the kernel is the owner: ours while it has them, silent while it has not.

use super::carried::link;
use super::frames::*;
use super::gateway::*;
use super::plan::*;
use super::wire::Wire;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::packet::MacAddr;
use crate::service::Protocol;
use crate::time::TICKS_PER_SECOND;
use std::net::IpAddr;

const PEER: MacAddr = MacAddr([2, 0, 0, 0, 8, 8]);

/// A FULLNAT gateway in both families, whose VIPs and local addresses another node has.
fn standby() -> Gateway {
    let mut plan = Plan::dual_web(Mode::Fullnat, Protocol::Tcp, 1, SERVER_PORT);
    plan.standby = theirs();
    Gateway::new(plan)
}

fn theirs() -> Vec<IpAddr> {
    let both = Family::BOTH.into_iter();
    both.flat_map(|family| (0..4).map(move |n| family.local(n)).chain([family.vip(80).ip()]))
        .collect()
}

/// Which of a node's addresses are announced in the frames of a few seconds.
fn announced(gateway: &mut Gateway) -> Vec<IpAddr> {
    let mut seen = Vec::new();
    for _ in 0..8 {
        for (_, frame) in gateway.pass_raw(TICKS_PER_SECOND) {
            match frame[12..14] {
                // Sender and target are the same.
                [8, 6] if frame[28..32] == frame[38..42] => {
                    let address: [u8; 4] = frame[28..32].try_into().unwrap();
                    seen.push(IpAddr::from(address));
                }
                [0x86, 0xdd] if frame[54] == 136 => {
                    let address: [u8; 16] = frame[62..78].try_into().unwrap();
                    seen.push(IpAddr::from(address));
                }
                _ => {}
            }
        }
    }
    seen.sort_unstable();
    seen.dedup();
    seen
}

// Field case ARP-02: nobody answers for what another node has.
#[test]
fn a_standby_neither_answers_nor_announces_nor_forwards() {
    let mut gateway = Gateway::starting({
        let mut plan = Plan::dual_web(Mode::Fullnat, Protocol::Tcp, 1, SERVER_PORT);
        plan.standby = theirs();
        plan
    });
    let own: Vec<IpAddr> = {
        let mut own: Vec<_> = Family::BOTH
            .into_iter()
            .flat_map(|family| [family.own(WAN), family.own(LAN)])
            .collect();
        own.sort_unstable();
        own
    };
    assert_eq!(announced(&mut gateway), own);
    for (target, port) in [(VIP, WAN), (LIP, LAN)] {
        let asker = if port == WAN { ROUTER } else { server_ip(1) };
        gateway.arrive(port, &arp(1, PEER, asker, MacAddr::default(), target));
        assert_eq!(gateway.turn(), []);
    }
    for family in Family::BOTH {
        let (client, vip) = (family.client(1, 40000), family.vip(80));
        let local = std::net::SocketAddr::new(family.local(0), 2000);
        let frames = [
            (WAN, WAN_MAC, Wire::tcp(client, vip, SYN, b"")),
            (WAN, WAN_MAC, Wire::ping(client.ip(), vip.ip(), b"ping")),
            (
                LAN,
                LAN_MAC,
                Wire::tcp(family.server(1, 80), local, SYN | ACK, b""),
            ),
        ];
        for (port, mac, wire) in frames {
            let (dropped, sent) = gateway.dropped_by(|gateway| {
                gateway.arrive(port, &link(mac, &wire.packet()));
                gateway.turn_raw()
            });
            assert_eq!(
                (dropped, sent),
                (Some((DropReason::Standby, 1)), vec![]),
                "{wire:?}"
            );
        }
    }
}

#[test]
fn what_the_active_node_announces_is_no_conflict() {
    let mut gateway = standby();
    let claims = arp(1, PEER, VIP, MacAddr::default(), VIP);
    let (dropped, _) = gateway.dropped_by(|gateway| {
        gateway.arrive(WAN, &claims);
        gateway.turn()
    });
    assert_eq!(dropped, None);
    gateway.change_raw(|plan| plan.standby.clear());
    let (dropped, _) = gateway.dropped_by(|gateway| {
        gateway.arrive(WAN, &claims);
        gateway.turn_raw()
    });
    assert_eq!(dropped, Some((DropReason::BadSource, 1)), "now it is one");
}

#[test]
fn a_node_that_takes_over_announces_and_answers_and_serves() {
    let mut gateway = standby();
    gateway.change_raw(|plan| plan.standby.clear());
    let announced = announced(&mut gateway);
    for address in theirs() {
        assert!(announced.contains(&address), "{address} in {announced:?}");
    }
    let asks = arp(1, ROUTER_MAC, ROUTER, MacAddr::default(), VIP);
    gateway.arrive(WAN, &asks);
    assert_eq!(one(gateway.turn()).from_mac, WAN_MAC);
    let forwarded = gateway.inbound(&Sent::tcp(client(1, 40000), WEB, SYN));
    assert_eq!(one(forwarded).to_mac, server_mac(1));
    // And back: connections that are still there do not go on beside the new active node.
    gateway.change_raw(|plan| plan.standby = theirs());
    let _ = super::standby::announced(&mut gateway);
    let (dropped, sent) = gateway.dropped_by(|gateway| {
        gateway.arrive(WAN, &Sent::tcp(client(1, 40000), WEB, ACK).frame(WAN_MAC));
        gateway.turn_raw()
    });
    assert_eq!((dropped, sent.len()), (Some((DropReason::Standby, 1)), 0));
}

#[test]
fn a_standby_that_passes_strangers_by_passes_these_not() {
    let mut gateway = standby();
    gateway.change_raw(|plan| plan.settings.transit = true);
    let (dropped, sent) = gateway.dropped_by(|gateway| {
        let pieces = super::carried::cut(
            &Wire::udp(Family::V4.client(1, 40000), Family::V4.vip(80), &[7; 3000])
                .may_be_cut()
                .packet(),
            1400,
        );
        for piece in &pieces {
            gateway.arrive(WAN, &link(WAN_MAC, piece));
        }
        gateway.arrive(WAN, &Sent::tcp(client(1, 40000), WEB, SYN).frame(WAN_MAC));
        gateway.turn_raw()
    });
    let (reason, count) = dropped.unwrap();
    assert_eq!((reason, sent), (DropReason::Standby, vec![]));
    assert!(count > 3);
}
