//! FULLNAT in both families: how many connections its ports carry, that ports are recycled and never lost, and what the
//! server is shown on a recycled one.

use super::exchange::*;
use super::frames::{ACK, FIN, PSH, RST, SYN};
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::drops::DropReason;
use crate::flow::{Flags, Mode, RecordId};
use crate::service::Protocol;
use crate::time::seconds;
use crate::worker::Event;
use proptest::prelude::*;
use std::collections::HashSet;
use std::net::SocketAddr;

/// In both families, a service of that protocol whose servers are reached from one local address with so many ports.
fn few_ports(ports: u16, protocol: Protocol, servers: u32) -> Gateway {
    let mut plan = Plan::dual_web(Mode::Fullnat, protocol, servers, SERVER_PORT);
    plan.use_locals(both_pool(1, 10_000, 9_999 + ports));
    Gateway::new(plan)
}

fn opening(protocol: Protocol, from: SocketAddr, to: SocketAddr) -> Wire {
    match protocol {
        Protocol::Tcp => Wire::tcp(from, to, SYN, b""),
        Protocol::Udp => Wire::udp(from, to, b"query"),
        Protocol::Sctp => Wire::sctp(from, to, 0, &super::sctp::init(&[])),
    }
}

pub(super) fn segment(from: SocketAddr, to: SocketAddr, flags: u8, at: (u32, u32), data: &[u8]) -> Wire {
    let mut packet = Wire::tcp(from, to, flags, data);
    if let Load::Tcp {
        sequence,
        acknowledgement,
        ..
    } = &mut packet.load
    {
        (*sequence, *acknowledgement) = at;
    }
    packet
}

/// Sequence and acknowledgement number, and options.
pub(super) fn numbers(packet: &Wire) -> (u32, u32, &[u8]) {
    match &packet.load {
        Load::Tcp {
            sequence,
            acknowledgement,
            options,
            ..
        } => (*sequence, *acknowledgement, options),
        other => panic!("no TCP: {other:?}"),
    }
}

/// LPORT-01, for each protocol: 100 ports are 100 connections to each server; the next one is refused, counted and told.
#[test]
fn a_hundred_ports_are_a_hundred_connections_to_each_server() {
    for family in Family::BOTH {
        for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
            let mut gateway = few_ports(100, protocol, 2);
            let vip = family.vip(80);
            let mut seen = HashSet::new();
            for port in 0..200 {
                let out = gateway.towards_server(&opening(protocol, family.client(1, 1024 + port), vip));
                assert_eq!(out.from.ip(), family.local(0));
                assert!((10_000..10_100).contains(&out.from.port()) && seen.insert((out.from, out.to)));
            }
            let late = opening(protocol, family.client(2, 1), vip);
            let (dropped, sent) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &late));
            assert_eq!(
                (dropped, sent),
                (Some((DropReason::LocalPortsExhausted, 1)), vec![])
            );
            let event = gateway.events().pop();
            assert!(
                matches!(event, Some(Event::LocalPortsExhausted { server, .. }) if server.is_ipv4() == vip.is_ipv4())
            );
            assert_eq!(gateway.ports_in_use(), 200);
            gateway.pass(seconds(910));
            assert_eq!((gateway.ports_in_use(), gateway.stats.connections.get()), (0, 0));
            gateway.towards_server(&late);
        }
    }
}

/// With several workers, the answers must come to the one that has the connection: the local port's shard is the
/// client's.
#[test]
fn a_local_port_is_in_its_clients_shard() {
    for family in Family::BOTH {
        let mut gateway = Gateway::new(Plan::dual_web(Mode::Fullnat, Protocol::Tcp, 1, SERVER_PORT));
        let mut locals = HashSet::new();
        for port in 0..300 {
            let from = family.client(1 + (port % 7) as u8, 1024 + 37 * port);
            let local = gateway
                .towards_server(&Wire::tcp(from, family.vip(80), SYN, b""))
                .from;
            let key = &gateway.worker.shard_key;
            assert_eq!(
                key.shard_of(local.ip(), local.port()),
                key.shard_of(from.ip(), from.port())
            );
            locals.insert(local.ip());
        }
        assert_eq!(locals, (0..4).map(|number| family.local(number)).collect());
    }
}

/// A service reaches servers by local addresses of their family only.
#[test]
fn without_a_local_address_of_the_family_nothing_is_opened() {
    let mut gateway = few_ports(10, Protocol::Tcp, 1);
    gateway.change_raw(|plan| plan.use_locals(pool(1, 10_000, 10_009)));
    let syn = |family: Family| Wire::tcp(family.client(1, 1024), family.vip(80), SYN, b"");
    let (dropped, _) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &syn(Family::V6)));
    assert_eq!(dropped, Some((DropReason::LocalPortsExhausted, 1)));
    gateway.towards_server(&syn(Family::V4));
}

/// NAT keeps the family of a packet.
#[test]
fn a_nat_server_of_the_other_family_is_not_reached() {
    let mut plan = Plan::dual();
    plan.add(
        Family::V6.vip(80),
        Protocol::Tcp,
        vec![Family::V4.real(1, Mode::Nat, 8080)],
    );
    let mut gateway = Gateway::new(plan);
    let syn = Wire::tcp(Family::V6.client(1, 1024), Family::V6.vip(80), SYN, b"");
    let (dropped, sent) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &syn));
    assert_eq!((dropped, sent), (Some((DropReason::NoRoute, 1)), vec![]));
    assert_eq!(gateway.ports_in_use(), 0);
}

/// What the server is shown on a recycled port lies above the old connection's last number, and has no timestamp; the
/// client sees its own numbers all the time, in SACK blocks too.
#[test]
fn a_recycled_port_is_a_new_connection_to_the_server() {
    for family in Family::BOTH {
        for last in [900_000_000, u32::MAX - 10, 5, 0x7fff_fffe] {
            for initial in [
                last.wrapping_sub(5_000_000),
                last.wrapping_add(0x9000_0000),
                last,
                last.wrapping_add(1),
            ] {
                recycle(family, last, initial);
            }
        }
    }
}

fn recycle(family: Family, last: u32, initial: u32) {
    let mut gateway = few_ports(1, Protocol::Tcp, 1);
    let (old, new, vip) = (family.client(1, 1024), family.client(2, 1024), family.vip(80));
    // Ends at `last`: SYN, data and FIN take a sequence number each.
    let start = last.wrapping_sub(6);
    let syn = gateway.towards_server(&segment(old, vip, SYN, (start, 0), b""));
    let (local, server) = (syn.from, syn.to);
    let next = start.wrapping_add(1);
    gateway.towards_client(&segment(server, local, SYN | ACK, (1, next), b""));
    gateway.towards_server(&segment(old, vip, PSH | ACK, (next, 2), b"data"));
    gateway.towards_client(&segment(server, local, FIN | ACK, (2, last.wrapping_sub(1)), b""));
    gateway.towards_server(&segment(old, vip, FIN | ACK, (last.wrapping_sub(1), 3), b""));

    let timestamps = [8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 1];
    let syn = segment(new, vip, SYN, (initial, 0), b"").with_options(&timestamps);
    let shown = gateway.towards_server(&syn);
    assert_eq!(
        (shown.from, shown.to),
        (local, server),
        "the port of the closing connection"
    );
    let (sequence, _, options) = numbers(&shown);
    assert_eq!(options, [1; 12]);
    let above = sequence.wrapping_sub(last);
    assert!(
        (1..0x8000_0000).contains(&above),
        "{last} then {initial}: {above} above"
    );
    let shift = sequence.wrapping_sub(initial);
    assert_eq!(shift == 0, initial == last.wrapping_add(1));

    let reply = gateway.towards_client(&segment(
        server,
        local,
        SYN | ACK,
        (70, sequence.wrapping_add(1)),
        b"",
    ));
    assert_eq!((reply.from, reply.to), (vip, new));
    assert_eq!(numbers(&reply), (70, initial.wrapping_add(1), &[][..]));
    let data = segment(new, vip, PSH | ACK, (initial.wrapping_add(1), 71), b"get");
    assert_eq!(
        numbers(&gateway.towards_server(&data)),
        (sequence.wrapping_add(1), 71, &[][..])
    );
    let sack = |by: u32| {
        let edge = |at: u32| initial.wrapping_add(at).wrapping_add(by).to_be_bytes();
        [&[1, 1, 5, 10][..], &edge(100), &edge(200)].concat()
    };
    let reply = segment(server, local, ACK, (71, sequence.wrapping_add(4)), b"").with_options(&sack(shift));
    let reply = gateway.towards_client(&reply);
    assert_eq!(numbers(&reply), (71, initial.wrapping_add(4), &sack(0)[..]));
    let recycled: u64 = gateway
        .worker
        .locals
        .addresses()
        .map(|address| address.recycled)
        .sum();
    assert_eq!((recycled, gateway.connections().len()), (1, 1));
}

/// An error about a segment with shifted numbers is about the one that the client sent (RFC 5927 4.1).
#[test]
fn an_error_quotes_the_numbers_that_its_reader_knows() {
    for family in Family::BOTH {
        let mut gateway = few_ports(10, Protocol::Tcp, 1);
        let (client, vip) = (family.client(1, 1024), family.vip(80));
        let (local, server) = gateway.open_both(client, vip);
        gateway.worker.table.get_mut(RecordId(1)).sequence_shift = 1_000_000;
        let about = gateway.towards_server(&segment(client, vip, ACK, (2000, 5001), b"data"));
        assert_eq!((about.from, numbers(&about).0), (local, 1_002_000));
        let (kind, header) = if family == Family::V4 { (3, 20) } else { (1, 40) };
        let quote = &about.packet()[..header + 8];
        let seen = gateway.towards_client(&Wire::icmp(server.ip(), local.ip(), kind, 1, 0, quote));
        assert_eq!((seen.from.ip(), quoted(seen.data())), (vip.ip(), (client, vip)));
        assert_eq!(
            u32::from_be_bytes(seen.data()[header + 4..][..4].try_into().unwrap()),
            2000
        );
    }
}

#[derive(Clone, Debug)]
enum Step {
    Open(bool, u8),
    Answer(bool, u8),
    Finish(bool, u8),
    Reset(bool, u8),
    Wait(u32),
    RemoveServers(bool),
    AddServers,
    Ports(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = (any::<bool>(), 0u8..24);
    let step = prop_oneof![
        8 => who.clone().prop_map(|(v6, number)| Step::Open(v6, number)),
        4 => who.clone().prop_map(|(v6, number)| Step::Answer(v6, number)),
        4 => who.clone().prop_map(|(v6, number)| Step::Finish(v6, number)),
        2 => who.prop_map(|(v6, number)| Step::Reset(v6, number)),
        2 => (1u32..200).prop_map(Step::Wait),
        1 => any::<bool>().prop_map(Step::RemoveServers),
        1 => Just(Step::AddServers),
        1 => (1u16..9).prop_map(Step::Ports),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// LPORT-02: whatever happens to connections and servers, the ports in use are those of live connections (each
    /// step's check), no two connections show the server one endpoint, and at the end all are free.
    #[test]
    fn ports_never_leak(steps in steps(), expire: bool) {
        let mut gateway = few_ports(8, Protocol::Tcp, 2);
        gateway.change(|plan| plan.settings.expire_nodest_conn = expire);
        let servers = gateway.plan.services.clone();
        let family = |v6: bool| if v6 { Family::V6 } else { Family::V4 };
        for step in steps {
            match step {
                Step::Open(v6, number) => {
                    let (from, to) = (family(v6).client(number, 1024), family(v6).vip(80));
                    gateway.exchange(WAN, &Wire::tcp(from, to, SYN, b""));
                }
                Step::Answer(v6, number) => {
                    let from = family(v6).client(number, 1024);
                    let known = gateway.connections().into_iter().find(|known| known.client == from);
                    if let Some((server, local)) = known.and_then(|known| Some((known.server, known.local?))) {
                        gateway.exchange(LAN, &Wire::tcp(server, local, SYN | ACK, b""));
                    }
                }
                Step::Finish(v6, number) | Step::Reset(v6, number) => {
                    let flags = if matches!(step, Step::Reset(..)) { RST | ACK } else { FIN | ACK };
                    let (from, to) = (family(v6).client(number, 1024), family(v6).vip(80));
                    gateway.exchange(WAN, &Wire::tcp(from, to, flags, b""));
                }
                Step::Wait(time) => drop(gateway.pass(seconds(time))),
                Step::RemoveServers(v6) => {
                    gateway.change(|plan| plan.edit(usize::from(v6), |service| service.servers.clear()));
                }
                Step::AddServers => {
                    let known = servers.iter().flatten();
                    let known: Vec<_> = known.map(|service| service.servers.clone()).collect();
                    gateway.change(|plan| {
                        for (slot, servers) in known.into_iter().enumerate() {
                            plan.edit(slot, |service| service.servers = servers);
                        }
                    });
                }
                Step::Ports(count) => {
                    gateway.change(|plan| plan.use_locals(both_pool(1, 10_000, 9_999 + count)));
                }
            }
            gateway.check();
            let shown: Vec<_> = gateway.connections().iter().map(|known| (known.server, known.local)).collect();
            prop_assert_eq!(shown.iter().collect::<HashSet<_>>().len(), shown.len(), "{:?}", shown);
        }
        gateway.pass(seconds(910));
        prop_assert_eq!((gateway.ports_in_use(), gateway.stats.connections.get()), (0, 0));
    }

    /// A shift moves the client's numbers up and the server's acknowledgements back, whatever stands around them; the
    /// checksums are computed naively on reading.
    #[test]
    fn shifted_segments_go_on_as_the_model_says(
        v6: bool, there: bool, flags in 8u8..32, at: (u32, u32), shift: u32, strip: bool,
        edges: [u32; 2], data in proptest::collection::vec(any::<u8>(), 0..40), extension: bool,
    ) {
        let family = if v6 { Family::V6 } else { Family::V4 };
        let mut gateway = few_ports(10, Protocol::Tcp, 1);
        let (client, vip) = (family.client(1, 1024), family.vip(80));
        let (local, server) = gateway.open_both(client, vip);
        let record = gateway.worker.table.get_mut(RecordId(1));
        record.sequence_shift = shift;
        record.flags.set(Flags::STRIP_TIMESTAMPS, strip);
        let sack = |by: u32| {
            let edges = edges.map(|edge| edge.wrapping_sub(by).to_be_bytes()).concat();
            [&[1, 1, 5, 10][..], &edges].concat()
        };
        let (from, to) = if there { (client, vip) } else { (server, local) };
        let mut packet = segment(from, to, flags, at, &data).with_options(&sack(0));
        if v6 && extension {
            packet = packet.with_between(&[60, 0, 1, 4, 0, 0, 0, 0]);
        }
        let acked = flags & ACK != 0;
        let (seen, expected) = if there {
            let seen = gateway.towards_server(&packet);
            let expected = segment(local, server, flags, (at.0.wrapping_add(shift), at.1), &data);
            (seen, expected.with_options(&sack(0)))
        } else {
            let back = if acked { shift } else { 0 };
            let seen = gateway.towards_client(&packet);
            let expected = segment(vip, client, flags, (at.0, at.1.wrapping_sub(back)), &data);
            (seen, expected.with_options(&sack(back)))
        };
        prop_assert_eq!(seen, expected.with_between(&packet.between).later());
    }
}
