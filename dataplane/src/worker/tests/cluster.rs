//! A gateway of any number of workers, with what [`Gateway`](super::gateway::Gateway) does: packets arrive at each queue
//! in turn, counts are those of all. Its books balance over all workers.

use super::carried::*;
use super::frames::*;
use super::gateway::{Books, check_books, one};
use super::plan::*;
use super::steering::Team;
use super::wire::*;
use crate::drops::DropReason;
use crate::flow::{Connection, RecordId};
use crate::packet::PortId;
use crate::time::{TICKS_PER_SECOND, Tick, seconds};
use crate::worker::{Listing, Order, ServerStats, WorkerStats};
use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::sync::Arc;

/// The numbers of workers that tests of the same behaviour run with.
pub(super) const WORKERS: [u8; 4] = [1, 2, 3, 4];

pub(super) struct Cluster {
    pub(super) team: Team,
    /// The worker whose queue is next.
    next: u8,
}

impl Cluster {
    /// That plan with so many workers, all addresses already announced.
    pub(super) fn new(mut plan: Plan, workers: u8) -> Cluster {
        plan.workers = workers;
        let mut cluster = Cluster {
            team: Team::of(plan, usize::MAX),
            next: 0,
        };
        cluster.pass(seconds(3));
        while cluster
            .team
            .workers
            .iter()
            .any(|worker| worker.number == 0 && !worker.announcer.done())
        {
            cluster.team.settle();
        }
        cluster
    }

    /// A packet for the gateway at the next queue of that port; what comes out.
    fn carry(&mut self, port: PortId, frame: &[u8]) -> Vec<(PortId, Vec<u8>)> {
        self.next = (self.next + 1) % self.team.plan.workers;
        let (_, sent) = self.team.carry(self.next, port, frame);
        sent.into_iter().map(|(_, port, frame)| (port, frame)).collect()
    }

    fn send(&mut self, port: PortId, packet: &Sent) -> Vec<Seen> {
        let mac = self.team.plan.ports[usize::from(port.0)].mac;
        let sent = self.carry(port, &packet.frame(mac));
        sent.iter()
            .map(|(port, frame)| Seen::read(port.0, frame))
            .collect()
    }

    /// From a client.
    pub(super) fn inbound(&mut self, packet: &Sent) -> Vec<Seen> {
        self.send(WAN, packet)
    }

    /// From a client, where exactly one packet comes out.
    pub(super) fn forward(&mut self, packet: &Sent) -> Seen {
        one(self.inbound(packet))
    }

    /// From a server, where exactly one packet comes out.
    pub(super) fn answer(&mut self, packet: &Sent) -> Seen {
        one(self.send(LAN, packet))
    }

    /// A packet of either family at that port; what comes out.
    pub(super) fn exchange(&mut self, port: PortId, packet: &Wire) -> Vec<Out> {
        let mac = self.team.plan.ports[usize::from(port.0)].mac;
        let sent = self.carry(port, &link(mac, &packet.packet()));
        sent.into_iter().map(Out::read).collect()
    }

    /// Lets time pass, at most a second at a time.
    pub(super) fn pass(&mut self, ticks: u32) {
        let end: Tick = self.team.now.after(ticks);
        while self.team.now != end {
            self.team.pass(end.since(self.team.now).min(TICKS_PER_SECOND));
            self.team.settle();
        }
    }

    /// Publishes a changed plan.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Plan)) {
        self.team.change(change);
        self.team.settle();
    }

    /// A connection from that client's point of view: SYN, SYN-ACK, ACK. The local endpoint.
    pub(super) fn establish(&mut self, from: SocketAddrV4, to: SocketAddrV4) -> SocketAddrV4 {
        let syn = self.forward(&Sent::tcp(from, to, SYN).at(1000, 0));
        if syn.to != to {
            let shown = syn.sequence.wrapping_add(1);
            self.answer(&Sent::tcp(syn.to, syn.from, SYN | ACK).at(5000, shown));
        }
        self.forward(&Sent::tcp(from, to, ACK).at(1001, 5001));
        syn.from
    }

    fn sum(&self, count: impl Fn(&WorkerStats) -> u64) -> u64 {
        self.team.stats.iter().map(|stats| count(stats)).sum()
    }

    /// How often that reason has been counted.
    pub(super) fn drops(&self, reason: DropReason) -> u64 {
        self.sum(|stats| stats.drops[reason as usize].get())
    }

    /// The one reason counted by `act`, and how often; none when nothing was dropped.
    pub(super) fn dropped_by<T>(
        &mut self,
        act: impl FnOnce(&mut Cluster) -> T,
    ) -> (Option<(DropReason, u64)>, T) {
        let counts = |cluster: &Cluster| -> Vec<u64> {
            let all = DropReason::ALL.iter();
            all.map(|reason| cluster.drops(*reason)).collect()
        };
        let before = counts(self);
        let result = act(self);
        let after = counts(self);
        let mut changed = (0..after.len()).filter(|at| after[*at] != before[*at]);
        let first = changed
            .next()
            .map(|at| (DropReason::ALL[at], after[at] - before[at]));
        assert_eq!(changed.next(), None, "more than one reason");
        (first, result)
    }

    /// Templates in all tables.
    pub(super) fn templates(&self) -> u64 {
        self.sum(|stats| stats.templates.get())
    }

    /// Connections in all tables.
    pub(super) fn connections_now(&self) -> u64 {
        self.sum(|stats| stats.connections.get())
    }

    /// Records in all tables.
    pub(super) fn records(&self) -> usize {
        self.team.workers.iter().map(|worker| worker.table.len()).sum()
    }

    /// What all workers count of a server slot.
    pub(super) fn of_server(&self, slot: usize, count: impl Fn(&ServerStats) -> u32) -> u32 {
        self.team
            .stats
            .iter()
            .map(|stats| count(&stats.servers[slot]))
            .sum()
    }

    /// Active and inactive connections of a server slot.
    pub(super) fn counts(&self, slot: usize) -> (u32, u32) {
        let active = self.of_server(slot, |server| server.active.get());
        (active, self.of_server(slot, |server| server.inactive.get()))
    }

    /// Every connection and template, by the listing that operators use.
    pub(super) fn connections(&mut self) -> Vec<Connection> {
        let mut all = Vec::new();
        for number in 0..self.team.workers.len() {
            let (worker, mailbox) = (&mut self.team.workers[number], &self.team.mailboxes[number]);
            let listing = Arc::new(Listing::new(64));
            let order = Order::ListConnections(Arc::clone(&listing));
            mailbox.orders.push(order).unwrap();
            while !listing.is_complete() {
                worker.turn(self.team.now);
                all.extend(std::iter::from_fn(|| listing.entries.pop()));
            }
            while mailbox.spent.pop().is_some() {}
        }
        all
    }

    /// Every worker's own books balance, and each template knows exactly the connections that it holds, whosever they are.
    pub(super) fn check(&self) {
        let team = &self.team;
        let mut held = HashMap::<(u8, RecordId), u32>::new();
        let (mut controlled, mut holding) = (0, 0);
        for worker in &team.workers {
            let books = check_books(worker, &team.stats[usize::from(worker.number)], &team.plan);
            let Books {
                controlled: by,
                held: of,
            } = books;
            (controlled, holding) = (controlled + by, holding + of);
            assert!(!worker.holds.is_waiting());
            for place in worker.holds.all() {
                *held.entry(place).or_default() += 1;
            }
            worker.table.scan(0, usize::MAX, |_, record| {
                let extension = worker.table.extension(record).filter(|_| !record.is_template());
                match extension.map_or(0, |extension| extension.template) {
                    0 => {}
                    id if id >> 31 == 0 => *held.entry((worker.number, RecordId(id))).or_default() += 1,
                    _ => {}
                }
            });
        }
        assert_eq!(controlled, holding, "connections of templates");
        for worker in &team.workers {
            worker.table.scan(0, usize::MAX, |id, record| {
                if record.is_template() {
                    let by = held.remove(&(worker.number, id)).unwrap_or(0);
                    assert_eq!(record.controlled(), by, "a template of worker {}", worker.number);
                }
            });
        }
        assert!(held.is_empty(), "held by no template: {held:?}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.team.settle();
            self.check();
        }
    }
}
