//! A gateway of one worker over ports in memory. Everything that it sends is read, and its checksums checked, and
//! whenever it is left its books have to balance.

use super::frames::*;
use super::plan::*;
use crate::drops::DropReason;
use crate::flow::{Connection, Flags, Mode, TagIndex};
use crate::packet::PortId;
use crate::time::{TICKS_PER_SECOND, Tick, seconds};
use crate::worker::{Event, Io, Listing, Mailbox, MemoryIo, Order, ServerStats, Worker, WorkerStats};
use std::net::SocketAddrV4;
use std::sync::Arc;

pub(super) struct Gateway {
    pub(super) worker: Worker<MemoryIo, TagIndex>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) stats: Arc<WorkerStats>,
    pub(super) plan: Plan,
    pub(super) now: Tick,
    /// Packets sent with a wrong checksum may be as many.
    pub(super) may_be_wrong: usize,
}

impl Gateway {
    /// The gateway of that plan, all of its addresses already announced.
    pub(super) fn new(plan: Plan) -> Gateway {
        let mut gateway = Gateway::starting(plan);
        gateway.pass_raw(seconds(3));
        while !gateway.worker.announcer.done() {
            gateway.turn_raw();
        }
        gateway
    }

    /// The gateway of that plan before its first turn.
    pub(super) fn starting(mut plan: Plan) -> Gateway {
        let stats = Arc::new(WorkerStats::new(plan.ports.len(), plan.sizes.servers as usize));
        let mailbox = Arc::new(Mailbox::default());
        let worker = Worker::new(
            0,
            MemoryIo::new(plan.ports.len()),
            TagIndex::new(2 * plan.sizes.connections as usize, false).unwrap(),
            plan.sizes,
            plan.snapshot(),
            Arc::clone(&stats),
            Arc::clone(&mailbox),
        )
        .unwrap();
        Gateway {
            worker,
            mailbox,
            stats,
            plan,
            now: Tick(0),
            may_be_wrong: 0,
        }
    }

    /// Lets a frame arrive; nothing happens yet.
    pub(super) fn arrive(&mut self, port: PortId, frame: &[u8]) {
        self.worker.io_mut().arrive(port, frame);
    }

    /// One turn; what it sends.
    pub(super) fn turn(&mut self) -> Vec<Seen> {
        let frames = self.turn_raw();
        self.read(frames)
    }

    fn read(&mut self, frames: Vec<(PortId, Vec<u8>)>) -> Vec<Seen> {
        let sent: Vec<_> = frames
            .into_iter()
            .map(|(port, frame)| Seen::read_spoiled(port.0, &frame))
            .collect();
        for seen in sent.iter().filter(|seen| seen.wrong) {
            assert!(self.may_be_wrong > 0, "checksum of {seen:?}");
            self.may_be_wrong -= 1;
        }
        sent
    }

    /// One turn; the frames that come out, as they are.
    pub(super) fn turn_raw(&mut self) -> Vec<(PortId, Vec<u8>)> {
        self.worker.turn(self.now);
        assert!(self.stats.conserves(), "{:?}", self.stats);
        self.worker.io_mut().take_sent()
    }

    /// A packet for the gateway at that port; what comes out.
    pub(super) fn send(&mut self, port: PortId, packet: &Sent) -> Vec<Seen> {
        let mac = self.plan.ports[usize::from(port.0)].mac;
        self.arrive(port, &packet.frame(mac));
        self.turn()
    }

    /// From a client.
    pub(super) fn inbound(&mut self, packet: &Sent) -> Vec<Seen> {
        self.send(WAN, packet)
    }

    /// From a server.
    pub(super) fn outbound(&mut self, packet: &Sent) -> Vec<Seen> {
        self.send(LAN, packet)
    }

    /// From a client, where exactly one packet comes out.
    pub(super) fn forward(&mut self, packet: &Sent) -> Seen {
        one(self.inbound(packet))
    }

    /// From a server, where exactly one packet comes out.
    pub(super) fn answer(&mut self, packet: &Sent) -> Seen {
        one(self.outbound(packet))
    }

    /// Lets time pass, at most a second at a time; what is sent meanwhile.
    pub(super) fn pass(&mut self, ticks: u32) -> Vec<Seen> {
        let frames = self.pass_raw(ticks);
        self.read(frames)
    }

    /// As [`Gateway::pass`]; the frames as they are.
    pub(super) fn pass_raw(&mut self, ticks: u32) -> Vec<(PortId, Vec<u8>)> {
        let end = self.now.after(ticks);
        let mut sent = self.turn_raw();
        while self.now != end {
            self.now = self.now.after(end.since(self.now).min(TICKS_PER_SECOND));
            loop {
                sent.extend(self.turn_raw());
                if self.worker.next_timer().is_none_or(|due| !self.now.reached(due)) {
                    break;
                }
            }
        }
        sent
    }

    /// Publishes a changed plan, and takes back what is spent.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Plan)) -> Vec<Seen> {
        let frames = self.change_raw(change);
        self.read(frames)
    }

    /// As [`Gateway::change`]; the frames as they are.
    pub(super) fn change_raw(&mut self, change: impl FnOnce(&mut Plan)) -> Vec<(PortId, Vec<u8>)> {
        change(&mut self.plan);
        let snapshot = self.plan.snapshot();
        self.mailbox.orders.push(Order::Publish(snapshot)).unwrap();
        let sent = self.turn_raw();
        assert_eq!(self.stats.epoch.get(), self.plan.epoch);
        while self.mailbox.spent.pop().is_some() {}
        sent
    }

    /// A connection from that client's point of view: SYN, SYN-ACK, ACK. The local endpoint.
    pub(super) fn establish(&mut self, from: SocketAddrV4, to: SocketAddrV4) -> SocketAddrV4 {
        let syn = self.forward(&Sent::tcp(from, to, SYN).at(1000, 0));
        assert_eq!((syn.flags, syn.protocol), (SYN, TCP));
        if syn.to == to {
            self.forward(&Sent::tcp(from, to, ACK).at(1001, 5001));
            return syn.from;
        }
        let shown = syn.sequence.wrapping_add(1);
        let reply = self.answer(&Sent::tcp(syn.to, syn.from, SYN | ACK).at(5000, shown));
        assert_eq!((reply.from, reply.to, reply.acknowledgement), (to, from, 1001));
        let ack = self.forward(&Sent::tcp(from, to, ACK).at(1001, 5001));
        assert_eq!((ack.sequence, ack.acknowledgement), (shown, 5001));
        syn.from
    }

    /// Both sides close an established connection, which [`Gateway::establish`] has made.
    pub(super) fn finish(&mut self, from: SocketAddrV4, to: SocketAddrV4) {
        let fin = self.forward(&Sent::tcp(from, to, FIN | ACK).at(1001, 5001));
        if fin.to == to {
            return;
        }
        let next = fin.sequence.wrapping_add(1);
        self.answer(&Sent::tcp(fin.to, fin.from, FIN | ACK).at(5001, next));
        self.forward(&Sent::tcp(from, to, ACK).at(1002, 5002));
    }

    /// How often that reason has been counted.
    pub(super) fn drops(&self, reason: DropReason) -> u64 {
        self.stats.drops[reason as usize].get()
    }

    /// The one reason counted by `act`, and how often; none when nothing was dropped.
    pub(super) fn dropped_by<T>(
        &mut self,
        act: impl FnOnce(&mut Gateway) -> T,
    ) -> (Option<(DropReason, u64)>, T) {
        let counts = |gateway: &Gateway| -> Vec<u64> {
            DropReason::ALL
                .iter()
                .map(|reason| gateway.drops(*reason))
                .collect()
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

    pub(super) fn server(&self, slot: usize) -> &ServerStats {
        &self.stats.servers[slot]
    }

    /// Active and inactive connections of a server slot.
    pub(super) fn counts(&self, slot: usize) -> (u32, u32) {
        (self.server(slot).active.get(), self.server(slot).inactive.get())
    }

    pub(super) fn events(&self) -> Vec<Event> {
        std::iter::from_fn(|| self.mailbox.events.pop()).collect()
    }

    /// Every connection, by the listing that operators use.
    pub(super) fn connections(&mut self) -> Vec<Connection> {
        let listing = Arc::new(Listing::new(64));
        let order = Order::ListConnections(Arc::clone(&listing));
        self.mailbox.orders.push(order).unwrap();
        let mut all = Vec::new();
        while !listing.is_complete() {
            self.turn_raw();
            all.extend(std::iter::from_fn(|| listing.entries.pop()));
        }
        while self.mailbox.spent.pop().is_some() {}
        all
    }

    /// The state of the only connection, and the seconds that it has left.
    pub(super) fn state(&mut self) -> (&'static str, u32) {
        let all = self.connections();
        assert_eq!(all.len(), 1, "{all:?}");
        (all[0].state, all[0].remaining)
    }

    /// Local ports in use, towards all servers.
    pub(super) fn ports_in_use(&self) -> u32 {
        ports_in_use(&self.worker)
    }

    /// The table, the wheel, the counts and the local ports tell the same story.
    pub(super) fn check(&self) {
        let Books { controlled, held } = check_books(&self.worker, &self.stats, &self.plan);
        assert_eq!(controlled, held, "connections of templates");
    }
}

fn ports_in_use<I: Io>(worker: &Worker<I, TagIndex>) -> u32 {
    worker.locals.addresses().map(|address| address.used).sum()
}

/// What the books of one worker alone do not balance.
pub(super) struct Books {
    /// Connections that its templates hold, as far as they know.
    pub(super) controlled: u32,
    /// Its own connections that templates hold, whosever.
    pub(super) held: u32,
}

/// The table of a worker, the wheel, the counts and the local ports tell the same story.
pub(super) fn check_books<I: Io>(worker: &Worker<I, TagIndex>, stats: &WorkerStats, plan: &Plan) -> Books {
    let live = worker.table.len();
    let (mut records, mut fullnat, mut inactive) = (0, 0, 0);
    let (mut templates, mut controlled, mut held) = (0, 0, 0);
    worker.table.scan(0, usize::MAX, |_, record| {
        records += 1;
        if record.is_template() {
            templates += 1;
            controlled += record.controlled();
            return;
        }
        let extension = worker.table.extension(record);
        held += u32::from(extension.is_some_and(|extension| extension.template != 0));
        fullnat += u32::from(record.mode() == Mode::Fullnat);
        inactive += u32::from(record.flags.has(Flags::INACTIVE));
    });
    assert_eq!(records, live, "records and length");
    assert_eq!(worker.wheel.len(), live, "timers");
    assert_eq!(stats.templates.get(), u64::from(templates));
    let live = live as u32 - templates;
    assert_eq!(stats.connections.get(), u64::from(live));
    assert_eq!(ports_in_use(worker), fullnat, "local ports");
    let sum = |count: fn(&ServerStats) -> u32| stats.servers.iter().map(count).sum::<u32>();
    assert_eq!(sum(|server| server.inactive.get()), inactive, "inactive");
    assert_eq!(sum(|server| server.active.get()), live - inactive, "active");
    assert_eq!(sum(|server| server.templates.get()), templates, "templates");
    let (mut embryonic, mut services) = (0, vec![0; plan.sizes.services as usize]);
    worker.table.scan(0, usize::MAX, |_, record| {
        embryonic += u32::from(record.protocol == TCP && record.tcp_state().is_embryonic());
        if !record.flags.has(Flags::SNAT) && !record.flags.has(Flags::TEMPLATE) {
            services[record.service as usize] += 1;
        }
    });
    assert_eq!(
        worker.admission.counts(),
        (embryonic, services),
        "counted for limits"
    );
    assert!(stats.conserves(), "{stats:?}");
    Books { controlled, held }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check();
        }
    }
}

/// The only one.
pub(super) fn one(mut sent: Vec<Seen>) -> Seen {
    assert_eq!(sent.len(), 1, "{sent:#?}");
    sent.remove(0)
}
