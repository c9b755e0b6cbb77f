//! Many services, and counters beyond 32 bits.

use super::frames::*;
use super::gateway::*;
use super::plan::*;
use crate::flow::Mode;
use crate::service::LOOKUPS;
use crate::service::{Protocol, Server};
use crate::time::seconds;
use std::net::SocketAddrV4;

/// How many services each turn of a small scene looks at, in a gateway that has so many.
fn lookups(services: u32) -> Vec<u64> {
    let mut plan = Plan::empty();
    (plan.sizes.services, plan.sizes.servers) = (services + 1, services + 1);
    let at = |number: u32| {
        let vip = [203, 0, 113, 100 + (number / 10_000) as u8];
        SocketAddrV4::new(vip.into(), 2000 + (number % 10_000) as u16)
    };
    for number in 0..services {
        let server = Server {
            slot: number + 1,
            ..server(1, Mode::Nat)
        };
        plan.add(at(number), Protocol::Tcp, vec![server]);
    }
    let mut gateway = Gateway::new(plan);
    let mut counts = Vec::new();
    let mut counted = |gateway: &mut Gateway, act: &mut dyn FnMut(&mut Gateway)| {
        let before = LOOKUPS.get();
        act(gateway);
        counts.push(LOOKUPS.get() - before);
    };
    let (from, last) = (client(1, 40_000), at(services - 1));
    counted(&mut gateway, &mut |gateway| {
        gateway.establish(from, last);
    });
    for n in 0..100 {
        counted(&mut gateway, &mut |gateway| {
            gateway.forward(&Sent::tcp(from, last, ACK).at(1001, 5001).data(&[n]));
        });
        // Idle turns too, and timers, at which all housekeeping is done.
        counted(&mut gateway, &mut |gateway| drop(gateway.pass(seconds(5))));
    }
    counted(&mut gateway, &mut |gateway| {
        gateway.finish(from, last);
        gateway.pass(seconds(300));
    });
    assert_eq!(gateway.stats.connections.get(), 0);
    counts
}

/// SCALE-01: nothing that a worker does for packets or between them goes through the services.
#[test]
fn scale_01_a_turn_looks_at_as_many_services_among_50_000_as_with_one() {
    let alone = lookups(1);
    assert!(alone[0] > 0 && alone.len() == 202, "the meter works");
    assert_eq!(lookups(50_000), alone);
}

/// STAT-01: packets and bytes are counted exactly where 32 bits end.
#[test]
fn stat_01_counters_go_on_beyond_32_bits() {
    const NEARLY: u64 = u32::MAX as u64 - 700;
    for mode in [Mode::Nat, Mode::Fullnat] {
        let mut gateway = Gateway::new(Plan::web(mode, 1));
        let from = client(1, 40_000);
        let local = gateway.establish(from, WEB);
        let stats = gateway.server(1);
        for counter in [
            &stats.inbound_packets,
            &stats.inbound_bytes,
            &stats.outbound_packets,
            &stats.outbound_bytes,
        ] {
            counter.set(NEARLY);
        }
        let seen = gateway.forward(&Sent::tcp(from, WEB, ACK).at(1001, 5001));
        for n in 1..1000 {
            let data = [0; 960];
            gateway.forward(&Sent::tcp(from, WEB, ACK).at(1001, 5001).data(&data));
            gateway.answer(&Sent::tcp(seen.to, local, ACK).at(5001, seen.sequence).data(&data));
            let stats = gateway.server(1);
            assert_eq!(
                [
                    stats.inbound_packets.get(),
                    stats.inbound_bytes.get(),
                    stats.outbound_packets.get(),
                    stats.outbound_bytes.get()
                ],
                [
                    NEARLY + n + 1,
                    NEARLY + 1000 * n + 40,
                    NEARLY + n,
                    NEARLY + 1000 * n
                ]
            );
        }
    }
}
