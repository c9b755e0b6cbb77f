//! ICMP errors about connections between families: each side is told of its own packets, in its own family.

use super::super::errors::{error, least_quote, on_the_way};

use super::*;
use crate::flow::RecordId;
use crate::service::ClientAddress;

/// Type, code and second word of an error.
type Error = (u8, u8, u32);

/// An error in IPv4 and the same in IPv6, but for the MTU.
const UNREACHABLE: [(Error, Error); 4] = [
    ((3, 1, 0), (1, 0, 0)),
    ((3, 3, 0), (1, 4, 0)),
    ((3, 10, 0), (1, 1, 0)),
    ((11, 0, 0), (3, 0, 0)),
];

fn of(family: Family, pair: (Error, Error)) -> Error {
    if family == Family::V4 { pair.0 } else { pair.1 }
}

fn too_big(family: Family, mtu: u32) -> Error {
    of(family, ((3, 4, mtu), (2, 0, mtu)))
}

/// A gateway with a connection, and its client, VIP, local end and server.
fn connected(family: Family, plan: Plan) -> (Gateway, [SocketAddr; 4]) {
    let mut gateway = Gateway::new(plan);
    let (client, vip) = (family.client(1, 40000), family.vip(80));
    let (local, server) = gateway.open_both(client, vip);
    (gateway, [client, vip, local, server])
}

/// An error from either side reaches the other: from the VIP or the local address, whoever has sent it, about the packet
/// that its receiver has sent. It opens nothing.
#[test]
fn errors_cross_to_whom_they_are_meant_for() {
    for family in CLIENTS {
        let (mut gateway, [client, vip, local, server]) = connected(family, plan(1));
        for pair in UNREACHABLE {
            let about = Wire::tcp(vip, client, ACK, b"page");
            let from = on_the_way(family);
            for quote in [least_quote(&about), about.packet()] {
                let sent = error(from, vip.ip(), of(family, pair), &quote);
                let seen = gateway.towards_server(&sent);
                assert_eq!((seen.from.ip(), seen.to.ip()), (local.ip(), server.ip()));
                assert_eq!(quoted(seen.data()), (server, local));
                assert!(
                    translates(pair, family) == Some(seen.message()),
                    "{pair:?}: {seen:?}"
                );
            }
            let about = Wire::tcp(local, server, ACK, b"get");
            let from = on_the_way(other(family));
            let sent = error(from, local.ip(), of(other(family), pair), &about.packet());
            let seen = gateway.towards_client(&sent);
            assert_eq!(
                (seen.from.ip(), seen.to.ip(), seen.hops),
                (vip.ip(), client.ip(), 63)
            );
            assert_eq!(quoted(seen.data()), (client, vip));
            // What is quoted is the client's packet to the last bit, hops included.
            let quote = Wire::read(seen.data());
            assert_eq!(quote, across(&about, client, vip, &quote).hops(64));
            assert!(
                translates(pair, other(family)) == Some(seen.message()),
                "{pair:?}: {seen:?}"
            );
        }
        assert_eq!(gateway.connections().len(), 1);
    }
}

/// What an error of `from` is on the other side.
fn translates(pair: ((u8, u8, u32), (u8, u8, u32)), from: Family) -> Option<(u8, u8, u32)> {
    Some(of(other(from), pair))
}

/// Errors that the other family has no word for are dropped.
#[test]
fn what_cannot_be_said_is_dropped() {
    for family in CLIENTS {
        let (mut gateway, [client, vip, ..]) = connected(family, plan(1));
        let untold = if family == Family::V4 {
            (3, 8, 0)
        } else {
            (1, 6, 0)
        };
        let about = least_quote(&Wire::tcp(vip, client, ACK, b"page"));
        let sent = error(on_the_way(family), vip.ip(), untold, &about);
        let outcome = gateway.dropped_by(|gateway| gateway.exchange(WAN, &sent));
        let expected = match family {
            // Source host isolated: a host that is not reached.
            Family::V4 => (None, 1),
            Family::V6 => (Some((DropReason::UnsupportedIcmp, 1)), 0),
        };
        assert_eq!((outcome.0, outcome.1.len()), expected);
    }
}

/// A router's MTU in the terms of whom it is told to: 20 bytes more in IPv6, never less than 1280 there, and never more
/// than the gateway's own links take.
#[test]
fn an_mtu_is_told_in_the_receivers_family() {
    for (family, told, expected) in [
        (Family::V4, 1400, 1420),
        (Family::V4, 600, 1280),
        (Family::V4, 1500, 1500),
        (Family::V6, 1400, 1380),
        (Family::V6, 1280, 1260),
        (Family::V6, 1000, 1260),
    ] {
        // From the client's side.
        let (mut gateway, [client, vip, ..]) = connected(family, plan(1));
        let about = Wire::tcp(vip, client, ACK, &[7; 1400]);
        let quote = least_quote(&about);
        let sent = error(on_the_way(family), vip.ip(), too_big(family, told), &quote);
        let seen = gateway.towards_server(&sent);
        assert_eq!(seen.message(), too_big(other(family), expected));

        // From the server's side.
        let (mut gateway, [_, _, local, server]) = connected(other(family), plan(1));
        let quote = least_quote(&Wire::tcp(local, server, ACK, &[7; 1400]));
        let sent = error(on_the_way(family), local.ip(), too_big(family, told), &quote);
        let seen = gateway.towards_client(&sent);
        assert_eq!(seen.message(), too_big(other(family), expected));
    }
}

/// With TOA the client's segments get longer, and it is told of less.
#[test]
fn an_mtu_leaves_room_for_the_clients_address() {
    for (family, expected) in [(Family::V6, 1400), (Family::V4, 1372)] {
        let mut plan = plan(1);
        plan.edit(0, |service| service.client_address = ClientAddress::Toa);
        plan.edit(3, |service| service.client_address = ClientAddress::Toa);
        let (mut gateway, [_, _, local, server]) = connected(family, plan);
        let quote = least_quote(&Wire::tcp(local, server, ACK, &[7; 1400]));
        let side = other(family);
        let sent = error(on_the_way(side), local.ip(), too_big(side, 1400), &quote);
        assert_eq!(gateway.towards_client(&sent).message(), too_big(family, expected));
    }
}

/// ICMP quotes a sequence number that its reader knows (RFC 5927 4.1).
#[test]
fn an_error_quotes_the_numbers_that_its_reader_knows() {
    for family in CLIENTS {
        let (mut gateway, [client, vip, local, server]) = connected(family, plan(1));
        gateway.worker.table.get_mut(RecordId(1)).sequence_shift = 1_000_000;
        let about = gateway.towards_server(&Wire::tcp(client, vip, ACK, b"data"));
        let kind = of(other(family), UNREACHABLE[0]);
        let sent = error(server.ip(), local.ip(), kind, &least_quote(&about));
        let seen = gateway.towards_client(&sent);
        let header = if family == Family::V4 { 20 } else { 40 };
        assert_eq!(quoted(seen.data()), (client, vip));
        assert_eq!(seen.data()[header + 4..][..4], 1000u32.to_be_bytes());
    }
}

/// A packet that is too long for the other side comes back as an error to its sender, in its own family and with the MTU
/// that it may use; what is as long as that passes.
#[test]
fn what_does_not_fit_is_told_to_its_sender() {
    for (mtu, six, four) in [(1500, 1520, 1480), (1400, 1420, 1380)] {
        for family in CLIENTS {
            let mut plan = plan(1);
            plan.set_mtu(WAN, if family == Family::V6 { mtu } else { 2000 });
            plan.set_mtu(LAN, if family == Family::V6 { 2000 } else { mtu });
            let (mut gateway, [client, vip, local, server]) = connected(family, plan);
            // IPv4 towards IPv6 by a link of that MTU.
            let (port, from, to) = match family {
                Family::V6 => (LAN, server, local),
                Family::V4 => (WAN, client, vip),
            };
            let full = |length| Wire::tcp(from, to, ACK, &vec![7; length]);
            let longest = usize::from(mtu) - 60;
            let told = only(gateway.exchange(port, &full(longest + 1))).wire();
            assert_eq!(
                (told.message(), told.from.ip()),
                (too_big(Family::V4, four), to.ip())
            );
            assert_eq!(quoted(told.data()), (from, to));
            assert_eq!(
                only(gateway.exchange(port, &full(longest))).packet.len(),
                usize::from(mtu)
            );

            // IPv6 towards IPv4.
            let mut plan = super::plan(1);
            plan.set_mtu(WAN, if family == Family::V6 { 2000 } else { mtu });
            plan.set_mtu(LAN, if family == Family::V6 { mtu } else { 2000 });
            let (mut gateway, [client, vip, local, server]) = connected(family, plan);
            let (port, from, to) = match family {
                Family::V6 => (WAN, client, vip),
                Family::V4 => (LAN, server, local),
            };
            let full = |length| Wire::tcp(from, to, ACK, &vec![7; length]);
            let longest = usize::from(mtu) - 40;
            let told = only(gateway.exchange(port, &full(longest + 1))).wire();
            assert_eq!(
                (told.message(), told.from.ip()),
                (too_big(Family::V6, six), to.ip())
            );
            assert_eq!(
                only(gateway.exchange(port, &full(longest))).packet.len(),
                usize::from(mtu)
            );
        }
    }
}
