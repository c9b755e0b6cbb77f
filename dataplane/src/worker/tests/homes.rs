//! Templates whose home is another worker than that of the connection: what is asked and said, and what a home knows of the
//! connections that its templates hold.

mod losses;

use super::carried::*;
use super::cluster::*;
use super::errors::{error, least_quote, on_the_way, too_big};
use super::frames::*;
use super::plan::*;
use super::wire::*;
use crate::flow::Mode;
use crate::scheduler::SchedulerKind;
use crate::service::{Persistence, PersistenceEngine, Protocol};
use crate::time::seconds;
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// A service whose clients are kept for 300 seconds.
fn kept(mode: Mode, servers: u32) -> Plan {
    let mut plan = Plan::web(mode, servers);
    plan.edit(0, |service| {
        service.persistence = Some(Persistence::new(seconds(300)))
    });
    plan
}

fn syn(from: SocketAddrV4) -> Sent {
    Sent::tcp(from, WEB, SYN)
}

fn number_of(seen: &Seen) -> u32 {
    (1..=8).find(|number| seen.to_mac == server_mac(*number)).unwrap()
}

/// The home of a client that counts by its whole address.
fn home(cluster: &Cluster, client: SocketAddrV4) -> u8 {
    cluster.team.owner(SocketAddrV4::new(*client.ip(), 0))
}

/// Endpoints of that client whose connections another worker than its home has.
fn away(cluster: &Cluster, number: u8) -> impl Iterator<Item = SocketAddrV4> + use<> {
    let home = home(cluster, client(number, 0));
    let owners: Vec<u8> = (1024..60_000)
        .map(|port| cluster.team.owner(client(number, port)))
        .collect();
    let ports = (1024..).zip(owners).filter(move |(_, owner)| *owner != home);
    ports.map(move |(port, _)| client(number, port))
}

/// A SYN arrives at the worker that owns it.
fn arrive(cluster: &mut Cluster, from: SocketAddrV4) {
    let owner = cluster.team.owner(from);
    cluster.team.arrive(owner, WAN, &syn(from).frame(WAN_MAC));
}

fn held_by_templates(cluster: &Cluster) -> u32 {
    let mut held = 0;
    for worker in &cluster.team.workers {
        worker.table.scan(0, usize::MAX, |_, record| {
            held += if record.is_template() {
                record.controlled()
            } else {
                0
            };
        });
    }
    held
}

/// The first packet of a connection goes to its client's home and back, which counts as two hops; no other packet does.
#[test]
fn the_first_packet_makes_one_round_trip_and_no_other_does() {
    for workers in [2, 3, 4] {
        let mut cluster = Cluster::new(kept(Mode::Nat, 2), workers);
        let mut asked = 0;
        for from in (0..80).map(|n| client(1 + n as u8 % 20, 40_000 + 37 * n)) {
            let (owner, home) = (cluster.team.owner(from), home(&cluster, from));
            let trip = if owner == home {
                vec![]
            } else {
                vec![(owner, home), (home, owner)]
            };
            asked += trip.len();
            let (handed, sent) = cluster.team.deliver(owner, WAN, &syn(from));
            assert_eq!((handed, sent.len()), (trip, 1));
            assert_eq!(sent[0].0, owner, "it leaves by the connection's worker");
            let server = sent[0].1.to;
            for (port, packet) in [
                (LAN, Sent::tcp(server, from, SYN | ACK)),
                (WAN, Sent::tcp(from, WEB, ACK)),
                (WAN, syn(from)),
            ] {
                let (handed, sent) = cluster.team.deliver(owner, port, &packet);
                assert_eq!((handed, sent.len()), (vec![], 1));
            }
            // Where the template is, and that it is there once.
            let templates: Vec<u64> = cluster
                .team
                .stats
                .iter()
                .map(|stats| stats.templates.get())
                .collect();
            assert!(templates[usize::from(home)] > 0);
        }
        assert!(asked > 20 && cluster.templates() == 20);
        let hops: u64 = cluster
            .team
            .stats
            .iter()
            .flat_map(|stats| &stats.steered)
            .map(|steered| steered.handed_over.get())
            .sum();
        assert_eq!(hops, asked as u64);
    }
}

/// LVS: a template lives as long as its connections, and is assured by one that is established; also when all of them
/// are of other workers.
#[test]
fn a_template_lives_and_is_assured_by_a_connection_of_another_worker() {
    for workers in [2, 3, 4] {
        let mut plan = kept(Mode::Dr, 2);
        plan.edit(0, |service| {
            service.persistence = Some(Persistence::new(seconds(2)))
        });
        let mut cluster = Cluster::new(plan, workers);
        let mut ends = away(&cluster, 1);
        let (from, again) = (ends.next().unwrap(), ends.next().unwrap());
        let template = |cluster: &mut Cluster| {
            let all = cluster.connections().into_iter();
            let found: Vec<_> = all.filter(|connection| connection.template).collect();
            found.first().map(|template| (template.state, template.remaining))
        };
        let server = number_of(&cluster.forward(&syn(from)));
        assert_eq!(template(&mut cluster).unwrap().0, "NONE");
        cluster.forward(&Sent::tcp(from, WEB, ACK));
        assert_eq!(template(&mut cluster), Some(("ASSURED", 2)));
        cluster.pass(seconds(800));
        let (state, remaining) = template(&mut cluster).unwrap();
        assert!(state == "ASSURED" && remaining <= 60, "{remaining}");
        assert_eq!(number_of(&cluster.forward(&syn(again))), server);
        // Both connections end, and the template with the next look at them.
        for end in [from, again] {
            cluster.forward(&Sent::tcp(end, WEB, ACK));
            cluster.forward(&Sent::tcp(end, WEB, RST));
        }
        cluster.pass(seconds(80));
        assert_eq!((template(&mut cluster), cluster.records()), (None, 0));
    }
}

/// Packets of one connection that come while its first one is away open it once.
#[test]
fn a_second_syn_while_the_first_is_away_opens_no_second_connection() {
    for mode in [Mode::Nat, Mode::Fullnat, Mode::Dr] {
        let mut cluster = Cluster::new(kept(mode, 3), 3);
        let from = away(&cluster, 1).next().unwrap();
        cluster.team.stuck = Some(home(&cluster, from));
        for _ in 0..3 {
            arrive(&mut cluster, from);
            let (_, sent) = cluster.team.settle();
            assert!(sent.is_empty() && cluster.records() == 0);
        }
        cluster.team.stuck = None;
        let (_, sent) = cluster.team.settle();
        let sent: Vec<_> = sent
            .iter()
            .map(|(_, port, frame)| Seen::read(port.0, frame))
            .collect();
        assert_eq!(sent.len(), 3, "all of them go");
        assert!(
            sent.iter()
                .all(|seen| (seen.from, seen.to) == (sent[0].from, sent[0].to))
        );
        assert_eq!((cluster.connections_now(), cluster.templates()), (1, 1));
        assert_eq!(
            held_by_templates(&cluster),
            1,
            "what was said twice holds nothing"
        );
    }
}

/// With `schedule_icmp`, an error opens a connection of a persistent service as well.
#[test]
fn an_error_that_opens_a_connection_asks_its_clients_home() {
    for family in Family::BOTH {
        let mut plan = Plan::dual();
        plan.settings.schedule_icmp = true;
        let servers = (1..=3).map(|number| family.real(number, Mode::Dr, 80)).collect();
        plan.add(family.vip(80), Protocol::Tcp, servers);
        plan.edit(0, |service| {
            service.persistence = Some(Persistence::new(seconds(60)))
        });
        let mut cluster = Cluster::new(plan, 3);
        let mut servers = HashSet::new();
        for port in 40_000..40_012 {
            let from = family.client(1, port);
            let about = Wire::tcp(family.vip(80), from, ACK, b"");
            let sent = error(
                on_the_way(family),
                family.vip(0).ip(),
                too_big(family, 1400),
                &least_quote(&about),
            );
            let out = cluster.exchange(WAN, &sent);
            assert_eq!(out.len(), 1);
            servers.insert(out[0].to_mac);
            assert_eq!(
                cluster.exchange(WAN, &Wire::tcp(from, family.vip(80), ACK, b""))[0].to_mac,
                out[0].to_mac
            );
        }
        assert_eq!(
            (servers.len(), cluster.templates(), cluster.connections_now()),
            (1, 1, 12)
        );
    }
}

/// A datagram that was put together from fragments is cut again after its round trip as it would be without; also where
/// the server is of the other family.
#[test]
fn datagrams_in_fragments_and_between_families_go_there_and_back() {
    for (family, other) in [
        (Family::V4, Family::V4),
        (Family::V6, Family::V6),
        (Family::V6, Family::V4),
        (Family::V4, Family::V6),
    ] {
        let mut plan = Plan::dual();
        let servers = (1..=3)
            .map(|number| other.real(number, Mode::Fullnat, 8080))
            .collect();
        plan.add(family.vip(80), Protocol::Udp, servers);
        plan.edit(0, |service| {
            service.persistence = Some(Persistence::new(seconds(60)))
        });
        let mut cluster = Cluster::new(plan, 3);
        let mut servers = HashSet::new();
        for port in 40_000..40_012 {
            let packet = Wire::udp(family.client(1, port), family.vip(80), &[7; 3000]).may_be_cut();
            let mut out = Vec::new();
            for piece in cut(&packet.packet(), 1240) {
                let (_, sent) = cluster.team.carry(port as u8 % 3, WAN, &link(WAN_MAC, &piece));
                out.extend(sent.into_iter().map(|(_, port, frame)| Out::read((port, frame))));
            }
            assert!(
                out.len() > 2 && out.iter().all(|one| one.packet.len() <= 1320),
                "{family:?} {other:?}"
            );
            let pieces: Vec<_> = out.into_iter().map(|one| one.packet).collect();
            let seen = Wire::read(&assemble(&pieces));
            assert_eq!(seen.data(), packet.data());
            servers.insert(seen.to);
        }
        assert_eq!(
            (servers.len(), cluster.templates()),
            (1, 1),
            "{family:?} {other:?}"
        );
    }
}

/// Homes spread evenly: masked clients by their address, and calls behind one address by their Call-ID.
#[test]
fn homes_share_templates_evenly() {
    for sip in [false, true] {
        let mut plan = Plan::dns(Mode::Dr, 3);
        plan.sizes.connections = 1000;
        plan.edit(0, |service| {
            service.persistence = Some(Persistence {
                netmask: if sip {
                    Ipv4Addr::UNSPECIFIED
                } else {
                    [255, 255, 255, 0].into()
                },
                ..Persistence::new(seconds(60))
            });
            service.one_packet = true;
            service.engine = sip.then_some(PersistenceEngine::Sip);
        });
        let mut cluster = Cluster::new(plan, 4);
        for n in 0..400u32 {
            let from = SocketAddrV4::new((0xc633_0000 + (n << 8) + n % 7).into(), 5060);
            let message = format!("INVITE sip:a@b SIP/2.0\r\nCall-ID: call-{n}@h\r\n\r\n");
            assert_eq!(
                cluster.inbound(&Sent::udp(from, DNS, message.as_bytes())).len(),
                1
            );
        }
        let templates: Vec<u64> = cluster
            .team
            .stats
            .iter()
            .map(|stats| stats.templates.get())
            .collect();
        assert_eq!(templates.iter().sum::<u64>(), 400);
        assert!(
            templates.iter().all(|count| (70..140).contains(count)),
            "{templates:?}"
        );
    }
}

/// Least connections: what a home has given away within a tick counts with it at once, so that its new clients do not all
/// go to one server.
#[test]
fn new_clients_of_one_tick_spread_over_servers() {
    for workers in [2, 3, 4] {
        for upper in [0, 9] {
            let mut plan = kept(Mode::Dr, 5);
            plan.edit(0, |service| {
                service.scheduler = SchedulerKind::Wlc;
                service
                    .servers
                    .iter_mut()
                    .for_each(|server| server.upper_threshold = upper);
            });
            let mut cluster = Cluster::new(plan, workers);
            let at_home: Vec<u8> = (1..250)
                .filter(|number| home(&cluster, client(*number, 0)) == 0)
                .take(50)
                .collect();
            for number in at_home {
                let from = away(&cluster, number).next().unwrap();
                cluster.inbound(&syn(from));
            }
            let loads = [1, 2, 3, 4, 5].map(|server| cluster.counts(server));
            let each = if upper == 0 { 10 } else { 9 };
            assert_eq!(loads, [(each, 0); 5], "{workers} workers");
        }
    }
}

/// Clients of IPv6 count by a prefix; what is shown of a template is what one worker shows.
#[test]
fn a_prefix_of_ipv6_has_one_home() {
    let mut plan = Plan::dual_web(Mode::Dr, Protocol::Udp, 3, 80);
    plan.edit(1, |service| {
        service.persistence = Some(Persistence {
            prefix: 64,
            ..Persistence::new(seconds(60))
        });
    });
    let mut cluster = Cluster::new(plan, 4);
    for port in 0..20 {
        let from = Family::V6.client(port as u8, 40_000 + port);
        assert_eq!(
            cluster
                .exchange(WAN, &Wire::udp(from, Family::V6.vip(80), b"x"))
                .len(),
            1
        );
    }
    let shown = cluster.connections();
    let templates: Vec<_> = shown.iter().filter(|shown| shown.template).collect();
    assert_eq!((templates.len(), shown.len()), (1, 21));
    let prefix: SocketAddr = "[2001:db8:c::]:0".parse().unwrap();
    assert_eq!(
        (templates[0].client, templates[0].virtual_address),
        (prefix, Family::V6.vip(80))
    );
}
