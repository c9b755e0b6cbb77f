//! Snapshots come into force between bursts, and whatever the worker is done with goes back to control.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::flow::Mode;
use crate::scheduler::SchedulerKind;
use crate::service::Protocol;
use crate::worker::{Listing, Mailbox, Order, Spent};
use std::sync::Arc;

/// Every snapshot that a worker gets comes back to be freed by control, never on the worker.
#[test]
fn spent_snapshots_come_back() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 2));
    let mut published = Vec::new();
    for round in 0..50 {
        gateway
            .plan
            .edit(0, |service| service.scheduler = SchedulerKind::ALL[round % 2]);
        let snapshot = gateway.plan.snapshot();
        published.push(Arc::clone(&snapshot));
        gateway.mailbox.orders.push(Order::Publish(snapshot)).unwrap();
        gateway.forward(&Sent::tcp(client(1, round as u16), WEB, SYN));
        let Some(Spent::Snapshot(spent)) = gateway.mailbox.spent.pop() else {
            panic!("nothing came back");
        };
        assert_eq!(spent.epoch, gateway.plan.epoch - 1);
        assert!(gateway.mailbox.spent.pop().is_none());
    }
    let last = published.pop().unwrap();
    assert!(published.iter().all(|snapshot| Arc::strong_count(snapshot) == 1));
    assert_eq!(Arc::strong_count(&last), 2);
}

/// A mailbox full of orders leaves no more behind than `spent` holds, whatever the orders are.
#[test]
fn spent_never_overflows() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 2));
    for n in 0..300 {
        gateway.forward(&Sent::tcp(client(1, 1024 + n), WEB, SYN));
    }
    for kind in 0..5 {
        // The worker already holds one listing of each kind, which nobody reads.
        let order = |kind: usize, plan: &mut Plan| match kind {
            0 => Order::Publish(plan.snapshot()),
            1 => Order::ListConnections(Arc::new(Listing::new(1))),
            2 => Order::ListNeighbours(Arc::new(Listing::new(1))),
            _ => Order::ListLocalAddresses(Arc::new(Listing::new(1))),
        };
        for held in 1..4 {
            let order = order(held, &mut gateway.plan);
            gateway.mailbox.orders.push(order).unwrap();
        }
        gateway.turn();
        while gateway.mailbox.spent.pop().is_some() {}
        for n in 0..Mailbox::ORDERS {
            let order = order(if kind == 4 { n % 4 } else { kind }, &mut gateway.plan);
            gateway.mailbox.orders.push(order).unwrap();
        }
        assert!(gateway.mailbox.orders.is_full());
        for _ in 0..10 {
            gateway.turn();
        }
        assert!(gateway.mailbox.orders.is_empty());
        assert!(!gateway.mailbox.spent.is_full(), "of kind {kind}");
        while gateway.mailbox.spent.pop().is_some() {}
    }
}

#[test]
fn services_come_and_go_and_others_do_not_notice() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 2));
    let from = client(1, 40000);
    gateway.establish(from, WEB);
    let other = end(VIP2.octets(), 443);
    for round in 0..20 {
        gateway.change(|plan| match round % 2 {
            0 => {
                plan.services.truncate(1);
                plan.add(other, Protocol::Tcp, vec![server(3, Mode::Dr)]);
            }
            _ => plan.services[1] = None,
        });
        assert_eq!(*gateway.forward(&Sent::tcp(from, WEB, ACK)).to.ip(), server_ip(1));
        let syn = gateway.inbound(&Sent::tcp(client(2, round), other, SYN));
        assert_eq!(
            syn.iter().any(|seen| seen.to_mac == server_mac(3)),
            round % 2 == 0
        );
    }
    // The rotation of the unchanged service went on undisturbed: the next is its second server.
    let next = gateway.forward(&Sent::tcp(client(3, 1), WEB, SYN));
    assert_eq!(*next.to.ip(), server_ip(2));
}

#[test]
fn a_vip_that_is_no_longer_ours_is_not_served() {
    let mut gateway = Gateway::new(Plan::web(Mode::Fullnat, 1));
    let from = client(1, 40000);
    gateway.establish(from, WEB);
    gateway.change(|plan| plan.services[0] = None);
    let (dropped, sent) = gateway.dropped_by(|gateway| gateway.inbound(&Sent::tcp(from, WEB, ACK)));
    assert_eq!(
        (dropped.unwrap().0, sent.len()),
        (crate::drops::DropReason::NotForUs, 0)
    );
    assert_eq!(gateway.connections().len(), 1, "its entries stay, as in LVS");
}

/// LVS takes its hands off when the last service goes: what a server still says passes by as from a stranger.
#[test]
fn connections_wait_while_there_is_no_service_at_all() {
    let mut plan = Plan::web(Mode::Nat, 1);
    plan.settings.transit = true;
    let mut gateway = Gateway::new(plan);
    let from = client(1, 40000);
    gateway.establish(from, WEB);
    let service = gateway.plan.services[0].clone();
    gateway.change(|plan| plan.services[0] = None);
    let server = end(server_ip(1).octets(), WEB.port());
    let passed = gateway.answer(&Sent::tcp(server, from, ACK));
    assert_eq!((passed.from, passed.to), (server, from), "untranslated");
    assert_eq!(gateway.connections().len(), 1);
    gateway.change(|plan| plan.services[0] = service);
    assert_eq!(gateway.forward(&Sent::tcp(from, WEB, ACK)).to, server);
    assert_eq!(gateway.stats.opened.get(), 1);
}
