//! The workers of one gateway, each on its own thread and CPU as in `tidegate run`, over queues in memory. They turn only
//! in windows that they are told; in between they wait without using a CPU.

use super::super::flows::{DRAWS, Flow};
use super::super::io::{Buffers, Servers};
use super::super::measure::cpu_time;
use super::super::setup::{self, SIZES};
use super::exchanges::{Exchange, by_owner, order};
use super::station::{Learnt, Station};
use super::window::{Sample, Samples, Window};
use super::{Job, frames};
use crate::engine::{Frame, TickClock, mesh, pin};
use anyhow::{Context, Result};
use dataplane::flow::TagIndex;
use dataplane::packet::Packet;
use dataplane::service::Snapshot;
use dataplane::worker::{Mailbox, Sizes, Worker, WorkerStats};
use dpdk::{Eal, Mempool, clock};
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The part of a second that a turn without packets takes at the most.
const LONGEST_IDLE: u64 = 1_000_000;

/// The ways of one worker to all others.
pub(super) type Others = Vec<(Arc<WorkerStats>, Arc<Mailbox>)>;

/// What a worker is made of, besides its queues.
pub(super) struct Post {
    number: u8,
    stats: Arc<WorkerStats>,
    mailbox: Arc<Mailbox>,
    others: Others,
}

/// The posts of so many workers.
pub(super) fn posts(workers: u8) -> Vec<Post> {
    let stats = || WorkerStats::new(2, SIZES.servers as usize).among(workers);
    let all: Others = (0..workers)
        .map(|_| (Arc::new(stats()), Arc::default()))
        .collect();
    let post = |number: u8| {
        let others = (0..workers).zip(&all).filter(|(other, _)| *other != number);
        let (stats, mailbox) = all[usize::from(number)].clone();
        Post {
            number,
            stats,
            mailbox,
            others: others.map(|(_, way)| way.clone()).collect(),
        }
    };
    (0..workers).map(post).collect()
}

/// The worker of that post, with room for so many connections.
///
/// # Errors
/// Too little memory.
pub(super) fn worker<B: Buffers>(
    post: Post,
    snapshot: Arc<Snapshot>,
    connections: u32,
    hugepages: bool,
    io: Station<B>,
) -> Result<Worker<Station<B>, TagIndex>> {
    let sizes = Sizes {
        connections,
        hugepages,
        ..SIZES
    };
    let memory = "no memory for the connection table; measure fewer flows";
    let index = TagIndex::new(2 * connections as usize, hugepages).context(memory)?;
    let worker = Worker::new(post.number, io, index, sizes, snapshot, post.stats, post.mailbox);
    let mut worker = worker.context(memory)?.beside(post.others);
    worker.touch();
    Ok(worker)
}

/// Where workers meet between windows.
struct Meeting {
    barrier: Barrier,
    /// The frames of all.
    frames: Mutex<Vec<Frame>>,
}

impl Meeting {
    fn frames(&self) -> MutexGuard<'_, Vec<Frame>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of one of so many workers: frames that lie side by side, in the order of memory, as at the start.
pub(super) fn share<P: Packet>(frames: &mut [P], number: u8, workers: u8) -> Range<usize> {
    frames.sort_unstable_by_key(|frame| frame.bytes().as_ptr());
    let (at, each) = (usize::from(number), frames.len() / usize::from(workers.max(1)));
    at * each..(at + 1) * each
}

/// What a worker is told.
enum Word {
    /// What arrives at it: the orders of packets, and what was learnt of answers.
    Orders(Vec<Arc<[Exchange]>>, Arc<Learnt>),
    /// A window.
    Window(Window),
}

/// The way to one worker.
struct Hand {
    words: Sender<Word>,
    samples: Receiver<Sample>,
    thread: JoinHandle<Result<()>>,
}

/// The workers.
pub(super) struct Crew {
    hands: Vec<Hand>,
}

impl Crew {
    /// Starts a worker on each of these CPUs, and opens all flows; `hops` are the shares of packets, of a hundred, that the
    /// orders have arrive at another worker.
    ///
    /// # Errors
    /// Too little memory, a CPU that cannot be had, or a flow that does not come through.
    pub(super) fn start(eal: &Eal, pool: &Mempool, job: &Job, cpus: &[u16], hops: &[u8]) -> Result<Crew> {
        let workers = cpus.len() as u8;
        let flows = by_owner(workers, job.flows, job.shape);
        let room = job.room();
        let snapshot = setup::snapshot(job.path, workers, room.saturating_mul(workers.into()))?;
        let meeting = Arc::new(Meeting {
            barrier: Barrier::new(workers.into()),
            frames: Mutex::default(),
        });
        let mut hands = Vec::new();
        let mut learning = Vec::new();
        let ways = posts(workers).into_iter().zip(mesh(workers.into()));
        for ((post, rings), (&cpu, own)) in ways.zip(cpus.iter().zip(&flows)) {
            let number = post.number;
            let io = Station::new(
                pool,
                frames(job.workers),
                job.shape,
                Servers::of(job.path.mode),
                rings,
            )?;
            let (eal, snapshot, own) = (eal.clone(), Arc::clone(&snapshot), Arc::clone(own));
            let hugepages = eal.has_hugepages();
            let build = move || worker(post, snapshot, room, hugepages, io);
            let (meeting, shares_cpu) = (Arc::clone(&meeting), job.shares_cpus);
            let (words, told) = channel();
            let (tells, samples) = channel();
            let (teach, learnt) = channel();
            let body = move || -> Result<()> {
                pin(cpu)?;
                let _registered = eal.register_thread()?;
                let mut seat = Seat {
                    worker: build()?,
                    ticks: TickClock::start(&eal),
                    hz: clock::hz(&eal),
                    meeting,
                    number,
                    workers,
                    shares_cpu,
                };
                // Who started this listens until it has heard of all.
                let _ = teach.send(seat.open(own)?);
                seat.follow(&told, &tells)
            };
            let name = std::thread::Builder::new().name(format!("worker{cpu}"));
            let thread = name.spawn(body).context("no thread")?;
            hands.push(Hand {
                words,
                samples,
                thread,
            });
            learning.push(learnt);
        }
        let crew = Crew { hands };
        let learnt: Result<Vec<Learnt>, _> = learning.iter().map(Receiver::recv).collect();
        match learnt {
            Ok(learnt) => {
                crew.tell_orders(job, &flows, learnt, hops)?;
                Ok(crew)
            }
            // One has ended: it says why.
            Err(_) => Err(crew.finish().err().context("a worker has ended")?),
        }
    }

    fn tell_orders(&self, job: &Job, flows: &[Arc<[Flow]>], learnt: Vec<Learnt>, hops: &[u8]) -> Result<()> {
        let owned: Vec<Arc<[Exchange]>> = flows
            .iter()
            .zip(&learnt)
            .map(|(flows, learnt)| {
                let both = flows.iter().zip(&learnt.replies);
                both.map(|(&flow, &reply)| Exchange { flow, reply }).collect()
            })
            .collect();
        let common = learnt.into_iter().map(Arc::new);
        let common = common.take(1).next().context("no worker")?;
        for (at, hand) in self.hands.iter().enumerate() {
            let orders = hops
                .iter()
                .map(|&hops| order(&owned, at, hops, job.distribution, DRAWS));
            let word = Word::Orders(orders.collect(), Arc::clone(&common));
            hand.words.send(word).context("a worker has ended")?;
        }
        Ok(())
    }

    /// Lets them turn for that window.
    ///
    /// # Errors
    /// A worker has ended.
    pub(super) fn window(&mut self, window: Window) -> Result<Samples> {
        for hand in &self.hands {
            hand.words
                .send(Word::Window(window))
                .context("a worker has ended")?;
        }
        let samples = self.hands.iter().map(|hand| hand.samples.recv());
        samples.collect::<Result<_, _>>().context("a worker has ended")
    }

    /// Ends them.
    ///
    /// # Errors
    /// Packets have been dropped, or a worker could not do its work.
    pub(super) fn finish(self) -> Result<()> {
        let threads: Vec<_> = self.hands.into_iter().map(|hand| hand.thread).collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => anyhow::bail!("a worker has died"),
        });
        // All of them, whatever the first one says.
        ended.collect::<Vec<Result<()>>>().into_iter().collect()
    }
}

/// A worker on its thread.
struct Seat {
    worker: Worker<Station<Mempool>, TagIndex>,
    ticks: TickClock,
    hz: u64,
    meeting: Arc<Meeting>,
    number: u8,
    workers: u8,
    /// Other workers need its CPU when it has nothing to do.
    shares_cpu: bool,
}

impl Seat {
    /// Opens these flows.
    fn open(&mut self, flows: Arc<[Flow]>) -> Result<Learnt> {
        self.worker.io_mut().open(flows);
        while self.turn() > 0 {}
        self.worker.io_mut().learnt()
    }

    fn turn(&mut self) -> usize {
        self.worker.turn(self.ticks.at(clock::now()))
    }

    /// Does as it is told, until nobody is left to tell it.
    fn follow(&mut self, words: &Receiver<Word>, samples: &Sender<Sample>) -> Result<()> {
        let mut known = None;
        for word in words {
            match word {
                Word::Orders(orders, learnt) => known = Some((orders, learnt)),
                Word::Window(window) => {
                    let (orders, learnt) = known.as_ref().context("no order of packets")?;
                    let order = orders.get(window.order).context("no such order of packets")?;
                    self.worker.io_mut().go(Arc::clone(order), &learnt.answers);
                    // Nobody minds the last one.
                    let _ = samples.send(self.window(window));
                }
            }
        }
        setup::finish(&self.worker)
    }

    fn window(&mut self, window: Window) -> Sample {
        self.turn_until(window.from);
        let stats = Arc::clone(self.worker.stats());
        let handed = || {
            stats
                .steered
                .iter()
                .map(|steered| steered.handed_over.get())
                .sum()
        };
        let sent = stats.sent.get();
        let handed_before: u64 = handed();
        let (cpu, start) = (cpu_time(), clock::now());
        let idle = self.turn_until(window.until);
        let counts = clock::now() - start;
        let ns = |counts: u64| (counts as f64 * 1e9 / self.hz as f64) as u64;
        let sample = Sample {
            sent: stats.sent.get() - sent,
            handed_over: handed() - handed_before,
            cpu: cpu_time() - cpu,
            idle: ns(idle),
            wall: ns(counts),
        };
        self.end_window();
        sample
    }

    /// Turns until that time; what turns without packets took, in counts. One that somebody else has interrupted says nothing
    /// of that, and counts as a short one.
    fn turn_until(&mut self, until: u64) -> u64 {
        let longest = self.hz / LONGEST_IDLE;
        let (mut before, mut idle) = (clock::now(), 0);
        while before < until {
            let packets = self.worker.turn(self.ticks.at(before));
            if packets == 0 && self.shares_cpu {
                std::thread::yield_now();
            }
            let after = clock::now();
            if packets == 0 {
                idle += (after - before).min(longest);
            }
            before = after;
        }
        idle
    }

    /// Sends what is under way, and gives each worker its own frames again: they have followed the packets, so that some have
    /// more than others by now, and all of them some that another CPU's caches have.
    fn end_window(&mut self) {
        self.worker.io_mut().rest();
        self.meeting.barrier.wait();
        // From here on nobody hands over.
        while self.turn() > 0 {}
        self.meeting.frames().extend(self.worker.io_mut().take_frames());
        // One after the other, from the end: what is left are the first ones' parts.
        for number in (0..self.workers).rev() {
            self.meeting.barrier.wait();
            if number == self.number {
                let mut frames = self.meeting.frames();
                let own = share(&mut frames, number, number + 1);
                self.worker.io_mut().put_frames(frames.drain(own));
            }
        }
        self.meeting.barrier.wait();
    }
}
