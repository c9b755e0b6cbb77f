//! Local ports: by group, by local address, and by local address and server where ports are used.

use super::about::*;
use super::family::{Sample, Text};
use crate::view::{LocalAddress, LocalPool, LocalServer};

/// The most pairs of local address and server that a scrape tells of: the fullest ones. With 10,000 servers and some
/// local addresses there would be more series of these than of everything else.
const MOST_PAIRS: usize = 1000;

/// All of it. Counters of an address stay when its group changes.
pub(super) fn ports(text: &mut Text, pools: &[LocalPool]) {
    text.family(
        &LOCAL_USED,
        pools.iter().map(|pool| Sample([&pool.name], pool.used as f64)),
    );
    let free = pools.iter().filter_map(|pool| Some((pool, pool.free?)));
    text.family(
        &LOCAL_FREE,
        free.map(|(pool, free)| Sample([&pool.name], free as f64)),
    );
    let addresses = pools
        .iter()
        .flat_map(|pool| pool.addresses.iter().map(move |address| (pool, address)));
    let named: Vec<(&str, String, &LocalAddress)> = addresses
        .map(|(pool, address)| (pool.name.as_str(), address.address.to_string(), address))
        .collect();
    let mut count = |about: &About, count: fn(&LocalAddress) -> Option<u64>| {
        let samples = named.iter().filter_map(|(pool, address, used)| {
            let count = count(used)? as f64;
            Some(Sample([*pool, &**address], count))
        });
        text.family(about, samples);
    };
    count(&LOCAL_ADDRESS_USED, |address| Some(address.used));
    count(&LOCAL_ADDRESS_FREE, |address| address.free);
    count(&LOCAL_DRAINING, |address| Some(address.draining.into()));
    count(&LOCAL_TAKEN, |address| Some(address.taken));
    count(&LOCAL_BORROWED, |address| Some(address.borrowed));
    count(&LOCAL_RECYCLED, |address| Some(address.recycled));
    count(&LOCAL_EXHAUSTED, |address| Some(address.exhausted));
    count(&LOCAL_NO_MEMORY, |address| Some(address.out_of_memory));
    towards_servers(text, &named);
}

fn towards_servers(text: &mut Text, named: &[(&str, String, &LocalAddress)]) {
    let mut pairs: Vec<(&str, &str, &LocalServer)> = named
        .iter()
        .flat_map(|(pool, address, used)| {
            let servers = used.servers.iter();
            servers.map(move |server| (*pool, address.as_str(), server))
        })
        .collect();
    // Fewest ports left first; the rest is told by `show local-addresses --servers`.
    pairs.sort_by_key(|(_, _, server)| (server.free, std::cmp::Reverse(server.used)));
    pairs.truncate(MOST_PAIRS);
    let ends: Vec<(String, String)> = pairs
        .iter()
        .map(|(_, _, server)| (server.address.to_string(), server.port.to_string()))
        .collect();
    let mut count = |about: &About, count: fn(&LocalServer) -> u64| {
        let samples = pairs.iter().zip(&ends);
        let samples = samples.map(|((pool, address, server), (end, port))| {
            Sample(
                [*pool, *address, end, port, &server.protocol],
                count(server) as f64,
            )
        });
        text.family(about, samples);
    };
    count(&LOCAL_SERVER_USED, |server| server.used);
    count(&LOCAL_SERVER_FREE, |server| server.free);
    count(&LOCAL_SERVER_BORROWED, |server| server.borrowed);
    count(&LOCAL_SERVER_RECYCLED, |server| server.recycled);
    count(&LOCAL_SERVER_EXHAUSTED, |server| server.exhausted);
}
