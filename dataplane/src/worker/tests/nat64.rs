//! FULLNAT between families through the pipeline: IPv6 clients of IPv4 servers, and IPv4 clients of IPv6 servers.

use super::carried::*;
use super::exchange::*;
use super::frames::{ACK, FIN, PSH, SYN};
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::packet::PortId;
use crate::service::Protocol;
use crate::time::seconds;
use std::net::SocketAddr;

mod errors;
mod headers;
mod numbers;
mod pieces;
mod random;

/// Who the client is; its server is of the other family.
const CLIENTS: [Family; 2] = Family::BOTH;

fn other(family: Family) -> Family {
    match family {
        Family::V4 => Family::V6,
        Family::V6 => Family::V4,
    }
}

/// Services of all protocols at port 80, for clients of each family, whose servers are of the other.
fn plan(servers: u32) -> Plan {
    let mut plan = Plan::dual();
    for family in CLIENTS {
        for (protocol, first) in [(Protocol::Tcp, 1), (Protocol::Udp, 3), (Protocol::Sctp, 5)] {
            let servers = first..first + servers;
            let servers = servers.map(|number| other(family).real(number, Mode::Fullnat, 8080));
            plan.add(family.vip(80), protocol, servers.collect());
        }
    }
    plan
}

fn gateway() -> Gateway {
    Gateway::new(plan(1))
}

/// The packet that says on the other side what `sent` says, between these ends (RFC 7915). The identification is the
/// gateway's to choose.
fn across(sent: &Wire, from: SocketAddr, to: SocketAddr, seen: &Wire) -> Wire {
    let length = sent.packet().len() - sent.between.len();
    let mut there = sent.later().between(from, to);
    there.between = Vec::new();
    (there.label, there.whole) = match to {
        SocketAddr::V4(_) => (seen.label, length > 1280),
        SocketAddr::V6(_) => (0, false),
    };
    if let Load::Udp { summed, .. } = &mut there.load {
        *summed = true;
    }
    there
}

/// A client's packet that opens a connection or belongs to one, and what the server gets.
fn there(gateway: &mut Gateway, sent: &Wire) -> Wire {
    let seen = gateway.towards_server(sent);
    assert_eq!(seen, across(sent, seen.from, seen.to, &seen));
    seen
}

/// A server's packet to a client of `vip`.
fn back(gateway: &mut Gateway, sent: &Wire, vip: SocketAddr, client: SocketAddr) {
    let seen = gateway.towards_client(sent);
    assert_eq!(seen, across(sent, vip, client, &seen));
}

/// All three protocols, with data of every length, there and back; then the ports are free again.
#[test]
fn packets_say_the_same_on_the_other_side() {
    for family in CLIENTS {
        let mut gateway = gateway();
        let (client, vip) = (family.client(1, 40000), family.vip(80));
        let tag = 7u32;
        for length in [0, 1, 2, 7, 512, 1200, 1240] {
            let data = vec![length as u8; length];
            let chunks = super::sctp::data(&data);
            let between = |from, to| {
                [
                    Wire::tcp(from, to, if length == 0 { SYN } else { PSH | ACK }, &data),
                    Wire::udp(from, to, &data),
                    match length {
                        0 => Wire::sctp(from, to, 0, &super::sctp::init(&[])),
                        _ => Wire::sctp(from, to, tag, &chunks),
                    },
                ]
            };
            for (number, mut sent) in [1, 3, 5].into_iter().zip(between(client, vip)) {
                sent.tos = 0xb8;
                let seen = there(&mut gateway, &sent);
                assert_eq!(seen.to, other(family).server(number, 8080));
                let number = usize::from(number != 1) + usize::from(number == 5);
                let reply = between(seen.to, seen.from)[number].clone();
                back(&mut gateway, &reply, vip, client);
            }
        }
        assert_eq!(gateway.connections().len(), 3);
        gateway.check();
        gateway.pass(seconds(910));
        assert_eq!((gateway.ports_in_use(), gateway.connections().len()), (0, 0));
    }
}

/// What the IP header has besides: IPv4 options and IPv6 extension headers go, a source route is refused, the hop
/// limit ends a packet on either side.
#[test]
fn what_the_other_family_does_not_know_is_left_out() {
    for family in CLIENTS {
        let mut gateway = gateway();
        let (client, vip) = (family.client(1, 40000), family.vip(80));
        let syn = Wire::tcp(client, vip, SYN, b"");
        let extra: &[u8] = match family {
            Family::V4 => &[148, 4, 0, 0],
            Family::V6 => &[60, 0, 1, 4, 0, 0, 0, 0],
        };
        let seen = there(&mut gateway, &syn.clone().with_between(extra));
        let reply = Wire::tcp(seen.to, seen.from, SYN | ACK, b"");
        back(&mut gateway, &reply, vip, client);
        if family == Family::V4 {
            let routed = syn.with_between(&[131, 7, 4, 10, 0, 0, 9, 0]);
            let (dropped, _) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &routed));
            assert_eq!(dropped, Some((DropReason::SourceRoute, 1)));
        }
        let last = Wire::tcp(client, vip, ACK, b"").hops(1);
        assert_eq!(
            gateway.told(&last).message().0,
            if family == Family::V4 { 11 } else { 3 }
        );
        let last = reply.hops(1);
        let told = only(gateway.exchange(LAN, &last)).wire();
        assert_eq!(told.message().0, if family == Family::V4 { 3 } else { 11 });
        assert_eq!((told.from.ip(), told.to.ip()), (seen.from.ip(), seen.to.ip()));
    }
}

/// A wrong checksum is nobody's fault but its sender's: TCP and UDP carry it on, SCTP is dropped, since it gets a new
/// one.
#[test]
fn a_wrong_checksum_stays_wrong() {
    for family in CLIENTS {
        let mut gateway = gateway();
        let (client, vip) = (family.client(1, 40000), family.vip(80));
        let header = if family == Family::V4 { 20 } else { 40 };
        let mut packet = Wire::sctp(client, vip, 0, &super::sctp::init(&[])).packet();
        packet[header + 8] ^= 1;
        let (dropped, _) = gateway.dropped_by(|gateway| {
            gateway.come(WAN, &packet);
            gateway.out()
        });
        assert_eq!(dropped, Some((DropReason::BadL4Checksum, 1)));
        let mut packet = Wire::udp(client, vip, b"query").packet();
        packet[header + 6] ^= 0x10;
        gateway.come(WAN, &packet);
        let mut sent = only(gateway.out()).packet;
        let header = if family == Family::V4 { 40 } else { 20 };
        assert!(std::panic::catch_unwind(|| Wire::read(&sent)).is_err());
        sent[header + 6] ^= 0x10;
        assert_eq!(Wire::read(&sent).data(), b"query");
    }
}

/// CSUM-01 between families: IPv6 has no datagram without a checksum, so it is computed; and what is computed or
/// changed is never sent as 0.
#[test]
fn csum_01_a_missing_udp_checksum_is_made() {
    for family in CLIENTS {
        let mut gateway = gateway();
        let (client, vip) = (family.client(1, 40000), family.vip(80));
        let local = there(&mut gateway, &Wire::udp(client, vip, b"")).from;
        let server = other(family).server(3, 8080);
        // Half of all values: each comes out as another one.
        for value in (0..=u16::MAX).step_by(2) {
            let data = value.to_be_bytes();
            let (port, mut sent) = match family {
                Family::V4 => (WAN, Wire::udp(client, vip, &data)),
                Family::V6 => (LAN, Wire::udp(server, local, &data)),
            };
            sent.load = Load::Udp {
                data: data.to_vec(),
                summed: false,
            };
            gateway.come(port, &sent.packet());
            let (port, sent) = match family {
                Family::V4 => (LAN, Wire::udp(server, local, &data)),
                Family::V6 => (WAN, Wire::udp(client, vip, &data)),
            };
            gateway.come(port, &sent.packet());
            for seen in gateway.out() {
                assert!(matches!(seen.wire().load, Load::Udp { summed: true, .. }));
            }
        }
    }
}

/// A connection that is closed by both sides gives everything back, and its local port can be taken again.
#[test]
fn a_closed_connection_leaves_nothing_behind() {
    for family in CLIENTS {
        let mut plan = plan(1);
        plan.use_locals(both_pool(1, 10_000, 10_000));
        let mut gateway = Gateway::new(plan);
        let vip = family.vip(80);
        for number in 1..=50 {
            let client = family.client(number, 1024);
            let (local, server) = gateway.open_both(client, vip);
            assert_eq!(local.ip(), other(family).local(0));
            assert_eq!(gateway.states(), ["ESTABLISHED"]);
            gateway.towards_server(&Wire::tcp(client, vip, FIN | ACK, b""));
            gateway.towards_client(&Wire::tcp(server, local, FIN | ACK, b""));
            gateway.towards_server(&Wire::tcp(client, vip, ACK, b""));
            assert_eq!(gateway.states(), ["TIME_WAIT"]);
            gateway.check();
            gateway.pass(seconds(121));
            assert_eq!((gateway.ports_in_use(), gateway.connections().len()), (0, 0));
        }
    }
}

/// NAT64-03: a listing shows each end in its own family.
#[test]
fn nat64_03_a_listing_shows_both_families() {
    for family in CLIENTS {
        let mut gateway = gateway();
        let (client, vip) = (family.client(1, 40000), family.vip(80));
        let (local, server) = gateway.open_both(client, vip);
        let shown = gateway.connections().remove(0);
        assert_eq!((shown.client, shown.virtual_address), (client, vip));
        assert_eq!((shown.server, shown.local), (server, Some(local)));
        assert_eq!((shown.mode, shown.state), (Mode::Fullnat, "ESTABLISHED"));
        assert!(server.is_ipv4() != client.is_ipv4() && local.is_ipv4() == server.is_ipv4());
    }
}

/// The MSS that the IPv6 side announces is no more than what an IPv4 segment may be that gets 20 bytes longer there;
/// what the IPv4 side announces always fits.
#[test]
fn an_mss_leaves_room_for_the_longer_header() {
    let mss = |mss: u16| [&[2, 4][..], &mss.to_be_bytes()].concat();
    for family in CLIENTS {
        for (wan, lan) in [(1500, 1500), (1500, 1400), (1400, 1500), (9000, 1500)] {
            let mut plan = plan(1);
            plan.set_mtu(WAN, wan);
            plan.set_mtu(LAN, lan);
            let mut gateway = Gateway::new(plan);
            let (client, vip) = (family.client(1, 40000), family.vip(80));
            let syn = |mss: &[u8]| Wire::tcp(client, vip, SYN, b"").with_options(mss);
            let six = if family == Family::V6 { wan } else { lan };
            let expected = |from_six: bool| if from_six { (six - 60).min(8940) } else { 8940 };
            let sent = syn(&mss(8940));
            let seen = gateway.towards_server(&sent);
            let wanted = across(&sent, seen.from, seen.to, &seen);
            assert_eq!(seen, wanted.with_options(&mss(expected(family == Family::V6))));
            let reply = Wire::tcp(seen.to, seen.from, SYN | ACK, b"").with_options(&mss(8940));
            let shown = gateway.towards_client(&reply);
            let wanted = across(&reply, vip, client, &shown);
            assert_eq!(shown, wanted.with_options(&mss(expected(family == Family::V4))));
            // Neither is raised.
            let sent = syn(&mss(536));
            assert_eq!(
                gateway.towards_server(&sent),
                across(&sent, seen.from, seen.to, &seen_of(&seen, &sent))
            );
        }
    }
}

/// What `sent` is seen as, as far as [`across`] asks: one identification later.
fn seen_of(before: &Wire, sent: &Wire) -> Wire {
    let mut seen = before.clone();
    seen.load = sent.load.clone();
    seen.label = seen.label.wrapping_add(2);
    seen
}

/// A packet that arrives at a port; what leaves by the other one.
fn through(gateway: &mut Gateway, port: PortId, packets: &[Vec<u8>]) -> Vec<Out> {
    for packet in packets {
        gateway.come(port, packet);
    }
    gateway.out()
}
