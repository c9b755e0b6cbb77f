//! What arrives at a worker's queues: of each flow a client's datagram and the server's answer, and in which order flows
//! come. It knows who owns a flow, and not how packets get from one worker to another.

use super::super::flows::{Distribution, Flow, Lot};
use super::super::reflect::turn_round;
use super::super::request::{FRAME, HEAD6, L4, Request, Shape};
use super::super::setup::{CLIENTS6, SIZES};
use dataplane::packet::{checksum, ipv4};
use dataplane::worker::shard::{ShardKey, ShardMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// What differs between the answers of two flows, as on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Reply {
    /// The server's address; of an IPv6 address, its last four bytes.
    source: [u8; 4],
    /// The same of where it goes: a local address, or the client.
    destination: [u8; 4],
    /// The port that it goes to.
    port: [u8; 2],
    /// The checksum of the IPv4 header.
    header_sum: [u8; 2],
    /// The checksum of the datagram.
    datagram_sum: [u8; 2],
}

/// A flow, in both directions.
#[derive(Clone, Copy)]
pub(super) struct Exchange {
    pub(super) flow: Flow,
    pub(super) reply: Reply,
}

/// What all answers have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answers {
    /// Of IPv4.
    V4([u8; FRAME]),
    /// Of IPv6.
    V6([u8; HEAD6]),
}

impl Answers {
    /// Writes the flow's answer. What is behind the head stays as it is: zeros.
    #[inline]
    pub(super) fn write(&self, reply: &Reply, frame: &mut [u8]) {
        match self {
            Answers::V4(head) => {
                if let Some(frame) = frame.first_chunk_mut::<FRAME>() {
                    *frame = *head;
                    frame[24..26].copy_from_slice(&reply.header_sum);
                    frame[26..30].copy_from_slice(&reply.source);
                    frame[30..34].copy_from_slice(&reply.destination);
                    frame[36..38].copy_from_slice(&reply.port);
                    frame[40..42].copy_from_slice(&reply.datagram_sum);
                }
            }
            Answers::V6(head) => {
                if let Some(frame) = frame.first_chunk_mut::<HEAD6>() {
                    *frame = *head;
                    frame[34..38].copy_from_slice(&reply.source);
                    frame[50..54].copy_from_slice(&reply.destination);
                    frame[56..58].copy_from_slice(&reply.port);
                    frame[60..62].copy_from_slice(&reply.datagram_sum);
                }
            }
        }
    }

    /// The answer of an ideal server to a datagram that the gateway has forwarded, whose ports stand at `l4`: what it has in
    /// common with others, and what is its own. None when the frame is too short.
    fn to(forwarded: &mut [u8], l4: usize) -> Option<(Answers, Reply)> {
        turn_round(forwarded, l4);
        if l4 == V4 {
            // The server gives its own, and without fragments any will do (RFC 6864).
            ipv4::set_identification(forwarded.get_mut(IP..)?, 0);
        }
        let field = |at: usize| forwarded.get(at..at + 4)?.try_into().ok();
        let sum = |at: usize| forwarded.get(at..at + 2)?.try_into().ok();
        let (header, [source, destination]) = match l4 {
            V4 => (sum(24)?, [field(26)?, field(30)?]),
            _ => ([0; 2], [field(34)?, field(50)?]),
        };
        let reply = Reply {
            source,
            destination,
            port: sum(l4 + 2)?,
            header_sum: header,
            datagram_sum: sum(l4 + 6)?,
        };
        let answers = match l4 {
            V4 => Answers::V4(*forwarded.first_chunk()?),
            _ => Answers::V6(*forwarded.first_chunk()?),
        };
        Some((answers.of_nobody(), reply))
    }

    /// Without what is one flow's own.
    fn of_nobody(mut self) -> Answers {
        let before = self.clone();
        if let Answers::V4(head) = &mut self {
            before.write(&Reply::default(), head);
        }
        if let Answers::V6(head) = &mut self {
            before.write(&Reply::default(), head);
        }
        self
    }
}

const V4: usize = L4[0];
/// Where an IP header begins.
const IP: usize = 14;

/// Writes a flow's first datagram, with its number where the payload begins: so that it is known again behind the gateway.
pub(super) fn write_marked(request: &Request, flow: &Flow, number: u32, frame: &mut [u8]) {
    request.write(flow, frame);
    mark(frame, request.l4(), number, false);
}

/// The number of the flow whose first datagram this was, and the answer to it; the number is gone from that.
pub(super) fn learn(forwarded: &mut [u8], l4: usize) -> Option<(u32, Answers, Reply)> {
    let number = u32::from_be_bytes(forwarded.get(l4 + 8..l4 + 12)?.try_into().ok()?);
    mark(forwarded, l4, number, true);
    let (answers, reply) = Answers::to(forwarded, l4)?;
    Some((number, answers, reply))
}

/// Puts a number into the first four bytes of a payload of zeros, or takes it `out`, and keeps the checksum right.
fn mark(frame: &mut [u8], l4: usize, number: u32, out: bool) {
    let Some(datagram) = frame.get_mut(l4..l4 + 12) else {
        return;
    };
    let parts = [(number >> 16) as u16, number as u16];
    let sum = parts
        .iter()
        .fold(!u16::from_be_bytes([datagram[6], datagram[7]]), |sum, &part| {
            checksum::add(sum, if out { !part } else { part })
        });
    // RFC 768: a sum of 0 is sent as all ones.
    let sum = if sum == 0xffff { 0xffff } else { !sum };
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    datagram[8..12].copy_from_slice(&if out { [0; 4] } else { number.to_be_bytes() });
}

/// So many flows for each worker, all different, that it owns.
pub(super) fn by_owner(workers: u8, flows: u32, shape: Shape) -> Vec<Arc<[Flow]>> {
    let (key, map) = (ShardKey::from_seed(SIZES.seed), ShardMap::even(workers));
    let request = Request::new(shape);
    let mut owned = vec![Vec::with_capacity(flows as usize); workers.into()];
    let mut missing = usize::from(workers);
    for number in 0.. {
        let flow = Flow::of(number, &request);
        let shard = key.shard_of(client(&flow, shape), u16::from_be_bytes(flow.port));
        let owned = &mut owned[usize::from(map.owner(shard))];
        if owned.len() < flows as usize {
            owned.push(flow);
            missing -= usize::from(owned.len() == flows as usize);
        }
        if missing == 0 {
            break;
        }
    }
    owned.into_iter().map(Arc::from).collect()
}

/// The client's address.
fn client(flow: &Flow, shape: Shape) -> IpAddr {
    if shape.family.clients_have_v6() {
        Ipv6Addr::from_bits(CLIENTS6.to_bits() | u128::from(u32::from_be_bytes(flow.address))).into()
    } else {
        flow.address.into()
    }
}

/// What arrives at the queues of worker `at`, when `hops` of 100 packets belong to another worker: each other one as often
/// as any. Flows of one worker are drawn as `distribution` says, `draws` times.
pub(super) fn order(
    owned: &[Arc<[Exchange]>],
    at: usize,
    hops: u8,
    distribution: Distribution,
    draws: usize,
) -> Arc<[Exchange]> {
    let flows = owned.first().map_or(1, |flows| flows.len());
    let mut lot = Lot::new(flows as u32, distribution);
    // Else all workers draw the same numbers.
    for _ in 0..at {
        let _ = lot.below(2);
    }
    let mut next = || {
        let hops_over = owned.len() > 1 && lot.below(100) < usize::from(hops);
        let owner = match hops_over {
            true => (at + 1 + lot.below(owned.len() - 1)) % owned.len(),
            false => at,
        };
        owned[owner][lot.draw()]
    };
    (0..draws).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::request::Family;
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_worker_has_flows_of_its_own() {
        for family in [Family::V4, Family::V6] {
            let shape = Shape { family, size: 60 };
            let owned = by_owner(3, 500, shape);
            let clients: HashSet<_> = owned
                .iter()
                .flat_map(|flows| flows.iter().map(|flow| (flow.address, flow.port)))
                .collect();
            assert_eq!((owned.len(), clients.len()), (3, 1500));
            let (key, map) = (ShardKey::from_seed(SIZES.seed), ShardMap::even(3));
            for (worker, flows) in owned.iter().enumerate() {
                for flow in flows.iter() {
                    let shard = key.shard_of(client(flow, shape), u16::from_be_bytes(flow.port));
                    assert_eq!(usize::from(map.owner(shard)), worker);
                }
            }
        }
    }

    #[test]
    fn so_many_packets_belong_to_others_and_to_each_of_them_alike() {
        let flow = Flow::of(0, &Request::new(Shape::default()));
        let of = |worker: u8| -> Arc<[Exchange]> {
            let reply = Reply {
                source: [worker; 4],
                ..Reply::default()
            };
            vec![Exchange { flow, reply }; 32].into()
        };
        let owned = [of(0), of(1), of(2)];
        for hops in [0u8, 50, 100] {
            let order = order(&owned, 1, hops, Distribution::Uniform, 100_000);
            let share = |worker: u8| {
                let theirs = order.iter().filter(|one| one.reply.source[0] == worker);
                theirs.count() as f64 / 1000.0
            };
            for (worker, expected) in [
                (0, f64::from(hops) / 2.0),
                (1, f64::from(100 - hops)),
                (2, f64::from(hops) / 2.0),
            ] {
                assert!(
                    (share(worker) - expected).abs() < 1.0,
                    "{hops} {worker}: {}",
                    share(worker)
                );
            }
        }
    }

    #[test]
    fn a_number_goes_in_and_out_without_a_trace() {
        let request = Request::new(Shape::default());
        for number in [0, 1, 0xffff, 0xffff_ffff, 0x1234_5678] {
            let (mut plain, mut marked) = ([0; FRAME], [0; FRAME]);
            let flow = Flow::of(77, &request);
            request.write(&flow, &mut plain);
            write_marked(&request, &flow, number, &mut marked);
            let sum = checksum::l4_sum(
                flow.address.into(),
                super::super::super::setup::VIP,
                17,
                &marked[34..],
            );
            assert_eq!(sum, 0xffff, "{number}");
            let (found, answers, reply) = learn(&mut marked, V4).unwrap();
            let mut answer = [0; FRAME];
            answers.write(&reply, &mut answer);
            turn_round(&mut plain, V4);
            assert_eq!((found, answer), (number, plain));
        }
    }
}
