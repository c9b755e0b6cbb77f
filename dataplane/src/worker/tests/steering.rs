//! Steering between workers: each packet is handed to the worker that owns its endpoint, and to no other.

use super::carried::*;
use super::frames::*;
use super::plan::*;
use super::wire::*;
use crate::drops::DropReason;
use crate::flow::{Mode, TagIndex};
use crate::packet::{PortId, TestPacket};
use crate::service::Protocol;
use crate::time::Tick;
use crate::worker::shard::{ShardKey, ShardMap};
use crate::worker::{Arrival, BURST, Io, Mailbox, MemoryIo, Order, PacketBurst, Worker, WorkerStats};
use arrayvec::ArrayVec;
use std::collections::VecDeque;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;

const WORKERS: u8 = 3;

/// Ports in memory, and rings to the other workers that hold so many packets.
pub(super) struct Fabric {
    ports: MemoryIo,
    handed: Vec<(u8, Arrival, TestPacket)>,
    room: usize,
    coming: VecDeque<(Arrival, TestPacket)>,
}

impl Io for Fabric {
    type Packet = TestPacket;

    fn receive(&mut self, port: PortId, burst: &mut PacketBurst<TestPacket>) {
        self.ports.receive(port, burst);
    }

    fn transmit(&mut self, port: PortId, burst: &mut PacketBurst<TestPacket>) {
        self.ports.transmit(port, burst);
    }

    fn allocate(&mut self) -> Option<TestPacket> {
        self.ports.allocate()
    }

    fn allocate_large(&mut self) -> Option<TestPacket> {
        self.ports.allocate_large()
    }

    fn hand_over(&mut self, worker: u8, arrival: Arrival, packet: TestPacket) -> Result<(), TestPacket> {
        if self.handed.len() == self.room {
            return Err(packet);
        }
        self.handed.push((worker, arrival, packet));
        Ok(())
    }

    fn take_over(&mut self, burst: &mut ArrayVec<(Arrival, TestPacket), BURST>) {
        let count = self.coming.len().min(burst.remaining_capacity());
        burst.extend(self.coming.drain(..count));
    }
}

/// Who handed a packet over, and to whom.
pub(super) type HandOver = (u8, u8);
/// Who sent a frame, by which port.
pub(super) type SentBy = (u8, PortId, Vec<u8>);

/// The workers of one gateway, their packets carried from ring to ring by hand.
pub(super) struct Team {
    workers: Vec<Worker<Fabric, TagIndex>>,
    pub(super) stats: Vec<Arc<WorkerStats>>,
    mailboxes: Vec<Arc<Mailbox>>,
    plan: Plan,
    key: ShardKey,
    shards: ShardMap,
    now: Tick,
}

impl Team {
    fn new(room: usize) -> Team {
        let mut plan = Plan::web(Mode::Fullnat, 2);
        plan.add(
            DNS,
            Protocol::Udp,
            vec![server(3, Mode::Fullnat), server(4, Mode::Dr)],
        );
        plan.workers = WORKERS;
        Team::of(plan, room)
    }

    /// As many workers as the plan says.
    pub(super) fn of(mut plan: Plan, room: usize) -> Team {
        let snapshot = plan.snapshot();
        let count = plan.workers;
        let stats: Vec<_> = (0..count)
            .map(|_| Arc::new(WorkerStats::new(2, 64).among(count)))
            .collect();
        let mailboxes: Vec<_> = (0..count).map(|_| Arc::new(Mailbox::default())).collect();
        let worker = |(number, own): (u8, &Arc<WorkerStats>)| {
            let io = Fabric {
                ports: MemoryIo::new(2),
                handed: Vec::new(),
                room,
                coming: VecDeque::new(),
            };
            let index = TagIndex::new(8192, false).unwrap();
            let (snapshot, mailbox) = (Arc::clone(&snapshot), Arc::clone(&mailboxes[usize::from(number)]));
            let others = stats.iter().cloned().zip(mailboxes.iter().cloned());
            let others = others.filter(|(other, _)| !Arc::ptr_eq(other, own));
            let own = Arc::clone(own);
            let worker = Worker::new(number, io, index, plan.sizes, snapshot, own, mailbox);
            worker.unwrap().beside(others)
        };
        Team {
            workers: (0..count).zip(&stats).map(worker).collect(),
            stats,
            mailboxes,
            key: ShardKey::from_seed(plan.sizes.seed),
            shards: ShardMap::even(count),
            plan,
            now: Tick(0),
        }
    }

    /// The owner of an endpoint of either family.
    pub(super) fn owner(&self, of: impl Into<SocketAddr>) -> u8 {
        let of = of.into();
        self.shards.owner(self.key.shard_of(of.ip(), of.port()))
    }

    /// Lets so many ticks pass, after which everybody has turned until nothing is due.
    pub(super) fn pass(&mut self, ticks: u32) {
        self.now = self.now.after(ticks);
        for worker in &mut self.workers {
            worker.turn(self.now);
            while worker.next_timer().is_some_and(|due| self.now.reached(due)) {
                worker.turn(self.now);
            }
            worker.io_mut().ports.take_sent();
        }
    }

    /// Whether a client has a connection.
    pub(super) fn has(&self, from: SocketAddrV4) -> bool {
        let table = &self.workers[usize::from(self.owner(from))].table;
        let mut found = false;
        table.scan(0, usize::MAX, |_, record| {
            found |= (record.inbound.source(), record.inbound.source_port()) == (*from.ip(), from.port());
        });
        found
    }

    /// Publishes a changed plan to all workers.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.plan);
        let snapshot = self.plan.snapshot();
        for (worker, mailbox) in self.workers.iter_mut().zip(&self.mailboxes) {
            let order = Order::Publish(Arc::clone(&snapshot));
            mailbox.orders.push(order).unwrap();
            worker.turn(self.now);
            while mailbox.spent.pop().is_some() {}
        }
    }

    /// Lets a packet arrive at that worker's queue; all turn until it is through. Who handed it to whom, and what
    /// was sent, by whom.
    pub(super) fn deliver(
        &mut self,
        at: u8,
        port: PortId,
        packet: &Sent,
    ) -> (Vec<HandOver>, Vec<(u8, Seen)>) {
        let mac = if port == WAN { WAN_MAC } else { LAN_MAC };
        let (handed, sent) = self.carry(at, port, &packet.frame(mac));
        let read = sent
            .into_iter()
            .map(|(number, port, frame)| (number, Seen::read(port.0, &frame)))
            .filter(|(_, seen)| seen.protocol != 0);
        (handed, read.collect())
    }

    /// As [`Team::deliver`]; frames as they are.
    pub(super) fn carry(&mut self, at: u8, port: PortId, frame: &[u8]) -> (Vec<HandOver>, Vec<SentBy>) {
        self.workers[usize::from(at)].io_mut().ports.arrive(port, frame);
        let (mut handed, mut sent) = (Vec::new(), Vec::new());
        // Handed over twice at the most, against the order of workers.
        for _ in 0..3 {
            for number in 0..self.workers.len() as u8 {
                let worker = &mut self.workers[usize::from(number)];
                worker.turn(self.now);
                let frames = worker.io_mut().ports.take_sent();
                sent.extend(frames.into_iter().map(|(port, frame)| (number, port, frame)));
                for (to, arrival, packet) in std::mem::take(&mut worker.io_mut().handed) {
                    handed.push((number, to));
                    self.workers[usize::from(to)]
                        .io_mut()
                        .coming
                        .push_back((arrival, packet));
                }
            }
        }
        assert!(self.stats.iter().all(|stats| stats.conserves()));
        (handed, sent)
    }
}

/// Whatever queue a packet arrives at, the owner of its client gets it, and both directions have one owner.
#[test]
fn packets_reach_their_owner_from_every_queue() {
    let mut team = Team::new(usize::MAX);
    let mut owned = [0; WORKERS as usize];
    for n in 0..120 {
        let from = client((n % 7) as u8, 1024 + 37 * n);
        let (to, protocol) = if n % 3 == 0 { (DNS, UDP) } else { (WEB, TCP) };
        let packet = Sent {
            protocol,
            ..Sent::tcp(from, to, SYN)
        };
        let owner = team.owner(from);
        owned[usize::from(owner)] += 1;
        let mut local = None;
        for at in 0..WORKERS {
            let (handed, sent) = team.deliver(at, WAN, &packet);
            let expected = if at == owner { vec![] } else { vec![(at, owner)] };
            assert_eq!(handed, expected, "to the owner, and only if that is another");
            assert_eq!((sent.len(), sent[0].0), (1, owner));
            let seen = &sent[0].1;
            assert_eq!(
                *local.get_or_insert((seen.from, seen.to)),
                (seen.from, seen.to),
                "one connection"
            );
        }
        let Some((local, server)) = local.filter(|(local, _)| *local != from) else {
            continue;
        };
        assert_eq!(
            team.owner(local),
            owner,
            "the local port is in the client's shard"
        );
        for at in 0..WORKERS {
            let reply = Sent {
                protocol,
                ..Sent::tcp(server, local, SYN | ACK)
            };
            let (handed, sent) = team.deliver(at, LAN, &reply);
            assert_eq!(handed, if at == owner { vec![] } else { vec![(at, owner)] });
            assert_eq!((sent[0].0, sent[0].1.from, sent[0].1.to), (owner, to, from));
        }
    }
    assert!(owned.iter().all(|count| *count > 20), "{owned:?}");
    let opened: Vec<_> = team.stats.iter().map(|stats| stats.opened.get()).collect();
    assert_eq!(opened, owned);
    let total = |count: fn(&WorkerStats) -> u64| team.stats.iter().map(|stats| count(stats)).sum::<u64>();
    assert_eq!(
        total(|stats| stats.handed_over.get()),
        total(|stats| stats.taken_over.get())
    );
}

/// The same where the server is of the other family: the local address and port, of the server's family, are in the
/// client's shard, so that answers and ICMP errors find the connection.
#[test]
fn packets_between_families_reach_their_owner_from_every_queue() {
    for (family, other) in [(Family::V4, Family::V6), (Family::V6, Family::V4)] {
        let mut plan = Plan::dual();
        let servers = vec![other.real(1, Mode::Fullnat, 8080)];
        plan.add(family.vip(80), Protocol::Tcp, servers);
        plan.workers = WORKERS;
        let mut team = Team::of(plan, usize::MAX);
        team.carry(0, WAN, &[0; 60]);
        let mut owned = [0; WORKERS as usize];
        for n in 0..60 {
            let (from, vip) = (family.client((n % 7) as u8, 1024 + 37 * n), family.vip(80));
            let owner = team.owner(from);
            owned[usize::from(owner)] += 1;
            let mut ends = None;
            for at in 0..WORKERS {
                let syn = Wire::tcp(from, vip, SYN, b"").packet();
                let (handed, sent) = team.carry(at, WAN, &link(WAN_MAC, &syn));
                assert_eq!(handed, if at == owner { vec![] } else { vec![(at, owner)] });
                assert_eq!((sent.len(), sent[0].0), (1, owner));
                let seen = Wire::read(&sent[0].2[14..]);
                assert_eq!(*ends.get_or_insert((seen.from, seen.to)), (seen.from, seen.to));
            }
            let (local, server) = ends.unwrap();
            assert_eq!((team.owner(local), local.is_ipv4()), (owner, other == Family::V4));
            let about = Wire::tcp(local, server, ACK, b"get").packet();
            let (kind, code) = if other == Family::V4 { (3, 1) } else { (1, 0) };
            let error = Wire::icmp(server.ip(), local.ip(), kind, code, 0, &about).packet();
            for at in 0..WORKERS {
                for packet in [Wire::tcp(server, local, SYN | ACK, b"").packet(), error.clone()] {
                    let (handed, sent) = team.carry(at, LAN, &link(LAN_MAC, &packet));
                    assert_eq!(handed, if at == owner { vec![] } else { vec![(at, owner)] });
                    let seen = Wire::read(&sent[0].2[14..]);
                    assert_eq!(
                        (sent[0].0, seen.from.ip(), seen.to.ip()),
                        (owner, vip.ip(), from.ip())
                    );
                }
            }
        }
        assert!(owned.iter().all(|count| *count > 10), "{owned:?}");
    }
}

/// FRAG-01: fragments of one datagram that arrive at different queues come together at one worker, and the packet
/// goes on by the one that owns its client, cut as it came; nothing of it is taken for what an offload has merged.
#[test]
fn fragments_come_together_from_every_queue() {
    let mut team = Team::new(usize::MAX);
    // What is announced at the start is out of the way.
    team.carry(0, WAN, &[0; 60]);
    let mut elsewhere = 0;
    let mut known = std::collections::HashSet::new();
    for n in 0..60u16 {
        let from = client(1, 2000 + n);
        let mut packet = Wire::udp(from.into(), DNS.into(), &[n as u8; 3000]).may_be_cut();
        packet.label = n;
        let pieces = cut(&packet.packet(), 1000);
        let mut sent = Vec::new();
        let mut gatherers = Vec::new();
        for (number, piece) in pieces.iter().enumerate() {
            let at = (number % usize::from(WORKERS)) as u8;
            let (handed, out) = team.carry(at, WAN, &link(WAN_MAC, piece));
            // With the last one, the packet may be handed on as well.
            if number + 1 < pieces.len() {
                gatherers.push(handed.first().map_or(at, |(_, to)| *to));
            }
            sent.extend(out);
        }
        assert!(gatherers.iter().all(|one| *one == gatherers[0]), "{gatherers:?}");
        let owner = team.owner(from);
        elsewhere += u8::from(gatherers[0] != owner);
        assert!(
            sent.iter()
                .all(|(number, port, _)| (*number, *port) == (owner, LAN))
        );
        let pieces: Vec<_> = sent.iter().map(|(_, _, frame)| frame[14..].to_vec()).collect();
        assert!(pieces.iter().all(|piece| piece.len() <= 1020));
        let seen = Wire::read(&assemble(&pieces));
        let mut expected = packet.between(seen.from, seen.to).later();
        if seen.from != packet.from {
            // From a local address, which the workers share: none of them gives what another has given.
            expected.label = seen.label;
        }
        assert_eq!(seen, expected);
        assert!(known.insert((seen.from.ip(), seen.to, seen.label)), "{n}");
    }
    assert!(elsewhere > 10, "the packet has to travel as well: {elsewhere}");
}

#[test]
fn a_full_ring_is_a_counted_drop() {
    let mut team = Team::new(0);
    let from = client(1, 1024);
    let owner = team.owner(from);
    for at in 0..WORKERS {
        let (handed, sent) = team.deliver(at, WAN, &Sent::tcp(from, WEB, SYN));
        assert_eq!((handed.len(), sent.len()), (0, usize::from(at == owner)));
        let dropped = team.stats[usize::from(at)].drops[DropReason::SteerFull as usize].get();
        assert_eq!(dropped, u64::from(at != owner));
    }
}

#[test]
fn what_belongs_to_no_connection_is_answered_where_it_arrives() {
    let mut team = Team::new(usize::MAX);
    for at in 0..WORKERS {
        let (handed, sent) = team.deliver(at, WAN, &Sent::echo(*client(1, 0).ip(), VIP, b"ping"));
        assert_eq!((handed.len(), sent.len(), sent[0].0), (0, 1, at));
    }
}
