//! TCP connections from opening to close, 32 at a time in step. Sequence numbers are such that the gateway's state
//! machine moves; nobody looks at the segments' checksums, which no gateway verifies.

use super::flows::Flow;
use super::request::Request;
use dataplane::packet::{checksum, ipv4, tcp};
use dataplane::worker::BURST;

/// What becomes of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Life {
    /// Handshake, a request and its answer, the client's close and the server's, and the last acknowledgement.
    Whole,
    /// The same without the answer and the last acknowledgement: as few packets as there can be.
    Short,
}

/// Where the flags are in a TCP header.
const FLAGS: usize = 13;

impl Life {
    /// What a client sends, in this order.
    fn steps(self) -> &'static [u8] {
        const STEPS: [u8; 5] = [
            tcp::SYN,
            tcp::ACK,
            tcp::ACK | tcp::PSH,
            tcp::ACK | tcp::FIN,
            tcp::ACK,
        ];
        match self {
            Life::Whole => &STEPS,
            Life::Short => &STEPS[..4],
        }
    }

    /// Whether the server answers a segment of these flags.
    fn is_answered(self, flags: u8) -> bool {
        match self {
            Life::Whole => flags != tcp::ACK,
            Life::Short => flags & (tcp::SYN | tcp::FIN) != 0,
        }
    }

    /// Packets of one connection, both directions.
    pub(super) fn packets(self) -> u64 {
        let answers = self.steps().iter().filter(|flags| self.is_answered(**flags));
        self.steps().len() as u64 + answers.count() as u64
    }

    /// Connections that begin in each turn of a worker, on average: 32 take a step each.
    pub(super) fn a_turn(self) -> f64 {
        BURST as f64 / self.steps().len() as f64
    }

    /// What it is in words.
    pub(super) fn text(self) -> &'static str {
        match self {
            Life::Whole => "TCP connection: handshake, request, answer, close, expiry",
            Life::Short => {
                "TCP connection: handshake, request, close by FIN, expiry, among those in TIME_WAIT"
            }
        }
    }

    /// Makes the server's answer of a client's segment whose addresses have been swapped, and whose TCP header begins at
    /// `l4`; false when it needs none.
    #[inline]
    pub(super) fn answer(self, frame: &mut [u8], l4: usize) -> bool {
        let Some(flags) = frame.get_mut(l4 + FLAGS) else {
            return false;
        };
        let sent = *flags;
        *flags = sent | tcp::ACK;
        self.is_answered(sent)
    }
}

/// Where 32 clients stand.
pub(super) struct Script {
    life: Life,
    first: u64,
    step: usize,
}

impl Script {
    /// Connections from this flow number on.
    pub(super) fn new(life: Life, first: u64) -> Script {
        Script { life, first, step: 0 }
    }

    /// What becomes of each.
    pub(super) fn life(&self) -> Life {
        self.life
    }

    /// The present segment of one of the clients.
    #[inline]
    pub(super) fn write(&self, place: usize, request: &Request, frame: &mut [u8]) {
        let flow = Flow::of(self.first + place as u64, request);
        request.write(&flow, frame);
        let l4 = request.l4();
        match request {
            Request::V4(_) => {
                frame[16..18].copy_from_slice(&[0, 40]);
                frame[23] = ipv4::TCP;
                frame[24..26].fill(0);
                let sum = !checksum::sum(&frame[14..34]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            Request::V6(_) => frame[18..21].copy_from_slice(&[0, 20, ipv4::TCP]),
        }
        let Some(header) = frame.get_mut(l4..l4 + 20) else {
            return;
        };
        header[4..].fill(0);
        header[7] = self.step as u8;
        header[12] = 5 << 4;
        header[FLAGS] = self.life.steps()[self.step];
    }

    /// The next segment of each, or the next 32 clients.
    pub(super) fn advance(&mut self) {
        self.step += 1;
        if self.step == self.life.steps().len() {
            self.step = 0;
            self.first += BURST as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_have_the_packets_that_they_say() {
        assert_eq!((Life::Whole.packets(), Life::Short.packets()), (8, 6));
        assert_eq!((Life::Whole.a_turn(), Life::Short.a_turn()), (6.4, 8.0));
    }
}
