//! Snapshots of many services: they are in force at once, and adopted little by little.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::flow::Mode;
use crate::service::{OnRemove, Persistence, Protocol};
use crate::time::seconds;
use crate::worker::{Listing, Order, Spent};
use std::net::SocketAddrV4;
use std::sync::Arc;

/// Slots before that of the service: more than one turn looks at.
const SLOTS: usize = 4000;

/// A service over two servers, behind many slots.
fn behind_many(mode: Mode) -> Gateway {
    let mut plan = Plan::empty();
    plan.sizes.services = SLOTS as u32 + 8;
    plan.services = vec![None; SLOTS];
    let servers = (1..=2).map(|number| server(number, mode)).collect();
    plan.add(WEB, Protocol::Tcp, servers);
    Gateway::new(plan)
}

/// Publishes a changed plan: one turn, after which it is in force and not adopted.
fn publish(gateway: &mut Gateway, change: impl FnOnce(&mut Plan)) {
    change(&mut gateway.plan);
    let snapshot = gateway.plan.snapshot();
    gateway.mailbox.orders.push(Order::Publish(snapshot)).unwrap();
    gateway.turn();
    assert!(!is_adopted(gateway));
}

fn is_adopted(gateway: &Gateway) -> bool {
    gateway.stats.epoch.get() == gateway.plan.epoch
}

/// Goes on until the snapshot has been adopted; the turns that it took.
fn adopt(gateway: &mut Gateway) -> u32 {
    for turns in 0..100 {
        if is_adopted(gateway) {
            return turns;
        }
        gateway.turn();
    }
    panic!("it is not adopted");
}

fn connect(gateway: &mut Gateway, from: SocketAddrV4) -> u32 {
    let seen = gateway.forward(&Sent::tcp(from, WEB, SYN));
    (1..=8).find(|number| seen.to_mac == server_mac(*number)).unwrap()
}

#[test]
fn the_old_snapshot_comes_back_when_all_services_are_adopted_and_orders_wait_so_long() {
    let mut gateway = behind_many(Mode::Dr);
    publish(&mut gateway, |plan| {
        plan.edit(SLOTS, |service| service.servers.truncate(1))
    });
    let neighbours = Arc::new(Listing::new(64));
    gateway
        .mailbox
        .orders
        .push(Order::ListNeighbours(Arc::clone(&neighbours)))
        .unwrap();
    let next = gateway.plan.snapshot();
    gateway.mailbox.orders.push(Order::Publish(next)).unwrap();
    gateway.plan.epoch -= 1;
    while !is_adopted(&gateway) {
        assert!(gateway.mailbox.spent.is_empty() && !neighbours.is_complete());
        gateway.turn();
    }
    gateway.plan.epoch += 1;
    assert!(adopt(&mut gateway) > 1);
    gateway.turn();
    assert!(neighbours.is_complete());
    let spent = std::iter::from_fn(|| gateway.mailbox.spent.pop());
    let spent: Vec<u64> = spent
        .filter_map(|spent| match spent {
            Spent::Snapshot(snapshot) => Some(snapshot.epoch),
            _ => None,
        })
        .collect();
    let last = gateway.plan.epoch;
    assert_eq!(spent, [last - 2, last - 1]);
}

#[test]
fn a_service_that_is_asked_for_is_adopted_at_once() {
    let mut gateway = behind_many(Mode::Dr);
    assert_eq!(
        (
            connect(&mut gateway, client(1, 1)),
            connect(&mut gateway, client(1, 2))
        ),
        (1, 2)
    );
    publish(&mut gateway, |plan| {
        plan.edit(SLOTS, |service| {
            service.servers = vec![server(3, Mode::Dr), server(4, Mode::Dr)]
        })
    });
    let picked = [3, 4, 5].map(|port| connect(&mut gateway, client(1, port)));
    assert!(!is_adopted(&gateway));
    assert_eq!(picked, [3, 4, 3]);
    // When its turn comes, it has been adopted: the rotation goes on.
    adopt(&mut gateway);
    assert_eq!(connect(&mut gateway, client(1, 6)), 4);
}

/// The packet comes before the worker has come to the service whose server is gone.
#[test]
fn what_becomes_of_a_removed_server_s_connections_is_known_at_once() {
    for (on_remove, goes_on) in [(OnRemove::Drain, true), (OnRemove::Keep, false)] {
        let mut gateway = behind_many(Mode::Dr);
        let from = client(1, 40_000);
        gateway.establish(from, WEB);
        publish(&mut gateway, |plan| {
            plan.edit(SLOTS, |service| {
                service.policy.on_remove = on_remove;
                service.servers.remove(0);
            })
        });
        let sent = gateway.inbound(&Sent::tcp(from, WEB, ACK));
        assert!(!is_adopted(&gateway));
        assert_eq!(
            sent.iter().any(|seen| seen.to_mac == server_mac(1)),
            goes_on,
            "{on_remove:?}"
        );
    }
}

#[test]
fn a_client_stays_on_its_server_whatever_place_that_has_now() {
    let mut gateway = behind_many(Mode::Dr);
    publish(&mut gateway, |plan| {
        plan.edit(SLOTS, |service| {
            service.persistence = Some(Persistence::new(seconds(300)))
        })
    });
    adopt(&mut gateway);
    let first = connect(&mut gateway, client(1, 1));
    publish(&mut gateway, |plan| {
        plan.edit(SLOTS, |service| service.servers.insert(0, server(3, Mode::Dr)))
    });
    assert_eq!(connect(&mut gateway, client(1, 2)), first);
    assert!(!is_adopted(&gateway));
    assert_eq!(gateway.stats.templates.get(), 1, "it is still the same template");
}

#[test]
fn many_services_come_and_go() {
    let mut gateway = behind_many(Mode::Dr);
    for round in 0..6 {
        publish(&mut gateway, |plan| {
            for slot in 0..SLOTS {
                plan.services[slot] = None;
            }
            if round % 2 == 0 {
                // Each has a server of its own, all with the address of the first.
                let mut many = Plan::empty();
                for slot in 0..40 {
                    let own = crate::service::Server {
                        slot: 20 + slot,
                        ..server(1, Mode::Dr)
                    };
                    many.add(
                        SocketAddrV4::new(VIP, 1000 + slot as u16),
                        Protocol::Tcp,
                        vec![own],
                    );
                }
                plan.services[..40].clone_from_slice(&many.services);
            }
        });
        let syn = Sent::tcp(client(2, round), SocketAddrV4::new(VIP, 1039), SYN);
        let forwarded = gateway
            .inbound(&syn)
            .iter()
            .any(|seen| seen.to_mac == server_mac(1));
        assert_eq!(forwarded, round % 2 == 0);
        adopt(&mut gateway);
        // The one that has stayed goes on with its rotation.
        assert_eq!(connect(&mut gateway, client(1, round)), 1 + u32::from(round % 2));
    }
}
