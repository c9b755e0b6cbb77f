//! ICMP errors about connections, translated or passed on in both directions; none of them creates state.

use super::carried::*;
use super::exchange::*;
use super::frames::{ACK, SYN};
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::flow::Mode;
use crate::service::Protocol;
use std::net::{IpAddr, SocketAddr};

/// A router on the way, which is nobody's neighbour.
pub(super) fn on_the_way(family: Family) -> IpAddr {
    family.client(254, 0).ip()
}

/// "Too big", with this MTU.
pub(super) fn too_big(family: Family, mtu: u32) -> (u8, u8, u32) {
    match family {
        Family::V4 => (3, 4, mtu),
        Family::V6 => (2, 0, mtu),
    }
}

/// The IP header and eight bytes more: what every router quotes at least.
pub(super) fn least_quote(packet: &Wire) -> Vec<u8> {
    let header = if packet.from.is_ipv4() { 20 } else { 40 };
    packet.packet()[..header + 8].to_vec()
}

pub(super) fn error(from: IpAddr, to: IpAddr, (kind, code, rest): (u8, u8, u32), quote: &[u8]) -> Wire {
    Wire::icmp(from, to, kind, code, rest, quote)
}

fn modes() -> [(Family, Mode); 8] {
    [
        (Family::V4, Mode::Nat),
        (Family::V4, Mode::Fullnat),
        (Family::V4, Mode::Dr),
        (Family::V4, Mode::Tun),
        (Family::V6, Mode::Nat),
        (Family::V6, Mode::Fullnat),
        (Family::V6, Mode::Dr),
        (Family::V6, Mode::Tun),
    ]
}

/// A gateway with one TCP connection; what the server takes for its client, where the gateway shows it one.
pub(super) fn connected(family: Family, mode: Mode) -> (Gateway, SocketAddr) {
    let port = if matches!(mode, Mode::Nat | Mode::Fullnat) {
        8080
    } else {
        80
    };
    let mut plan = Plan::dual();
    plan.add(family.vip(80), Protocol::Tcp, vec![family.real(1, mode, port)]);
    let mut gateway = Gateway::new(plan);
    let (client, vip) = (family.client(1, 40000), family.vip(80));
    let local = match mode {
        Mode::Nat | Mode::Fullnat => gateway.open_both(client, vip).0,
        Mode::Dr | Mode::Tun => {
            gateway.pass_on(WAN, &Wire::tcp(client, vip, SYN, b""));
            gateway.pass_on(WAN, &Wire::tcp(client, vip, ACK, b""));
            client
        }
    };
    (gateway, local)
}

/// ICMP-01 and ICMP-09: an error from the client's side that quotes no more than eight bytes behind the IP header
/// reaches the server, about the packet that the server has sent.
#[test]
fn errors_from_the_clients_side_reach_the_server() {
    for (family, mode) in modes() {
        let (mut gateway, local) = connected(family, mode);
        let (client, vip, server) = (family.client(1, 40000), family.vip(80), family.server(1, 8080));
        let about = Wire::tcp(vip, client, ACK, &[7; 1400]);
        let others = match family {
            Family::V4 => [(3, 1, 0), (3, 13, 0), (11, 0, 0)],
            Family::V6 => [(1, 3, 0), (1, 1, 0), (3, 0, 0)],
        };
        for message in [too_big(family, 1400)].into_iter().chain(others) {
            for quote in [least_quote(&about), about.packet()[..540].to_vec()] {
                let sent = error(on_the_way(family), vip.ip(), message, &quote);
                let out = gateway.pass_on(WAN, &sent);
                assert_eq!((out.port, out.to_mac), (LAN, server_mac(1)), "{mode:?}");
                match mode {
                    Mode::Dr => assert_eq!(out.wire(), sent.later()),
                    Mode::Tun => assert_eq!(unwrap(&out.packet).2, sent.later()),
                    Mode::Nat | Mode::Fullnat => {
                        let seen = out.wire();
                        let from = if mode == Mode::Nat {
                            sent.from.ip()
                        } else {
                            local.ip()
                        };
                        assert_eq!((seen.from.ip(), seen.to.ip(), seen.hops), (from, server.ip(), 63));
                        assert_eq!(seen.message(), message);
                        assert_eq!(quoted(seen.data()), (server, local));
                        assert_eq!(seen.data().len(), quote.len());
                    }
                }
            }
        }
        assert_eq!(gateway.state().0, "ESTABLISHED");
    }
}

/// An error from the server's side reaches the client from the VIP, about the packet that the client has sent.
#[test]
fn errors_from_the_servers_side_reach_the_client() {
    for (family, mode) in [
        (Family::V4, Mode::Nat),
        (Family::V6, Mode::Nat),
        (Family::V4, Mode::Fullnat),
        (Family::V6, Mode::Fullnat),
    ] {
        let (mut gateway, local) = connected(family, mode);
        let (client, vip, server) = (family.client(1, 40000), family.vip(80), family.server(1, 8080));
        let about = Wire::tcp(local, server, ACK, &[7; 1400]);
        let unreachable = if family == Family::V4 {
            (3, 3, 0)
        } else {
            (1, 4, 0)
        };
        for message in [unreachable, too_big(family, 1300)] {
            for from in [server.ip(), family.server(7, 0).ip()] {
                let seen = gateway.towards_client(&error(from, local.ip(), message, &least_quote(&about)));
                assert_eq!(
                    (seen.from.ip(), seen.to.ip(), seen.hops),
                    (vip.ip(), client.ip(), 63)
                );
                assert_eq!((seen.message(), quoted(seen.data())), (message, (client, vip)));
            }
        }
    }
}

/// MULTI-01: an error about a connection that the server knows by another port of the client's speaks of the client's
/// own, and the other way round.
#[test]
fn errors_about_a_changed_client_port_are_translated() {
    for family in Family::BOTH {
        let mut plan = Plan::dual();
        let mut second = family.real(1, Mode::Nat, 8080);
        second.slot = 9;
        plan.add(
            family.vip(80),
            Protocol::Tcp,
            vec![family.real(1, Mode::Nat, 8080)],
        );
        plan.add(family.vip2(80), Protocol::Tcp, vec![second]);
        let mut gateway = Gateway::new(plan);
        let (client, vip) = (family.client(1, 40000), family.vip2(80));
        gateway.open_both(client, family.vip(80));
        let (shown, server) = gateway.open_both(client, vip);
        assert_ne!(shown, client);
        let quote = least_quote(&Wire::tcp(shown, server, ACK, b""));
        let sent = error(server.ip(), client.ip(), too_big(family, 1300), &quote);
        let seen = gateway.towards_client(&sent);
        assert_eq!((seen.from.ip(), quoted(seen.data())), (vip.ip(), (client, vip)));
        let quote = least_quote(&Wire::tcp(vip, client, ACK, b""));
        let sent = error(on_the_way(family), vip.ip(), too_big(family, 1300), &quote);
        assert_eq!(quoted(gateway.towards_server(&sent).data()), (server, shown));
    }
}
