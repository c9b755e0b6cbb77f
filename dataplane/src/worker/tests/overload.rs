//! Servers that the operator has marked overloaded.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::scheduler::SchedulerKind;
use crate::service::Persistence;
use crate::time::seconds;

fn syn(n: u16) -> Sent {
    Sent::tcp(client(1, 10_000 + n), WEB, SYN)
}

fn mark(gateway: &mut Gateway, number: u32, overloaded: bool) {
    gateway.change(|plan| {
        plan.edit(0, |service| {
            let mut servers = service.servers.iter_mut();
            let server = servers.find(|server| server.slot == number).unwrap();
            server.overloaded = overloaded;
        });
    });
}

/// SCH-13: with `fo`, everything goes to the heaviest server, to the next one while that is marked, and back.
#[test]
fn sch_13_fo_leaves_a_marked_server_and_comes_back() {
    let mut plan = Plan::web(Mode::Dr, 3);
    plan.edit(0, |service| {
        service.scheduler = SchedulerKind::Fo;
        for (server, weight) in service.servers.iter_mut().zip([300, 200, 100]) {
            server.weight = weight;
        }
    });
    let mut gateway = Gateway::new(plan);
    let mut n = 0;
    let mut served_by = |gateway: &mut Gateway| {
        n += 1;
        gateway.forward(&syn(n)).to_mac
    };
    assert_eq!(served_by(&mut gateway), server_mac(1));
    mark(&mut gateway, 1, true);
    assert_eq!(served_by(&mut gateway), server_mac(2));
    mark(&mut gateway, 2, true);
    assert_eq!(served_by(&mut gateway), server_mac(3));
    mark(&mut gateway, 1, false);
    assert_eq!(served_by(&mut gateway), server_mac(1));
}

/// Connections go on, and so do persistent clients, as with the mark of a threshold.
#[test]
fn what_a_marked_server_has_goes_on() {
    let mut plan = Plan::web(Mode::Fullnat, 2);
    plan.edit(0, |service| {
        service.persistence = Some(Persistence::new(seconds(300)));
    });
    let mut gateway = Gateway::new(plan);
    let from = client(1, 40_000);
    gateway.establish(from, WEB);
    let own = if gateway.counts(1).0 > 0 { 1 } else { 2 };
    mark(&mut gateway, own, true);
    assert_eq!(
        *gateway.forward(&Sent::tcp(from, WEB, ACK).data(b"on")).to.ip(),
        server_ip(own)
    );
    assert_eq!(
        *gateway.forward(&Sent::tcp(client(1, 40_001), WEB, SYN)).to.ip(),
        server_ip(own),
        "a persistent client stays"
    );
    for number in 2..12 {
        let other = gateway.forward(&Sent::tcp(client(number, 40_000), WEB, SYN));
        assert_eq!(*other.to.ip(), server_ip(3 - own), "a new client does not come");
    }
}

/// The mark is a gate of its own: connections that end below the lower threshold do not open it, and an edit of the
/// thresholds does not.
#[test]
fn thresholds_do_not_clear_the_mark() {
    let mut plan = Plan::web(Mode::Dr, 1);
    plan.edit(0, |service| {
        service.scheduler = SchedulerKind::Wlc;
        service.servers[0].upper_threshold = 4;
    });
    let mut gateway = Gateway::new(plan);
    let refused = |gateway: &mut Gateway, n: u16| {
        let (dropped, _) = gateway.dropped_by(|gateway| gateway.inbound(&syn(n)));
        dropped == Some((DropReason::NoServer, 1))
    };
    assert!((0..2).all(|n| !refused(&mut gateway, n)));
    mark(&mut gateway, 1, true);
    assert!(refused(&mut gateway, 10));
    for n in 0..2 {
        let from = client(1, 10_000 + n);
        gateway.forward(&Sent::tcp(from, WEB, ACK));
        gateway.forward(&Sent::tcp(from, WEB, RST));
        gateway.pass(seconds(11));
        assert!(refused(&mut gateway, 11 + n), "{n}");
    }
    assert_eq!(
        gateway.counts(1),
        (0, 0),
        "it has nothing to do, and gets nothing"
    );
    gateway.change(|plan| plan.edit(0, |service| service.servers[0].upper_threshold = 0));
    assert!(refused(&mut gateway, 14));
    mark(&mut gateway, 1, false);
    assert!(!refused(&mut gateway, 15));
}
