//! The workers of one gateway over ports in memory: each turns in its turn, in one thread, and what one hands over is
//! there at the other's next turn. So several workers give the same answer every time. For tests and `tidegate replay`.

use super::{Device, Mailbox, MemoryIo, Order, Sizes, Worker, WorkerStats};
use crate::flow::TagIndex;
use crate::packet::PortId;
use crate::service::Snapshot;
use crate::time::Tick;
use std::io;
use std::sync::Arc;

/// Who handed a packet over, and to whom.
pub type HandOver = (u8, u8);
/// Who sent a frame, by which port.
pub type SentBy = (u8, PortId, Vec<u8>);

/// As many workers as the snapshot's shards have owners.
pub struct MemoryCrew {
    workers: Vec<Worker<MemoryIo, TagIndex>>,
    stats: Vec<Arc<WorkerStats>>,
    mailboxes: Vec<Arc<Mailbox>>,
    devices: Vec<Device>,
    handed: Vec<HandOver>,
    sent: Vec<SentBy>,
}

impl MemoryCrew {
    /// Workers over `ports` Ethernet ports with a device, each with tables of these sizes and a ring to all others that holds
    /// `room` packets. Every frame arrives at the first worker, as from devices of one queue.
    ///
    /// # Errors
    /// The system refuses the memory.
    pub fn new(ports: usize, snapshot: &Arc<Snapshot>, sizes: Sizes, room: usize) -> io::Result<MemoryCrew> {
        let count = snapshot.shards.workers();
        let counters = || WorkerStats::new(snapshot.ports.len(), sizes.servers as usize).among(count);
        let stats: Vec<_> = (0..count).map(|_| Arc::new(counters())).collect();
        let mailboxes: Vec<_> = (0..count).map(|_| Arc::new(Mailbox::default())).collect();
        let mut workers = Vec::new();
        for (number, (own, mailbox)) in (0..count).zip(stats.iter().zip(&mailboxes)) {
            let worker = Worker::new(
                number,
                MemoryIo::beside_others(ports, room),
                TagIndex::new(2 * sizes.connections as usize, sizes.hugepages)?,
                sizes,
                Arc::clone(snapshot),
                Arc::clone(own),
                Arc::clone(mailbox),
            )?;
            let all = stats.iter().cloned().zip(mailboxes.iter().cloned());
            workers.push(worker.beside(all.filter(|(other, _)| !Arc::ptr_eq(other, own))));
        }
        let one_queue = Device::Random { queues: 1, state: 0 };
        Ok(MemoryCrew {
            workers,
            stats,
            mailboxes,
            devices: vec![one_queue; ports],
            handed: Vec::new(),
            sent: Vec::new(),
        })
    }

    /// Gives a port another device, whose queues are those of the workers of the same numbers.
    pub fn set_device(&mut self, port: PortId, device: Device) {
        self.devices[usize::from(port.0)] = device;
    }

    /// Lets a frame arrive at a port, at the queue that its device chooses.
    pub fn arrive(&mut self, port: PortId, frame: &[u8]) {
        let queue = self.devices[usize::from(port.0)].queue(frame);
        // A worker has several queues of a device that has more queues than there are workers.
        let worker = usize::from(queue) % self.workers.len();
        self.arrive_at(worker as u8, port, frame);
    }

    /// Lets a frame arrive at a port, at the queue of that worker.
    pub fn arrive_at(&mut self, worker: u8, port: PortId, frame: &[u8]) {
        self.workers[usize::from(worker)].io_mut().arrive(port, frame);
    }

    /// Whether something waits for the next turn.
    #[must_use]
    pub fn is_waiting(&mut self) -> bool {
        self.workers.iter_mut().any(|worker| worker.io_mut().is_waiting())
    }

    /// One turn of each worker. What is handed over towards the end of the order is taken over in this round, the rest
    /// in the next one.
    pub fn turn(&mut self, now: Tick) {
        for number in 0..self.workers.len() {
            self.turn_one(number, now);
        }
    }

    /// The same, but that each worker turns until none of its timers is due: a turn handles so many.
    pub fn turn_until_idle(&mut self, now: Tick) {
        for number in 0..self.workers.len() {
            loop {
                self.turn_one(number, now);
                if self.workers[number]
                    .next_timer()
                    .is_none_or(|due| !now.reached(due))
                {
                    break;
                }
            }
        }
    }

    fn turn_one(&mut self, number: usize, now: Tick) {
        let own = number as u8;
        let worker = &mut self.workers[number];
        worker.turn(now);
        let io = worker.io_mut();
        let frames = io.take_sent();
        self.sent
            .extend(frames.into_iter().map(|(port, frame)| (own, port, frame)));
        for (to, arrival, packet) in io.take_handed() {
            self.handed.push((own, to));
            self.workers[usize::from(to)].io_mut().come(arrival, packet);
        }
    }

    /// Takes what has been sent, in order.
    pub fn take_sent(&mut self) -> Vec<SentBy> {
        std::mem::take(&mut self.sent)
    }

    /// Takes who has handed something over to whom, in order.
    pub fn take_handed(&mut self) -> Vec<HandOver> {
        std::mem::take(&mut self.handed)
    }

    /// When the next timer of any worker is due; none while there are no connections.
    #[must_use]
    pub fn next_timer(&self, now: Tick) -> Option<Tick> {
        let due = self.workers.iter().filter_map(Worker::next_timer);
        // What is overdue comes first.
        due.min_by_key(|due| if now.reached(*due) { 0 } else { due.since(now) })
    }

    /// Lets all workers go by another snapshot from their next turn on.
    pub fn publish(&mut self, snapshot: &Arc<Snapshot>) {
        for mailbox in &self.mailboxes {
            // Room for it there is: `collect` empties the mailbox after each turn.
            let _ = mailbox.orders.push(Order::Publish(Arc::clone(snapshot)));
        }
    }

    /// Frees what workers have given back.
    pub fn collect(&mut self) {
        for mailbox in &self.mailboxes {
            while mailbox.spent.pop().is_some() {}
        }
    }

    /// What each worker counts.
    #[must_use]
    pub fn stats(&self) -> &[Arc<WorkerStats>] {
        &self.stats
    }

    /// The mailbox of each worker.
    #[must_use]
    pub fn mailboxes(&self) -> &[Arc<Mailbox>] {
        &self.mailboxes
    }
}
