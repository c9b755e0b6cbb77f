//! Who has which queues. A worker has a receive and a transmit queue of each port, as far as the port has so many;
//! where it has fewer, those that have a queue receive for all and steer, and a worker without a transmit queue
//! sends by a ring to one that has.

use anyhow::Result;
use arrayvec::ArrayVec;
use dataplane::worker::BURST;
use dpdk::ring::{Consumer, Producer, ring};
use dpdk::{Eal, Mbuf, RxQueue, TxQueue};

/// Packets of others that may wait to be sent: some milliseconds of a software port.
const RELAYED: u32 = 1024;
/// Bursts of others that one turn sends.
const RELAY_BUDGET: usize = 8;

/// What one worker has of one port.
pub(super) struct Share {
    receive: Vec<RxQueue>,
    /// The receive queue that is looked at first.
    next: usize,
    transmit: Transmit,
    /// Whether the transmit queue is called on at every turn, packets or none: a bond sends LACP there.
    calls: bool,
}

/// How a worker sends.
enum Transmit {
    Own(TxQueue),
    /// The same, and for workers that have none.
    Shared(TxQueue, Box<Relay>),
    /// By the worker that has the queue.
    Through(Producer),
}

/// What workers without a queue give to one that has.
struct Relay {
    coming: Consumer,
    /// What the device did not take yet. As long as there is some, the ring fills up and its senders are told.
    waiting: ArrayVec<Mbuf, BURST>,
}

impl Share {
    /// Receives into an empty `mbufs` from the first queue that has something, each queue being the first in turn.
    #[inline]
    pub(super) fn receive(&mut self, mbufs: &mut ArrayVec<Mbuf, BURST>) {
        if let Transmit::Shared(queue, relay) = &mut self.transmit {
            relay.send(queue);
        }
        if self.calls {
            self.call();
        }
        let count = self.receive.len();
        for _ in 0..count {
            let queue = self.next;
            self.next = if queue + 1 == count { 0 } else { queue + 1 };
            if self.receive[queue].burst(mbufs) > 0 {
                return;
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn call(&mut self) {
        match &mut self.transmit {
            Transmit::Own(queue) | Transmit::Shared(queue, _) => queue.burst(&mut ArrayVec::<Mbuf, 1>::new()),
            Transmit::Through(_) => 0,
        };
    }

    /// Sends from the front of `mbufs`; what is not taken stays.
    #[inline]
    pub(super) fn transmit(&mut self, mbufs: &mut ArrayVec<Mbuf, BURST>) {
        match &mut self.transmit {
            Transmit::Own(queue) | Transmit::Shared(queue, _) => queue.burst(mbufs),
            Transmit::Through(ring) => ring.enqueue(mbufs),
        };
    }
}

impl Relay {
    fn send(&mut self, queue: &mut TxQueue) {
        for _ in 0..RELAY_BUDGET {
            if self.waiting.is_empty() && self.coming.dequeue(&mut self.waiting) == 0 {
                return;
            }
            queue.burst(&mut self.waiting);
            if !self.waiting.is_empty() {
                return;
            }
        }
    }
}

/// How the queues of ports are spread over workers: those of a port with one for each worker by number, those of others
/// so that no worker has many and another none.
struct Dealer {
    workers: usize,
    next: usize,
}

impl Dealer {
    /// The worker of each queue of the next port, which has so many.
    fn deal(&mut self, queues: usize) -> Vec<usize> {
        let first = if queues < self.workers {
            let first = self.next;
            self.next += queues;
            first
        } else {
            0
        };
        (0..queues).map(|queue| (first + queue) % self.workers).collect()
    }
}

/// Deals the queues of all ports out, each with whether its transmit queues want to be called on; what each worker has of each port, by their numbers.
///
/// # Errors
/// Too little memory for rings.
pub(super) fn deal(
    eal: &Eal,
    ports: Vec<(Vec<RxQueue>, Vec<TxQueue>, bool)>,
    workers: usize,
) -> Result<Vec<Vec<Share>>> {
    let mut dealer = Dealer { workers, next: 0 };
    let mut dealt: Vec<Vec<Share>> = (0..workers).map(|_| Vec::new()).collect();
    for (number, (receive, mut transmit, calls)) in ports.into_iter().enumerate() {
        let owners = dealer.deal(receive.len());
        let mut received: Vec<Vec<RxQueue>> = (0..workers).map(|_| Vec::new()).collect();
        for (queue, owner) in receive.into_iter().zip(&owners) {
            received[*owner].push(queue);
        }
        transmit.truncate(workers);
        let first = owners.first().copied().unwrap_or(0);
        let senders = senders(eal, number, transmit, first, workers)?;
        for ((worker, receive), transmit) in dealt.iter_mut().zip(received).zip(senders) {
            worker.push(Share {
                receive,
                next: 0,
                transmit,
                calls,
            });
        }
    }
    Ok(dealt)
}

/// How each worker sends by one port. The first of its queues is that of worker `first`.
fn senders(
    eal: &Eal,
    port: usize,
    queues: Vec<TxQueue>,
    first: usize,
    workers: usize,
) -> Result<Vec<Transmit>> {
    let count = queues.len();
    let mut senders: Vec<Option<Transmit>> = (0..workers).map(|_| None).collect();
    for (number, queue) in queues.into_iter().enumerate() {
        // The owner, and those that come after it in steps of the number of queues.
        let users = (number..workers)
            .step_by(count)
            .map(|user| (first + user) % workers);
        let (owner, others) = {
            let mut users = users;
            (users.next().unwrap_or(first), users.collect::<Vec<_>>())
        };
        if others.is_empty() {
            senders[owner] = Some(Transmit::Own(queue));
            continue;
        }
        let name = format!("relay{port}-{number}");
        let (producers, coming) = ring(eal, &name, RELAYED, others.len(), None)?;
        for (other, producer) in others.into_iter().zip(producers) {
            senders[other] = Some(Transmit::Through(producer));
        }
        let waiting = ArrayVec::new();
        let relay = Box::new(Relay { coming, waiting });
        senders[owner] = Some(Transmit::Shared(queue, relay));
    }
    let senders: Option<Vec<Transmit>> = senders.into_iter().collect();
    senders.ok_or_else(|| anyhow::anyhow!("port {port} has no transmit queue"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_go_to_workers_evenly() {
        let mut dealer = Dealer { workers: 4, next: 0 };
        assert_eq!(dealer.deal(4), [0, 1, 2, 3]);
        assert_eq!(dealer.deal(1), [0]);
        assert_eq!(dealer.deal(2), [1, 2]);
        assert_eq!(dealer.deal(6), [0, 1, 2, 3, 0, 1]);
        assert_eq!(dealer.deal(2), [3, 0]);
        let mut alone = Dealer { workers: 1, next: 0 };
        assert_eq!((alone.deal(1), alone.deal(3)), (vec![0], vec![0, 0, 0]));
    }
}
