//! What goes wrong between a connection's worker and the home of its client's template: no room, nobody there, a server
//! that is gone.

use super::super::cluster::*;
use super::super::frames::*;
use super::super::plan::*;
use super::super::steering::SentBy;
use super::{arrive, away, held_by_templates, home, kept, number_of, syn};
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::service::{Limits, NoServer};
use crate::time::{Tick, seconds};
use proptest::prelude::*;
use std::collections::HashMap;
use std::net::Ipv4Addr;

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
        let mut last = HashMap::<Ipv4Addr, (u32, Tick)>::new();
        let mut open = Vec::new();
        let mut through = |cluster: &mut Cluster, sent: Vec<SentBy>| {
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
