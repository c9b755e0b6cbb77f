//! What routes cost: building the table of 10,000 routes, as each change of them does on the control side, and looking up
//! the next hop of a new connection.
//!
//! `cargo run --release -p dataplane --example route_bench`

use dataplane::neighbour::{Connected, Hops, Prefix, Route, RouteTable};
use dataplane::packet::PortId;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

const ROUTES: u32 = 10_000;
const LOOKUPS: u32 = 1_000_000;

/// Route `number` by gateway `host` of 203.0.113.0/24.
fn route(number: u32, host: u8) -> Route {
    let to = Ipv4Addr::from_bits(0xac10_0000 + (number << 8));
    Route {
        to: Prefix::around(to.into(), 24),
        via: Ipv4Addr::new(203, 0, 113, host).into(),
        port: None,
        weight: 1,
    }
}

fn main() {
    let connected = [Connected {
        port: PortId(0),
        prefix: Prefix::around(Ipv4Addr::new(203, 0, 113, 2).into(), 24),
    }];
    for gateways in [1, 2, 4] {
        let routes: Vec<Route> = (0..ROUTES)
            .flat_map(|number| (0..gateways).map(move |gateway| route(number, 10 + gateway)))
            .collect();
        let begun = Instant::now();
        let Ok(table) = RouteTable::new(&connected, &routes, &[]) else {
            eprintln!("the routes contradict each other");
            return;
        };
        let built = begun.elapsed();
        let begun = Instant::now();
        for flow in 0..LOOKUPS {
            // Another prefix each time.
            let to = IpAddr::V4(Ipv4Addr::from_bits(
                0xac10_0000 + ((flow.wrapping_mul(7919) % ROUTES) << 8) + 1,
            ));
            let hop = match table.hops(to) {
                Some(Hops::Several(hops)) => hops.choose(u64::from(flow) << 20, |_| true),
                Some(Hops::One(hop)) => Some(hop),
                None => None,
            };
            black_box(hop);
        }
        let each = begun.elapsed() / LOOKUPS;
        println!(
            "{ROUTES} routes, {gateways} next hops each: built in {built:?}, {each:?} a lookup with its choice"
        );
    }
}
