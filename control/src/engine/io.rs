//! A worker's ports over DPDK: its queues of each port, its rings, and the mbuf as the packet path sees it.

use super::host::KernelWay;
use super::queues::Share;
use super::rings::Rings;
use arrayvec::ArrayVec;
use dataplane::packet::{ChecksumStatus, Packet, PortId};
use dataplane::worker::{Arrival, BURST, Io, PacketBurst};
use dpdk::{Checksum, Mbuf, Mempool};

/// An mbuf of one segment.
pub(crate) struct Frame(Mbuf);

impl From<Mbuf> for Frame {
    fn from(mbuf: Mbuf) -> Frame {
        Frame(mbuf)
    }
}

impl Packet for Frame {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }

    fn prepend(&mut self, len: usize) -> bool {
        self.0.prepend(len)
    }

    fn trim_front(&mut self, len: usize) -> bool {
        self.0.trim_front(len)
    }

    fn resize(&mut self, len: usize) -> bool {
        self.0.resize(len)
    }

    #[inline]
    fn ip_checksum(&self) -> ChecksumStatus {
        status(self.0.ip_checksum())
    }

    #[inline]
    fn l4_checksum(&self) -> ChecksumStatus {
        status(self.0.l4_checksum())
    }
}

#[inline]
fn status(checksum: Checksum) -> ChecksumStatus {
    match checksum {
        Checksum::Good => ChecksumStatus::Good,
        Checksum::Bad => ChecksumStatus::Bad,
        Checksum::Unknown => ChecksumStatus::Unknown,
    }
}

/// One worker's queues, and its rings to the others.
pub(super) struct DpdkIo {
    ports: Vec<Share>,
    rings: Rings,
    pool: Mempool,
    large: Mempool,
    kernel: Option<KernelWay>,
}

impl DpdkIo {
    /// Over what the worker has of each port, in the order of port numbers; `pool` is where packets that the gateway
    /// makes come from, `large` those that it puts together from fragments; `kernel` is there with an exception path.
    #[must_use]
    pub(super) fn new(
        ports: Vec<Share>,
        rings: Rings,
        (pool, large): (Mempool, Mempool),
        kernel: Option<KernelWay>,
    ) -> DpdkIo {
        DpdkIo {
            ports,
            rings,
            pool,
            large,
            kernel,
        }
    }
}

impl Io for DpdkIo {
    type Packet = Frame;

    #[inline]
    fn receive(&mut self, port: PortId, burst: &mut PacketBurst<Frame>) {
        let mut arrived = ArrayVec::<Mbuf, BURST>::new();
        self.ports[usize::from(port.0)].receive(&mut arrived);
        for mut mbuf in arrived {
            // A frame over several buffers becomes one: in the first where it fits, else in a large one. When those have
            // run out, the parser finds it cut short.
            if mbuf.segments() > 1
                && !mbuf.linearize()
                && let Some(whole) = mbuf.copy(&self.large)
            {
                mbuf = whole;
            }
            burst.push(Frame(mbuf));
        }
    }

    #[inline]
    fn transmit(&mut self, port: PortId, burst: &mut PacketBurst<Frame>) {
        let mut leaving: ArrayVec<Mbuf, BURST> = burst.drain(..).map(|frame| frame.0).collect();
        self.ports[usize::from(port.0)].transmit(&mut leaving);
        burst.extend(leaving.into_iter().map(Frame));
    }

    fn allocate(&mut self) -> Option<Frame> {
        self.pool.alloc().map(Frame)
    }

    fn allocate_large(&mut self) -> Option<Frame> {
        self.large.alloc().map(Frame)
    }

    #[inline]
    fn hand_over(&mut self, worker: u8, arrival: Arrival, packet: Frame) -> Result<(), Frame> {
        self.rings.hand_over(worker, arrival, packet)
    }

    #[inline]
    fn take_over(&mut self, burst: &mut ArrayVec<(Arrival, Frame), BURST>) {
        self.rings.take_over(burst);
    }

    fn give_to_kernel(&mut self, port: PortId, vital: bool, packet: Frame) -> Result<(), Frame> {
        match &self.kernel {
            Some(way) => way.give(port, vital, packet),
            None => Err(packet),
        }
    }

    #[inline]
    fn take_from_kernel(&mut self, burst: &mut ArrayVec<(PortId, Frame), BURST>) {
        let Some(way) = &self.kernel else { return };
        while !burst.is_full()
            && let Some(frame) = way.take()
        {
            burst.push(frame);
        }
    }
}
