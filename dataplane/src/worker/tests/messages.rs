//! ICMP messages that are answered, or lead nowhere: none of them creates state by mistake, and all have a limit.

use super::errors::*;
use super::frames::{ACK, SYN};
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::service::Protocol;
use crate::time::seconds;

/// ICMP-07: an error or an echo with a wrong checksum ends here, counted; with ICMPv6 the pseudo header counts.
#[test]
fn a_wrong_checksum_of_icmp_is_counted() {
    for family in Family::BOTH {
        let (mut gateway, _) = connected(family, Mode::Nat);
        let (client, vip) = (family.client(1, 40000), family.vip(80));
        let about = Wire::tcp(vip, client, ACK, b"");
        for sent in [
            Wire::ping(client.ip(), vip.ip(), b"ping"),
            error(
                on_the_way(family),
                vip.ip(),
                too_big(family, 1400),
                &least_quote(&about),
            ),
        ] {
            let mut packet = sent.packet();
            *packet.last_mut().unwrap() ^= 1;
            let (dropped, out) = gateway.dropped_by(|gateway| {
                gateway.come(WAN, &packet);
                gateway.out()
            });
            assert_eq!((dropped, out), (Some((DropReason::BadL4Checksum, 1)), vec![]));
            assert_eq!(gateway.exchange(WAN, &sent).len(), 1, "and right it passes");
        }
    }
}

/// ICMP-09: ping and traceroute to a VIP. An echo request ends here whatever its hops; what would be forwarded with
/// its last hop is answered from the VIP.
#[test]
fn ping_and_traceroute_find_the_vip() {
    for family in Family::BOTH {
        let mut plan = Plan::dual();
        for (protocol, port) in [(Protocol::Tcp, 80), (Protocol::Udp, 53)] {
            plan.add(family.vip(port), protocol, vec![family.real(1, Mode::Nat, 8080)]);
        }
        let mut gateway = Gateway::new(plan);
        let client = family.client(1, 40000);
        for (target, hops) in [
            (family.vip(0).ip(), 1),
            (family.own(WAN), 1),
            (family.own(LAN), 64),
        ] {
            let ping = Wire::ping(client.ip(), target, b"ping data").hops(hops);
            let pong = gateway.told(&ping);
            let kind = if family == Family::V4 { 0 } else { 129 };
            assert_eq!(
                (pong.from.ip(), pong.to.ip(), pong.hops),
                (target, client.ip(), 64)
            );
            assert_eq!(
                (pong.message(), pong.data()),
                ((kind, 0, 0x0007_0001), &b"ping data"[..])
            );
        }
        assert_eq!(gateway.connections(), []);
        let exceeded = if family == Family::V4 {
            (11, 0, 0)
        } else {
            (3, 0, 0)
        };
        for probe in [
            Wire::tcp(client, family.vip(80), SYN, b""),
            Wire::udp(client, family.vip(53), b"probe"),
        ] {
            let probe = probe.hops(1);
            let told = gateway.told(&probe);
            assert_eq!((told.from.ip(), told.to.ip()), (probe.to.ip(), client.ip()));
            assert_eq!((told.message(), told.data()), (exceeded, &probe.packet()[..]));
        }
        // The classic probe, to a port of no service: the last line of the route.
        let probe = Wire::udp(client, family.vip(33434), b"probe").hops(1);
        let unreachable = if family == Family::V4 {
            (3, 3, 0)
        } else {
            (1, 4, 0)
        };
        assert_eq!(gateway.told(&probe).message(), unreachable);
    }
}

/// ICMP-10, and errors about nothing: no message opens a connection.
#[test]
fn no_message_opens_a_connection() {
    for family in Family::BOTH {
        let mut plan = Plan::dual_web(Mode::Nat, Protocol::Tcp, 1, 80);
        plan.add(family.vip(81), Protocol::Tcp, vec![family.real(2, Mode::Dr, 81)]);
        let mut gateway = Gateway::new(plan);
        let (client, vip, server) = (family.client(1, 40000), family.vip(80), family.server(1, 80));
        let reply = if family == Family::V4 { 0 } else { 129 };
        let quote = least_quote(&Wire::tcp(vip, client, ACK, b""));
        let quote81 = least_quote(&Wire::tcp(family.vip(81), client, ACK, b""));
        let from_server = least_quote(&Wire::tcp(client, server, ACK, b""));
        for (port, message) in [
            (WAN, Wire::icmp(client.ip(), vip.ip(), reply, 0, 0x004d_0001, b"")),
            (LAN, Wire::icmp(server.ip(), vip.ip(), reply, 0, 0x004d_0001, b"")),
            (
                LAN,
                Wire::icmp(server.ip(), client.ip(), reply, 0, 0x004d_0001, b""),
            ),
            (
                WAN,
                error(on_the_way(family), vip.ip(), too_big(family, 1400), &quote),
            ),
            (
                WAN,
                error(on_the_way(family), vip.ip(), too_big(family, 1400), &quote81),
            ),
            (
                LAN,
                error(server.ip(), client.ip(), too_big(family, 1400), &from_server),
            ),
            (
                WAN,
                error(on_the_way(family), family.own(WAN), too_big(family, 1400), &quote),
            ),
        ] {
            let (dropped, sent) = gateway.dropped_by(|gateway| gateway.exchange(port, &message));
            assert!(dropped.is_some() && sent.is_empty(), "{message:?}: {dropped:?}");
        }
        assert_eq!(gateway.stats.opened.get(), 0);
    }
}

/// `schedule_icmp`: an error about no connection opens one for the packets that would answer what it quotes, as in
/// LVS; never through a tunnel error, and never for FULLNAT.
#[test]
fn schedule_icmp_opens_a_connection_for_what_is_quoted() {
    for (family, mode) in [
        (Family::V4, Mode::Dr),
        (Family::V6, Mode::Dr),
        (Family::V4, Mode::Nat),
    ] {
        let mut plan = Plan::dual();
        plan.settings.schedule_icmp = true;
        plan.add(family.vip(80), Protocol::Tcp, vec![family.real(1, mode, 80)]);
        let mut gateway = Gateway::new(plan);
        let about = Wire::tcp(family.vip(80), family.client(1, 40000), ACK, b"");
        let sent = error(
            on_the_way(family),
            family.vip(0).ip(),
            too_big(family, 1400),
            &least_quote(&about),
        );
        let out = gateway.pass_on(WAN, &sent);
        assert_eq!((out.port, out.to_mac), (LAN, server_mac(1)));
        let shown = gateway.connections();
        assert_eq!(shown.len(), 1);
        assert_eq!(
            (shown[0].client, shown[0].virtual_address),
            (family.client(1, 40000), family.vip(80))
        );
    }
    let mut plan = Plan::web(Mode::Fullnat, 1);
    plan.settings.schedule_icmp = true;
    let mut gateway = Gateway::new(plan);
    let about = Wire::tcp(WEB.into(), client(1, 40000).into(), ACK, b"");
    let sent = error(
        on_the_way(Family::V4),
        VIP.into(),
        (3, 4, 1400),
        &least_quote(&about),
    );
    let (dropped, out) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &sent));
    assert_eq!((dropped, out), (Some((DropReason::NoConnection, 1)), vec![]));
}

/// `icmp_rate` limits what is passed on, apart from what the gateway says itself.
#[test]
fn passed_errors_have_a_budget_of_their_own() {
    for family in Family::BOTH {
        let (mut gateway, _) = connected(family, Mode::Nat);
        gateway.change_raw(|plan| plan.settings.icmp_rate = 5);
        let about = Wire::tcp(family.vip(80), family.client(1, 40000), ACK, b"");
        let sent = error(
            on_the_way(family),
            family.vip(0).ip(),
            too_big(family, 1400),
            &least_quote(&about),
        );
        let closed = Wire::tcp(family.client(1, 1), family.vip(81), SYN, b"");
        for second in 1..3 {
            gateway.pass_raw(seconds(1));
            let passed: usize = (0..8).map(|_| gateway.exchange(WAN, &sent).len()).sum();
            let answers: usize = (0..8).map(|_| gateway.exchange(WAN, &closed).len()).sum();
            assert_eq!((passed, answers), (5, 5));
            assert_eq!(gateway.drops(DropReason::IcmpRate), 3 * second);
        }
    }
}

/// An error at its last hop goes nowhere, and is not answered (RFC 1122 3.2.2).
#[test]
fn an_error_about_an_error_is_never_sent() {
    for family in Family::BOTH {
        let (mut gateway, _) = connected(family, Mode::Nat);
        let about = Wire::tcp(family.vip(80), family.client(1, 40000), ACK, b"");
        let sent = error(
            on_the_way(family),
            family.vip(0).ip(),
            too_big(family, 1400),
            &least_quote(&about),
        )
        .hops(1);
        let (dropped, out) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &sent));
        assert_eq!((dropped, out), (Some((DropReason::TtlExceeded, 1)), vec![]));
    }
}
