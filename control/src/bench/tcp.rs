//! TCP connections from opening to close, 32 at a time in step. Sequence numbers are such that the gateway's state
//! machine moves; nobody looks at the segments' checksums, which no gateway verifies.

use super::flows::{FRAME, Flow};
use dataplane::packet::{checksum, ipv4, tcp};
use dataplane::worker::BURST;

/// What a client sends, in this order: the handshake, a request, the close.
const STEPS: [u8; 5] = [
    tcp::SYN,
    tcp::ACK,
    tcp::ACK | tcp::PSH,
    tcp::ACK | tcp::FIN,
    tcp::ACK,
];
/// Packets of one connection, both directions: each segment but a bare acknowledgement is answered.
pub(super) const PACKETS: u64 = STEPS.len() as u64 + 3;

const FLAGS: usize = 47;

/// Where 32 clients stand.
pub(super) struct Script {
    first: u64,
    step: usize,
}

impl Script {
    /// Connections from this flow number on.
    pub(super) fn new(first: u64) -> Script {
        Script { first, step: 0 }
    }

    /// The present segment of one of the clients.
    #[inline]
    pub(super) fn write(&self, place: usize, frame: &mut [u8], client: impl Fn(u64) -> ([u8; 4], [u8; 2])) {
        let number = self.first + place as u64;
        Flow::of(number).write(frame);
        let Some(frame) = frame.first_chunk_mut::<FRAME>() else {
            return;
        };
        let (_, port) = client(number);
        frame[17] = 40;
        frame[23] = ipv4::TCP;
        frame[24..26].fill(0);
        let sum = !checksum::sum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame[34..36].copy_from_slice(&port);
        frame[38..54].fill(0);
        frame[41] = self.step as u8;
        frame[46] = 5 << 4;
        frame[FLAGS] = STEPS[self.step];
    }

    /// The next segment of each, or the next 32 clients.
    pub(super) fn advance(&mut self) {
        self.step += 1;
        if self.step == STEPS.len() {
            self.step = 0;
            self.first += BURST as u64;
        }
    }
}

/// Makes the server's answer of a client's segment whose addresses have been swapped; false when it needs none.
#[inline]
pub(super) fn answer(frame: &mut [u8; FRAME]) -> bool {
    let flags = frame[FLAGS];
    frame[FLAGS] = flags | tcp::ACK;
    flags != tcp::ACK
}
