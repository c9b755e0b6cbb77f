//! Limits of services and clients, and the room of half-open connections.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::service::{Limits, NoServer};
use crate::time::seconds;
use std::net::SocketAddrV4;

const NONE: Limits = Limits {
    connections: 0,
    rate: 0,
    client_connections: 0,
    client_rate: 0,
};

fn limited(limits: Limits) -> Gateway {
    let mut plan = Plan::web(Mode::Nat, 2);
    plan.edit(0, |service| service.policy.limits = limits);
    Gateway::new(plan)
}

fn syn(from: SocketAddrV4) -> Sent {
    Sent::tcp(from, WEB, SYN)
}

/// Whether the SYN was forwarded, or why not.
fn opens(gateway: &mut Gateway, from: SocketAddrV4) -> Result<(), DropReason> {
    let (dropped, _) = gateway.dropped_by(|gateway| gateway.inbound(&syn(from)));
    dropped.map_or(Ok(()), |(reason, _)| Err(reason))
}

/// SCALE-05: the one after the last is refused and counted, what exists goes on, and one that ends makes room.
#[test]
fn a_service_takes_so_many_connections() {
    let mut gateway = limited(Limits {
        connections: 1000,
        ..NONE
    });
    let from = |n: u16| client(1, 1024 + n);
    for n in 0..1000 {
        assert_eq!(opens(&mut gateway, from(n)), Ok(()));
    }
    let (dropped, told) = gateway.dropped_by(|gateway| gateway.inbound(&syn(from(1000))));
    assert_eq!(dropped, Some((DropReason::ServiceLimit, 1)));
    assert_eq!((one(told).icmp.0, gateway.stats.connections.get()), (3, 1000));
    gateway.forward(&Sent::tcp(from(0), WEB, ACK));
    gateway.change(|plan| plan.settings.no_server = NoServer::Reset);
    assert_eq!(
        one(gateway.inbound(&syn(from(1000)))).flags,
        RST | ACK,
        "told as `no_server` says"
    );
    for n in 0..10 {
        gateway.forward(&Sent::tcp(from(n), WEB, ACK));
        gateway.forward(&Sent::tcp(from(n), WEB, RST));
    }
    gateway.pass(seconds(11));
    for n in 1000..1010 {
        assert_eq!(opens(&mut gateway, from(n)), Ok(()));
    }
    assert_eq!(opens(&mut gateway, from(1010)), Err(DropReason::ServiceLimit));
    // An edited limit counts at once.
    gateway.change(|plan| plan.edit(0, |service| service.policy.limits.connections = 1001));
    assert_eq!(opens(&mut gateway, from(1010)), Ok(()));
    assert_eq!(opens(&mut gateway, from(1011)), Err(DropReason::ServiceLimit));
}

#[test]
fn one_client_cannot_take_what_is_for_all() {
    let mut gateway = limited(Limits {
        client_connections: 3,
        ..NONE
    });
    for number in 1..=5 {
        for port in 0..3 {
            assert_eq!(opens(&mut gateway, client(number, 40000 + port)), Ok(()));
        }
        assert_eq!(
            opens(&mut gateway, client(number, 50000)),
            Err(DropReason::ClientLimit)
        );
    }
    let over = client(3, 40000);
    gateway.forward(&Sent::tcp(over, WEB, ACK));
    gateway.forward(&Sent::tcp(over, WEB, RST));
    gateway.pass(seconds(11));
    assert_eq!(opens(&mut gateway, client(3, 50000)), Ok(()));
    assert_eq!(
        opens(&mut gateway, client(3, 50001)),
        Err(DropReason::ClientLimit)
    );
    assert_eq!(
        opens(&mut gateway, client(2, 50001)),
        Err(DropReason::ClientLimit)
    );
}

#[test]
fn new_connections_come_no_faster_than_allowed() {
    let mut gateway = limited(Limits {
        rate: 10,
        client_rate: 4,
        ..NONE
    });
    // All clients in the same second.
    gateway.now = crate::time::Tick(seconds(50));
    let count = |gateway: &mut Gateway, number: u8, round: u16| {
        let opened = (0..6).filter(|n| opens(gateway, client(number, 40000 + 10 * round + n)).is_ok());
        opened.count()
    };
    assert_eq!([1, 2, 3].map(|number| count(&mut gateway, number, 0)), [4, 4, 2]);
    assert_eq!(
        (
            gateway.drops(DropReason::ClientRate),
            gateway.drops(DropReason::ServiceRate)
        ),
        (6, 2),
        "what the service refuses counts for its client"
    );
    gateway.pass(seconds(1));
    assert_eq!([1, 2, 3].map(|number| count(&mut gateway, number, 1)), [4, 4, 2]);
    assert_eq!(gateway.stats.made.get(), 0, "a flood is not answered");
}

/// UDP and one-packet services have rates too.
#[test]
fn datagrams_that_open_connections_count() {
    let mut plan = Plan::dns(Mode::Nat, 1);
    plan.edit(0, |service| {
        service.policy.limits.rate = 2;
        service.one_packet = true;
    });
    let mut gateway = Gateway::new(plan);
    let sent: usize = (0..5)
        .map(|_| gateway.inbound(&Sent::udp(client(1, 5353), DNS, b"x")).len())
        .sum();
    assert_eq!((sent, gateway.drops(DropReason::ServiceRate)), (2, 3));
}

/// A flood of SYNs finds its room used up; what is established stays, and others may still become so.
#[test]
fn half_open_connections_have_a_room_of_their_own() {
    let mut plan = Plan::web(Mode::Nat, 2);
    plan.sizes.connections = 100;
    plan.settings.embryonic_limit = 20;
    let mut gateway = Gateway::new(plan);
    let good = |n: u16| client(1, 40000 + n);
    for n in 0..50 {
        gateway.establish(good(n), WEB);
    }
    let flood = |gateway: &mut Gateway| {
        (0..200)
            .filter(|n| opens(gateway, client(2, 1024 + n)).is_ok())
            .count()
    };
    assert_eq!(flood(&mut gateway), 20);
    assert_eq!(gateway.drops(DropReason::EmbryonicLimit), 180);
    assert_eq!(opens(&mut gateway, good(50)), Err(DropReason::EmbryonicLimit));
    for n in 0..50 {
        gateway.forward(&Sent::tcp(good(n), WEB, ACK).at(1001, 5001));
    }
    // Those of the flood that never go on end after a minute.
    gateway.pass(seconds(61));
    for n in 50..70 {
        gateway.establish(good(n), WEB);
    }
    assert_eq!(gateway.stats.connections.get(), 70);
}

/// `secure_tcp`: only the server's word establishes a connection; 1 and 2 when the table is nearly full.
#[test]
fn secure_rules_hold_when_they_should() {
    for (secure_tcp, filled, secure) in [
        (0, 95, false),
        (1, 50, false),
        (1, 95, true),
        (2, 95, true),
        (3, 0, true),
    ] {
        let mut plan = Plan::web(Mode::Nat, 1);
        plan.sizes.connections = 100;
        plan.settings.secure_tcp = secure_tcp;
        let mut gateway = Gateway::new(plan);
        for n in 0..filled {
            gateway.forward(&syn(client(2, 1024 + n)));
        }
        gateway.pass(1);
        let from = client(1, 40000);
        gateway.forward(&syn(from));
        gateway.forward(&Sent::tcp(from, WEB, ACK));
        let connections = gateway.connections();
        let own = connections.iter().find(|one| one.client == from.into()).unwrap();
        let expected = if secure { "SYN_RECV" } else { "ESTABLISHED" };
        assert_eq!(own.state, expected, "secure_tcp {secure_tcp}, {filled} of 100");
    }
}
