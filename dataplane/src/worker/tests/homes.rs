//! Templates whose home is another worker than that of the connection: what is asked and said, what happens to a question
//! on its way, and what a home knows of the connections that its templates hold.

use super::carried::*;
use super::cluster::*;
use super::errors::{error, least_quote, on_the_way, too_big};
use super::frames::*;
use super::plan::*;
use super::wire::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::scheduler::SchedulerKind;
use crate::service::{Limits, NoServer, Persistence, PersistenceEngine, Protocol};
use crate::time::seconds;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
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

/// A home that does not turn has no room for all that is told: what ends meanwhile waits at its worker, and is counted
/// out in the end, every one.
#[test]
fn ends_that_a_home_has_no_room_for_wait_and_none_is_lost() {
    let mut plan = kept(Mode::Dr, 2);
    plan.sizes.connections = 4096;
    let mut cluster = Cluster::new(plan, 2);
    let ends: Vec<_> = away(&cluster, 1).take(1500).collect();
    for from in &ends {
        cluster.forward(&syn(*from));
    }
    assert_eq!((held_by_templates(&cluster), cluster.templates()), (1500, 1));
    let home = home(&cluster, ends[0]);
    cluster.team.stuck = Some(home);
    // SYN_RECV is over.
    cluster.pass(seconds(61));
    let owner = &cluster.team.workers[usize::from(1 - home)];
    assert_eq!(owner.table.len(), 0);
    assert!(owner.holds.is_waiting(), "1500 are more than a mailbox takes");
    assert_eq!(held_by_templates(&cluster), 1500, "as far as the home knows");
    cluster.team.stuck = None;
    cluster.team.settle();
    assert_eq!(held_by_templates(&cluster), 0);
    cluster.pass(seconds(400));
    assert_eq!(cluster.records(), 0);
}

/// No more questions are under way than there are places for what they may bring; one that a full ring has swallowed on
/// its way back frees its place.
#[test]
fn questions_under_way_are_bounded_by_the_table_and_lost_answers_free_their_place() {
    const ROOM: u32 = 5;
    let mut plan = kept(Mode::Dr, 2);
    plan.sizes.connections = ROOM;
    let mut cluster = Cluster::new(plan, 2);
    let ends: Vec<_> = away(&cluster, 1).take(40).collect();
    let home = home(&cluster, ends[0]);
    for _ in 0..3 {
        cluster.team.stuck = Some(home);
        let (dropped, _) = cluster.dropped_by(|cluster| {
            for from in &ends[..10] {
                arrive(cluster, *from);
            }
            cluster.team.settle()
        });
        assert_eq!(dropped, Some((DropReason::TableFull, 5)));
        // Nothing comes back.
        cluster.team.lose(100);
        cluster.team.stuck = None;
        let (dropped, _) = cluster.dropped_by(|cluster| cluster.team.settle());
        assert_eq!(dropped, Some((DropReason::SteerFull, u64::from(ROOM))));
        assert_eq!((cluster.connections_now(), held_by_templates(&cluster)), (0, 0));
        cluster.team.lose(0);
    }
    let opened = ends.iter().filter(|from| {
        let (dropped, sent) = cluster.dropped_by(|cluster| cluster.inbound(&syn(**from)));
        assert!(sent.len() == 1 || dropped == Some((DropReason::TableFull, 1)));
        sent.len() == 1
    });
    assert_eq!(
        opened.count(),
        ROOM as usize,
        "the table of the connections' worker is full"
    );
}

/// A home without room for a template, or without a server, says so: nothing is opened, and the client is told as by one
/// worker.
#[test]
fn what_a_home_refuses_is_refused_by_the_connections_worker() {
    let mut plan = kept(Mode::Dr, 1);
    plan.sizes.connections = 3;
    let mut cluster = Cluster::new(plan, 2);
    // Three templates at one home, of connections that another worker has.
    let homeless: Vec<u8> = (1..100)
        .filter(|number| home(&cluster, client(*number, 0)) == 0)
        .collect();
    let mut ends: Vec<_> = homeless
        .iter()
        .map(|number| away(&cluster, *number).next().unwrap())
        .collect();
    let last = ends.split_off(3)[0];
    for from in ends {
        cluster.forward(&syn(from));
        cluster.forward(&Sent::tcp(from, WEB, ACK));
        cluster.forward(&Sent::tcp(from, WEB, RST));
    }
    cluster.pass(seconds(11));
    assert_eq!((cluster.connections_now(), cluster.templates()), (0, 3));
    let (dropped, sent) = cluster.dropped_by(|cluster| cluster.inbound(&syn(last)));
    assert_eq!((dropped, sent.len()), (Some((DropReason::TableFull, 1)), 0));
    assert_eq!(cluster.records(), 3);

    for (policy, flags) in [
        (NoServer::Icmp, 0),
        (NoServer::Reset, RST | ACK),
        (NoServer::Drop, 0),
    ] {
        let mut plan = kept(Mode::Nat, 1);
        plan.settings.no_server = policy;
        plan.edit(0, |service| service.servers[0].weight = 0);
        let mut cluster = Cluster::new(plan, 3);
        let from = away(&cluster, 1).next().unwrap();
        let (dropped, told) = cluster.dropped_by(|cluster| cluster.inbound(&syn(from)));
        assert_eq!(dropped, Some((DropReason::NoServer, 1)));
        assert_eq!(told.len(), usize::from(policy != NoServer::Drop));
        assert!(
            told.iter()
                .all(|seen| seen.flags == flags && seen.to.ip() == from.ip())
        );
        assert_eq!(cluster.records(), 0);
    }
}

/// The server that a home names may be gone when the packet is back: then the packet is dropped, nothing is held, and the
/// next one gets another server.
#[test]
fn a_server_that_is_removed_while_the_question_is_away_gets_nothing() {
    let mut cluster = Cluster::new(kept(Mode::Dr, 2), 2);
    let mut ends = away(&cluster, 1);
    let (first, second, third) = (ends.next().unwrap(), ends.next().unwrap(), ends.next().unwrap());
    let server = number_of(&cluster.forward(&syn(first)));
    cluster.team.stuck = Some(home(&cluster, first));
    arrive(&mut cluster, second);
    cluster.team.settle();
    // The home answers before it learns of it.
    cluster.team.change(|plan| {
        plan.edit(0, |service| service.servers.retain(|one| one.slot != server));
    });
    cluster.team.stuck = None;
    let (dropped, (_, sent)) = cluster.dropped_by(|cluster| cluster.team.settle());
    assert_eq!((dropped, sent.len()), (Some((DropReason::ServerGone, 1)), 0));
    assert_eq!((held_by_templates(&cluster), cluster.connections_now()), (1, 1));
    assert_ne!(number_of(&cluster.forward(&syn(third))), server);
    // A service that goes altogether.
    cluster.team.stuck = Some(home(&cluster, first));
    arrive(&mut cluster, second);
    cluster.team.settle();
    cluster.team.change(|plan| plan.services[0] = None);
    cluster.team.stuck = None;
    cluster.team.settle();
    assert_eq!(cluster.connections_now(), 2);
}

/// Limits of a service hold for connections whose questions are under way together, and a rate counts each once.
#[test]
fn limits_hold_for_connections_that_were_asked_for_together() {
    for (limits, reason) in [
        (
            Limits {
                connections: 6,
                ..Limits::default()
            },
            DropReason::ServiceLimit,
        ),
        (
            Limits {
                client_connections: 6,
                ..Limits::default()
            },
            DropReason::ClientLimit,
        ),
        (
            Limits {
                rate: 6,
                ..Limits::default()
            },
            DropReason::ServiceRate,
        ),
    ] {
        let mut plan = kept(Mode::Dr, 2);
        plan.settings.no_server = NoServer::Drop;
        plan.edit(0, |service| service.policy.limits = limits);
        let mut cluster = Cluster::new(plan, 2);
        let ends: Vec<_> = away(&cluster, 1).take(10).collect();
        cluster.team.stuck = Some(home(&cluster, ends[0]));
        let (dropped, _) = cluster.dropped_by(|cluster| {
            for from in &ends {
                arrive(cluster, *from);
            }
            cluster.team.settle();
            cluster.team.stuck = None;
            cluster.team.settle()
        });
        // A worker's share of 6 with two workers.
        assert_eq!(dropped, Some((reason, 7)), "{limits:?}");
        assert_eq!((cluster.connections_now(), held_by_templates(&cluster)), (3, 3));
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

#[derive(Clone, Debug)]
enum Step {
    Connect(u8, u16),
    /// The client's packets until the connection is reset.
    Reset(usize),
    Pass(u32),
    /// Of a hundred hops, as many find no room.
    Lose(u64),
    Stick(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => (1u8..6, any::<u16>()).prop_map(|(number, port)| Step::Connect(number, port)),
        4 => any::<usize>().prop_map(Step::Reset),
        2 => prop_oneof![Just(1u32), Just(1100), 1..40_000u32].prop_map(Step::Pass),
        2 => prop_oneof![Just(0u64), Just(30), Just(80)].prop_map(Step::Lose),
        1 => (0u8..6).prop_map(Step::Stick),
    ];
    proptest::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// With rings that are full at random and workers that do not turn for a while: whoever gets a server while its
    /// template is there for certain gets the same one; and in the end nothing is held that is not there.
    #[test]
    fn whatever_is_lost_on_the_way_a_client_has_one_server_and_the_books_balance(
        workers in 2u8..5, steps in steps(),
    ) {
        const TIMEOUT: u32 = 300;
        let mut cluster = Cluster::new(kept(Mode::Dr, 4), workers);
        // Of each client: the server that it got last, and when.
        let mut last = HashMap::<Ipv4Addr, (u32, crate::time::Tick)>::new();
        let mut open = Vec::new();
        let mut through = |cluster: &mut Cluster, sent: Vec<super::steering::SentBy>| {
            for seen in sent.iter().map(|(_, port, frame)| Seen::read(port.0, frame)).filter(|seen| seen.flags == SYN) {
                let (server, now) = (number_of(&seen), cluster.team.now);
                if let Some((before, at)) = last.insert(*seen.from.ip(), (server, now)) {
                    let known = now.since(at) < seconds(TIMEOUT);
                    assert!(!known || before == server, "{} moved from {before} to {server}", seen.from);
                }
            }
        };
        for step in steps {
            match step {
                Step::Connect(number, port) => {
                    let from = client(number, 1024 + port % 60_000);
                    let at = u8::try_from(port % u16::from(workers)).unwrap();
                    cluster.team.arrive(at, WAN, &syn(from).frame(WAN_MAC));
                    let (_, sent) = cluster.team.settle();
                    through(&mut cluster, sent);
                    open.push(from);
                }
                Step::Reset(which) if !open.is_empty() => {
                    let from = open.swap_remove(which % open.len());
                    for flags in [ACK, RST] {
                        cluster.team.arrive(cluster.team.owner(from), WAN, &Sent::tcp(from, WEB, flags).frame(WAN_MAC));
                        let (_, sent) = cluster.team.settle();
                        through(&mut cluster, sent);
                    }
                }
                Step::Reset(_) => {}
                Step::Pass(ticks) => {
                    // What waits for a worker that is stuck would be older than it seems.
                    cluster.team.stuck = None;
                    let (_, sent) = cluster.team.settle();
                    through(&mut cluster, sent);
                    cluster.pass(ticks);
                }
                Step::Lose(percent) => cluster.team.lose(percent),
                Step::Stick(which) => {
                    cluster.team.stuck = (which < workers).then_some(which);
                    let (_, sent) = cluster.team.settle();
                    through(&mut cluster, sent);
                }
            }
        }
        cluster.team.stuck = None;
        cluster.team.lose(0);
        let (_, sent) = cluster.team.settle();
        through(&mut cluster, sent);
        cluster.check();
        cluster.pass(seconds(TIMEOUT + 1000));
        prop_assert_eq!(cluster.records(), 0);
        prop_assert_eq!(held_by_templates(&cluster), 0);
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
