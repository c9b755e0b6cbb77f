//! How a worker reaches its ports: the one seam between the pipeline and the world. DPDK ports implement it in
//! `control`; [`memory`](super::memory_io) ports here, for tests and `tidegate replay`.

use crate::packet::{Packet, PortId};
use arrayvec::ArrayVec;

/// Packets in a burst at the most.
pub const BURST: usize = 32;

/// Bytes of the largest frame that is put together from fragments: an Ethernet header and an IP packet. A buffer's
/// length is a 16-bit number in DPDK, headroom included, so that this is a little less than IP's 65,535.
pub const LARGE: usize = 65_280;

/// Packets on their way in or out, in order.
pub type PacketBurst<P> = ArrayVec<P, BURST>;

/// What a worker that takes a packet over is to do with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Errand {
    /// It goes to the owner of its connection.
    #[default]
    Steered,
    /// It is handed over for good: its receiver keeps it, whoever owns its destination.
    Settled,
    /// Its receiver, the home of its client's template, says which server it goes to, and hands it back. A note lies in
    /// front of the frame, as with the answer.
    Question,
    /// The question comes back with what was said.
    Answer,
}

/// What a worker knows of a packet when it hands that over, and the packet does not say itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrival {
    /// The port that it arrived at.
    pub port: PortId,
    /// As [`Headers::largest_fragment`](crate::packet::Headers::largest_fragment), in bytes.
    pub largest_fragment: u16,
    /// The identification of the IPv6 fragments that it was put together from, in host order.
    pub identification: u32,
    /// What becomes of it.
    pub errand: Errand,
}

impl Arrival {
    /// A packet as it has come in by a port.
    #[must_use]
    pub const fn at(port: PortId) -> Arrival {
        Arrival {
            port,
            largest_fragment: 0,
            identification: 0,
            errand: Errand::Steered,
        }
    }

    /// The same, handed over for good.
    pub(super) const fn settled(self) -> Arrival {
        self.on(Errand::Settled)
    }

    /// The same on that errand.
    pub(super) const fn on(self, errand: Errand) -> Arrival {
        Arrival { errand, ..self }
    }
}

/// The ports of one worker: its own queue pair of each, and the rings to the other workers.
pub trait Io {
    /// The packet buffer of these ports.
    type Packet: Packet;

    /// Appends what has arrived at `port` to `burst`, up to its capacity.
    fn receive(&mut self, port: PortId, burst: &mut PacketBurst<Self::Packet>);

    /// Sends from the front of `burst`; what the device did not take stays in it.
    fn transmit(&mut self, port: PortId, burst: &mut PacketBurst<Self::Packet>);

    /// An empty packet for something that the gateway makes itself, or `None` when buffers have run out.
    fn allocate(&mut self) -> Option<Self::Packet>;

    /// An empty packet with room for at least [`LARGE`] bytes behind the headroom, to put fragments together in, or
    /// `None` when those have run out: there are few.
    fn allocate_large(&mut self) -> Option<Self::Packet>;

    /// Hands a packet to the worker that owns its connection; gives it back when the ring is full.
    fn hand_over(&mut self, worker: u8, arrival: Arrival, packet: Self::Packet) -> Result<(), Self::Packet>;

    /// Appends packets that other workers handed to this one, as they were handed over.
    fn take_over(&mut self, burst: &mut ArrayVec<(Arrival, Self::Packet), BURST>);

    /// Gives a packet that has arrived at `port` and is the host's to the kernel; gives it back when too many wait there.
    /// The last room is left to those that are `vital`. Without a way to the kernel none is taken.
    fn give_to_kernel(
        &mut self,
        _port: PortId,
        _vital: bool,
        packet: Self::Packet,
    ) -> Result<(), Self::Packet> {
        Err(packet)
    }

    /// Appends what the kernel wants to be sent, whole frames, by the ports that it names. Only the first worker asks.
    fn take_from_kernel(&mut self, _burst: &mut ArrayVec<(PortId, Self::Packet), BURST>) {}
}
