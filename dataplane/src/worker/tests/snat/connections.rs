//! Connections of each protocol: opened, answered, ended.

use super::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::service::Protocol;
use crate::time::seconds;
use crate::worker::tests::frames::{ACK, FIN, RST, SYN};

#[test]
fn a_tcp_connection_goes_out_and_its_answers_come_back() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_999));
        let (host, server) = (inside(family, 1, 40000), outside(family, 9, 443));
        let syn = Wire::tcp(host, server, SYN, b"");
        let seen = gateway.goes_out(&syn);
        let local = seen.from;
        assert!((0..2).any(|number| family.outside(number) == local.ip()));
        assert!((10_000..=10_999).contains(&local.port()));
        assert_eq!(seen, syn.between(local, server).later());
        let answer = Wire::tcp(server, local, SYN | ACK, b"");
        assert_eq!(gateway.comes_in(1, &answer), answer.between(server, host).later());
        for data in [&b""[..], b"GET /"] {
            let packet = Wire::tcp(host, server, ACK, data);
            assert_eq!(gateway.goes_out(&packet), packet.between(local, server).later());
        }
        let shown = gateway.connections();
        assert_eq!(shown.len(), 1);
        assert_eq!(
            (
                shown[0].client,
                shown[0].virtual_address,
                shown[0].server,
                shown[0].local
            ),
            (host, server, server, Some(local))
        );
        assert_eq!(
            (shown[0].mode_name(), shown[0].state, shown[0].remaining),
            ("snat", "ESTABLISHED", 900)
        );
        let stats = gateway.server(slot(family));
        assert_eq!(
            (stats.inbound_packets.get(), stats.outbound_packets.get()),
            (3, 1)
        );
        assert_eq!(
            (stats.connections.get(), gateway.counts(slot(family))),
            (1, (1, 0))
        );
        gateway.comes_in(1, &Wire::tcp(server, local, FIN | ACK, b""));
        gateway.goes_out(&Wire::tcp(host, server, FIN | ACK, b""));
        assert_eq!(gateway.states(), ["TIME_WAIT"]);
        gateway.pass_raw(seconds(121));
        assert_eq!((gateway.connections(), gateway.ports_in_use()), (vec![], 0));
    }
}

#[test]
fn a_datagram_goes_out_and_its_answer_comes_back() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_999));
        let (host, server) = (inside(family, 2, 5353), outside(family, 9, 53));
        let query = Wire::udp(host, server, b"query");
        let seen = gateway.goes_out(&query);
        assert_eq!(seen, query.between(seen.from, server).later());
        assert_eq!(gateway.goes_out(&query).from, seen.from, "one mapping");
        let answer = Wire::udp(server, seen.from, b"answer");
        assert_eq!(gateway.comes_in(2, &answer), answer.between(server, host).later());
        assert_eq!(gateway.state(), ("UDP", 300));
        gateway.pass_raw(seconds(301));
        assert_eq!(gateway.ports_in_use(), 0);
        // The mapping is gone, and nobody comes in by it.
        let (dropped, _) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &answer));
        assert_eq!(dropped, Some((DropReason::NoConnection, 1)));
    }
}

/// Whatever is not that server's answer does not come in (RFC 4787 5, address and port dependent).
#[test]
fn nobody_else_comes_in() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_999));
        let (host, server) = (inside(family, 2, 5353), outside(family, 9, 53));
        let local = gateway.goes_out(&Wire::udp(host, server, b"query")).from;
        for stranger in [outside(family, 9, 54), outside(family, 8, 53)] {
            let packet = Wire::udp(stranger, local, b"let me in");
            let (dropped, out) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &packet));
            assert_eq!(dropped, Some((DropReason::NoConnection, 1)));
            assert!(out.iter().all(|out| out.port == WAN), "told, not forwarded");
        }
    }
}

/// Only a SYN opens a connection; nobody is told.
#[test]
fn a_segment_of_no_connection_ends_here() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_999));
        let (host, server) = (inside(family, 1, 40000), outside(family, 9, 443));
        for flags in [ACK, FIN | ACK, RST, SYN | RST] {
            let packet = Wire::tcp(host, server, flags, b"");
            let (dropped, out) = gateway.dropped_by(|gateway| gateway.exchange(LAN, &packet));
            assert_eq!((dropped, out), (Some((DropReason::NotSyn, 1)), vec![]));
        }
        gateway.change_raw(|plan| plan.settings.sloppy_tcp = true);
        gateway.goes_out(&Wire::tcp(host, server, ACK, b"data"));
        gateway.goes_out(&Wire::tcp(host, server, RST, b""));
        assert_eq!(gateway.states(), ["CLOSE"]);
    }
}

/// Each server outside has all ports: with one there is, it serves for two of them at once.
#[test]
fn one_local_port_serves_for_each_server() {
    for family in Family::BOTH {
        let mut plan = Plan::behind_snat(1, 1);
        plan.snat = vec![family.rule(40, 1, 10_000, 10_000)];
        let mut gateway = Gateway::new(plan);
        let host = inside(family, 1, 40000);
        for (number, port) in [(8, 443), (9, 443), (9, 80)] {
            for _ in 0..2 {
                let server = outside(family, number, port);
                let seen = gateway.goes_out(&Wire::tcp(host, server, SYN, b""));
                assert_eq!(seen.from, SocketAddr::new(family.outside(0), 10_000));
                let answer = Wire::tcp(server, seen.from, SYN | ACK, b"");
                assert_eq!(gateway.comes_in(1, &answer).to, host);
            }
        }
        assert_eq!((gateway.connections().len(), gateway.ports_in_use()), (3, 3));
    }
}

/// Services come first: a host inside reaches a VIP, also one whose server is inside.
#[test]
fn a_host_inside_uses_the_services() {
    for family in Family::BOTH {
        let mut plan = Plan::behind_snat(10_000, 10_999);
        plan.add(
            family.vip(80),
            Protocol::Tcp,
            vec![family.real(1, Mode::Fullnat, 8080)],
        );
        let mut gateway = Gateway::new(plan);
        for number in [1, 2] {
            let host = inside(family, number, 40000);
            let out = gateway.pass_on(LAN, &Wire::tcp(host, family.vip(80), SYN, b""));
            let seen = out.wire();
            assert_eq!(
                (out.port, out.to_mac, seen.to),
                (LAN, server_mac(1), family.server(1, 8080))
            );
            assert!(
                (0..4).any(|n| family.local(n) == seen.from.ip()),
                "the service's own"
            );
            let answer = gateway.pass_on(LAN, &Wire::tcp(seen.to, seen.from, SYN | ACK, b""));
            assert_eq!((answer.wire().from, answer.wire().to), (family.vip(80), host));
        }
        assert!(gateway.connections().iter().all(|shown| !shown.snat));
    }
}

/// From inside to inside, where a rule says so.
#[test]
fn a_host_inside_reaches_another_by_a_rule() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_999));
        let (host, other) = (inside(family, 1, 40000), inside(family, 2, 22));
        let out = gateway.pass_on(LAN, &Wire::tcp(host, other, SYN, b""));
        let seen = out.wire();
        assert_eq!((out.port, out.to_mac, seen.to), (LAN, server_mac(2), other));
        assert_ne!(seen.from.ip(), host.ip());
        let back = gateway.pass_on(LAN, &Wire::tcp(other, seen.from, SYN | ACK, b""));
        assert_eq!(
            (back.to_mac, back.wire().from, back.wire().to),
            (server_mac(1), other, host)
        );
    }
}

/// An association: its INIT opens it, with the addresses that it lists taken out; a packet of none ends here.
#[test]
fn an_association_goes_out_and_its_answers_come_back() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::behind_snat(10_000, 10_999));
        let (host, server) = (inside(family, 1, 2905), outside(family, 9, 2905));
        let data = [0, 3, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let stray = Wire::sctp(host, server, 7, &data);
        let (dropped, out) = gateway.dropped_by(|gateway| gateway.exchange(LAN, &stray));
        assert_eq!((dropped, out), (Some((DropReason::NotInit, 1)), vec![]));
        let chunk = |kind: u8| [kind, 0, 0, 20, 0, 0, 0, 1, 0, 1, 0, 0, 0, 5, 0, 5, 0, 0, 0, 1];
        let init = Wire::sctp(host, server, 0, &chunk(1));
        let seen = gateway.goes_out(&init);
        assert_eq!(seen, init.between(seen.from, server).later());
        let answer = Wire::sctp(server, seen.from, 1, &chunk(2));
        assert_eq!(gateway.comes_in(1, &answer), answer.between(server, host).later());
        let shown = gateway.connections();
        assert_eq!((shown[0].protocol_name(), shown[0].mode_name()), ("SCTP", "snat"));
    }
}
