//! Two ports in memory: clients behind the first, real servers behind the second. Frames are mbufs that go round
//! in a fixed order, as in a device's ring, so that a measurement is of the code that runs over DPDK ports. Tests, which
//! have no DPDK, run over ordinary memory.

use super::flows::{Draws, FRAME, Flow, client};
use super::setup::{GATEWAY_LAN, ROUTER};
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

/// The ports.
pub(super) struct Generator<B: Buffers = Mempool> {
    free: VecDeque<B::Packet>,
    replies: VecDeque<B::Packet>,
    clients: Clients,
    servers: Servers,
    /// Where what the gateway says itself comes from, such as gratuitous ARP; nobody listens to that.
    pool: B,
}

impl<B: Buffers> Generator<B> {
    /// Ports over buffers of `pool`.
    ///
    /// # Errors
    /// The pool has too few of them.
    pub(super) fn new(pool: &B, clients: Clients, servers: Servers) -> Result<Generator<B>> {
        let frame = |_| pool.frame(&[0; FRAME]).context("packet buffers have run out");
        Ok(Generator {
            free: (0..FRAMES).map(frame).collect::<Result<_>>()?,
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
        match &mut self.clients {
            Clients::Order(order, at) => {
                if *at + BURST > order.len() {
                    *at = 0;
                }
                for (mut frame, flow) in self.free.drain(..count).zip(&order[*at..]) {
                    flow.write(frame.bytes_mut());
                    burst.push(frame);
                }
                *at += count;
            }
            Clients::New(next) => {
                for mut frame in self.free.drain(..count) {
                    Flow::of(*next).write(frame.bytes_mut());
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
                        Flow::of(*next).write_to(port, frame.bytes_mut());
                        *next += 1;
                    } else {
                        flow.write(frame.bytes_mut());
                    }
                    burst.push(frame);
                }
                *at += count;
            }
            Clients::Connections(script) => {
                for (place, mut frame) in self.free.drain(..count).enumerate() {
                    script.write(place, frame.bytes_mut(), client);
                    burst.push(frame);
                }
                script.advance();
            }
        }
    }

    fn answer(&mut self, burst: &mut PacketBurst<B::Packet>) {
        let tcp = matches!(self.clients, Clients::Connections(_));
        for mut frame in burst.drain(..) {
            let Some(bytes) = client_frame(&mut frame) else {
                continue;
            };
            turn_round(bytes);
            if tcp && !tcp::answer(bytes) {
                self.free.push_back(frame);
            } else {
                self.replies.push_back(frame);
            }
        }
    }
}

/// A frame that began as a client's: the gateway's own are none of IPv4 here.
#[inline]
fn client_frame(frame: &mut impl Packet) -> Option<&mut [u8; FRAME]> {
    let bytes = frame.bytes_mut().first_chunk_mut::<FRAME>()?;
    (bytes[12..14] == [8, 0]).then_some(bytes)
}

/// Swaps IP addresses and ports, which no checksum minds, and addresses the frame to the gateway.
#[inline]
fn turn_round(frame: &mut [u8; FRAME]) {
    frame[..6].copy_from_slice(&GATEWAY_LAN.0);
    frame[6..12].copy_from_slice(&ROUTER.0);
    let (source, destination) = (four(frame, 26), four(frame, 30));
    frame[26..30].copy_from_slice(&destination);
    frame[30..34].copy_from_slice(&source);
    let [a, b, c, d] = four(frame, 34);
    frame[34..38].copy_from_slice(&[c, d, a, b]);
}

/// Swaps the MAC addresses: all that the plainest forwarder does to a frame.
#[inline]
pub(super) fn swap_macs(frame: &mut [u8; FRAME]) {
    let mut macs = [0; 12];
    macs[..6].copy_from_slice(&frame[6..12]);
    macs[6..].copy_from_slice(&frame[..6]);
    frame[..12].copy_from_slice(&macs);
}

#[inline]
fn four(frame: &[u8; FRAME], at: usize) -> [u8; 4] {
    [frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]
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
                    self.free.push_back(frame);
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
    use super::*;
    use dataplane::packet::TestPacket;

    /// Frames in ordinary memory.
    #[derive(Clone)]
    pub(in super::super) struct Heap;

    impl Buffers for Heap {
        type Packet = TestPacket;

        fn frame(&self, bytes: &[u8]) -> Option<TestPacket> {
            Some(TestPacket::new(bytes))
        }
    }

    #[test]
    fn one_of_eight_datagrams_opens_a_connection_to_one_of_the_services() {
        let clients = Clients::Mixed {
            order: super::super::flows::each(64),
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
