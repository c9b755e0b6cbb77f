//! Maglev tables: shares, moves, and what the field has met.

use super::super::SchedulerKind::Mh;
use super::super::testing::*;
use super::super::{Arrival, SchedulerFlags};
use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn in_list(servers: &[Server]) -> Box<[u32]> {
    table(servers, Order::OfList)
}

fn client(number: u32) -> Arrival {
    Arrival {
        source: IpAddr::V4((0x0a00_0000 + number * 7919).into()),
        source_port: 1024 + (number % 60_000) as u16,
        ..Arrival::default()
    }
}

fn mapping(flags: SchedulerFlags, servers: Vec<Server>, clients: u32) -> Vec<Option<u32>> {
    let mut rig = Rig::with_flags(Mh, flags, servers);
    (0..clients).map(|number| rig.pick_for(&client(number))).collect()
}

fn shares(table: &[u32]) -> HashMap<u32, usize> {
    table.iter().fold(HashMap::new(), |mut shares, position| {
        *shares.entry(*position).or_default() += 1;
        shares
    })
}

/// The values are those of another implementation of SipHash-1-3, which replays what LVS was seen to do.
#[test]
fn the_hash_is_siphash_1_3() {
    for (value, key, hash) in [
        (0x0000_0000, FIRST_KEY, 0x1d5a_77c2),
        (0x0a00_0001, FIRST_KEY, 0x0308_0ce4),
        (0xffff_ffff, SECOND_KEY, 0xf75a_0f5d),
    ] {
        assert_eq!(sip13(value, key), hash);
    }
}

#[test]
fn the_table_takes_lvs_sizes() {
    assert_eq!(in_list(&[server(1, 1)]).len(), 4093);
    let many: Vec<_> = (0..41).map(|slot| server(slot, 1)).collect();
    assert_eq!(in_list(&many[..40]).len(), 4093);
    assert_eq!(in_list(&many).len(), 8191);
    assert_eq!(size_for(100_000), 131_071);
    assert!(in_list(&[]).is_empty() && in_list(&[server(1, 0)]).is_empty());
}

#[test]
fn places_follow_the_weights() {
    let even = shares(&in_list(&[
        server(1, 100),
        server(2, 300),
        server(3, 0),
        server(4, 600),
    ]));
    assert!(
        even[&0].abs_diff(409) <= 4 && even[&1].abs_diff(1228) <= 4,
        "{even:?}"
    );
    assert_eq!(even.get(&2), None);
    // Weights beyond all turns: the light one still takes a turn.
    let extreme = shares(&in_list(&[server(1, 1), server(2, i32::MAX as u32)]));
    assert!(extreme[&0] > 50 && extreme[&0] < 150, "{extreme:?}");
}

/// SCH-01: with weight 0 and without the flag the split is constant and those clients are refused; with it they go
/// to the other server, and nobody else moves.
#[test]
fn sch_01_a_quiesced_server_keeps_its_places() {
    let quiesced = || Server {
        weight: 0,
        ..server(2, 100)
    };
    let before = mapping(SchedulerFlags::PORT, vec![server(2, 100), server(1, 100)], 100);
    let refusing = mapping(SchedulerFlags::PORT, vec![quiesced(), server(1, 100)], 100);
    let both = SchedulerFlags::PORT.with(SchedulerFlags::FALLBACK);
    let falling_back = mapping(both, vec![quiesced(), server(1, 100)], 100);
    assert!(before.iter().filter(|picked| **picked == Some(2)).count() > 20);
    for (before, refusing) in before.iter().zip(&refusing) {
        assert_eq!(*refusing, before.filter(|slot| *slot == 1));
    }
    assert_eq!(falling_back, [Some(1); 100]);
}

/// SCH-05: servers differ by their ports alone, or by addresses that fold to the same 32 bits.
#[test]
fn sch_05_the_whole_address_and_the_port_count() {
    let servers: Vec<_> = (0..4)
        .map(|slot| Server {
            address: "203.0.113.11".parse().unwrap(),
            port: 6001 + slot as u16,
            ..server(slot, 1)
        })
        .collect();
    let picked = mapping(SchedulerFlags::NONE, servers, 4000);
    for slot in 0..4 {
        let share = picked.iter().filter(|picked| **picked == Some(slot)).count();
        assert!((600..=1400).contains(&share), "server {slot}: {share} of 4000");
    }
    let twins: Vec<_> = ["2001:db8:a::1", "2001:db8:0:0:a::1"]
        .iter()
        .zip(1..)
        .map(|(address, slot)| Server {
            address: address.parse().unwrap(),
            ..server(slot, 1)
        })
        .collect();
    assert_eq!(folded(twins[0].address), folded(twins[1].address));
    let picked = mapping(SchedulerFlags::NONE, twins, 4000);
    for slot in [1, 2] {
        assert!(
            picked.iter().filter(|picked| **picked == Some(slot)).count() > 1200,
            "server {slot}"
        );
    }
}

/// One of 100 servers leaves: its clients move, and few others.
#[test]
fn a_server_that_leaves_moves_few_others() {
    let servers: Vec<_> = (0..100).map(|slot| server(slot, 1)).collect();
    let before = mapping(SchedulerFlags::NONE, servers.clone(), 20_000);
    let without: Vec<_> = servers.into_iter().filter(|server| server.slot != 42).collect();
    let after = mapping(SchedulerFlags::NONE, without, 20_000);
    let others = before
        .iter()
        .zip(&after)
        .filter(|(before, _)| **before != Some(42));
    let moved = others.filter(|(before, after)| before != after).count();
    assert!(moved < 20_000 * 3 / 100, "{moved} of 20,000");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    #[test]
    fn every_place_is_taken_by_a_server_with_weight(weights in proptest::collection::vec(0u32..200, 1..50)) {
        let servers: Vec<_> = weights.iter().zip(0..).map(|(weight, slot)| server(slot, *weight)).collect();
        let table = in_list(&servers);
        prop_assert_eq!(table.is_empty(), weights.iter().all(|weight| *weight == 0));
        prop_assert!(table.iter().all(|position| weights[*position as usize] > 0));
    }
}

/// With a bound, every gateway that has the same servers sends a client to the same one, whatever the order in which
/// they were added.
#[test]
fn a_bounded_table_does_not_depend_on_the_order_of_the_list() {
    let servers: Vec<Server> = (1..=7).map(|number| server(number, number % 3 + 1)).collect();
    let slots = |servers: &[Server], order| -> Vec<u32> {
        let table = table(servers, order);
        table.iter().map(|&at| servers[at as usize].slot).collect()
    };
    let backwards: Vec<Server> = servers.iter().rev().cloned().collect();
    assert_eq!(
        slots(&servers, Order::ByAddress),
        slots(&backwards, Order::ByAddress)
    );
    assert_ne!(slots(&servers, Order::OfList), slots(&backwards, Order::OfList));
}

/// No server gets more than its share times the bound, and clients stay where they are while it has room.
#[test]
fn a_bound_holds_however_uneven_clients_are() {
    let mut rig = Rig::new(Mh, (1..=4).map(|number| server(number, 1)).collect());
    let mut bounded = rig.service.clone();
    bounded.policy.bound = 125;
    bounded.prepare(1);
    rig.service = bounded;
    let from = |address: u32, port| Arrival {
        source: std::net::Ipv4Addr::from_bits(address).into(),
        source_port: port,
        ..Arrival::default()
    };
    // One client opens everything: alone it would all go to one server.
    for opened in 1..=400u32 {
        assert!(rig.open_for(&from(0xc633_6401, opened as u16)).is_some());
        for slot in 1..=4 {
            let most = (opened * 125).div_ceil(400);
            assert!(rig.load_of(slot) <= most, "{} of {opened}", rig.load_of(slot));
        }
    }
    // With room everywhere a client has its one server.
    let mut rig = Rig::new(Mh, rig.service.servers.clone());
    let mut bounded = rig.service.clone();
    bounded.policy.bound = 10_000;
    bounded.prepare(1);
    rig.service = bounded;
    let first = rig.pick_for(&from(0xc633_6401, 1));
    for slot in 1..=4 {
        rig.set_load(slot, 10, 10);
    }
    assert_eq!(rig.pick_for(&from(0xc633_6401, 2)), first);
    // One that is overloaded, or quiesced, is passed over.
    rig.overload(first.unwrap(), true);
    assert!(
        rig.pick_for(&from(0xc633_6401, 3))
            .is_some_and(|other| Some(other) != first)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    /// With a bound, gateways that have the same servers and loads pick the same one, in whichever order they came to
    /// know the servers.
    #[test]
    fn bounded_picks_do_not_depend_on_the_order_of_the_list(
        weights in proptest::collection::vec(0u32..5, 1..12), order in any::<[u32; 12]>(),
        loads in any::<[u8; 12]>(), flags in 0u8..4,
    ) {
        let servers: Vec<Server> = weights.iter().zip(0..).map(|(weight, slot)| server(slot, *weight)).collect();
        let mut shuffled = servers.clone();
        shuffled.sort_by_key(|server| order[server.slot as usize]);
        let mut rigs = [servers, shuffled].map(|servers| {
            let mut rig = Rig::with_flags(Mh, SchedulerFlags::from_bits(flags), servers);
            rig.service.policy.bound = 125;
            // Its tables are those of another policy.
            rig.edit(|_| {});
            for (slot, load) in (0..).zip(loads).take(weights.len()) {
                rig.set_load(slot, load.into(), 0);
            }
            rig
        });
        for number in 0..200 {
            let [first, second] = rigs.each_mut().map(|rig| rig.open_for(&client(number)));
            prop_assert_eq!(first, second, "client {}", number);
            prop_assert_eq!(first.is_some(), weights.iter().any(|weight| *weight > 0));
        }
    }
}
