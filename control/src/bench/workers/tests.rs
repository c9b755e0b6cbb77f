//! Several workers on one thread over ordinary memory: who gets which packet, and that none is lost.

use super::super::Distribution;
use super::super::flows::Flow;
use super::super::io::Servers;
use super::super::io::tests::Heap;
use super::super::report::Path;
use super::super::request::Shape;
use super::super::setup;
use super::crew::{posts, share, worker};
use super::exchanges::{Exchange, by_owner, order};
use super::station::Station;
use super::{choose, frames};
use crate::engine::mesh;
use dataplane::flow::TagIndex;
use dataplane::packet::{Packet, TestPacket};
use dataplane::time::Tick;
use dataplane::worker::Worker;
use std::sync::Arc;

const FRAMES: usize = 256;
const FLOWS: u32 = 100;

type Workers = Vec<Worker<Station<Heap>, TagIndex>>;

fn start(path: Path, shape: Shape, count: u8) -> Workers {
    let snapshot = setup::snapshot(path, count, 10_000).unwrap();
    let ways = posts(count).into_iter().zip(mesh(count.into()));
    ways.map(|(post, rings)| {
        let io = Station::new(&Heap, FRAMES, shape, Servers::of(path.mode), rings).unwrap();
        worker(post, Arc::clone(&snapshot), 10_000, false, io).unwrap()
    })
    .collect()
}

fn turn(workers: &mut Workers, now: u32) -> usize {
    workers.iter_mut().map(|worker| worker.turn(Tick(now))).sum()
}

/// Opens all flows; returns them with their answers, by owner, and what was learnt.
fn open(workers: &mut Workers, flows: &[Arc<[Flow]>]) -> (Vec<Arc<[Exchange]>>, super::station::Learnt) {
    for (worker, flows) in workers.iter_mut().zip(flows) {
        worker.io_mut().open(Arc::clone(flows));
    }
    while turn(workers, 1) > 0 {}
    let mut all = Vec::new();
    let mut last = None;
    for (worker, flows) in workers.iter_mut().zip(flows) {
        let learnt = worker.io_mut().learnt().unwrap();
        let both = flows.iter().zip(&learnt.replies);
        all.push(both.map(|(&flow, &reply)| Exchange { flow, reply }).collect());
        last = Some(learnt);
    }
    (all, last.unwrap())
}

fn sums(workers: &Workers) -> [u64; 3] {
    workers.iter().fold([0; 3], |[received, handed, sent], worker| {
        let stats = worker.stats();
        let passed = stats.sent.get() - stats.made.get();
        let over: u64 = stats
            .steered
            .iter()
            .map(|steered| steered.handed_over.get())
            .sum();
        [received + stats.received.get(), handed + over, sent + passed]
    })
}

/// In each mode and with each IP version: as many packets hop as should, none is dropped or kept, requests and answers
/// are as many, and no connection opens that was not there.
#[test]
fn as_many_packets_hop_as_are_told_to() {
    for path in Path::all() {
        let shape = Shape {
            family: path.family,
            size: 90,
        };
        let mut workers = start(path, shape, 3);
        let flows = by_owner(3, FLOWS, shape);
        let (owned, learnt) = open(&mut workers, &flows);
        for (hops, least, most) in [(0, 0.0, 0.0), (50, 0.47, 0.53), (100, 1.0, 1.0)] {
            for (at, worker) in workers.iter_mut().enumerate() {
                let order = order(&owned, at, hops, Distribution::Uniform, 5000);
                worker.io_mut().go(order, &learnt.answers);
            }
            let before = sums(&workers);
            for now in 0..100 {
                turn(&mut workers, 2 + now);
            }
            workers.iter_mut().for_each(|worker| worker.io_mut().rest());
            while turn(&mut workers, 200) > 0 {}
            let after = sums(&workers);
            let [received, handed, sent] = std::array::from_fn(|at| after[at] - before[at]);
            let share = handed as f64 / received as f64;
            assert!((least..=most).contains(&share), "{path:?} {hops}: {share}");
            assert_eq!(received, sent, "{path:?} {hops}");
            // A burst for each worker and turn, and answers a turn later.
            let directions = if path.mode.has_replies() { 2 } else { 1 };
            let full = 3 * 32 * 100 * directions;
            assert!(
                received > full * 8 / 10 && received <= full,
                "{path:?} {hops}: {received}"
            );
        }
        let free: usize = workers.iter_mut().map(|worker| worker.io_mut().free()).sum();
        assert_eq!(free, 3 * FRAMES, "{path:?}");
        for worker in &workers {
            setup::finish(worker).unwrap();
            assert_eq!(worker.stats().connections.get(), u64::from(FLOWS), "{path:?}");
            if path.mode.has_replies() {
                let servers = &worker.stats().servers;
                let sum =
                    |of: fn(&dataplane::worker::ServerStats) -> u64| servers.iter().map(of).sum::<u64>();
                let requests = sum(|server| server.inbound_packets.get());
                let answers = sum(|server| server.outbound_packets.get());
                let bare = requests - u64::from(FLOWS);
                assert!(
                    answers > bare * 9 / 10 && answers <= bare,
                    "{path:?}: {answers} of {bare}"
                );
            }
        }
    }
}

/// Whoever comes last in number takes the end, and what is left is shared among the rest.
#[test]
fn each_worker_gets_as_many_frames_that_lie_side_by_side() {
    let mut frames: Vec<TestPacket> = (0..30).map(|_| TestPacket::new(&[0; 60])).collect();
    frames.reverse();
    frames.swap(3, 17);
    let mut last = None;
    for number in (0..3).rev() {
        let own = share(&mut frames, number, number + 1);
        let own: Vec<_> = frames.drain(own).collect();
        assert_eq!(own.len(), 10);
        for frame in own.iter().rev() {
            let at = frame.bytes().as_ptr();
            assert!(last.is_none_or(|last| at < last), "{number}");
            last = Some(at);
        }
        // Freed memory would come back.
        std::mem::forget(own);
    }
    assert!(frames.is_empty());
}

#[test]
fn each_worker_has_a_cpu_or_the_error_says_what_to_do() {
    assert_eq!(choose(&[0, 1, 2, 5], 2, 1).unwrap(), [2, 5]);
    assert_eq!(choose(&[3], 2, 2).unwrap(), [3, 3]);
    assert_eq!(choose(&[1, 3], 3, 2).unwrap(), [1, 1, 3]);
    let error = choose(&[3], 2, 1).unwrap_err().to_string();
    assert!(error.contains("--workers-per-cpu 2"), "{error}");
}

#[test]
fn all_frames_fit_into_one_ring() {
    assert_eq!(frames(1), 1024);
    for workers in 2..=8 {
        assert!(
            usize::from(workers) * frames(workers) <= crate::engine::room(workers.into()),
            "{workers}"
        );
    }
}
