//! How long a tunnel's packets may be, and errors about them.

use super::carried::*;
use super::exchange::*;
use super::frames::{ACK, SYN};
use super::gateway::*;
use super::header::word;
use super::modes::{KINDS, tunnelled};
use super::plan::*;
use super::wire::*;
use crate::drops::DropReason;
use crate::service::{TunnelChecksum, TunnelKind};
use crate::time::seconds;

/// The message that a packet was too big, by the family of who is told.
fn too_big(family: Family, mtu: u16) -> (u8, u8, u32) {
    match family {
        Family::V4 => (3, 4, mtu.into()),
        Family::V6 => (2, 0, mtu.into()),
    }
}

fn plain(inner: Family, outer: Family) -> Gateway {
    Gateway::new(tunnelled(inner, outer, TunnelKind::Ipip, TunnelChecksum::None))
}

/// A segment whose IP packet has that many bytes.
fn segment(family: Family, length: u16) -> Wire {
    let headers = if family == Family::V4 { 40 } else { 60 };
    let data = vec![7; usize::from(length - headers)];
    Wire::tcp(family.client(1, 40000), family.vip(80), ACK, &data)
}

/// ICMP-02 and ICMP-06: every segment that does not fit is answered by the MTU less the tunnel's headers, at once,
/// the first as well; what fits goes in one piece, and nothing is longer than the link.
#[test]
fn a_segment_that_does_not_fit_is_told_what_would() {
    for (inner, outer) in Family::BOTH
        .into_iter()
        .flat_map(|inner| Family::BOTH.map(|outer| (inner, outer)))
    {
        for (kind, checksum, shim) in KINDS {
            let mut gateway = Gateway::new(tunnelled(inner, outer, kind, checksum));
            let room = 1500 - shim - if outer == Family::V4 { 20 } else { 40 };
            let syn = Wire::tcp(inner.client(1, 40000), inner.vip(80), SYN, b"");
            gateway.pass_on(WAN, &syn);
            for length in [1500, room + 1] {
                let packet = segment(inner, length);
                let told = gateway.told(&packet);
                assert_eq!(told.from.ip(), inner.vip(0).ip());
                assert_eq!(
                    told.message(),
                    too_big(inner, room),
                    "{inner:?} in {outer:?} by {kind:?}"
                );
                let quote = packet.later().packet();
                assert_eq!(
                    told.data(),
                    &quote[..told.data().len()],
                    "quoted with the hop counted"
                );
            }
            let fitting = segment(inner, room);
            let out = gateway.pass_on(WAN, &fitting);
            assert_eq!(out.packet.len(), 1500);
            assert_eq!(unwrap(&out.packet).2, fitting.later());
            assert_eq!(gateway.drops(DropReason::ExceedsMtu), 2);
        }
    }
}

/// ICMP-02 and ICMP-06, `pmtu_disc` off: nobody is told; the tunnel's packets go in fragments that the server puts
/// together. So they do for a client that does not ask for DF.
#[test]
fn without_path_mtu_discovery_tunnel_packets_go_in_fragments() {
    for (outer, discovers) in Family::BOTH
        .into_iter()
        .flat_map(|outer| [true, false].map(|d| (outer, d)))
    {
        let mut gateway = plain(Family::V4, outer);
        gateway.change_raw(|plan| plan.settings.pmtu_disc = discovers);
        gateway.pass_on(
            WAN,
            &Wire::tcp(Family::V4.client(1, 40000), Family::V4.vip(80), SYN, b""),
        );
        let mut identifications = Vec::new();
        for _ in 0..3 {
            let mut packet = segment(Family::V4, 1500);
            packet.whole = !discovers;
            let sent = gateway.exchange(WAN, &packet);
            assert_eq!(sent.len(), 2);
            assert!(
                sent.iter()
                    .all(|out| out.packet.len() <= 1500 && out.to_mac == server_mac(1))
            );
            let pieces: Vec<_> = sent.into_iter().map(|out| out.packet).collect();
            identifications.push(match outer {
                Family::V4 => u32::from(word(&pieces[0], 4)),
                Family::V6 => u32::from(word(&pieces[0], 44)) << 16 | u32::from(word(&pieces[0], 46)),
            });
            let (header, _, carried) = unwrap(&assemble(&pieces));
            assert_eq!(carried, packet.later());
            assert!(!header.whole);
        }
        identifications.sort_unstable();
        identifications.dedup();
        assert_eq!(
            identifications.len(),
            3,
            "fragments of two packets must not be mixed"
        );
    }
}

/// A router inside the tunnel tells of a smaller MTU: the client hears at once what fits, and so does whoever sends
/// the next long packet. After ten minutes the way may have changed, and is tried again.
#[test]
fn a_smaller_mtu_inside_the_tunnel_is_learnt_and_forgotten() {
    for (inner, outer) in Family::BOTH
        .into_iter()
        .flat_map(|inner| Family::BOTH.map(|outer| (inner, outer)))
    {
        let mut gateway = plain(inner, outer);
        let (client, vip) = (inner.client(1, 40000), inner.vip(80));
        gateway.pass_on(WAN, &Wire::tcp(client, vip, SYN, b""));
        let room = 1400 - if outer == Family::V4 { 20 } else { 40 };
        let packet = segment(inner, 1420);
        let wrapped = gateway.pass_on(WAN, &packet).packet;
        let (kind, code, rest) = too_big(outer, 1400);
        let router = outer.server(7, 0).ip();
        let quote = &wrapped[..if outer == Family::V4 { 128 } else { 200 }];
        let told = gateway.pass_on(LAN, &Wire::icmp(router, outer.own(LAN), kind, code, rest, quote));
        assert_eq!((told.port, told.to_mac), (WAN, ROUTER_MAC));
        let told = told.wire();
        assert_eq!((told.from.ip(), told.to.ip()), (vip.ip(), client.ip()));
        assert_eq!(told.message(), too_big(inner, room), "{inner:?} in {outer:?}");
        assert_eq!(quoted(told.data()), (client, vip));

        assert_eq!(gateway.told(&packet).message(), too_big(inner, room));
        let fitting = segment(inner, room);
        assert_eq!(gateway.pass_on(WAN, &fitting).packet.len(), 1400);
        gateway.pass_raw(seconds(601));
        assert_eq!(unwrap(&gateway.pass_on(WAN, &packet).packet).2, packet.later());
    }
}

/// ICMP-04: an error about a tunnel packet becomes one about the client's only where that is quoted with its ports;
/// less than that, or lengths that lie, lead nowhere, and nothing opens a connection.
#[test]
fn errors_about_tunnel_packets_need_the_whole_inner_header() {
    for (kind, checksum, shim) in KINDS {
        let mut gateway = Gateway::new(tunnelled(Family::V4, Family::V4, kind, checksum));
        let (client, vip) = (Family::V4.client(1, 40000), Family::V4.vip(80));
        let syn = Wire::tcp(client, vip, SYN, b"");
        let wrapped = gateway.pass_on(WAN, &syn).packet;
        let router = Family::V4.server(7, 0).ip();
        let own = Family::V4.own(LAN);
        let least = 20 + usize::from(shim) + 28;
        for length in 0..=wrapped.len() {
            let sent = Wire::icmp(router, own, 3, 1, 0, &wrapped[..length]);
            let (dropped, out) = gateway.dropped_by(|gateway| gateway.exchange(LAN, &sent));
            if length >= least {
                let told = only(out).wire();
                assert_eq!(
                    (dropped, told.from.ip(), told.to.ip()),
                    (None, vip.ip(), client.ip())
                );
                assert_eq!((told.message(), quoted(told.data())), ((3, 1, 0), (client, vip)));
            } else {
                assert!(
                    dropped.is_some() && out.is_empty(),
                    "{kind:?}, {length} bytes: {dropped:?}"
                );
            }
        }
        // Any one byte of the quote changed: another connection's, no tunnel's, or the same once more.
        for at in 0..least {
            let mut quote = wrapped[..least].to_vec();
            quote[at] ^= 0x15;
            gateway.exchange(LAN, &Wire::icmp(router, own, 3, 1, 0, &quote));
        }
        assert_eq!(gateway.stats.opened.get(), 1);
    }
}

/// An error about a packet through the tunnel that another server's address stands in, or that was no tunnel's, is not
/// believed.
#[test]
fn errors_about_other_servers_tunnels_are_not_believed() {
    let mut gateway = plain(Family::V4, Family::V4);
    let (client, vip) = (Family::V4.client(1, 40000), Family::V4.vip(80));
    gateway.pass_on(WAN, &Wire::tcp(client, vip, SYN, b""));
    let mut quote = gateway.pass_on(WAN, &segment(Family::V4, 1400)).packet;
    quote[19] ^= 7;
    let sent = Wire::icmp(
        Family::V4.server(7, 0).ip(),
        Family::V4.own(LAN),
        3,
        4,
        600,
        &quote[..128],
    );
    let (dropped, out) = gateway.dropped_by(|gateway| gateway.exchange(LAN, &sent));
    assert_eq!((dropped, out), (Some((DropReason::NoConnection, 1)), vec![]));
    assert_eq!(gateway.exchange(WAN, &segment(Family::V4, 1400)).len(), 1);
}

/// ICMP errors to the VIP travel to a tunnel's server through the tunnel.
#[test]
fn a_tunnels_server_hears_errors_through_the_tunnel() {
    for (inner, outer) in Family::BOTH
        .into_iter()
        .flat_map(|inner| Family::BOTH.map(|outer| (inner, outer)))
    {
        let mut gateway = plain(inner, outer);
        let (client, vip) = (inner.client(1, 40000), inner.vip(80));
        gateway.pass_on(WAN, &Wire::tcp(client, vip, SYN, b""));
        let about = Wire::tcp(vip, client, ACK, b"page").packet();
        let (kind, code, rest) = too_big(inner, 1300);
        let sent = Wire::icmp(inner.client(254, 0).ip(), vip.ip(), kind, code, rest, &about);
        let out = gateway.pass_on(WAN, &sent);
        let (header, _, carried) = unwrap(&out.packet);
        assert_eq!((header.to, carried), (outer.server(1, 0).ip(), sent.later()));
    }
}

/// `tunnel_source`: each flow has an outer source address of its own from the prefix, always the same one, so that
/// the server's queues share the load; errors to that address are about the tunnel as well.
#[test]
fn tunnels_may_come_from_a_prefix() {
    for outer in Family::BOTH {
        let mut plan = tunnelled(Family::V4, outer, TunnelKind::Ipip, TunnelChecksum::None);
        plan.settings.tunnel_source = Some("10.99.0.0/16".parse().unwrap());
        plan.settings.tunnel_source6 = Some("2001:db8:99::/48".parse().unwrap());
        let prefix = match outer {
            Family::V4 => plan.settings.tunnel_source,
            Family::V6 => plan.settings.tunnel_source6,
        };
        let mut gateway = Gateway::new(plan);
        let vip = Family::V4.vip(80);
        let mut sources = std::collections::HashSet::new();
        for port in 1..=20 {
            let client = Family::V4.client(1, port);
            let mut last = None;
            for flags in [SYN, ACK] {
                let wrapped = gateway.pass_on(WAN, &Wire::tcp(client, vip, flags, b"")).packet;
                let (header, _, _) = unwrap(&wrapped);
                assert!(prefix.unwrap().contains(header.from), "{}", header.from);
                assert_eq!(*last.get_or_insert(header.from), header.from);
                sources.insert(header.from);
                if flags == ACK {
                    let (kind, code, rest) = too_big(outer, 1400);
                    let router = outer.server(7, 0).ip();
                    let told =
                        gateway.pass_on(LAN, &Wire::icmp(router, header.from, kind, code, rest, &wrapped));
                    let room = 1400 - if outer == Family::V4 { 20 } else { 40 };
                    assert_eq!(told.wire().message(), too_big(Family::V4, room));
                    assert_eq!(quoted(told.wire().data()), (client, vip));
                }
            }
        }
        assert!(sources.len() > 15, "{}", sources.len());
    }
}
