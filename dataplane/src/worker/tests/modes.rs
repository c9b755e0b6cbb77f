//! The forwarding modes in both families: what a server gets of a client's packet, and the client of its answer.

use super::carried::*;
use super::frames::{ACK, FIN, PSH, SYN};
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::flow::Mode;
use crate::service::{Protocol, Tunnel, TunnelChecksum, TunnelKind};
use std::net::SocketAddr;

/// The ways to wrap, and what each adds to an outer IP header.
pub(super) const KINDS: [(TunnelKind, TunnelChecksum, u16); 6] = [
    (TunnelKind::Ipip, TunnelChecksum::None, 0),
    (TunnelKind::Gue { port: 6080 }, TunnelChecksum::None, 12),
    (TunnelKind::Gue { port: 6080 }, TunnelChecksum::Outer, 12),
    (TunnelKind::Gue { port: 6080 }, TunnelChecksum::Remote, 12),
    (TunnelKind::Gre, TunnelChecksum::None, 4),
    (TunnelKind::Gre, TunnelChecksum::Outer, 8),
];

/// A service of one family with a server of the other or the same behind a tunnel; TCP and UDP at the VIP's port 80.
pub(super) fn tunnelled(inner: Family, outer: Family, kind: TunnelKind, checksum: TunnelChecksum) -> Plan {
    let mut plan = Plan::dual();
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        let mut server = outer.real(1, Mode::Tun, 80);
        server.tunnel = Tunnel { kind, checksum };
        plan.add(inner.vip(80), protocol, vec![server]);
    }
    plan
}

/// NAT with another port at the server, in both families, for TCP and UDP.
#[test]
fn nat_shows_each_side_its_own_ends() {
    for family in Family::BOTH {
        let mut plan = Plan::dual();
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            plan.add(family.vip(80), protocol, vec![family.real(1, Mode::Nat, 8080)]);
        }
        let mut gateway = Gateway::new(plan);
        let (client, vip, server) = (family.client(1, 40000), family.vip(80), family.server(1, 8080));
        let query = Wire::udp(client, vip, b"query");
        assert_eq!(
            gateway.towards_server(&query),
            query.between(client, server).later()
        );
        let reply = Wire::udp(server, client, b"the answer");
        assert_eq!(gateway.towards_client(&reply), reply.between(vip, client).later());

        assert_eq!(gateway.open_both(client, vip), (client, server));
        for data in [&b"odd"[..], b"even", &[7; 1400]] {
            let segment = Wire::tcp(client, vip, PSH | ACK, data);
            let out = gateway.pass_on(WAN, &segment);
            assert_eq!((out.port, out.to_mac), (LAN, server_mac(1)));
            assert_eq!(out.wire(), segment.between(client, server).later());
            let answer = Wire::tcp(server, client, PSH | ACK, data);
            assert_eq!(
                gateway.towards_client(&answer),
                answer.between(vip, client).later()
            );
        }
        let mut states = gateway.states();
        states.sort_unstable();
        assert_eq!(states, ["ESTABLISHED", "UDP"]);
        gateway.towards_client(&Wire::tcp(server, client, FIN | ACK, b""));
        gateway.towards_server(&Wire::tcp(client, vip, FIN | ACK, b""));
        assert!(gateway.states().contains(&"TIME_WAIT"), "{:?}", gateway.states());
        let stats = gateway.server(family.real(1, Mode::Nat, 0).slot as usize);
        assert_eq!(
            (stats.inbound_packets.get(), stats.outbound_packets.get()),
            (7, 6)
        );
    }
}

/// DR: the packet as it is, one hop later, to the server's MAC.
#[test]
fn dr_changes_nothing_but_the_station_and_the_hop() {
    for family in Family::BOTH {
        for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
            let mut gateway = Gateway::new(Plan::dual_web(Mode::Dr, protocol, 2, 80));
            let (client, vip) = (family.client(1, 40000), family.vip(80));
            let packets = match protocol {
                Protocol::Tcp => [
                    Wire::tcp(client, vip, SYN, b""),
                    Wire::tcp(client, vip, ACK, b"data"),
                ],
                Protocol::Udp => [Wire::udp(client, vip, b""), Wire::udp(client, vip, b"data")],
                Protocol::Sctp => [
                    Wire::sctp(client, vip, 0, &super::sctp::init(&[])),
                    Wire::sctp(client, vip, 9, &super::sctp::data(b"data")),
                ],
            };
            for packet in packets {
                let out = gateway.pass_on(WAN, &packet);
                assert_eq!(
                    (out.port, out.to_mac, out.from_mac),
                    (LAN, server_mac(1), LAN_MAC)
                );
                assert_eq!(out.wire(), packet.later());
            }
            assert_eq!(gateway.connections().len(), 1);
        }
    }
}

/// TUN: every family in every family, in every kind of tunnel.
#[test]
fn tun_wraps_the_packet_for_the_server() {
    for inner in Family::BOTH {
        for outer in Family::BOTH {
            for (kind, checksum, _) in KINDS {
                let mut gateway = Gateway::new(tunnelled(inner, outer, kind, checksum));
                let (client, vip) = (inner.client(1, 40000), inner.vip(80));
                let mut marked = Wire::tcp(client, vip, ACK, &[1; 1001]);
                // ECN: congestion met before the tunnel is not told again behind it (RFC 3168 9.1.1).
                marked.tos = 0x2b;
                for (packet, tos) in [
                    (Wire::tcp(client, vip, SYN, b""), 0),
                    (marked, 0x2a),
                    (Wire::udp(client, vip, b"datagram").may_be_cut(), 0),
                ] {
                    let out = gateway.pass_on(WAN, &packet);
                    assert_eq!(
                        (out.port, out.to_mac, out.from_mac),
                        (LAN, server_mac(1), LAN_MAC)
                    );
                    let (header, ports, carried) = unwrap(&out.packet);
                    assert_eq!(carried, packet.later(), "{kind:?}");
                    let ends = (outer.own(LAN), outer.server(1, 0).ip());
                    assert_eq!((header.from, header.to), ends);
                    assert_eq!((header.hops, header.tos), (63, tos));
                    assert_eq!(header.whole, packet.whole && outer == Family::V4);
                    assert_eq!(ports.is_some(), matches!(kind, TunnelKind::Gue { .. }));
                    assert!(ports.is_none_or(|(_, to)| to == 6080));
                }
                // What its server would say to the client does not come by here; if it does, it is nobody's.
                let astray = Wire::tcp(vip, client, SYN | ACK, b"");
                assert_eq!(gateway.exchange(LAN, &astray), []);
            }
        }
    }
}

/// A service may mix modes, and a TUN server of the other family stands beside a NAT server of its own.
#[test]
fn one_service_mixes_modes() {
    for family in Family::BOTH {
        let mut plan = Plan::dual();
        let other = if family == Family::V4 {
            Family::V6
        } else {
            Family::V4
        };
        let servers = vec![
            family.real(1, Mode::Nat, 8080),
            family.real(2, Mode::Dr, 80),
            other.real(3, Mode::Tun, 80),
        ];
        plan.add(family.vip(80), Protocol::Tcp, servers);
        let mut gateway = Gateway::new(plan);
        let vip = family.vip(80);
        let mut seen = [0; 3];
        for port in 0..6 {
            let syn = Wire::tcp(family.client(1, 40000 + port), vip, SYN, b"");
            let out = gateway.pass_on(WAN, &syn);
            let at = (1..=3)
                .position(|number| out.to_mac == server_mac(number))
                .unwrap();
            seen[at] += 1;
            match at {
                0 => assert_eq!(out.wire().to, family.server(1, 8080)),
                1 => assert_eq!(out.wire(), syn.later()),
                _ => assert_eq!(unwrap(&out.packet).2, syn.later()),
            }
        }
        assert_eq!(seen, [2, 2, 2]);
    }
}

/// MULTI-01: two VIPs lead to one NAT server and port, and one client asks both from one port. The second connection
/// has another port towards the server, so that each answer is the right VIP's.
#[test]
fn one_nat_server_behind_two_vips_keeps_their_clients_apart() {
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
        let (client, server) = (family.client(1, 40000), family.server(1, 8080));
        let vips = [family.vip(80), family.vip2(80)];
        let mut shown: Vec<SocketAddr> = Vec::new();
        for vip in vips {
            shown.push(gateway.open_both(client, vip).0);
        }
        assert_eq!(shown[0], client);
        assert_eq!(shown[1].ip(), client.ip());
        assert_ne!(shown[1].port(), client.port());
        let shard = |end: SocketAddr| gateway.worker.shard_key.shard_of(end.ip(), end.port());
        assert_eq!(
            shard(shown[1]),
            shard(client),
            "replies have to find the same worker"
        );
        for (vip, shown) in vips.into_iter().zip(shown) {
            let request = Wire::tcp(client, vip, PSH | ACK, b"GET / HTTP/1.0");
            assert_eq!(
                gateway.towards_server(&request),
                request.between(shown, server).later()
            );
            let page = Wire::tcp(server, shown, PSH | ACK, b"HTTP/1.0 200 OK");
            assert_eq!(gateway.towards_client(&page), page.between(vip, client).later());
        }
        assert_eq!(gateway.connections().len(), 2);
    }
}

/// A server that is the gateway itself: nothing listens there, the client hears that at once, and the connection is
/// over.
#[test]
fn a_server_that_is_the_gateway_answers_as_a_host_where_nothing_listens() {
    for family in Family::BOTH {
        for mode in [Mode::Nat, Mode::Dr, Mode::Tun] {
            let mut plan = Plan::dual();
            let mut server = family.real(1, mode, 80);
            server.address = family.own(LAN);
            plan.add(family.vip(80), Protocol::Tcp, vec![server]);
            let mut gateway = Gateway::new(plan);
            let (client, vip) = (family.client(1, 40000), family.vip(80));
            let reset = gateway.told(&Wire::tcp(client, vip, SYN, b""));
            assert_eq!(
                (reset.from, reset.to, reset.flags()),
                (vip, client, super::frames::RST | ACK)
            );
            assert_eq!(gateway.states(), ["CLOSE"], "{mode:?}");
            assert_eq!(gateway.drops(crate::drops::DropReason::ServerIsGateway), 1);
        }
    }
}
