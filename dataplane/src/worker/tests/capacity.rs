//! Full tables, and listings of full tables.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::time::seconds;
use crate::worker::{Event, Listing, Order};
use std::collections::HashMap;
use std::sync::Arc;

fn small(mode: Mode, connections: u32) -> Gateway {
    let mut plan = Plan::web(mode, 1);
    plan.sizes.connections = connections;
    Gateway::new(plan)
}

/// SCALE-05: a full table is a counted drop; what is in it is not affected; room makes it work again.
#[test]
fn a_full_table_refuses_and_recovers() {
    for mode in [Mode::Fullnat, Mode::Dr] {
        let mut gateway = small(mode, 1000);
        for n in 0..1000 {
            gateway.establish(client(1, 1024 + n), WEB);
        }
        for n in 0..50 {
            let (dropped, sent) =
                gateway.dropped_by(|gateway| gateway.inbound(&Sent::tcp(client(2, 1 + n), WEB, SYN)));
            assert_eq!((dropped, sent.len()), (Some((DropReason::TableFull, 1)), 0));
        }
        assert_eq!(gateway.events(), [Event::TableFull]);
        assert_eq!(
            gateway.ports_in_use(),
            if mode == Mode::Fullnat { 1000 } else { 0 }
        );
        for n in 0..1000 {
            gateway.forward(&Sent::tcp(client(1, 1024 + n), WEB, ACK));
        }
        for n in 0..10 {
            gateway.forward(&Sent::tcp(client(1, 1024 + n), WEB, RST));
        }
        gateway.pass(seconds(11));
        for n in 0..11 {
            let sent = gateway.inbound(&Sent::tcp(client(2, 1 + n), WEB, SYN));
            assert_eq!(sent.len(), usize::from(n < 10));
        }
        assert_eq!(gateway.stats.connections.get(), 1000);
    }
}

/// A SYN flood that never pauses: what has timed out makes room as fast as SYNs come.
#[test]
fn expiry_keeps_up_with_a_flood() {
    let mut plan = Plan::web(Mode::Dr, 1);
    plan.settings.timeouts.tcp = plan.settings.timeouts.tcp.map(|_| seconds(1));
    // Those of a second, of the wheel's slot, and of the turns between two looks at the timers.
    plan.sizes.connections = 32 * (100 + 8 + 64 + 20);
    let mut gateway = Gateway::new(plan);
    for burst in 0..1500u32 {
        for n in 0..32 {
            let number = burst * 32 + n;
            let from = client((number >> 14) as u8 + 1, 1024 + (number & 0x3fff) as u16);
            gateway.arrive(WAN, &Sent::tcp(from, WEB, SYN).frame(WAN_MAC));
        }
        gateway.turn();
        gateway.now = gateway.now.after(1);
    }
    assert_eq!(gateway.drops(DropReason::TableFull), 0);
}

/// SCALE-02: while connections come and go, a listing shows each at most once, and once what was there throughout.
#[test]
fn a_listing_under_traffic_shows_each_connection_once() {
    let mut gateway = small(Mode::Fullnat, 4000);
    for n in 0..2000 {
        gateway.forward(&Sent::tcp(client(1, 1024 + n), WEB, SYN));
    }
    // Every other one is to go while the listing is under way.
    let listing = Arc::new(Listing::new(50));
    gateway
        .mailbox
        .orders
        .push(Order::ListConnections(Arc::clone(&listing)))
        .unwrap();
    let mut shown: HashMap<_, u32> = HashMap::new();
    let mut n = 0;
    while !listing.is_complete() {
        let sent = gateway.inbound(&Sent::tcp(client(2, 1024 + n), WEB, SYN));
        assert_eq!(sent.len(), 1, "packets go on");
        for at in [2 * n, 2 * n + 1000].into_iter().filter(|at| *at < 2000) {
            // To TIME_WAIT, and away by reuse.
            gateway.inbound(&Sent::tcp(client(1, 1024 + at), WEB, FIN | ACK));
            gateway.inbound(&Sent::tcp(client(1, 1024 + at), WEB, SYN));
        }
        n += 1;
        // Control is slow: it takes half of what is there.
        for _ in 0..25 {
            if let Some(connection) = listing.entries.pop() {
                *shown.entry(connection.client).or_default() += 1;
            }
        }
        gateway.pass(1);
    }
    while let Some(connection) = listing.entries.pop() {
        *shown.entry(connection.client).or_default() += 1;
    }
    for at in (1..2000).step_by(2) {
        assert_eq!(shown.get(&client(1, 1024 + at).into()), Some(&1), "{at}");
    }
    assert!(gateway.mailbox.spent.pop().is_some());
}

/// An abandoned listing ends when the next begins, and both come back to be freed by control.
#[test]
fn listings_come_back_even_when_they_are_replaced() {
    let mut gateway = small(Mode::Dr, 100);
    for n in 0..50 {
        gateway.forward(&Sent::tcp(client(1, 1024 + n), WEB, SYN));
    }
    let listings: Vec<_> = (0..10).map(|_| Arc::new(Listing::new(4))).collect();
    for listing in &listings {
        gateway
            .mailbox
            .orders
            .push(Order::ListConnections(Arc::clone(listing)))
            .unwrap();
        gateway.turn();
    }
    while !listings[9].is_complete() {
        gateway.turn();
        while listings[9].entries.pop().is_some() {}
    }
    while gateway.mailbox.spent.pop().is_some() {}
    assert!(listings.iter().all(|listing| Arc::strong_count(listing) == 1));
}
