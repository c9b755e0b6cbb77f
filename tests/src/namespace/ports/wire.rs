//! TCP clients without a kernel: they choose their sequence numbers and clocks, send each segment once, and judge what
//! comes back.

use crate::lab::{Gateway, Host, PATIENCE, RawSocket};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const PSH: u8 = 0x08;
pub(super) const ACK: u8 = 0x10;

/// The client's link to the gateway, as seen by programs that make their own frames.
pub(super) struct Wire {
    socket: RawSocket,
    ethernet: Vec<u8>,
    vip: SocketAddr,
}

/// A segment that came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    pub(super) flags: u8,
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    /// The sender's clock, when it shows one (RFC 7323 3).
    pub(super) timestamp: Option<u32>,
    pub(super) data: Vec<u8>,
}

fn mac(text: &str) -> Vec<u8> {
    let bytes = text.trim().split(':');
    bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// The ones' complement sum of the words of all parts, each of even length but the last.
fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let words = words.map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

impl Wire {
    /// The way from a client's `wan0` to a service of the gateway.
    pub(super) fn open(client: &Host, gateway: &Gateway, vip: SocketAddr) -> Wire {
        let ethertype = if vip.is_ipv4() { 0x0800 } else { 0x86dd };
        let to = gateway.named("ports", "wan");
        let own = client.run("cat /sys/class/net/wan0/address");
        let mut ethernet = mac(to["mac"].as_str().unwrap());
        ethernet.extend(mac(&own));
        ethernet.extend(u16::to_be_bytes(ethertype));
        Wire {
            socket: RawSocket::of_protocol(client, "wan0", ethertype),
            ethernet,
            vip,
        }
    }

    fn ip_header(&self, source: IpAddr, len: usize) -> Vec<u8> {
        let mut header = match source {
            IpAddr::V4(_) => {
                let [high, low] = (20 + len as u16).to_be_bytes();
                vec![0x45, 0, high, low, 0, 1, 0x40, 0, 64, 6, 0, 0]
            }
            IpAddr::V6(_) => {
                let [high, low] = (len as u16).to_be_bytes();
                vec![0x60, 0, 0, 0, high, low, 6, 64]
            }
        };
        header.extend(octets(source));
        header.extend(octets(self.vip.ip()));
        if source.is_ipv4() {
            let checksum = sum(&[&header]);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        header
    }

    fn frame(&self, source: SocketAddr, segment: &Segment, options: &[u8]) -> Vec<u8> {
        let mut bytes = [source.port().to_be_bytes(), self.vip.port().to_be_bytes()].concat();
        bytes.extend(segment.sequence.to_be_bytes());
        bytes.extend(segment.acknowledgement.to_be_bytes());
        bytes.extend([
            ((20 + options.len()) * 4) as u8,
            segment.flags,
            0xff,
            0xff,
            0,
            0,
            0,
            0,
        ]);
        bytes.extend(options);
        bytes.extend(&segment.data);
        let [high, low] = (bytes.len() as u16).to_be_bytes();
        let ends = [octets(source.ip()), octets(self.vip.ip())].concat();
        let checksum = sum(&[&ends, &[0, 6, high, low], &bytes]);
        bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
        let header = self.ip_header(source.ip(), bytes.len());
        [&self.ethernet[..], &header, &bytes].concat()
    }

    /// The segment in a frame from the service to this client.
    fn read(&self, frame: &[u8], client: SocketAddr) -> Option<Segment> {
        let (at, from, to) = if client.is_ipv4() {
            (34, 26..30, 30..34)
        } else {
            (54, 22..38, 38..54)
        };
        let segment = frame.get(at..)?;
        let port = |at: usize| Some(u16::from_be_bytes([*segment.get(at)?, *segment.get(at + 1)?]));
        let ours = frame.get(from)? == octets(self.vip.ip())
            && frame.get(to)? == octets(client.ip())
            && port(0)? == self.vip.port()
            && port(2)? == client.port();
        if !ours {
            return None;
        }
        let word = |at: usize| Some(u32::from_be_bytes(segment.get(at..at + 4)?.try_into().ok()?));
        let len = usize::from(segment.get(12)? >> 4) * 4;
        let total = if client.is_ipv4() {
            usize::from(u16::from_be_bytes([frame[16], frame[17]])) - 20
        } else {
            usize::from(u16::from_be_bytes([frame[18], frame[19]]))
        };
        Some(Segment {
            flags: segment[13],
            sequence: word(4)?,
            acknowledgement: word(8)?,
            timestamp: timestamp(segment.get(20..len)?),
            data: segment.get(len..total)?.to_vec(),
        })
    }
}

/// The clock in the options of a segment.
fn timestamp(mut options: &[u8]) -> Option<u32> {
    while let [kind, rest @ ..] = options {
        match kind {
            0 => return None,
            1 => options = rest,
            8 => return Some(u32::from_be_bytes(options.get(2..6)?.try_into().ok()?)),
            _ => options = options.get(usize::from(*rest.first()?)..)?,
        }
    }
    None
}

/// One connection of a client without a kernel.
pub(super) struct Client<'a> {
    wire: &'a Wire,
    source: SocketAddr,
    /// What it sends next.
    pub(super) sequence: u32,
    /// What it expects next.
    pub(super) acknowledgement: u32,
    /// Its clock, which it shows as long as the server shows one.
    clock: Option<u32>,
    echo: u32,
}

impl Client<'_> {
    /// A client that has sent its SYN, and waits.
    pub(super) fn call(wire: &Wire, source: SocketAddr, isn: u32, clock: Option<u32>) -> Client<'_> {
        let mut client = Client {
            wire,
            source,
            sequence: isn,
            acknowledgement: 0,
            clock,
            echo: 0,
        };
        client.send(SYN, b"");
        client
    }

    /// Sends a segment, and moves on in the sequence.
    pub(super) fn send(&mut self, flags: u8, data: &[u8]) {
        let mut options = match flags & SYN {
            0 => vec![],
            _ => vec![2, 4, 4, 0xb0, 1, 3, 3, 7],
        };
        if let Some(clock) = self.clock {
            options.extend([1, 1, 8, 10]);
            options.extend(clock.to_be_bytes());
            options.extend(self.echo.to_be_bytes());
        }
        let segment = Segment {
            flags,
            sequence: self.sequence,
            acknowledgement: self.acknowledgement,
            timestamp: None,
            data: data.to_vec(),
        };
        let frame = self.wire.frame(self.source, &segment, &options);
        self.wire.socket.send(&frame);
        let len = data.len() + usize::from(flags & SYN != 0) + usize::from(flags & FIN != 0);
        self.sequence = self.sequence.wrapping_add(len as u32);
    }

    /// The next segment for this client; it has to come.
    pub(super) fn receive(&self, what: &str) -> Segment {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let frame = self.wire.socket.next(deadline);
            let frame = frame.unwrap_or_else(|| panic!("{}: waited in vain for {what}", self.source));
            if let Some(segment) = self.wire.read(&frame, self.source) {
                return segment;
            }
        }
    }

    /// The first thing that a client hears is the answer to its only SYN; it acknowledges that.
    pub(super) fn connect(&mut self) {
        let answer = self.receive("the answer to the SYN");
        assert_eq!(
            (answer.flags, answer.acknowledgement),
            (SYN | ACK, self.sequence),
            "{} has sent one SYN and got {answer:?}",
            self.source
        );
        if answer.timestamp.is_none() {
            self.clock = None;
        }
        self.take(&answer);
        self.send(ACK, b"");
    }

    /// Waits until the server has sent its FIN or its reset, and acknowledges nothing.
    pub(super) fn hear_out(&mut self) -> Vec<u8> {
        let mut heard = vec![];
        loop {
            let segment = self.receive("the server's last segment");
            // A segment that comes twice is heard once.
            if segment.sequence == self.acknowledgement {
                heard.extend(&segment.data);
                self.take(&segment);
                if segment.flags & (FIN | RST) != 0 {
                    return heard;
                }
            }
        }
    }

    /// Waits until the server has acknowledged everything.
    pub(super) fn heard_by_server(&self) {
        while self.receive("an acknowledgement").acknowledgement != self.sequence {}
    }

    fn take(&mut self, segment: &Segment) {
        let len = segment.data.len()
            + usize::from(segment.flags & SYN != 0)
            + usize::from(segment.flags & FIN != 0);
        self.acknowledgement = segment.sequence.wrapping_add(len as u32);
        if let Some(timestamp) = segment.timestamp {
            self.echo = timestamp;
        }
    }
}
