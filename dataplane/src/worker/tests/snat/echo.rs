//! Ping and traceroute from inside, and ICMP errors about connections in both directions.

use super::*;
use crate::drops::DropReason;
use crate::time::seconds;
use crate::worker::tests::errors::{error, least_quote, on_the_way, too_big};
use crate::worker::tests::frames::{ACK, SYN};

/// The reply that a host gives to an echo request.
fn reply_to(request: &Wire) -> Wire {
    let (kind, _, rest) = request.message();
    let kind = if kind == 8 { 0 } else { 129 };
    Wire::icmp(request.to.ip(), request.from.ip(), kind, 0, rest, request.data())
}

/// The same echo message with another identifier.
fn identified(packet: &Wire, identifier: u16) -> Wire {
    let mut packet = packet.clone();
    let Load::Icmp { rest, .. } = &mut packet.load else {
        panic!("no ICMP: {packet:?}")
    };
    *rest = u32::from(identifier) << 16 | *rest & 0xffff;
    packet
}

fn identifier(packet: &Wire) -> u16 {
    (packet.message().2 >> 16) as u16
}

fn exceeded(family: Family) -> (u8, u8, u32) {
    match family {
        Family::V4 => (11, 0, 0),
        Family::V6 => (3, 0, 0),
    }
}

fn port_unreachable(family: Family) -> (u8, u8, u32) {
    match family {
        Family::V4 => (3, 3, 0),
        Family::V6 => (1, 4, 0),
    }
}

#[test]
fn pings_go_out_and_their_replies_come_back() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_999));
        let server = outside(family, 9, 0).ip();
        let mut shown = std::collections::HashSet::new();
        // Two hosts, with the same identifier.
        for number in [1, 2] {
            let host = inside(family, number, 0);
            let mut last = None;
            for _ in 0..3 {
                let ping = Wire::ping(host.ip(), server, b"ping data");
                let seen = gateway.goes_out(&ping);
                assert_eq!(identifier(&ping), 7);
                let local = SocketAddr::new(seen.from.ip(), 0);
                let outside = SocketAddr::new(server, 0);
                assert_eq!(
                    seen,
                    identified(&ping, identifier(&seen))
                        .between(local, outside)
                        .later()
                );
                assert!((10_000..=10_999).contains(&identifier(&seen)));
                assert_eq!(*last.get_or_insert(seen.clone()), seen, "one identifier");
                let reply = reply_to(&seen);
                let back = gateway.comes_in(number, &reply);
                assert_eq!(back, identified(&reply, 7).between(outside, host).later());
            }
            shown.insert(last.map(|seen| (seen.from, identifier(&seen))));
        }
        assert_eq!(shown.len(), 2);
        let protocol = if family == Family::V4 { "ICMP" } else { "ICMPv6" };
        assert_eq!(gateway.states(), [protocol; 2]);
        assert!(
            gateway
                .connections()
                .iter()
                .all(|shown| shown.remaining == 60 && shown.snat)
        );
        gateway.pass_raw(seconds(61));
        assert_eq!((gateway.connections(), gateway.ports_in_use()), (vec![], 0));
    }
}

/// ICMP-10: only an echo request opens a connection. A ping to a pool address, or to the gateway, is answered.
#[test]
fn nothing_but_a_request_opens_a_connection() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_999));
        let (host, server) = (inside(family, 1, 0).ip(), outside(family, 9, 0).ip());
        let reply = if family == Family::V4 { 0 } else { 129 };
        for (port, packet, reason) in [
            (
                LAN,
                Wire::icmp(host, server, reply, 0, 0x004d_0001, b""),
                DropReason::UnsupportedIcmp,
            ),
            (
                WAN,
                Wire::icmp(server, family.outside(0), reply, 0, 0x004d_0001, b""),
                DropReason::NoConnection,
            ),
        ] {
            let (dropped, out) = gateway.dropped_by(|gateway| gateway.exchange(port, &packet));
            assert_eq!((dropped, out), (Some((reason, 1)), vec![]));
        }
        for address in [
            family.outside(0),
            family.outside(1),
            family.own(LAN),
            family.own(WAN),
        ] {
            for (port, from) in [(LAN, host), (WAN, server)] {
                let ping = Wire::ping(from, address, b"ping");
                let out = gateway.pass_on(port, &ping);
                assert_eq!((out.port, out.wire().hops), (port, 64));
                assert_eq!(
                    (out.wire().from.ip(), out.wire().message()),
                    (address, reply_to(&ping).message())
                );
            }
        }
        assert_eq!((gateway.connections(), gateway.ports_in_use()), (vec![], 0));
    }
}

/// ICMP-09: traceroute by UDP, by TCP and by ping. The first hop is the gateway's address inside; every other one is
/// that of the router that says so, about the packet that the host has sent.
#[test]
fn traceroute_shows_every_router() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_999));
        let (host, server) = (inside(family, 1, 40000), outside(family, 9, 33434));
        for probe in [
            Wire::udp(host, server, b"probe"),
            Wire::tcp(host, server, SYN, b""),
            Wire::ping(host.ip(), server.ip(), b"probe"),
        ] {
            let first = probe.clone().hops(1);
            let told = gateway.pass_on(LAN, &first);
            assert_eq!((told.port, told.wire().from.ip()), (LAN, family.own(LAN)));
            assert_eq!(
                (told.wire().message(), told.wire().data()),
                (exceeded(family), &first.packet()[..])
            );
            let seen = gateway.goes_out(&probe.clone().hops(2));
            // What the router says of the packet that it got, whole or eight bytes of it.
            for quote in [seen.packet(), least_quote(&seen)] {
                let sent = error(on_the_way(family), seen.from.ip(), exceeded(family), &quote);
                let back = gateway.comes_in(1, &sent);
                assert_eq!((back.from, back.to.ip(), back.hops), (sent.from, host.ip(), 63));
                // What the host has sent, with the hops of the quote.
                let original = probe.clone().hops(1).packet();
                assert_eq!(back.message(), exceeded(family));
                assert_eq!(back.data(), &original[..quote.len()], "{probe:?}");
            }
            // And the end of the route.
            let sent = error(
                server.ip(),
                seen.from.ip(),
                port_unreachable(family),
                &seen.packet(),
            );
            assert_eq!(gateway.comes_in(1, &sent).from.ip(), server.ip());
        }
        assert_eq!(gateway.connections().len(), 3);
    }
}

/// A host inside that refuses an answer tells the server: from the local address, about what the server has sent.
#[test]
fn errors_of_a_host_inside_come_from_its_local_address() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_999));
        let (host, server) = (inside(family, 1, 40000), outside(family, 9, 53));
        let udp = gateway.goes_out(&Wire::udp(host, server, b"query"));
        let ping = gateway.goes_out(&Wire::ping(host.ip(), server.ip(), b"ping"));
        for answer in [Wire::udp(server, udp.from, b"answer"), reply_to(&ping)] {
            let got = gateway.comes_in(1, &answer);
            let sent = error(host.ip(), server.ip(), port_unreachable(family), &got.packet());
            let seen = gateway.goes_out(&sent);
            assert_eq!((seen.from.ip(), seen.to.ip()), (udp.from.ip(), server.ip()));
            assert_eq!(
                seen.data(),
                answer.clone().later().packet(),
                "as the server has sent it"
            );
        }
        // About nothing: it does not leave, however much of a router the gateway is.
        gateway.change_raw(|plan| plan.settings.transit = true);
        let about = Wire::udp(server, inside(family, 1, 1), b"stray");
        let sent = error(host.ip(), server.ip(), port_unreachable(family), &about.packet());
        let (dropped, out) = gateway.dropped_by(|gateway| gateway.exchange(LAN, &sent));
        assert_eq!((dropped, out), (Some((DropReason::UnsupportedIcmp, 1)), vec![]));
    }
}

/// The path's MTU reaches the host that has to heed it.
#[test]
fn a_host_learns_the_mtu_of_its_path() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_999));
        let (host, server) = (inside(family, 1, 40000), outside(family, 9, 443));
        let local = gateway.goes_out(&Wire::tcp(host, server, SYN, b"")).from;
        gateway.comes_in(1, &Wire::tcp(server, local, SYN | ACK, b""));
        let long = gateway.goes_out(&Wire::tcp(host, server, ACK, &[7; 1400]));
        let sent = error(
            on_the_way(family),
            local.ip(),
            too_big(family, 1300),
            &least_quote(&long),
        );
        let back = gateway.comes_in(1, &sent);
        assert_eq!(
            (back.from, back.to.ip(), back.message()),
            (sent.from, host.ip(), too_big(family, 1300))
        );
        // Longer than the gateway's own link outside: it says so itself.
        gateway.change_raw(|plan| plan.set_mtu(WAN, 1400));
        let packet = Wire::tcp(host, server, ACK, &[7; 1400]);
        let told = gateway.pass_on(LAN, &packet);
        assert_eq!((told.port, told.wire().from.ip()), (LAN, family.own(LAN)));
        assert_eq!(told.wire().message(), too_big(family, 1400));
    }
}
