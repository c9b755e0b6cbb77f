//! Two ports in memory whose own work is the same for every packet and as small as can be: frames are boxes that go
//! from a queue to a list, as mbufs go through rings.

use arrayvec::ArrayVec;
use dataplane::packet::{Packet, PortId};
use dataplane::worker::{Arrival, BURST, Io, PacketBurst};
use std::collections::VecDeque;

/// Room before a frame, as an mbuf has it: tunnels need some.
const HEADROOM: usize = 128;
/// Room for a frame.
const ROOM: usize = 512;

/// A frame and the room around it.
struct Frame {
    start: u16,
    end: u16,
    room: [u8; ROOM],
}

/// A packet. As an mbuf, it moves as a pointer.
pub(crate) struct Buffer(Box<Frame>);

impl Buffer {
    fn empty() -> Buffer {
        Buffer(Box::new(Frame {
            start: HEADROOM as u16,
            end: HEADROOM as u16,
            room: [0; ROOM],
        }))
    }

    /// Becomes that frame.
    fn hold(&mut self, frame: &[u8]) {
        self.0.start = HEADROOM as u16;
        self.0.end = (HEADROOM + frame.len()) as u16;
        self.bytes_mut().copy_from_slice(frame);
    }
}

impl Packet for Buffer {
    #[inline]
    fn bytes(&self) -> &[u8] {
        let (start, end) = (usize::from(self.0.start), usize::from(self.0.end));
        self.0.room.get(start..end).unwrap_or(&[])
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        let (start, end) = (usize::from(self.0.start), usize::from(self.0.end));
        self.0.room.get_mut(start..end).unwrap_or(&mut [])
    }

    #[inline]
    fn prepend(&mut self, len: usize) -> bool {
        let fits = len <= usize::from(self.0.start);
        if fits {
            self.0.start -= len as u16;
        }
        fits
    }

    #[inline]
    fn trim_front(&mut self, len: usize) -> bool {
        let fits = len <= self.bytes().len();
        if fits {
            self.0.start += len as u16;
        }
        fits
    }

    #[inline]
    fn resize(&mut self, len: usize) -> bool {
        let fits = usize::from(self.0.start) + len <= ROOM;
        if fits {
            self.0.end = self.0.start + len as u16;
        }
        fits
    }
}

/// The ports.
#[derive(Default)]
pub(crate) struct Ports {
    free: Vec<Buffer>,
    arriving: [VecDeque<Buffer>; 2],
    sent: Vec<(PortId, Buffer)>,
}

impl Ports {
    /// Lets a frame arrive at a port.
    pub(crate) fn arrive(&mut self, port: PortId, frame: &[u8]) {
        let mut buffer = self.free.pop().unwrap_or_else(Buffer::empty);
        buffer.hold(frame);
        self.arriving[usize::from(port.0)].push_back(buffer);
    }

    /// The frames that have been sent, in order; their buffers are used again.
    pub(crate) fn take_sent(&mut self) -> Vec<(PortId, Vec<u8>)> {
        let frames = self.sent.iter();
        let frames = frames
            .map(|(port, buffer)| (*port, buffer.bytes().to_vec()))
            .collect();
        self.recycle();
        frames
    }

    /// Forgets what has been sent; returns how much that was.
    pub(crate) fn recycle(&mut self) -> usize {
        let count = self.sent.len();
        self.free.extend(self.sent.drain(..).map(|(_, buffer)| buffer));
        count
    }
}

impl Io for Ports {
    type Packet = Buffer;

    #[inline]
    fn receive(&mut self, port: PortId, burst: &mut PacketBurst<Buffer>) {
        let queue = &mut self.arriving[usize::from(port.0)];
        let count = queue.len().min(burst.remaining_capacity());
        burst.extend(queue.drain(..count));
    }

    #[inline]
    fn transmit(&mut self, port: PortId, burst: &mut PacketBurst<Buffer>) {
        self.sent.extend(burst.drain(..).map(|buffer| (port, buffer)));
    }

    fn allocate(&mut self) -> Option<Buffer> {
        Some(self.free.pop().unwrap_or_else(Buffer::empty))
    }

    fn allocate_large(&mut self) -> Option<Buffer> {
        None
    }

    fn hand_over(&mut self, _worker: u8, _arrival: Arrival, packet: Buffer) -> Result<(), Buffer> {
        Err(packet)
    }

    fn take_over(&mut self, _burst: &mut ArrayVec<(Arrival, Buffer), BURST>) {}
}
