//! Two workers whose persistent clients have their templates at either: questions, answers, and what is told of ends
//! allocate nothing, also where rings and tables are full.

use super::frames::*;
use super::plan::*;
use super::{ALLOCATED, COUNTING, FREED, Pooled, Ports};
use dataplane::drops::DropReason;
use dataplane::flow::{Mode, TagIndex};
use dataplane::service::{Persistence, Protocol};
use dataplane::time::{Tick, seconds};
use dataplane::worker::{Errand, Mailbox, Worker, WorkerStats};
use std::sync::Arc;

struct Pair {
    workers: Vec<Worker<Ports, TagIndex>>,
    stats: Vec<Arc<WorkerStats>>,
    now: Tick,
    /// Packets that went on errands.
    questions: u64,
    answers: u64,
}

impl Pair {
    fn new(mut plan: Plan) -> Pair {
        plan.workers = 2;
        let stats: Vec<_> = (0..2)
            .map(|_| Arc::new(WorkerStats::new(2, 64).among(2)))
            .collect();
        let mailboxes: Vec<_> = (0..2).map(|_| Arc::new(Mailbox::default())).collect();
        let snapshot = plan.snapshot();
        let worker = |number: usize| {
            let index = TagIndex::new(2 * plan.sizes.connections as usize, false).unwrap();
            let (own, post) = (Arc::clone(&stats[number]), Arc::clone(&mailboxes[number]));
            let snapshot = Arc::clone(&snapshot);
            let worker = Worker::new(
                number as u8,
                Ports::new(2),
                index,
                plan.sizes,
                snapshot,
                own,
                post,
            );
            let other = 1 - number;
            let other = (Arc::clone(&stats[other]), Arc::clone(&mailboxes[other]));
            worker.unwrap().beside([other])
        };
        Pair {
            workers: (0..2).map(worker).collect(),
            stats: stats.clone(),
            now: Tick(0),
            questions: 0,
            answers: 0,
        }
    }

    fn arrive(&mut self, at: usize, frame: &[u8]) {
        let ports = self.workers[at].io_mut();
        let packet = Pooled::new(&ports.pool, frame).unwrap();
        ports.arriving[usize::from(WAN.0)].push_back(packet);
    }

    /// Each makes so many turns under the eyes of the allocator.
    fn turn(&mut self, turns: u32) {
        for _ in 0..turns {
            for number in 0..2 {
                COUNTING.set(true);
                self.workers[number].turn(self.now);
                COUNTING.set(false);
                let ports = self.workers[number].io_mut();
                ports.sent.clear();
                let handed: Vec<_> = ports.handed.drain(..).collect();
                for (to, arrival, packet) in handed {
                    self.questions += u64::from(arrival.errand == Errand::Question);
                    self.answers += u64::from(arrival.errand == Errand::Answer);
                    let other = self.workers[usize::from(to)].io_mut();
                    other.coming.push_back((arrival, packet));
                }
            }
        }
    }

    fn sum(&self, count: impl Fn(&WorkerStats) -> u64) -> u64 {
        self.stats.iter().map(|stats| count(stats)).sum()
    }
}

#[test]
fn templates_of_other_workers_allocate_nothing() {
    let mut plan = Plan::web(Mode::Dr, 3);
    plan.sizes.connections = 180;
    plan.edit(0, |service| {
        service.persistence = Some(Persistence::new(seconds(2)))
    });
    let dns = plan.add(DNS, Protocol::Udp, vec![server(3, Mode::Nat)]);
    plan.edit(dns, |service| {
        service.persistence = Some(Persistence::new(seconds(1)));
        service.policy.limits.rate = 500;
    });
    let mut pair = Pair::new(plan);
    pair.turn(4);
    for round in 0..120u32 {
        for n in 0..60 {
            let number = round * 60 + n;
            let from = client((number % 50) as u8 + 1, 1024 + (number * 37 % 60_000) as u16);
            let tcp = |flags| Sent::tcp(from, WEB, flags);
            let at = n as usize % 2;
            pair.arrive(at, &tcp(SYN).frame(WAN_MAC));
            if n % 6 == 0 {
                pair.arrive(at, &Sent::udp(from, DNS, b"query").frame(WAN_MAC));
            }
            if n % 3 > 0 {
                pair.turn(3);
                pair.arrive(at, &tcp(ACK).frame(WAN_MAC));
                pair.arrive(at, &tcp(RST).frame(WAN_MAC));
            }
        }
        pair.turn(4);
        pair.now = pair.now.after(seconds(15) + round % 7);
        pair.turn(40);
    }
    assert_eq!((ALLOCATED.get(), FREED.get()), (0, 0));
    let drops = |reason: DropReason| pair.sum(|stats| stats.drops[reason as usize].get());
    let (asked, answered) = (pair.questions, pair.answers);
    assert!(answered > 1000 && answered <= asked, "{answered} of {asked}");
    let opened = pair.sum(|stats| stats.opened.get());
    assert!(opened > 2000, "{opened}");
    for reason in [DropReason::TableFull, DropReason::SteerFull] {
        assert!(drops(reason) > 0, "{reason:?} has not been tried");
    }
}
