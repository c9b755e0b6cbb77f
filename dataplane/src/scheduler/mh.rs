//! Maglev hashing of the client: a table in which every server has its own order of preference of the places, and
//! servers take turns in list order, each as often in a row as it has weight. So a server that leaves moves few
//! clients but its own. (Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016,
//! section 3.4; sizes, keys and turns are those of LVS.)
//!
//! A quiesced server keeps the places that it had by its last weight: without `mh-fallback` its clients are refused,
//! and nobody else moves.

use super::hash::folded;
use crate::service::Server;
use std::net::IpAddr;

/// Table sizes, all prime: LVS's own, then those that it can be built with.
const SIZES: [u32; 6] = [4093, 8191, 16_381, 32_749, 65_521, 131_071];
/// A server has at least so many places on average, else the next size is taken.
const PLACES: usize = 100;
/// The heaviest server takes fewer than 2 to the power of so many places in a row.
const TURN_BITS: u32 = 6;
/// Keys of the two hashes.
pub(super) const FIRST_KEY: u64 = 2_654_435_761;
pub(super) const SECOND_KEY: u64 = 2_654_446_892;

/// In which order servers take their turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// In that of the list, as in LVS: it depends on which server was added when.
    OfList,
    /// In that of their addresses and ports: the same in every gateway that has the same servers.
    ByAddress,
}

/// The position of a server for each place; nothing when no server has ever had weight.
pub(super) fn table(servers: &[Server], order: Order) -> Box<[u32]> {
    let step = servers
        .iter()
        .fold(0, |step, server| gcd(server.table_weight, step));
    if step == 0 {
        return Box::default();
    }
    let size = size_for(servers.len());
    let heaviest = servers.iter().map(|server| server.table_weight / step).max();
    let shift = (u32::BITS - heaviest.unwrap_or(1).leading_zeros()).saturating_sub(TURN_BITS);
    let mut preferences: Vec<Preference> = servers
        .iter()
        .zip(0u32..)
        .filter(|(server, _)| server.table_weight > 0)
        .map(|(server, position)| {
            Preference::new(server, position, (server.table_weight / step) >> shift, size)
        })
        .collect();
    if order == Order::ByAddress {
        let end = |preference: &Preference| {
            let server = &servers[preference.position as usize];
            (server.address, server.port)
        };
        preferences.sort_unstable_by_key(end);
    }
    const FREE: u32 = u32::MAX;
    let mut table = vec![FREE; size as usize].into_boxed_slice();
    let mut left = size;
    loop {
        for server in &mut preferences {
            for _ in 0..server.turns {
                while table[server.next as usize] != FREE {
                    server.advance(size);
                }
                table[server.next as usize] = server.position;
                server.advance(size);
                left -= 1;
                if left == 0 {
                    return table;
                }
            }
        }
    }
}

/// The place of a client in a table of `slots` entries.
pub(super) fn place(source: IpAddr, port: u16, offset: u32, slots: usize) -> usize {
    hash(source, port, offset, FIRST_KEY) as usize % slots
}

/// Where a client stands among all, 0 to 99, whatever its place is: with a growing share of all clients, more and more
/// of them stand below it.
pub(super) fn percentile(source: IpAddr, port: u16) -> u8 {
    (hash(source, port, 0, SECOND_KEY) % 100) as u8
}

/// A server while the table is filled: where it wants to go next, and by which step from there.
struct Preference {
    position: u32,
    next: u32,
    step: u32,
    /// Places that it takes in a row.
    turns: u32,
}

impl Preference {
    fn new(server: &Server, position: u32, turns: u32, size: u32) -> Preference {
        let hash = |key| hash(server.address, server.port, 0, key);
        Preference {
            position,
            next: hash(FIRST_KEY) % size,
            step: hash(SECOND_KEY) % (size - 1) + 1,
            turns: turns.max(1),
        }
    }

    fn advance(&mut self, size: u32) {
        self.next = (self.next + self.step) % size;
    }
}

fn size_for(servers: usize) -> u32 {
    let enough = |size: &u32| *size as usize >= servers * PLACES;
    let largest = SIZES[SIZES.len() - 1];
    SIZES.into_iter().find(enough).unwrap_or(largest)
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

pub(super) fn hash(address: IpAddr, port: u16, offset: u32, key: u64) -> u32 {
    let value = folded(address).wrapping_add(u32::from(port)).wrapping_add(offset);
    sip13(value, key)
}

/// SipHash-1-3 (Aumasson and Bernstein, 2012) of four little-endian bytes under a key of twice `key`, its low half.
fn sip13(value: u32, key: u64) -> u32 {
    let mut v = [
        key ^ 0x736f_6d65_7073_6575,
        key ^ 0x646f_7261_6e64_6f6d,
        key ^ 0x6c79_6765_6e65_7261,
        key ^ 0x7465_6462_7974_6573,
    ];
    // The last word holds the number of bytes on top of the bytes themselves.
    let word = 4 << 56 | u64::from(value);
    v[3] ^= word;
    sip_round(&mut v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for _ in 0..3 {
        sip_round(&mut v);
    }
    (v[0] ^ v[1] ^ v[2] ^ v[3]) as u32
}

fn sip_round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests;
