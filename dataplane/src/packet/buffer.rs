//! What the packet path needs of a packet buffer: contiguous bytes with headroom. An mbuf implements it in
//! `control`, [`TestPacket`] here; stages are generic over it, so there is no `dyn` on the packet path.

/// An Ethernet port: its index in the order of the configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct PortId(pub u8);

/// What the device said of a checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ChecksumStatus {
    /// The device did not look: verify in software.
    #[default]
    Unknown,
    /// The device found it right.
    Good,
    /// The device found it wrong.
    Bad,
}

/// A packet: contiguous bytes from the Ethernet header on, with room to grow at both ends.
pub trait Packet: Sized {
    /// The frame, from the Ethernet header on.
    fn bytes(&self) -> &[u8];
    /// The frame, to be rewritten in place.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Grows the frame by `len` bytes of unspecified content at its front. False when there is no headroom;
    /// then nothing has changed.
    fn prepend(&mut self, len: usize) -> bool;
    /// Cuts `len` bytes off the front. False when the frame is shorter than that; then nothing has changed.
    fn trim_front(&mut self, len: usize) -> bool;
    /// Sets the frame's length by growing (unspecified content) or cutting its end. False when there is no
    /// room; then nothing has changed.
    fn resize(&mut self, len: usize) -> bool;
    /// What the device said of the IPv4 header checksum.
    fn ip_checksum(&self) -> ChecksumStatus {
        ChecksumStatus::Unknown
    }
    /// What the device said of the TCP or UDP checksum.
    fn l4_checksum(&self) -> ChecksumStatus {
        ChecksumStatus::Unknown
    }
}

/// A packet in ordinary memory, for tests and `tidegate replay`: 128 bytes of headroom, as an mbuf has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestPacket {
    room: Vec<u8>,
    start: usize,
    end: usize,
}

impl TestPacket {
    const HEADROOM: usize = 128;
    const CAPACITY: usize = 9728;

    /// An empty packet with as much room as a datagram needs that is put together from fragments.
    #[must_use]
    pub fn large() -> TestPacket {
        TestPacket {
            room: vec![0; usize::from(u16::MAX)],
            start: Self::HEADROOM,
            end: Self::HEADROOM,
        }
    }

    /// A packet that holds a copy of `frame`, which starts with the Ethernet header. Frames beyond 9,600 bytes
    /// are cut, as a device would.
    #[must_use]
    pub fn new(frame: &[u8]) -> TestPacket {
        let len = frame.len().min(Self::CAPACITY - Self::HEADROOM);
        let mut room = vec![0; Self::CAPACITY];
        room[Self::HEADROOM..Self::HEADROOM + len].copy_from_slice(&frame[..len]);
        TestPacket {
            room,
            start: Self::HEADROOM,
            end: Self::HEADROOM + len,
        }
    }
}

impl Packet for TestPacket {
    fn bytes(&self) -> &[u8] {
        &self.room[self.start..self.end]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.start..self.end]
    }

    fn prepend(&mut self, len: usize) -> bool {
        let fits = len <= self.start;
        if fits {
            self.start -= len;
        }
        fits
    }

    fn trim_front(&mut self, len: usize) -> bool {
        let fits = len <= self.end - self.start;
        if fits {
            self.start += len;
        }
        fits
    }

    fn resize(&mut self, len: usize) -> bool {
        let fits = self.start + len <= self.room.len();
        if fits {
            self.end = self.start + len;
        }
        fits
    }
}
