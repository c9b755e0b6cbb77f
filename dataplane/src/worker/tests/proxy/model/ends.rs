//! The two ends of the model.

use super::*;
use std::collections::BTreeMap;

/// Steps until an end sends again what is not acknowledged.
const PATIENCE: u32 = 25;
/// Bytes in a segment, and segments on their way at once.
const MSS: usize = 100;
const WINDOW: usize = 6;

fn parts(wire: &Wire) -> (u8, u32, u32, &[u8], &[u8]) {
    match &wire.load {
        Load::Tcp {
            flags,
            sequence,
            acknowledgement,
            options,
            data,
        } => (*flags, *sequence, *acknowledgement, options, data),
        other => panic!("{other:?}"),
    }
}

/// TSval and TSecr, where options are those and nothing else.
fn stamps(options: &[u8]) -> Option<(u32, u32)> {
    let at = |at: usize| u32::from_be_bytes(options[at..at + 4].try_into().unwrap());
    (options.starts_with(&[1, 1, 8, 10])).then(|| (at(4), at(8)))
}

/// The sending half of an end: a stream, and a FIN behind it.
#[derive(Debug)]
struct Sending {
    /// The number of the first byte.
    first: u32,
    bytes: Vec<u8>,
    /// How much has been acknowledged, and sent; the FIN counts as a byte.
    acknowledged: usize,
    sent: usize,
    /// The step of the last progress.
    since: u32,
}

impl Sending {
    fn new(first: u32, bytes: &[u8]) -> Sending {
        Sending {
            first,
            bytes: bytes.to_vec(),
            acknowledged: 0,
            sent: 0,
            since: 0,
        }
    }

    fn all(&self) -> usize {
        self.bytes.len() + 1
    }

    /// An acknowledgement; it covers nothing that was not sent.
    fn hear(&mut self, number: u32, step: u32) {
        let ahead = number.wrapping_sub(self.first) as i32;
        assert!(
            ahead <= self.sent as i32,
            "{ahead} acknowledged, {} sent",
            self.sent
        );
        // One that comes late may say less; before the first byte there is the SYN, and a late one of the header.
        assert!(ahead >= -52, "{ahead} acknowledged");
        if ahead > self.acknowledged as i32 {
            (self.acknowledged, self.since) = (ahead as usize, step);
        }
    }

    /// Flags, numbers and data of what is to be sent now, the FIN only if `ends`.
    fn due(&mut self, ends: bool, step: u32) -> Vec<(u8, u32, Vec<u8>)> {
        if step > self.since + PATIENCE {
            self.since = step;
            if self.acknowledged < self.sent {
                return vec![self.piece(self.acknowledged)];
            }
        }
        let mut pieces = Vec::new();
        while self.sent < self.acknowledged + WINDOW * MSS
            && (self.sent < self.bytes.len() || (ends && self.sent == self.bytes.len()))
        {
            let piece = self.piece(self.sent);
            self.sent += piece.2.len() + usize::from(piece.0 & FIN);
            pieces.push(piece);
        }
        pieces
    }

    /// The segment from there on.
    fn piece(&self, at: usize) -> (u8, u32, Vec<u8>) {
        let number = self.first.wrapping_add(at as u32);
        let end = self.bytes.len().min(at + MSS);
        match self.bytes.get(at..end) {
            Some(data) if !data.is_empty() => (PSH | ACK, number, data.to_vec()),
            _ => (FIN | ACK, number, Vec::new()),
        }
    }
}

/// The receiving half.
#[derive(Debug, Default)]
struct Receiving {
    next: u32,
    /// What came too early, by its distance from the first byte.
    waiting: BTreeMap<u32, (Vec<u8>, bool)>,
    first: u32,
    closed: bool,
}

impl Receiving {
    fn starting_at(first: u32) -> Receiving {
        Receiving {
            next: first,
            first,
            ..Receiving::default()
        }
    }

    /// A segment with data or FIN.
    fn take(&mut self, number: u32, data: &[u8], fin: bool, stream: &mut Vec<u8>) {
        let at = number.wrapping_sub(self.first);
        // Before the stream there is only what is no part of it.
        assert!(at < 1 << 30, "data before the stream");
        let longest = self
            .waiting
            .get(&at)
            .map_or(0, |(known, fin)| known.len() + usize::from(*fin));
        if data.len() + usize::from(fin) > longest {
            self.waiting.insert(at, (data.to_vec(), fin));
        }
        while let Some((&at, (data, fin))) = self.waiting.iter().next() {
            let here = self.next.wrapping_sub(self.first);
            if at > here {
                break;
            }
            let known = (here - at) as usize;
            if known < data.len() {
                stream.extend(&data[known..]);
                self.next = self.next.wrapping_add((data.len() - known) as u32);
            }
            if *fin && !self.closed && known <= data.len() {
                self.closed = true;
                self.next = self.next.wrapping_add(1);
            }
            self.waiting.remove(&at);
        }
    }

    /// The first block of what came too early.
    fn block(&self) -> Option<(u32, u32)> {
        let (&at, (data, fin)) = self.waiting.iter().next()?;
        let left = self.first.wrapping_add(at);
        let len = data.len() as u32 + u32::from(*fin);
        Some((left, left.wrapping_add(len)))
    }
}

/// Who opens the connection.
#[derive(Debug)]
pub(super) struct Client {
    from: SocketAddr,
    to: SocketAddr,
    established: bool,
    lazy: bool,
    timestamps: bool,
    clock: u32,
    echo: u32,
    sending: Sending,
    receiving: Receiving,
    pub(super) stream: Vec<u8>,
    asked: Option<u32>,
}

impl Client {
    pub(super) fn new(case: &Case, from: SocketAddr, to: SocketAddr) -> Client {
        Client {
            from,
            to,
            established: false,
            lazy: case.lazy && !case.data.is_empty(),
            timestamps: case.timestamps,
            // Near its wrap.
            clock: u32::MAX - 300,
            echo: 0,
            sending: Sending::new(case.isn.wrapping_add(1), &case.data),
            receiving: Receiving::default(),
            stream: Vec::new(),
            asked: None,
        }
    }

    /// All is sent and acknowledged, and the server has closed.
    pub(super) fn is_done(&self) -> bool {
        self.established && self.receiving.closed && self.sending.acknowledged == self.sending.all()
    }

    fn say(&self, flags: u8, number: u32, data: &[u8]) -> Wire {
        let acknowledged = if flags & ACK == 0 { 0 } else { self.receiving.next };
        let wire = said(self.from, self.to, flags, number, acknowledged, data);
        if !self.timestamps {
            return wire;
        }
        let stamps = [self.clock.to_be_bytes(), self.echo.to_be_bytes()].concat();
        wire.with_options(&[&[1, 1, 8, 10], &stamps[..]].concat())
    }

    pub(super) fn turn(&mut self, arrived: Vec<Wire>, step: u32) -> Vec<Wire> {
        self.clock = self.clock.wrapping_add(1);
        let mut out = Vec::new();
        for packet in arrived {
            let (flags, number, acknowledged, options, data) = parts(&packet);
            assert_eq!((packet.from, packet.to), (self.to, self.from));
            assert_eq!(flags & RST, 0);
            if let Some((value, _)) = stamps(options) {
                self.echo = value;
            }
            if !self.established {
                if flags & SYN == 0 {
                    continue;
                }
                assert_eq!(acknowledged, self.sending.first, "of the SYN");
                self.receiving = Receiving::starting_at(number.wrapping_add(1));
                (self.established, self.sending.since) = (true, step);
                if !self.lazy {
                    out.push(self.say(ACK, self.sending.first, b""));
                }
                continue;
            }
            self.sending.hear(acknowledged, step);
            self.check_blocks(options);
            let fin = flags & FIN != 0;
            if !data.is_empty() || fin {
                self.receiving.take(number, data, fin, &mut self.stream);
            }
            if !data.is_empty() || flags & (SYN | FIN) != 0 {
                out.push(self.answer());
            }
        }
        if !self.established {
            if self.asked.is_none_or(|asked| step > asked + PATIENCE) {
                self.asked = Some(step);
                out.push(self.say(SYN, self.sending.first.wrapping_sub(1), b""));
            }
            return out;
        }
        for (flags, number, data) in self.sending.due(true, step) {
            out.push(self.say(flags, number, &data));
        }
        out
    }

    fn answer(&self) -> Wire {
        let next = self.sending.first.wrapping_add(self.sending.sent as u32);
        self.say(ACK, next, b"")
    }

    /// Blocks name what was sent, and not what comes next.
    fn check_blocks(&self, options: &[u8]) {
        if options.starts_with(&[1, 1, 5, 10]) {
            let at = |at: usize| u32::from_be_bytes(options[at..at + 4].try_into().unwrap());
            let [left, right] = [at(4), at(8)].map(|edge| edge.wrapping_sub(self.sending.first));
            assert!(
                left < right && right <= self.sending.sent as u32,
                "{left} to {right}"
            );
        }
    }
}

/// Who answers.
#[derive(Debug)]
pub(super) struct Server {
    /// Itself and its peer, once it was asked.
    ends: Option<(SocketAddr, SocketAddr)>,
    established: bool,
    speaks_first: bool,
    sack: bool,
    header: usize,
    /// The latest TSval that may be compared with (RFC 7323 4.3).
    recent: Option<u32>,
    sending: Sending,
    receiving: Receiving,
    pub(super) stream: Vec<u8>,
    answered: u32,
}

impl Server {
    pub(super) fn new(case: &Case, expected: usize) -> Server {
        Server {
            ends: None,
            established: false,
            speaks_first: case.speaks_first,
            sack: case.sack,
            header: expected - case.data.len(),
            recent: None,
            sending: Sending::new(case.isn ^ 0x5555_5555, &case.greeting),
            receiving: Receiving::default(),
            stream: Vec::new(),
            answered: 0,
        }
    }

    /// The client has closed, and knows that this end has.
    pub(super) fn is_done(&self) -> bool {
        self.receiving.closed && self.sending.acknowledged == self.sending.all()
    }

    fn say(&self, flags: u8, number: u32, data: &[u8]) -> Option<Wire> {
        let (own, peer) = self.ends?;
        let wire = said(own, peer, flags, number, self.receiving.next, data);
        if let (true, Some(block)) = (self.sack && self.recent.is_none(), self.receiving.block()) {
            return Some(wire.with_options(&sack(&[block])));
        }
        let Some(recent) = self.recent else {
            return Some(wire);
        };
        let stamps = [77u32.to_be_bytes(), recent.to_be_bytes()].concat();
        Some(wire.with_options(&[&[1, 1, 8, 10], &stamps[..]].concat()))
    }

    fn answer_syn(&mut self, step: u32) -> Option<Wire> {
        self.answered = step;
        self.say(SYN | ACK, self.sending.first.wrapping_sub(1), b"")
    }

    pub(super) fn turn(&mut self, arrived: Vec<Wire>, step: u32) -> Vec<Wire> {
        let mut out = Vec::new();
        for packet in arrived {
            let (flags, number, acknowledged, options, data) = parts(&packet);
            assert_eq!(flags & RST, 0);
            let stamp = stamps(options).map(|(value, _)| value);
            if flags & SYN != 0 {
                if self.ends.is_none() {
                    self.ends = Some((packet.to, packet.from));
                    self.receiving = Receiving::starting_at(number.wrapping_add(1));
                    self.recent = stamp;
                }
                assert_eq!(number.wrapping_add(1), self.receiving.first, "another SYN");
                if !self.established {
                    out.extend(self.answer_syn(step));
                }
                continue;
            }
            if let (Some(recent), Some(stamp)) = (self.recent, stamp) {
                if (stamp.wrapping_sub(recent) as i32) < 0 {
                    // PAWS (RFC 7323 5.3): it must not happen to the header for ever.
                    out.extend(self.acknowledge());
                    continue;
                }
                if number.wrapping_sub(self.receiving.next) as i32 <= 0 {
                    self.recent = Some(stamp);
                }
            } else {
                assert_eq!(
                    self.recent.is_some(),
                    stamp.is_some(),
                    "timestamps in every segment"
                );
            }
            if !self.established {
                assert_eq!(acknowledged, self.sending.first, "of the SYN-ACK");
                (self.established, self.sending.since) = (true, step);
            }
            self.sending.hear(acknowledged, step);
            let fin = flags & FIN != 0;
            if !data.is_empty() || fin {
                self.receiving.take(number, data, fin, &mut self.stream);
                out.extend(self.acknowledge());
            }
        }
        if !self.established {
            if self.ends.is_some() && step > self.answered + PATIENCE {
                out.extend(self.answer_syn(step));
            }
            return out;
        }
        // A server that waits for the header says nothing before it.
        if self.speaks_first || self.stream.len() >= self.header {
            for (flags, number, data) in self.sending.due(self.receiving.closed, step) {
                out.extend(self.say(flags, number, &data));
            }
        }
        out
    }

    fn acknowledge(&self) -> Option<Wire> {
        let next = self.sending.first.wrapping_add(self.sending.sent as u32);
        self.say(ACK, next, b"")
    }
}
