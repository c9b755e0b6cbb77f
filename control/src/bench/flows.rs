//! The flows of a measurement: clients at random, in an order that is drawn before the clock runs. It knows what a
//! datagram of a flow looks like, and nothing of who forwards it.

use super::request::{Request, Shape};
use super::zipf::Zipf;
use dataplane::packet::checksum;
use dataplane::worker::BURST;
use std::sync::Arc;

/// Draws of a random order; more than any cache holds, and read front to back.
pub(super) const DRAWS: usize = 1 << 21;
/// Bits of a flow's number that make its client's address and port.
const PORT_BITS: u32 = 14;
const BITS: u32 = 24 + PORT_BITS;

/// What differs between the datagrams of two flows, as on the wire.
#[derive(Clone, Copy)]
pub(super) struct Flow {
    /// The client's address; of an IPv6 address, its last four bytes.
    pub(super) address: [u8; 4],
    /// The client's port.
    pub(super) port: [u8; 2],
    /// The checksum of the IPv4 header.
    pub(super) header_sum: [u8; 2],
    /// The checksum of the datagram.
    pub(super) datagram_sum: [u8; 2],
}

/// How often each flow is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Each as often as any other.
    Uniform,
    /// The flow of rank n as often as 1/n says: Zipf's law with exponent 1.
    Zipf,
}

/// The client of a flow: address (11.0.0.0/8) and port. Different numbers below 2^38 have different clients, and
/// neighbouring numbers have nothing in common.
pub(super) fn client(number: u64) -> ([u8; 4], [u8; 2]) {
    let mask = (1u64 << BITS) - 1;
    // Odd factors and a shift of half the width are permutations of the 38 bits.
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
    let mixed = (mixed ^ (mixed >> (BITS / 2))).wrapping_mul(0xbf58_476d_1ce4_e5b9) & mask;
    let mixed = mixed ^ (mixed >> (BITS / 2));
    let address = 11 << 24 | (mixed >> PORT_BITS) as u32;
    let port = 1024 + (mixed as u16 & ((1 << PORT_BITS) - 1));
    (address.to_be_bytes(), port.to_be_bytes())
}

impl Flow {
    /// The flow of that number, whose datagrams are as `request` has them.
    pub(super) fn of(number: u64, request: &Request) -> Flow {
        let (address, port) = client(number);
        let [header_sum, datagram_sum] = [request.header_sum(), request.datagram_sum()].map(|sum| {
            let [a, b, c, d] = address.map(u16::from);
            checksum::add(checksum::add(sum, a << 8 | b), c << 8 | d)
        });
        let datagram_sum = checksum::add(datagram_sum, u16::from_be_bytes(port));
        Flow {
            address,
            port,
            header_sum: (!header_sum).to_be_bytes(),
            // RFC 768: a sum of 0 is sent as all ones.
            datagram_sum: if datagram_sum == 0xffff {
                0xffff
            } else {
                !datagram_sum
            }
            .to_be_bytes(),
        }
    }
}

/// Every flow once; the first ones once more where that fills a burst.
pub(super) fn each(flows: u32, shape: Shape) -> Arc<[Flow]> {
    let request = Request::new(shape);
    let whole = flows.next_multiple_of(BURST as u32);
    (0..whole)
        .map(|number| Flow::of(u64::from(number % flows), &request))
        .collect()
}

/// Random numbers, the same in every run.
#[derive(Clone, Debug)]
pub(super) struct Draws(u64);

impl Draws {
    /// From the start.
    pub(super) fn new() -> Draws {
        Draws(0x7469_6465_6761_7465)
    }

    /// 32 random bits.
    #[inline]
    pub(super) fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    /// A number below `count`, which is below 2^32.
    #[inline]
    pub(super) fn below(&mut self, count: usize) -> usize {
        ((u64::from(self.next()) * count as u64) >> 32) as usize
    }
}

/// Flows drawn at random.
pub(super) fn random(flows: u32, distribution: Distribution, shape: Shape) -> Arc<[Flow]> {
    let all = each(flows, shape);
    let mut lot = Lot::new(flows, distribution);
    (0..DRAWS).map(|_| all[lot.draw()]).collect()
}

/// Draws one of so many flows.
pub(super) struct Lot {
    draws: Draws,
    flows: u32,
    /// Where they are not alike.
    zipf: Option<Zipf>,
}

impl Lot {
    /// One of `flows`, at least 1.
    pub(super) fn new(flows: u32, distribution: Distribution) -> Lot {
        Lot {
            draws: Draws::new(),
            flows,
            zipf: (distribution == Distribution::Zipf).then(|| Zipf::new(flows)),
        }
    }

    /// The place of the next one.
    pub(super) fn draw(&mut self) -> usize {
        match &self.zipf {
            None => self.draws.below(self.flows as usize),
            Some(zipf) => place(zipf.draw(&mut self.draws), self.flows),
        }
    }

    /// A number below `count` that has nothing to do with the flows.
    pub(super) fn below(&mut self, count: usize) -> usize {
        self.draws.below(count)
    }
}

/// The flow of a rank, which begins with 1: those that are drawn most are not those that came first, whose records lie
/// side by side.
fn place(rank: u32, flows: u32) -> usize {
    // A prime above all numbers of flows, so that each rank has a flow of its own.
    const STEP: u64 = (1 << 31) - 1;
    (u64::from(rank) * STEP % u64::from(flows)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn clients_are_all_different() {
        let clients: HashSet<_> = (0..100_000).map(client).collect();
        assert_eq!(clients.len(), 100_000);
    }

    #[test]
    fn each_rank_has_a_flow_of_its_own() {
        for flows in [1, 2, 1000, 65_536] {
            let places: HashSet<_> = (1..=flows).map(|rank| place(rank, flows)).collect();
            assert_eq!(places.len(), flows as usize);
        }
    }

    /// A hundred flows of a thousand have ln(100) / ln(1000) of all packets, or nearly so.
    #[test]
    fn few_flows_have_most_packets_where_zipf_says_so() {
        let share = |distribution| {
            let mut packets = std::collections::HashMap::new();
            for flow in random(1000, distribution, Shape::default()).iter() {
                *packets.entry((flow.address, flow.port)).or_insert(0u32) += 1;
            }
            let mut counts: Vec<u32> = packets.into_values().collect();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            f64::from(counts[..100].iter().sum::<u32>()) / DRAWS as f64
        };
        let (uniform, zipf) = (share(Distribution::Uniform), share(Distribution::Zipf));
        assert!((0.1..0.11).contains(&uniform), "{uniform}");
        assert!((0.68..0.71).contains(&zipf), "{zipf}");
    }
}
