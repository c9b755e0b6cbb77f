//! Ports in memory: what is put in at one end comes out at the other. For tests and `tidegate replay`.
//! [`MemoryCrew`](super::MemoryCrew) carries what workers hand over to each other.

use super::io::{Arrival, BURST, Io, PacketBurst};
use crate::packet::{PortId, TestPacket};
use arrayvec::ArrayVec;
use std::collections::VecDeque;

/// In-memory ports of one worker, and its ends of the rings to the others.
#[derive(Debug, Default)]
pub struct MemoryIo {
    arriving: Vec<VecDeque<TestPacket>>,
    sent: Vec<(PortId, Vec<u8>)>,
    given: Vec<(PortId, Vec<u8>)>,
    from_kernel: VecDeque<(PortId, TestPacket)>,
    kernel_room: usize,
    handed: Vec<(u8, Arrival, TestPacket)>,
    /// Packets that `handed` takes.
    room: usize,
    coming: VecDeque<(Arrival, TestPacket)>,
}

/// Packets that wait for the kernel at the most, unless a test says otherwise; the vital ones may be twice as many.
const KERNEL_ROOM: usize = 256;

impl MemoryIo {
    /// As many ports, of a worker that has nobody to hand anything to.
    #[must_use]
    pub fn new(ports: usize) -> MemoryIo {
        MemoryIo::beside_others(ports, 0)
    }

    /// As many ports, of a worker that may hand over so many packets before they are carried on.
    #[must_use]
    pub fn beside_others(ports: usize, room: usize) -> MemoryIo {
        MemoryIo {
            arriving: vec![VecDeque::new(); ports],
            room,
            kernel_room: KERNEL_ROOM,
            ..MemoryIo::default()
        }
    }

    /// Lets so many packets wait for the kernel, and twice as many vital ones.
    pub fn set_kernel_room(&mut self, packets: usize) {
        self.kernel_room = packets;
    }

    /// Has the kernel send a frame by a port, at the next turn.
    pub fn send_from_kernel(&mut self, port: PortId, frame: &[u8]) {
        self.from_kernel.push_back((port, TestPacket::new(frame)));
    }

    /// Takes what the kernel has been given, in order: the port and the frame.
    pub fn take_given(&mut self) -> Vec<(PortId, Vec<u8>)> {
        std::mem::take(&mut self.given)
    }

    /// Lets a frame arrive at a port; it is received at the next turn.
    pub fn arrive(&mut self, port: PortId, frame: &[u8]) {
        self.arriving[usize::from(port.0)].push_back(TestPacket::new(frame));
    }

    /// Whether something waits for the next turn: a frame, or what another worker has handed over.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.coming.is_empty() || self.arriving.iter().any(|queue| !queue.is_empty())
    }

    /// Takes what has been sent, in order: the port and the frame.
    pub fn take_sent(&mut self) -> Vec<(PortId, Vec<u8>)> {
        std::mem::take(&mut self.sent)
    }

    /// Takes what has been handed over, in order, and to whom.
    pub(super) fn take_handed(&mut self) -> Vec<(u8, Arrival, TestPacket)> {
        std::mem::take(&mut self.handed)
    }

    /// Something that another worker has handed over.
    pub(super) fn come(&mut self, arrival: Arrival, packet: TestPacket) {
        self.coming.push_back((arrival, packet));
    }
}

impl Io for MemoryIo {
    type Packet = TestPacket;

    fn receive(&mut self, port: PortId, burst: &mut PacketBurst<TestPacket>) {
        let queue = &mut self.arriving[usize::from(port.0)];
        let count = queue.len().min(burst.remaining_capacity());
        burst.extend(queue.drain(..count));
    }

    fn transmit(&mut self, port: PortId, burst: &mut PacketBurst<TestPacket>) {
        use crate::packet::Packet;
        self.sent
            .extend(burst.drain(..).map(|packet| (port, packet.bytes().to_vec())));
    }

    fn allocate(&mut self) -> Option<TestPacket> {
        Some(TestPacket::new(&[]))
    }

    fn allocate_large(&mut self) -> Option<TestPacket> {
        Some(TestPacket::large())
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

    fn give_to_kernel(&mut self, port: PortId, vital: bool, packet: TestPacket) -> Result<(), TestPacket> {
        use crate::packet::Packet;
        let room = if vital {
            2 * self.kernel_room
        } else {
            self.kernel_room
        };
        if self.given.len() >= room {
            return Err(packet);
        }
        self.given.push((port, packet.bytes().to_vec()));
        Ok(())
    }

    fn take_from_kernel(&mut self, burst: &mut ArrayVec<(PortId, TestPacket), BURST>) {
        let count = self.from_kernel.len().min(burst.remaining_capacity());
        burst.extend(self.from_kernel.drain(..count));
    }
}
