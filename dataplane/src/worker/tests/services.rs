//! Services and servers under traffic: weights, thresholds, schedulers.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::scheduler::SchedulerKind;
use crate::service::Server;
use crate::time::seconds;
use proptest::prelude::*;

fn syn(n: u16) -> Sent {
    Sent::tcp(client(1, 10_000 + n), WEB, SYN)
}

#[test]
fn weighted_servers_get_their_share() {
    let mut plan = Plan::web(Mode::Dr, 3);
    plan.edit(0, |service| {
        service.scheduler = SchedulerKind::Wrr;
        for (server, weight) in service.servers.iter_mut().zip([3, 1, 0]) {
            server.weight = weight;
        }
    });
    let mut gateway = Gateway::new(plan);
    for n in 0..400 {
        gateway.forward(&syn(n));
    }
    assert_eq!(
        [1, 2, 3].map(|slot| gateway.server(slot).connections.get()),
        [300, 100, 0]
    );
}

#[test]
fn weight_zero_drains() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 2));
    let from = client(1, 40000);
    let local = gateway.establish(from, WEB);
    gateway.change(|plan| plan.edit(0, |service| service.servers[0].weight = 0));
    for n in 0..10 {
        assert_eq!(*gateway.forward(&syn(n)).to.ip(), server_ip(2));
    }
    let data = gateway.forward(&Sent::tcp(from, WEB, ACK).data(b"on"));
    assert_eq!((*data.to.ip(), data.from), (server_ip(1), local));
    assert_eq!((gateway.counts(1), gateway.counts(2)), ((1, 0), (10, 0)));
}

/// SCH-08: thresholds count at once when they are edited.
#[test]
fn thresholds_refuse_and_edits_count_at_once() {
    let mut plan = Plan::web(Mode::Dr, 1);
    plan.edit(0, |service| service.servers[0].upper_threshold = 4);
    let mut gateway = Gateway::new(plan);
    let limits = |upper, lower| {
        move |plan: &mut Plan| {
            plan.edit(0, |service| {
                service.servers[0].upper_threshold = upper;
                service.servers[0].lower_threshold = lower;
            });
        }
    };
    let refused = |gateway: &mut Gateway, n: u16| {
        let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&syn(n)));
        let refused = dropped == Some((DropReason::NoServer, 1));
        assert!(refused || dropped.is_none());
        assert_eq!(sent[0].protocol == ICMP, refused);
        refused
    };
    let served: Vec<_> = (0..6).map(|n| !refused(&mut gateway, n)).collect();
    assert_eq!(served, [true, true, true, true, false, false]);
    gateway.change(limits(10, 0));
    assert!(!refused(&mut gateway, 4), "no connection had to close first");
    gateway.change(limits(2, 0));
    assert!(refused(&mut gateway, 5));
    gateway.change(limits(0, 0));
    assert!(!refused(&mut gateway, 5));
    gateway.change(limits(6, 3));
    assert!(refused(&mut gateway, 6), "six are open");
    // They close: not before fewer than three are left does the server get more.
    let close = |gateway: &mut Gateway, n: u16| {
        gateway.forward(&Sent::tcp(client(1, 10_000 + n), WEB, ACK));
        gateway.forward(&Sent::tcp(client(1, 10_000 + n), WEB, RST));
        gateway.pass(seconds(11));
    };
    for n in 0..3 {
        close(&mut gateway, n);
        assert!(refused(&mut gateway, 7), "{} left", 5 - n);
    }
    close(&mut gateway, 3);
    assert!(!refused(&mut gateway, 7), "two were left");
}

/// SCH-08, as recorded from LVS (`edited-thresholds` of the golden sequences): an edit judges by the new thresholds, and
/// between them an overloaded server stays overloaded.
#[test]
fn sch_08_an_edit_leaves_an_overloaded_server_so_until_it_is_below_the_new_lower_threshold() {
    // Thresholds before, connections; thresholds after, whether the next connection is taken.
    for (before, open, after, taken) in [
        ((4, 0), 4, (5, 0), false),
        ((4, 0), 4, (6, 0), true),
        ((4, 0), 4, (6, 1), false),
        ((4, 0), 4, (6, 5), true),
        ((4, 0), 3, (5, 0), true),
        ((4, 0), 3, (6, 1), true),
        ((4, 2), 4, (10, 1), false),
        ((4, 2), 4, (0, 0), true),
        ((0, 0), 4, (5, 1), true),
        ((0, 0), 4, (4, 0), false),
    ] {
        let limits = |plan: &mut Plan, (upper, lower)| {
            plan.edit(0, |service| {
                service.servers[0].upper_threshold = upper;
                service.servers[0].lower_threshold = lower;
            });
        };
        let mut plan = Plan::web(Mode::Dr, 1);
        limits(&mut plan, before);
        let mut gateway = Gateway::new(plan);
        for n in 0..open {
            gateway.forward(&syn(n));
        }
        gateway.change(|plan| limits(plan, after));
        let sent = one(gateway.inbound(&syn(open)));
        assert_eq!(
            sent.protocol == TCP,
            taken,
            "{before:?} with {open}, then {after:?}"
        );
    }
}

#[test]
fn a_server_over_its_threshold_leaves_the_others_to_serve() {
    let mut plan = Plan::web(Mode::Fullnat, 2);
    plan.edit(0, |service| service.servers[0].upper_threshold = 3);
    let mut gateway = Gateway::new(plan);
    for n in 0..20 {
        gateway.forward(&syn(n));
    }
    assert_eq!((gateway.counts(1), gateway.counts(2)), ((3, 0), (17, 0)));
}

/// Algorithms that may refuse a client although some server is usable.
const REFUSING: [SchedulerKind; 4] = [
    SchedulerKind::Ovf,
    SchedulerKind::Sh,
    SchedulerKind::Dh,
    SchedulerKind::Mh,
];

/// SCH-10: the scheduler changes under traffic; no SYN is refused, and connections keep their servers.
#[test]
fn the_scheduler_changes_under_traffic() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 3));
    let from = client(1, 40000);
    gateway.establish(from, WEB);
    for round in 0..100 {
        gateway.change(|plan| {
            // All servers are usable: only one that overflows may refuse.
            let all = SchedulerKind::ALL
                .iter()
                .filter(|kind| **kind != SchedulerKind::Ovf);
            let kind = *all.cycle().nth(round).unwrap();
            plan.edit(0, |service| service.scheduler = kind);
        });
        for n in 0..4 {
            gateway.forward(&syn(4 * round as u16 + n));
        }
        assert_eq!(*gateway.forward(&Sent::tcp(from, WEB, ACK)).to.ip(), server_ip(1));
    }
    assert_eq!((gateway.stats.opened.get(), gateway.stats.dropped()), (401, 0));
}

/// STAT-03: what is half open counts as active, so that a server that never answers is not taken for an idle one.
#[test]
fn stat_03_half_open_connections_count_as_active() {
    let mut plan = Plan::web(Mode::Nat, 2);
    plan.edit(0, |service| service.scheduler = SchedulerKind::Lc);
    let mut gateway = Gateway::new(plan);
    let mut answered = vec![];
    for n in 0..100 {
        let seen = gateway.forward(&syn(n));
        if *seen.to.ip() == server_ip(2) {
            gateway.answer(&Sent::tcp(seen.to, seen.from, SYN | ACK));
            gateway.forward(&Sent::tcp(client(1, 10_000 + n), WEB, ACK));
            answered.push(seen);
        }
    }
    assert_eq!((gateway.counts(1), gateway.counts(2)), ((50, 0), (50, 0)));
    // What closes is inactive, and hardly counts: the next ones go where it was.
    for seen in &answered[..10] {
        gateway.answer(&Sent::tcp(seen.to, seen.from, FIN | ACK));
    }
    assert_eq!((gateway.counts(1), gateway.counts(2)), ((50, 0), (40, 10)));
    for n in 100..105 {
        assert_eq!(*gateway.forward(&syn(n)).to.ip(), server_ip(2));
    }
    let listed = gateway.connections();
    let inactive = listed.iter().filter(|connection| connection.inactive).count();
    assert_eq!((listed.len(), inactive), (105, 10), "the sum is the table");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Whatever servers come, go and are edited: a new connection only ever goes to a server that is there, has
    /// weight, is below its threshold, and is not marked overloaded.
    #[test]
    fn only_usable_servers_are_picked(steps in proptest::collection::vec(any::<(u8, u8, u8)>(), 1..60)) {
        let mut gateway = Gateway::new(Plan::web(Mode::Dr, 4));
        for (n, (what, who, value)) in steps.into_iter().enumerate() {
            let number = u32::from(who % 6) + 1;
            match what % 4 {
                0 => {
                    gateway.change(|plan| plan.edit(0, |service| {
                        let before = service.servers.len();
                        service.servers.retain(|server| server.slot != number);
                        if service.servers.len() == before {
                            service.servers.insert(0, server(number, Mode::Dr));
                        }
                    }));
                }
                1 => {
                    gateway.change(|plan| plan.edit(0, |service| {
                        service.scheduler = SchedulerKind::ALL[usize::from(value) % 14];
                        for server in service.servers.iter_mut().filter(|server| server.slot == number) {
                            server.weight = u32::from(value % 3);
                            server.upper_threshold = u32::from(value % 5);
                            server.overloaded = value % 7 == 6;
                        }
                    }));
                }
                _ => {
                    let before: Vec<_> = (0..8).map(|slot| gateway.server(slot).now()).collect();
                    let sent = gateway.inbound(&syn(n as u16));
                    let service = gateway.plan.services[0].as_ref().unwrap();
                    let servers = &service.servers;
                    let usable: Vec<_> = servers.iter().filter(|server| {
                        let open = before[server.slot as usize];
                        let below = server.upper_threshold == 0 || open < u64::from(server.upper_threshold);
                        let below = below && !server.overloaded;
                        // As in LVS, what `lblc` knows stays where it is.
                        server.weight > 0 && (below || service.scheduler == SchedulerKind::Lblc)
                    }).collect();
                    if sent[0].protocol == TCP {
                        prop_assert!(usable.iter().any(|server| server_mac(server.slot) == sent[0].to_mac));
                    } else {
                        // Hysteresis keeps a server out that has just been overloaded.
                        let kept_out = |server: &&Server| server.upper_threshold > 0 || server.overloaded;
                        prop_assert!(REFUSING.contains(&service.scheduler) || usable.iter().all(kept_out));
                    }
                }
            }
        }
    }
}
