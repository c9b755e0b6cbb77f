//! Checksums and the headers between IP and transport: reading verifies every sum naively.

use super::carried::*;
use super::exchange::*;
use super::frames::{ACK, FIN, PSH, SYN, ones_sum};
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::service::{Protocol, TunnelChecksum, TunnelKind};

fn nat(protocol: Protocol) -> Gateway {
    Gateway::new(Plan::dual_web(Mode::Nat, protocol, 1, 8080))
}

/// CSUM-01: over IPv4 a UDP checksum of 0 says that there is none, and stays; over IPv6 there has to be one.
#[test]
fn a_missing_udp_checksum_stays_missing() {
    for mode in [Mode::Nat, Mode::Fullnat, Mode::Dr] {
        let mut plan = Plan::dual();
        for family in Family::BOTH {
            let mode = if family == Family::V6 { Mode::Nat } else { mode };
            plan.add(family.vip(80), Protocol::Udp, vec![family.real(1, mode, 80)]);
        }
        let mut gateway = Gateway::new(plan);
        for family in Family::BOTH {
            let (client, vip) = (family.client(1, 40000), family.vip(80));
            let mut packet = Wire::udp(client, vip, b"no sum");
            packet.load = Load::Udp {
                data: b"no sum".to_vec(),
                summed: false,
            };
            let (dropped, sent) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &packet));
            match family {
                Family::V4 => assert_eq!(only(sent).wire().load, packet.load),
                Family::V6 => assert_eq!((dropped, sent), (Some((DropReason::BadL4Checksum, 1)), vec![])),
            }
        }
    }
}

/// CSUM-01: over all 65,536 sums, none that was computed leaves as 0.
#[test]
fn a_computed_udp_checksum_never_becomes_a_missing_one() {
    for family in Family::BOTH {
        let mut gateway = nat(Protocol::Udp);
        let (client, vip) = (family.client(1, 40000), family.vip(80));
        let mut wire = Wire::udp(client, vip, &[0, 0]).packet();
        let at = wire.len() - 2;
        let check = at - 2;
        // Both ends of the checksum's range, and a walk through the rest.
        let blank = ones_sum(&[&wire[if family == Family::V4 { 12 } else { 8 }..check]]);
        let values = (0..=u16::MAX).filter(|value| value % 13 == 0 || *value < 700 || *value > 64_000);
        let mut sent = 0;
        for value in values {
            wire[at..].copy_from_slice(&value.to_be_bytes());
            // Source, destination, ports and the first length are summed; the pseudo header has the length again.
            let sum = ones_sum(&[&blank.to_be_bytes(), &[0, 17, 0, 10], &value.to_be_bytes()]);
            let sum = if sum == 0xffff { 0xffff } else { !sum };
            wire[check..at].copy_from_slice(&sum.to_be_bytes());
            gateway.come(WAN, &wire);
            sent += 1;
            if sent % 32 == 0 {
                for out in gateway.out() {
                    let seen = out.wire();
                    assert_eq!(seen.to, family.server(1, 8080));
                    assert!(matches!(seen.load, Load::Udp { summed: true, .. }));
                }
            }
        }
        assert_eq!(gateway.drops(DropReason::BadL4Checksum), 0);
    }
}

/// CSUM-04: IPv4 options of every length pass through NAT and a tunnel.
#[test]
fn ip_options_pass_through_nat_and_tunnels() {
    let (client, vip) = (Family::V4.client(1, 40000), Family::V4.vip(80));
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        let mut translating = nat(protocol);
        let mut wrapping = Gateway::new(super::modes::tunnelled(
            Family::V4,
            Family::V4,
            TunnelKind::Ipip,
            TunnelChecksum::None,
        ));
        for words in 1..=10 {
            let options: Vec<u8> = (0..4 * words).map(|at| if at % 4 == 3 { 0 } else { 1 }).collect();
            let packet = match protocol {
                Protocol::Udp => Wire::udp(client, vip, b"odd"),
                _ => Wire::tcp(client, vip, SYN, b""),
            };
            let packet = packet.with_between(&options);
            let server = Family::V4.server(1, 8080);
            assert_eq!(
                translating.towards_server(&packet),
                packet.between(client, server).later()
            );
            let reply = packet.between(server, client);
            assert_eq!(
                translating.towards_client(&reply),
                reply.between(vip, client).later()
            );
            let out = wrapping.pass_on(WAN, &packet);
            assert_eq!(unwrap(&out.packet).2, packet.later());
        }
    }
}

/// A hop-by-hop header of 8 bytes, destination options of 24, a hop-by-hop header of 16 whose byte in the place of
/// TCP's flags, were it one, says RST, and two of them in a row.
fn chains() -> [Vec<u8>; 4] {
    let hop = vec![0, 0, 1, 4, 0, 0, 0, 0];
    let mut options = vec![60, 2, 1, 20];
    options.resize(24, 0);
    let lying = vec![0, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0];
    let both = [&hop[..], &options].concat();
    [hop, options, lying, both]
}

/// CSUM-07 and IP6-01: behind extension headers the transport header is found, translated, and moves the state.
#[test]
fn extension_headers_are_walked_over() {
    for chain in chains() {
        let mut gateway = nat(Protocol::Tcp);
        let (client, vip) = (Family::V6.client(1, 40000), Family::V6.vip(80));
        let server = Family::V6.server(1, 8080);
        let steps = [
            (true, SYN, "SYN_RECV"),
            (false, SYN | ACK, "SYN_RECV"),
            (true, ACK, "ESTABLISHED"),
            (true, PSH | ACK, "ESTABLISHED"),
            (false, PSH | ACK, "ESTABLISHED"),
            (false, FIN | ACK, "FIN_WAIT"),
            (true, FIN | ACK, "TIME_WAIT"),
        ];
        for (from_client, flags, state) in steps {
            let data: &[u8] = if flags & PSH != 0 { b"odd" } else { b"" };
            if from_client {
                let packet = Wire::tcp(client, vip, flags, data).with_between(&chain);
                assert_eq!(
                    gateway.towards_server(&packet),
                    packet.between(client, server).later()
                );
            } else {
                let packet = Wire::tcp(server, client, flags, data).with_between(&chain);
                assert_eq!(
                    gateway.towards_client(&packet),
                    packet.between(vip, client).later()
                );
            }
            assert_eq!(gateway.state().0, state, "after {flags:02x}");
        }
    }
}

/// CSUM-07 for UDP, SCTP, DR and TUN: the headers stay where they are.
#[test]
fn extension_headers_stay_in_every_mode() {
    for chain in chains() {
        let (client, vip) = (Family::V6.client(1, 40000), Family::V6.vip(80));
        let udp = Wire::udp(client, vip, b"odd").with_between(&chain);
        let sctp = Wire::sctp(client, vip, 0, &super::sctp::init(&[])).with_between(&chain);
        let server = Family::V6.server(1, 8080);
        assert_eq!(
            nat(Protocol::Udp).towards_server(&udp),
            udp.between(client, server).later()
        );
        assert_eq!(
            nat(Protocol::Sctp).towards_server(&sctp),
            sctp.between(client, server).later()
        );
        let mut gateway = Gateway::new(Plan::dual_web(Mode::Dr, Protocol::Udp, 1, 80));
        assert_eq!(gateway.towards_server(&udp), udp.later());
        let plan = super::modes::tunnelled(Family::V6, Family::V4, TunnelKind::Ipip, TunnelChecksum::None);
        let out = Gateway::new(plan).pass_on(WAN, &udp);
        assert_eq!(unwrap(&out.packet).2, udp.later());
    }
}

/// IP6-03: chains that end nowhere, are too long, or say what cannot be. Each ends under one reason, and none opens a
/// connection.
#[test]
fn malformed_chains_end_here() {
    let plain = Wire::tcp(Family::V6.client(1, 40000), Family::V6.vip(80), SYN, b"");
    let hop = [0, 0, 1, 4, 0, 0, 0, 0];
    let options = [60, 0, 1, 4, 0, 0, 0, 0];
    let mut corpus: Vec<Vec<u8>> = Vec::new();
    // More headers than anybody sends.
    for count in 9..24 {
        corpus.push(plain.clone().with_between(&options.repeat(count)).packet());
    }
    // Hop-by-hop options anywhere but first, and twice.
    corpus.push(plain.clone().with_between(&[options, hop].concat()).packet());
    corpus.push(plain.clone().with_between(&[hop, hop].concat()).packet());
    // A routing header that still has somewhere to go.
    corpus.push(plain.clone().with_between(&[43, 0, 0, 1, 0, 0, 0, 0]).packet());
    // A header that is longer than its packet, by every length.
    for length in 3..=255 {
        let mut packet = plain.clone().with_between(&hop).packet();
        packet[41] = length;
        corpus.push(packet);
    }
    // No next header, and protocols that nobody knows.
    for protocol in [59, 50, 51, 135, 139, 253, 255] {
        let mut packet = plain.clone().with_between(&hop).packet();
        packet[40] = protocol;
        corpus.push(packet);
    }
    // A jumbogram (RFC 2675): a payload length of 0, and the option.
    let mut jumbo = plain.clone().with_between(&[0, 0, 0xc2, 4, 0, 1, 0, 0]).packet();
    jumbo[4..6].fill(0);
    corpus.push(jumbo);
    // Every cut of a packet, its length mended or not.
    let long = plain.clone().with_between(&[hop, options].concat()).packet();
    for end in 40..long.len() {
        let mut cut = long[..end].to_vec();
        corpus.push(cut.clone());
        cut[4..6].copy_from_slice(&((end - 40) as u16).to_be_bytes());
        corpus.push(cut);
    }
    let mut gateway = nat(Protocol::Tcp);
    for (number, packet) in corpus.iter().enumerate() {
        gateway.come(WAN, packet);
        let (dropped, sent) = gateway.dropped_by(Gateway::turn_raw);
        assert!(
            matches!(dropped, Some((_, 1))),
            "{number}: {dropped:?}, {packet:02x?}"
        );
        assert!(sent.is_empty(), "{number}: {packet:02x?}");
    }
    assert_eq!(gateway.stats.opened.get(), 0);
    assert!(gateway.drops(DropReason::BadExtensionHeader) > 250);
}

/// CSUM-09: what comes in longer than the link allows was merged by an offload. It ends here, counted, and nobody is
/// told to send smaller packets.
#[test]
fn merged_segments_are_counted_and_not_answered() {
    for (family, mode) in Family::BOTH
        .into_iter()
        .flat_map(|f| [Mode::Nat, Mode::Dr, Mode::Tun].map(|m| (f, m)))
    {
        let mut gateway = Gateway::new(Plan::dual_web(mode, Protocol::Tcp, 1, 80));
        let (client, vip) = (family.client(1, 40000), family.vip(80));
        gateway.exchange(WAN, &Wire::tcp(client, vip, SYN, b""));
        let merged = Wire::tcp(client, vip, ACK, &[7; 2896]);
        let (dropped, sent) = gateway.dropped_by(|gateway| gateway.exchange(WAN, &merged));
        assert_eq!((dropped, sent), (Some((DropReason::OversizedFrame, 1)), vec![]));
    }
}

/// CSUM-10: a checksum that the sender left to an offload is completed, and counted.
#[test]
fn partial_checksums_are_completed_in_both_families() {
    for (family, protocol) in Family::BOTH
        .into_iter()
        .flat_map(|f| [Protocol::Tcp, Protocol::Udp].map(|p| (f, p)))
    {
        let mut gateway = nat(protocol);
        let (client, vip) = (family.client(1, 40000), family.vip(80));
        let whole = match protocol {
            Protocol::Udp => Wire::udp(client, vip, b"query"),
            _ => Wire::tcp(client, vip, SYN, b""),
        };
        let mut packet = whole.packet();
        let (addresses, l4) = if family == Family::V4 {
            (12..20, 20)
        } else {
            (8..40, 40)
        };
        let length = ((packet.len() - l4) as u16).to_be_bytes();
        let partial = ones_sum(&[&packet[addresses], &[0, protocol as u8], &length]);
        let at = l4 + if protocol == Protocol::Udp { 6 } else { 16 };
        packet[at..at + 2].copy_from_slice(&partial.to_be_bytes());
        gateway.come(WAN, &packet);
        let (dropped, sent) = gateway.dropped_by(Gateway::out);
        assert_eq!(dropped, None);
        assert_eq!(
            only(sent).wire(),
            whole.between(client, family.server(1, 8080)).later()
        );
        assert_eq!(gateway.stats.completed_checksums.get(), 1);
    }
}
