//! Several workers and one service: each goes by the connections of all, its own exactly and the others' as of the tick
//! before.

use super::frames::*;
use super::plan::*;
use super::steering::Team;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::scheduler::{Load, SchedulerKind};
use crate::service::Server;
use crate::worker::ServerStats;
use proptest::prelude::*;
use std::collections::HashSet;
use std::net::SocketAddrV4;

const SERVERS: usize = 5;

fn team(workers: u8, scheduler: SchedulerKind, change: impl Fn(&mut Server)) -> Team {
    let mut plan = Plan::web(Mode::Dr, SERVERS as u32);
    plan.edit(0, |service| {
        service.scheduler = scheduler;
        service.servers.iter_mut().for_each(&change);
    });
    plan.workers = workers;
    let mut team = Team::of(plan, usize::MAX);
    // The round of the start, and that of a tick.
    team.pass(1);
    team.pass(1);
    team
}

/// A client's endpoint by number, each another one.
fn endpoint(number: usize) -> SocketAddrV4 {
    client((number % 200) as u8, 1024 + (number / 200 * 331 % 60_000) as u16)
}

/// Lets a client say this at its own worker; the server that it goes to.
fn say(team: &mut Team, from: SocketAddrV4, flags: u8) -> Option<usize> {
    let at = team.owner(from);
    let (_, sent) = team.deliver(at, WAN, &Sent::tcp(from, WEB, flags));
    let seen = sent.first()?;
    (1..=SERVERS).find(|number| seen.1.to_mac == server_mac(*number as u32))
}

/// What each worker counts of each server.
fn counts(team: &Team) -> Vec<[Load; SERVERS]> {
    let of = |servers: &[ServerStats]| std::array::from_fn(|at| servers[at + 1].load());
    team.stats.iter().map(|stats| of(&stats.servers)).collect()
}

/// What a worker sees: its own counts, and those that the others had at the last tick.
fn view(worker: usize, own: &[[Load; SERVERS]], then: &[[Load; SERVERS]]) -> [Load; SERVERS] {
    std::array::from_fn(|server| {
        let others = (0..then.len()).filter(|other| *other != worker);
        others.fold(own[worker][server], |sum, other| sum.and(then[other][server]))
    })
}

fn total(counts: &[[Load; SERVERS]], server: usize) -> u64 {
    counts.iter().map(|own| own[server].connections()).sum()
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Open,
    /// A connection is established, and reset by its client: it is inactive from then on.
    Reset(usize),
    /// The clock goes on: connections that were reset end after 10 seconds.
    Pass(u32),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        8 => Just(Event::Open),
        4 => any::<usize>().prop_map(Event::Reset),
        1 => prop_oneof![Just(1u32), Just(500), Just(1100)].prop_map(Event::Pass),
    ];
    proptest::collection::vec(event, 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// The model: least connections by a look at each worker's view.
    #[test]
    fn a_worker_picks_by_its_own_counts_and_those_of_the_others_a_tick_ago(
        workers in 1u8..5, upper in prop_oneof![Just(0u32), Just(4), Just(9)], events in events(),
    ) {
        let mut team = team(workers, SchedulerKind::Lc, |server| {
            // Without a gap between them, what counts is the present alone.
            (server.upper_threshold, server.lower_threshold) = (upper, upper);
        });
        let mut then = counts(&team);
        let (mut open, mut number) = (Vec::new(), 0);
        for event in events {
            match event {
                Event::Open => {
                    let from = endpoint(number);
                    number += 1;
                    let at = usize::from(team.owner(from));
                    let seen = view(at, &counts(&team), &then);
                    let has_room = |server: &usize| upper == 0 || seen[*server].connections() < u64::from(upper);
                    let usable = (0..SERVERS).filter(has_room);
                    // The first of the list is the one that `Plan::web` has added first.
                    let expected = usable.min_by_key(|server| (seen[*server].overhead(), *server));
                    let picked = say(&mut team, from, SYN);
                    prop_assert_eq!(picked, expected.map(|server| server + 1), "{:?}", seen);
                    open.extend(picked.map(|_| from));
                }
                Event::Reset(which) if !open.is_empty() => {
                    let from = open.swap_remove(which % open.len());
                    for flags in [ACK, RST] {
                        say(&mut team, from, flags);
                    }
                }
                Event::Reset(_) => {}
                Event::Pass(ticks) => {
                    team.pass(ticks);
                    // Until everybody has seen what has ended meanwhile.
                    loop {
                        then = counts(&team);
                        team.pass(1);
                        if counts(&team) == then {
                            break;
                        }
                    }
                    let alive = |from: &SocketAddrV4| team.has(*from);
                    open.retain(alive);
                }
            }
        }
    }
}

/// With so many connections opened in a tick by each worker, no server has more than its share and what the others may
/// have opened in that time; with one worker, no more than its share.
#[test]
fn least_connections_are_even_within_what_the_others_open_in_a_tick() {
    for workers in [1, 2, 4] {
        for each in [1, 8] {
            let mut team = team(workers, SchedulerKind::Lc, |_| ());
            let mut number = 0;
            for _ in 0..60 {
                let mut opened = vec![0; workers.into()];
                while opened.iter().any(|opened| *opened < each) {
                    let from = endpoint(number);
                    number += 1;
                    let at = usize::from(team.owner(from));
                    if opened[at] < each {
                        opened[at] += 1;
                        assert!(say(&mut team, from, SYN).is_some());
                    }
                }
                let counts = counts(&team);
                let totals: Vec<u64> = (0..SERVERS).map(|server| total(&counts, server)).collect();
                let share = totals.iter().sum::<u64>().div_ceil(SERVERS as u64);
                let most = share + (u64::from(workers) - 1) * each;
                assert!(
                    totals.iter().all(|has| *has <= most),
                    "{workers} by {each}: {totals:?}"
                );
                team.pass(1);
            }
            let counts = counts(&team);
            let sum: u64 = (0..SERVERS).map(|server| total(&counts, server)).sum();
            assert_eq!(sum, 60 * each * u64::from(workers));
        }
    }
}

/// A threshold is passed by no more than what the other workers open in a tick; then each of them keeps to it, also
/// those that have no connection of their own.
#[test]
fn a_threshold_is_passed_by_what_the_others_open_in_a_tick_at_most() {
    const UPPER: u64 = 20;
    for workers in [1, 2, 4] {
        for each in [1, 3] {
            let mut team = team(workers, SchedulerKind::Rr, |server| {
                server.upper_threshold = UPPER as u32
            });
            let mut number = 0;
            for _ in 0..150 {
                let mut asked = vec![0; workers.into()];
                while asked.iter().any(|asked| *asked < each) {
                    let from = endpoint(number);
                    number += 1;
                    let at = usize::from(team.owner(from));
                    if asked[at] < each {
                        asked[at] += 1;
                        say(&mut team, from, SYN);
                    }
                }
                team.pass(1);
            }
            let counts = counts(&team);
            let most = UPPER + (u64::from(workers) - 1) * each;
            for server in 0..SERVERS {
                let has = total(&counts, server);
                assert!((UPPER..=most).contains(&has), "{workers} by {each}: {has}");
            }
            let mut refusing = HashSet::new();
            for from in (number..number + 400).map(endpoint) {
                assert_eq!(say(&mut team, from, SYN), None);
                refusing.insert(team.owner(from));
            }
            assert_eq!(refusing.len(), usize::from(workers), "by all of them");
            let refused = team.stats.iter();
            let refused = refused.map(|stats| stats.drops[DropReason::NoServer as usize].get());
            assert!(refused.sum::<u64>() >= 400);
        }
    }
}

/// A change of the configuration is a look as well: a worker that takes a service into use knows at once what all have.
#[test]
fn an_edit_is_decided_by_what_all_workers_have() {
    let mut team = team(2, SchedulerKind::Lc, |_| ());
    let mut opened = HashSet::new();
    for number in 0..50 {
        opened.extend(say(&mut team, endpoint(number), SYN));
    }
    assert_eq!(opened.len(), SERVERS);
    let before = counts(&team);
    let least = (0..SERVERS).min_by_key(|server| (total(&before, *server), *server));
    team.change(|plan| {
        plan.edit(0, |service| {
            for server in &mut service.servers {
                server.upper_threshold = 1000;
            }
        });
    });
    assert_eq!(say(&mut team, endpoint(50), SYN), least.map(|server| server + 1));
}

/// An answer arrives at one worker only, and packets wait at each: all of them go, whoever has asked.
#[test]
fn what_one_worker_hears_of_a_neighbour_all_know() {
    let mut plan = Plan::web(Mode::Dr, 1);
    plan.know_nobody();
    plan.workers = 3;
    let mut team = Team::of(plan, usize::MAX);
    let mut asked = HashSet::new();
    let mut senders = HashSet::new();
    for from in (0..30).map(endpoint) {
        let owner = team.owner(from);
        if senders.insert(owner) {
            let (_, sent) = team.carry(owner, WAN, &Sent::tcp(from, WEB, SYN).frame(WAN_MAC));
            let questions = sent.iter().filter(|(_, port, frame)| {
                let seen = Seen::read(port.0, frame);
                (seen.protocol, seen.icmp.0, *seen.to.ip()) == (0, 1, server_ip(1))
            });
            asked.extend(questions.map(|(number, ..)| *number));
        }
    }
    assert_eq!((senders.len(), asked), (3, senders), "each asks for itself");
    let answer = arp(2, server_mac(1), server_ip(1), LAN_MAC, LAN_IP);
    let (handed, sent) = team.carry(0, LAN, &answer);
    assert_eq!(handed, []);
    let left: HashSet<_> = sent.iter().map(|(number, ..)| *number).collect();
    assert_eq!((left, sent.len()), (HashSet::from([0, 1, 2]), 3));
    for (_, port, frame) in &sent {
        let seen = Seen::read(port.0, frame);
        assert_eq!((seen.flags, seen.to_mac), (SYN, server_mac(1)));
    }
    // The server has moved, which yet another worker hears: all follow.
    let elsewhere = server_mac(9);
    let moved = arp(1, elsewhere, server_ip(1), elsewhere, server_ip(1));
    team.carry(2, LAN, &moved);
    for from in (0..30).map(endpoint) {
        let (_, sent) = team.deliver(team.owner(from), WAN, &Sent::tcp(from, WEB, SYN));
        assert_eq!(sent[0].1.to_mac, elsewhere);
    }
}

/// The addresses that all workers have are announced by one of them.
#[test]
fn gratuitous_arp_comes_from_one_worker() {
    let mut plan = Plan::web(Mode::Dr, 1);
    plan.workers = 3;
    let mut team = Team::of(plan, usize::MAX);
    let (_, sent) = team.carry(0, WAN, &[0; 60]);
    let senders: HashSet<_> = sent.iter().map(|(number, ..)| *number).collect();
    assert_eq!(senders, HashSet::from([0]), "and there are some");
}
