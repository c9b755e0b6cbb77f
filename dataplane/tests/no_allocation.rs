//! A worker neither allocates nor frees after its construction, whatever happens to it: the allocator counts during
//! its turns. Its packets come from a pool and go back there, as mbufs do.

// A whole program of tests.
#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(
    dead_code,
    reason = "shared with the worker's own tests, which use more of it"
)]
#[path = "../src/worker/tests/frames.rs"]
mod frames;
#[allow(
    dead_code,
    reason = "shared with the worker's own tests, which use more of it"
)]
#[path = "../src/worker/tests/plan.rs"]
mod plan;

#[allow(
    dead_code,
    reason = "shared with the worker's own tests, which use more of it"
)]
#[path = "../src/worker/tests/carried.rs"]
mod carried;
#[path = "no_allocation/errands.rs"]
mod errands;
#[allow(
    dead_code,
    reason = "shared with the worker's own tests, which use more of it"
)]
#[path = "../src/worker/tests/header.rs"]
mod header;
#[path = "no_allocation/modes.rs"]
mod modes;
#[path = "no_allocation/proxy.rs"]
mod proxy;
#[path = "no_allocation/snat.rs"]
mod snat;
#[allow(
    dead_code,
    reason = "shared with the worker's own tests, which use more of it"
)]
#[path = "../src/worker/tests/wire.rs"]
mod wire;

use arrayvec::ArrayVec;
use dataplane::drops::DropReason;
use dataplane::flow::{Mode, TagIndex};
use dataplane::packet::{Packet, PortId};
use dataplane::scheduler::SchedulerKind;
use dataplane::service::{ClientAddress, Protocol};
use dataplane::time::{Tick, seconds};
use dataplane::worker::{
    Arrival, BURST, Io, LARGE, Listing, Mailbox, Order, PacketBurst, Worker, WorkerStats,
};
use frames::*;
use plan::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::rc::Rc;
use std::sync::Arc;

/// The system's allocator, counting on threads that ask for it.
struct Counting;

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
    static FREED: Cell<u64> = const { Cell::new(0) };
}

fn count(counter: &'static std::thread::LocalKey<Cell<u64>>) {
    if COUNTING.get() {
        counter.set(counter.get() + 1);
    }
}

// SAFETY: every call goes to the system's allocator as it came; counting touches no memory that it manages.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(&ALLOCATED);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(&FREED);
        // SAFETY: the pointer came from `System` through `alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

type Room = Box<[u8]>;
type Pool = Rc<RefCell<Vec<Room>>>;

/// A packet whose memory goes back to its pool.
struct Pooled {
    room: Option<Room>,
    start: usize,
    end: usize,
    pool: Pool,
}

impl Pooled {
    fn new(pool: &Pool, frame: &[u8]) -> Option<Pooled> {
        let mut room = pool.borrow_mut().pop()?;
        room[128..128 + frame.len()].copy_from_slice(frame);
        Some(Pooled {
            room: Some(room),
            start: 128,
            end: 128 + frame.len(),
            pool: Rc::clone(pool),
        })
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        self.pool.borrow_mut().extend(self.room.take());
    }
}

impl Packet for Pooled {
    fn bytes(&self) -> &[u8] {
        &self.room.as_ref().unwrap()[self.start..self.end]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.room.as_mut().unwrap()[self.start..self.end]
    }

    fn prepend(&mut self, len: usize) -> bool {
        let fits = len <= self.start;
        self.start -= if fits { len } else { 0 };
        fits
    }

    fn trim_front(&mut self, len: usize) -> bool {
        let fits = len <= self.end - self.start;
        self.start += if fits { len } else { 0 };
        fits
    }

    fn resize(&mut self, len: usize) -> bool {
        let fits = self.start + len <= self.room.as_ref().unwrap().len();
        if fits {
            self.end = self.start + len;
        }
        fits
    }
}

struct Ports {
    arriving: [VecDeque<Pooled>; 2],
    sent: Vec<(PortId, Pooled)>,
    pool: Pool,
    /// Room for packets that are put together.
    large: Pool,
    /// What goes to other workers, as far as there is room, and what comes from there.
    handed: Vec<(u8, Arrival, Pooled)>,
    coming: VecDeque<(Arrival, Pooled)>,
    /// For the kernel, and from it.
    given: Vec<(PortId, Pooled)>,
    from_kernel: VecDeque<(PortId, Pooled)>,
}

impl Ports {
    /// With room for so many packets on their way to other workers, and from them.
    fn new(handed: usize) -> Ports {
        Ports {
            arriving: [VecDeque::with_capacity(1024), VecDeque::with_capacity(1024)],
            sent: Vec::with_capacity(4096),
            pool: pool_of(4096, 2048),
            large: pool_of(4, 128 + LARGE),
            handed: Vec::with_capacity(handed),
            coming: VecDeque::with_capacity(2 * handed),
            given: Vec::with_capacity(KERNEL_ROOM),
            from_kernel: VecDeque::with_capacity(64),
        }
    }
}

/// Packets that wait for the kernel at the most.
const KERNEL_ROOM: usize = 8;

/// That many packets of so many bytes.
fn pool_of(packets: usize, bytes: usize) -> Pool {
    let room = |_| vec![0; bytes].into_boxed_slice();
    Rc::new(RefCell::new((0..packets).map(room).collect()))
}

impl Io for Ports {
    type Packet = Pooled;

    fn receive(&mut self, port: PortId, burst: &mut PacketBurst<Pooled>) {
        let queue = &mut self.arriving[usize::from(port.0)];
        let count = queue.len().min(burst.remaining_capacity());
        burst.extend(queue.drain(..count));
    }

    fn transmit(&mut self, port: PortId, burst: &mut PacketBurst<Pooled>) {
        self.sent.extend(burst.drain(..).map(|packet| (port, packet)));
    }

    fn allocate(&mut self) -> Option<Pooled> {
        Pooled::new(&self.pool, &[])
    }

    fn allocate_large(&mut self) -> Option<Pooled> {
        Pooled::new(&self.large, &[])
    }

    fn hand_over(&mut self, worker: u8, arrival: Arrival, packet: Pooled) -> Result<(), Pooled> {
        if self.handed.len() == self.handed.capacity() {
            return Err(packet);
        }
        self.handed.push((worker, arrival, packet));
        Ok(())
    }

    fn take_over(&mut self, burst: &mut ArrayVec<(Arrival, Pooled), BURST>) {
        let count = self.coming.len().min(burst.remaining_capacity());
        burst.extend(self.coming.drain(..count));
    }

    fn give_to_kernel(&mut self, port: PortId, _vital: bool, packet: Pooled) -> Result<(), Pooled> {
        if self.given.len() == KERNEL_ROOM {
            return Err(packet);
        }
        self.given.push((port, packet));
        Ok(())
    }

    fn take_from_kernel(&mut self, burst: &mut ArrayVec<(PortId, Pooled), BURST>) {
        let count = self.from_kernel.len().min(burst.remaining_capacity());
        burst.extend(self.from_kernel.drain(..count));
    }
}

struct Rig {
    worker: Worker<Ports, TagIndex>,
    stats: Arc<WorkerStats>,
    /// What another worker counts, which this one looks at.
    other: Arc<WorkerStats>,
    mailbox: Arc<Mailbox>,
    now: Tick,
}

impl Rig {
    fn new(plan: &mut Plan) -> Rig {
        let ports = Ports::new(0);
        let stats = Arc::new(WorkerStats::new(2, 64));
        let mailbox = Arc::new(Mailbox::default());
        let index = TagIndex::new(2 * plan.sizes.connections as usize, false).unwrap();
        let (told, post) = (Arc::clone(&stats), Arc::clone(&mailbox));
        let worker = Worker::new(0, ports, index, plan.sizes, plan.snapshot(), told, post).unwrap();
        let other = Arc::new(WorkerStats::new(2, 64));
        Rig {
            worker: worker.beside([(Arc::clone(&other), Arc::new(Mailbox::default()))]),
            stats,
            other,
            mailbox,
            now: Tick(0),
        }
    }

    fn arrive(&mut self, port: PortId, frame: &[u8]) {
        let ports = self.worker.io_mut();
        let packet = Pooled::new(&ports.pool, frame).unwrap();
        ports.arriving[usize::from(port.0)].push_back(packet);
    }

    /// One turn under the eyes of the allocator; the frames that were sent.
    fn turn_raw(&mut self) -> Vec<(PortId, Vec<u8>)> {
        for server in &self.other.servers {
            server.active.set(self.now.0 % 8);
        }
        COUNTING.set(true);
        self.worker.turn(self.now);
        COUNTING.set(false);
        let ports = self.worker.io_mut();
        ports.given.clear();
        let sent = ports.sent.drain(..);
        sent.map(|(port, packet)| (port, packet.bytes().to_vec()))
            .collect()
    }

    fn turn(&mut self) -> Vec<Seen> {
        let sent = self.turn_raw();
        sent.iter()
            .map(|(port, frame)| Seen::read(port.0, frame))
            .collect()
    }

    /// Turns until nothing waits; servers and neighbours answer.
    fn settle(&mut self, answering: bool) {
        for _ in 0..8 {
            for seen in self.turn() {
                let port = PortId(seen.port);
                if seen.protocol == 0 && seen.icmp.0 == 1 && seen.from != seen.to && answering {
                    let mac = if port == LAN { server_mac(1) } else { ROUTER_MAC };
                    self.arrive(port, &arp(2, mac, *seen.to.ip(), seen.from_mac, *seen.from.ip()));
                } else if seen.protocol == TCP && port == LAN && seen.flags & (SYN | FIN) != 0 {
                    let next = seen.sequence.wrapping_add(1);
                    let reply = Sent::tcp(seen.to, seen.from, seen.flags | ACK).at(5000, next);
                    self.arrive(LAN, &reply.frame(LAN_MAC));
                } else if seen.protocol == TCP && port == WAN && seen.flags & SYN != 0 {
                    // The handshake's end, which tells the server of its client.
                    let next = seen.sequence.wrapping_add(1);
                    let end = Sent::tcp(seen.to, seen.from, ACK).at(seen.acknowledgement, next);
                    self.arrive(WAN, &end.frame(WAN_MAC));
                }
            }
        }
    }
}

/// What clients do in one round: new connections of every kind, closed or left to time out, and everything that
/// is refused or answered.
fn traffic(rig: &mut Rig, round: u32) {
    for n in 0..40u32 {
        let number = round * 40 + n;
        let from = client((number >> 14) as u8 + 1, 1024 + (number & 0x3fff) as u16);
        let tcp = |flags| Sent::tcp(from, WEB, flags);
        let mut packets = vec![
            tcp(SYN).options(&[8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 1]),
            tcp(ACK).data(b"data"),
            Sent::udp(from, DNS, b"query"),
        ];
        match n % 8 {
            0..=3 => packets.push(tcp(FIN | ACK)),
            4 => packets.push(tcp(RST)),
            5 => packets.extend([tcp(ACK).ttl(1), Sent::tcp(from, end(VIP.octets(), 81), SYN)]),
            6 => packets.extend([tcp(ACK).data(&[0; 1460]), Sent::echo(*from.ip(), VIP, b"ping")]),
            _ => packets.push(Sent::udp(from, end(VIP.octets(), 54), b"")),
        }
        for packet in packets {
            rig.arrive(WAN, &packet.frame(WAN_MAC));
        }
    }
    let stranger = [203, 0, 113, 120 + (round % 100) as u8].into();
    let mac = dataplane::packet::MacAddr([2, 5, 0, 0, 0, 1]);
    rig.arrive(
        WAN,
        &arp(1, mac, stranger, dataplane::packet::MacAddr::default(), VIP),
    );
    rig.arrive(WAN, &[0; 60]);
    // The host's: more than the kernel has room for, and more than it gets in a second. It sends something too.
    for port in 0..24 {
        let ssh = Sent::tcp(client(9, 1024 + port), SocketAddrV4::new(WAN_IP, 22), SYN).frame(WAN_MAC);
        rig.arrive(WAN, &ssh);
        let ports = rig.worker.io_mut();
        let packet = Pooled::new(&ports.pool, &ssh).unwrap();
        ports.from_kernel.push_back((LAN, packet));
    }
}

fn plan() -> Plan {
    let mut plan = Plan::web(Mode::Fullnat, 2);
    plan.sizes.connections = 600;
    plan.sizes.neighbours = 32;
    plan.know_nobody();
    plan.set_mtu(LAN, 1400);
    plan.let_kernel_have(12);
    plan.edit(0, |service| service.client_address = ClientAddress::Toa);
    plan.settings.expire_nodest_conn = true;
    plan.settings.icmp_rate = 50;
    plan.use_locals(pool(2, 10_000, 10_063));
    plan.add(
        DNS,
        Protocol::Udp,
        vec![server(3, Mode::Fullnat), server(4, Mode::Dr)],
    );
    plan.edit(1, |service| service.client_address = ClientAddress::ProxyV2);
    plan
}

#[test]
fn no_turn_allocates_or_frees() {
    let mut plan = plan();
    let mut rig = Rig::new(&mut plan);
    let mut listings = Vec::new();
    for round in 0..300u32 {
        traffic(&mut rig, round);
        let connections = Arc::new(Listing::new(256));
        let neighbours = Arc::new(Listing::new(256));
        let locals = Arc::new(Listing::new(256));
        for order in [
            Order::ListConnections(Arc::clone(&connections)),
            Order::ListNeighbours(Arc::clone(&neighbours)),
            Order::ListLocalAddresses(Arc::clone(&locals)),
        ] {
            rig.mailbox.orders.push(order).unwrap();
        }
        plan.edit(0, |service| {
            service.scheduler = SchedulerKind::ALL[round as usize % 14]
        });
        match round % 30 {
            7 => plan.route_by("203.0.113.3".parse().unwrap()),
            14 => plan.edit(0, |service| service.servers.pop()),
            21 => plan.edit(0, |service| service.servers.push(server(2, Mode::Fullnat))),
            22 => plan.route_by(ROUTER),
            24 => plan.know_neighbours(),
            28 => plan.know_nobody(),
            _ => {}
        }
        rig.mailbox.orders.push(Order::Publish(plan.snapshot())).unwrap();
        rig.settle(round % 5 != 0);
        if round % 20 == 0 {
            // Nobody answers until neighbours count as failed.
            for _ in 0..4 {
                rig.now = rig.now.after(seconds(1));
                rig.settle(false);
            }
        }
        rig.now = rig.now.after(match round % 20 {
            10 => seconds(61),
            19 => seconds(905),
            _ => 40,
        });
        rig.settle(true);
        listings.extend(std::iter::from_fn(|| connections.entries.pop()).map(|shown| shown.client));
        while rig.mailbox.spent.pop().is_some() {}
        while rig.mailbox.events.pop().is_some() {}
    }
    assert_eq!((ALLOCATED.get(), FREED.get()), (0, 0));

    // And it has been through all of that.
    assert!(rig.stats.conserves() && listings.len() > 1000);
    assert!(rig.stats.opened.get() > 5000, "{:?}", rig.stats);
    assert!(rig.stats.to_kernel.get() > 1000 && rig.stats.from_kernel.get() > 1000);
    assert!(rig.stats.toa_added.get() > 1000, "{:?}", rig.stats);
    for reason in [
        DropReason::TtlExceeded,
        DropReason::NoService,
        DropReason::ExceedsMtu,
        DropReason::TableFull,
        DropReason::LocalPortsExhausted,
        DropReason::NeighbourFailed,
        DropReason::NotOurMac,
        DropReason::ExceptionRate,
        DropReason::ExceptionFull,
    ] {
        assert!(rig.stats.drops[reason as usize].get() > 0, "{}", reason.label());
    }
}

/// The counter counts: else the test above would prove nothing.
#[test]
fn the_allocator_counts() {
    COUNTING.set(true);
    drop(std::hint::black_box(vec![1, 2, 3]));
    COUNTING.set(false);
    assert_eq!((ALLOCATED.get(), FREED.get()), (1, 1));
}
