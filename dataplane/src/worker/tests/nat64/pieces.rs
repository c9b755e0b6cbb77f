//! FRAG-01 between families: what comes in fragments is put together, translated, and cut again for the other side.

use super::*;

fn datagram(from: SocketAddr, to: SocketAddr, length: usize) -> Wire {
    let data: Vec<u8> = (0..length).map(|at| (at * 7 % 251) as u8).collect();
    Wire::udp(from, to, &data).may_be_cut()
}

/// What a turn sends by that port, put together, and the longest piece of it.
fn whole(sent: Vec<Out>, port: PortId) -> (Wire, usize) {
    assert!(sent.iter().all(|out| out.port == port), "{sent:#?}");
    let pieces: Vec<_> = sent.into_iter().map(|out| out.packet).collect();
    let longest = pieces.iter().map(Vec::len).max().unwrap();
    (Wire::read(&assemble(&pieces)), longest)
}

/// In order, reversed, and between another client's: it arrives whole, in pieces that the other side takes.
#[test]
fn frag_01_datagrams_in_fragments_arrive_whole() {
    for family in CLIENTS {
        for (step, length) in [(1000, 3000), (1240, 3000), (1480, 2000), (1400, 9000)] {
            let mut gateway = gateway();
            let (client, vip) = (family.client(1, 40000), family.vip(80));
            let sent = datagram(client, vip, length);
            let pieces = cut(&sent.packet(), step);
            if pieces[0].len() > 1500 {
                continue;
            }
            let reversed: Vec<_> = pieces.iter().rev().cloned().collect();
            let mut local = None;
            for pieces in [&pieces, &reversed] {
                let (seen, longest) = whole(through(&mut gateway, WAN, pieces), LAN);
                // Longer than any link: only pieces of it go.
                assert_eq!(
                    Wire {
                        whole: false,
                        ..across(&sent, seen.from, seen.to, &seen)
                    },
                    seen
                );
                assert!(longest <= if family == Family::V4 { 1280 } else { 1500 });
                // No larger than they came, in the other family's terms.
                let came = match family {
                    Family::V4 => pieces[0].len().max(pieces[1].len()) + 28,
                    Family::V6 => pieces[0].len().max(pieces[1].len()) - 28,
                };
                assert!(longest <= came, "{longest} of {came}");
                assert_eq!(*local.get_or_insert(seen.from), seen.from);
            }
            let (local, server) = (local.unwrap(), other(family).server(3, 8080));
            let reply = datagram(server, local, length);
            let mut pieces = cut(&reply.packet(), step.min(1400));
            pieces.swap(0, 1);
            let (seen, longest) = whole(through(&mut gateway, LAN, &pieces), WAN);
            assert_eq!(
                Wire {
                    whole: false,
                    ..across(&reply, vip, client, &seen)
                },
                seen
            );
            assert!(longest <= if family == Family::V6 { 1280 } else { 1500 });
            assert_eq!(gateway.connections().len(), 1);
            assert_eq!(gateway.stats.held.get(), 0);
        }
    }
}

/// Fragments of several clients of one local address never have one identification.
#[test]
fn fragments_from_a_shared_address_are_told_apart() {
    for family in CLIENTS {
        let mut gateway = gateway();
        let mut known = std::collections::HashSet::new();
        for number in 1..=20 {
            let sent = datagram(family.client(number, 40000), family.vip(80), 3000);
            let out = through(&mut gateway, WAN, &cut(&sent.packet(), 1200));
            let identification = match family {
                Family::V6 => out[0].packet[4..6].to_vec(),
                Family::V4 => out[0].packet[44..48].to_vec(),
            };
            assert!(out.len() > 1 && known.insert(identification));
        }
        // What goes whole may be cut by a router.
        for number in 1..=20 {
            let sent = datagram(family.client(number, 40000), family.vip(80), 100);
            let seen = there(&mut gateway, &sent);
            if family == Family::V6 {
                assert!(known.insert(seen.label.to_be_bytes().to_vec()));
            }
        }
    }
}

/// IPv4 without "don't fragment" goes in pieces of IPv6's least MTU, since nobody else could tell its sender.
#[test]
fn a_packet_that_may_be_cut_is_cut_to_the_least_mtu() {
    let mut gateway = gateway();
    let (client, vip) = (Family::V4.client(1, 40000), Family::V4.vip(80));
    for (length, pieces) in [(1232, 1), (1233, 2), (1472, 2)] {
        let sent = datagram(client, vip, length);
        let out = through(&mut gateway, WAN, &[sent.packet()]);
        assert_eq!(out.len(), pieces);
        let (seen, longest) = whole(out, LAN);
        assert!(longest <= 1280);
        assert_eq!(seen, across(&sent, seen.from, seen.to, &seen));
    }
    // The other way round, IPv6 of its least MTU passes a narrower IPv4 link in pieces.
    let mut plan = plan(1);
    plan.set_mtu(LAN, 1000);
    let mut gateway = Gateway::new(plan);
    let sent = datagram(Family::V6.client(1, 40000), Family::V6.vip(80), 1232);
    let (seen, longest) = whole(through(&mut gateway, WAN, &[sent.packet()]), LAN);
    assert!(longest <= 1000);
    assert_eq!(seen, across(&sent, seen.from, seen.to, &seen));
}
