//! Two ports in memory: clients behind the first, real servers behind the second. Frames are mbufs that go round
//! in a fixed order, as in a device's ring, so that a measurement is of the code that runs over DPDK ports. Tests, which
//! have no DPDK, run over ordinary memory.

use super::flows::{Draws, Flow};
use super::reflect::{client_frame, turn_round};
use super::report::Mode;
use super::request::{L4, Request, Shape};
use super::tcp;
use crate::engine::Frame;
use anyhow::{Context, Result};
use arrayvec::ArrayVec;
use dataplane::packet::{Packet, PortId};
use dataplane::worker::{Arrival, BURST, Io, PacketBurst};
use dpdk::Mempool;
use std::collections::VecDeque;
use std::sync::Arc;

/// Frames of one pair of ports: as many as a receive ring of usual size holds.
const FRAMES: usize = 1024;

/// Where frames come from.
pub(super) trait Buffers: Clone {
    /// A frame.
    type Packet: Packet;

    /// A frame that holds this, if there is one left.
    fn frame(&self, bytes: &[u8]) -> Option<Self::Packet>;
}

impl Buffers for Mempool {
    type Packet = Frame;

    fn frame(&self, bytes: &[u8]) -> Option<Frame> {
        self.alloc_from(bytes).map(Frame::from)
    }
}

/// What clients send.
pub(super) enum Clients {
    /// Datagrams in this order, over and over; a multiple of [`BURST`] long.
    Order(Arc<[Flow]>, usize),
    /// One datagram of each flow, from this number on.
    New(u64),
    /// As `Order`, but every eighth datagram is the first of a new flow, to one of so many services at random, which
    /// have the ports from [`FIRST_SERVICE`] on.
    Mixed {
        /// The known flows.
        order: Arc<[Flow]>,
        /// Where their order stands.
        at: usize,
        /// The number of the next new flow.
        next: u64,
        /// The number of services.
        services: usize,
        /// Draws the service.
        draws: Draws,
    },
    /// TCP connections from opening to close.
    Connections(tcp::Script),
}

/// The port of the first of many services.
pub(super) const FIRST_SERVICE: u16 = 10_000;
/// Of so many datagrams of mixed traffic, one opens a connection.
const NEW_FLOW_EVERY: usize = 8;

/// What is behind the second port.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Servers {
    /// Ideal servers: each datagram comes back at once, and TCP is answered.
    Answer,
    /// Servers whose replies take another way.
    Silent,
}

impl Servers {
    /// Those of a forwarding mode.
    pub(super) fn of(mode: Mode) -> Servers {
        if mode.has_replies() {
            Servers::Answer
        } else {
            Servers::Silent
        }
    }
}

/// The ports.
pub(super) struct Generator<B: Buffers = Mempool> {
    free: VecDeque<B::Packet>,
    /// Bytes of a request.
    length: usize,
    request: Request,
    replies: VecDeque<B::Packet>,
    clients: Clients,
    servers: Servers,
    /// Where what the gateway says itself comes from, such as gratuitous ARP; nobody listens to that.
    pool: B,
}

impl<B: Buffers> Generator<B> {
    /// Ports over buffers of `pool`, with the shortest frames of IPv4.
    ///
    /// # Errors
    /// The pool has too few of them.
    pub(super) fn new(pool: &B, clients: Clients, servers: Servers) -> Result<Generator<B>> {
        Generator::with_shape(pool, Shape::default(), clients, servers)
    }

    /// As [`Generator::new`], with frames of that shape.
    ///
    /// # Errors
    /// The pool has too few of them.
    pub(super) fn with_shape(
        pool: &B,
        shape: Shape,
        clients: Clients,
        servers: Servers,
    ) -> Result<Generator<B>> {
        let empty = vec![0; shape.len()];
        let frame = |_| pool.frame(&empty).context("packet buffers have run out");
        Ok(Generator {
            free: (0..FRAMES).map(frame).collect::<Result<_>>()?,
            length: shape.len(),
            request: Request::new(shape),
            replies: VecDeque::with_capacity(FRAMES),
            clients,
            servers,
            pool: pool.clone(),
        })
    }

    /// Lets the clients send something else from now on.
    pub(super) fn set_clients(&mut self, clients: Clients) {
        self.clients = clients;
    }

    fn requests(&mut self, burst: &mut PacketBurst<B::Packet>) {
        let count = burst.remaining_capacity().min(self.free.len());
        let request = &self.request;
        match &mut self.clients {
            Clients::Order(order, at) => {
                if *at + BURST > order.len() {
                    *at = 0;
                }
                for (mut frame, flow) in self.free.drain(..count).zip(&order[*at..]) {
                    request.write(flow, frame.bytes_mut());
                    burst.push(frame);
                }
                *at += count;
            }
            Clients::New(next) => {
                for mut frame in self.free.drain(..count) {
                    request.write(&Flow::of(*next, request), frame.bytes_mut());
                    *next += 1;
                    burst.push(frame);
                }
            }
            Clients::Mixed {
                order,
                at,
                next,
                services,
                draws,
            } => {
                if *at + BURST > order.len() {
                    *at = 0;
                }
                for (place, (mut frame, flow)) in self.free.drain(..count).zip(&order[*at..]).enumerate() {
                    if place % NEW_FLOW_EVERY == 0 {
                        let port = FIRST_SERVICE + draws.below(*services) as u16;
                        request.write_to(&Flow::of(*next, request), port, frame.bytes_mut());
                        *next += 1;
                    } else {
                        request.write(flow, frame.bytes_mut());
                    }
                    burst.push(frame);
                }
                *at += count;
            }
            Clients::Connections(script) => {
                for (place, mut frame) in self.free.drain(..count).enumerate() {
                    script.write(place, request, frame.bytes_mut());
                    burst.push(frame);
                }
                script.advance();
            }
        }
    }

    fn answer(&mut self, burst: &mut PacketBurst<B::Packet>) {
        let life = match &self.clients {
            Clients::Connections(script) => Some(script.life()),
            _ => None,
        };
        for mut frame in burst.drain(..) {
            let Some((bytes, l4)) = client_frame(&mut frame) else {
                continue;
            };
            turn_round(bytes, l4);
            if life.is_some_and(|life| !life.answer(bytes, l4)) {
                self.recycle(frame);
            } else {
                self.replies.push_back(frame);
            }
        }
    }

    #[inline]
    fn recycle(&mut self, mut frame: B::Packet) {
        as_request(&mut frame, &self.request, self.length);
        self.free.push_back(frame);
    }
}

/// Makes a frame as long as a request again, and lets it begin where that did: what the gateway has put in front of it
/// comes off, what it has cut comes back, and so does padding behind a short packet, which the gateway does not pass on.
#[inline]
pub(super) fn as_request(frame: &mut impl Packet, request: &Request, expected: usize) {
    let length = frame.bytes().len();
    if request.l4() == L4[1] && frame.bytes().get(12..14) == Some(&[8, 0]) {
        frame.prepend(L4[1] - L4[0]);
    } else if length > expected {
        frame.trim_front(length - expected);
    }
    if frame.bytes().len() != expected {
        frame.resize(expected);
    }
}

impl<B: Buffers> Io for Generator<B> {
    type Packet = B::Packet;

    #[inline]
    fn receive(&mut self, port: PortId, burst: &mut PacketBurst<B::Packet>) {
        if port == PortId(0) {
            return self.requests(burst);
        }
        let count = burst.remaining_capacity().min(self.replies.len());
        burst.extend(self.replies.drain(..count));
    }

    #[inline]
    fn transmit(&mut self, port: PortId, burst: &mut PacketBurst<B::Packet>) {
        if port == PortId(1) && self.servers == Servers::Answer {
            self.answer(burst);
        } else {
            for mut frame in burst.drain(..) {
                if client_frame(&mut frame).is_some() {
                    self.recycle(frame);
                }
            }
        }
    }

    fn allocate(&mut self) -> Option<B::Packet> {
        self.pool.frame(&[])
    }

    fn allocate_large(&mut self) -> Option<B::Packet> {
        None
    }

    fn hand_over(&mut self, _worker: u8, _arrival: Arrival, packet: B::Packet) -> Result<(), B::Packet> {
        Err(packet)
    }

    fn take_over(&mut self, _burst: &mut ArrayVec<(Arrival, B::Packet), BURST>) {}
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::report::Path;
    use super::super::setup;
    use super::super::tcp::Life;
    use super::*;
    use dataplane::packet::TestPacket;
    use dataplane::time::Tick;

    /// Frames in ordinary memory.
    #[derive(Clone)]
    pub(in super::super) struct Heap;

    impl Buffers for Heap {
        type Packet = TestPacket;

        fn frame(&self, bytes: &[u8]) -> Option<TestPacket> {
            Some(TestPacket::new(bytes))
        }
    }

    /// Turns of a worker over these clients, in each mode and with each IP version; no packet is lost, none is dropped, and
    /// all frames are there in the end. Returns what was received, and what is about to be.
    fn go(path: Path, size: u16, turns: u32, clients: impl Fn(Shape) -> Clients) -> u64 {
        let shape = Shape {
            family: path.family,
            size,
        };
        let servers = Servers::of(path.mode);
        let io = Generator::with_shape(&Heap, shape, clients(shape), servers).unwrap();
        let index = dataplane::flow::TagIndex::new(20_000, false).unwrap();
        let mut worker = setup::worker(path, 10_000, false, index, io).unwrap();
        for turn in 0..turns {
            worker.turn(Tick(turn));
        }
        setup::finish(&worker).unwrap();
        let received = worker.stats().received.get();
        let io = worker.io_mut();
        assert_eq!(io.free.len() + io.replies.len(), FRAMES, "{path:?} {size}");
        let odd = io.free.iter().find(|frame| frame.bytes().len() != shape.len());
        assert_eq!(odd.map(|frame| frame.bytes().len()), None, "{path:?} {size}");
        received + io.replies.len() as u64
    }

    #[test]
    fn datagrams_pass_in_each_mode_and_with_each_ip_version() {
        for path in Path::all() {
            for size in [60, 61, 1500] {
                let known = |shape| Clients::Order(super::super::flows::each(64, shape), 0);
                let received = go(path, size, 200, known);
                // A burst of requests each turn, and one of replies.
                let replies = if path.mode.has_replies() { 200 } else { 0 };
                assert_eq!(received, 32 * (200 + replies), "{path:?} {size}");
            }
        }
    }

    #[test]
    fn tcp_connections_pass_in_each_mode_and_with_each_ip_version() {
        for path in Path::all().filter(|path| path.mode.has_replies()) {
            for life in [Life::Whole, Life::Short] {
                let script = |_| Clients::Connections(tcp::Script::new(life, 0));
                // So often that a frame which moved a little each time would run out of headroom.
                let steps = (32.0 / life.a_turn()) as u32;
                let received = go(path, 60, 200 * steps, script);
                assert_eq!(received, 200 * 32 * life.packets(), "{path:?} {life:?}");
            }
        }
    }

    #[test]
    fn one_of_eight_datagrams_opens_a_connection_to_one_of_the_services() {
        let clients = Clients::Mixed {
            order: super::super::flows::each(64, Shape::default()),
            at: 0,
            next: 1000,
            services: 3,
            draws: Draws::new(),
        };
        let mut ports = Generator::new(&Heap, clients, Servers::Silent).unwrap();
        let mut burst = PacketBurst::new();
        ports.receive(PortId(0), &mut burst);
        let to = |frame: &TestPacket| u16::from_be_bytes([frame.bytes()[36], frame.bytes()[37]]);
        let new = burst
            .iter()
            .filter(|frame| (FIRST_SERVICE..FIRST_SERVICE + 3).contains(&to(frame)));
        assert_eq!((burst.len(), new.count()), (BURST, BURST / NEW_FLOW_EVERY));
    }
}
