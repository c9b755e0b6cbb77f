//! ICMP errors made from a description, with every checksum computed naively over whole packets: the model that
//! rewrites are compared with.

use std::net::{IpAddr, SocketAddr};

use super::headers_of;
use crate::packet::Headers;

/// A description of an ICMP error.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) outer: [IpAddr; 2],
    pub(super) ttl: u8,
    pub(super) kind: u8,
    pub(super) code: u8,
    pub(super) rest: u32,
    pub(super) ends: [SocketAddr; 2],
    pub(super) protocol: u8,
    pub(super) sequence: u32,
    /// What the quoted segment holds behind the header.
    pub(super) data: Vec<u8>,
    /// How many bytes of L4 are quoted at most.
    pub(super) cut: usize,
    /// IPv4 options in words, or IPv6 extension headers, of the quoted packet.
    pub(super) options: usize,
    /// What follows the quoted packet in the message.
    pub(super) behind: Vec<u8>,
    /// The quoted UDP datagram came without a checksum.
    pub(super) unsummed: bool,
    /// Ends and sequence number that the quoted L4 checksum is of, where it is not the quote's own.
    summed_as: Option<([SocketAddr; 2], u32)>,
}

impl Message {
    /// A "host unreachable", or "no route" for IPv6, about a TCP segment, whose first 8 bytes and more are quoted.
    pub(super) fn tcp(source: SocketAddr, destination: SocketAddr) -> Message {
        Message {
            outer: [destination.ip(), source.ip()],
            ttl: 64,
            kind: if source.is_ipv6() { 1 } else { 3 },
            code: 1,
            rest: 0,
            ends: [source, destination],
            protocol: 6,
            sequence: 1001,
            data: b"request".to_vec(),
            cut: 1000,
            options: 0,
            behind: Vec::new(),
            unsummed: false,
            summed_as: None,
        }
    }

    pub(super) fn outer(mut self, source: &str, destination: &str) -> Message {
        self.outer = [source, destination].map(|address| address.parse().unwrap());
        self
    }

    pub(super) fn ttl(mut self, ttl: u8) -> Message {
        self.ttl = ttl;
        self
    }

    pub(super) fn kind(mut self, kind: u8, code: u8) -> Message {
        (self.kind, self.code) = (kind, code);
        self
    }

    pub(super) fn rest(mut self, rest: u32) -> Message {
        self.rest = rest;
        self
    }

    pub(super) fn quoting(mut self, source: SocketAddr, destination: SocketAddr) -> Message {
        self.ends = [source, destination];
        self
    }

    pub(super) fn sequence(mut self, sequence: u32) -> Message {
        self.sequence = sequence;
        self
    }

    pub(super) fn protocol(mut self, protocol: u8) -> Message {
        self.protocol = protocol;
        self
    }

    pub(super) fn cut(mut self, cut: usize) -> Message {
        self.cut = cut;
        self
    }

    pub(super) fn options(mut self, options: usize) -> Message {
        self.options = options;
        self
    }

    pub(super) fn behind(mut self, behind: &[u8]) -> Message {
        self.behind = behind.to_vec();
        self
    }

    /// The same, with the quoted L4 checksum that `original` has.
    pub(super) fn kept(mut self, original: &Message) -> Message {
        self.summed_as = Some((original.ends, original.sequence));
        self
    }

    fn v6(&self) -> bool {
        self.ends[0].is_ipv6()
    }

    /// The quoted L4 segment, whole.
    fn segment(&self) -> Vec<u8> {
        let (ends, sequence) = self.summed_as.unwrap_or((self.ends, self.sequence));
        let mut segment = self.unfinished(ends, sequence);
        let at = match self.protocol {
            6 => 16,
            17 if !self.unsummed => 6,
            _ => return self.unfinished(self.ends, self.sequence),
        };
        let addresses = ends.map(|end| end.ip());
        let sum =
            match !naive_sum(&[pseudo_header(addresses, self.protocol, segment.len()), segment].concat()) {
                0 if self.protocol == 17 => 0xffff,
                sum => sum,
            };
        segment = self.unfinished(self.ends, self.sequence);
        segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        segment
    }

    /// The segment without its checksum.
    fn unfinished(&self, [source, destination]: [SocketAddr; 2], sequence: u32) -> Vec<u8> {
        let mut segment = [source.port().to_be_bytes(), destination.port().to_be_bytes()].concat();
        match self.protocol {
            6 => {
                segment.extend(sequence.to_be_bytes());
                segment.extend([0, 0, 7, 0xd1, 0x50, 0x18, 0xfa, 0xf0, 0, 0, 0, 0]);
            }
            17 => {
                segment.extend((8 + self.data.len() as u16).to_be_bytes());
                segment.extend([0, 0]);
            }
            // SCTP: a verification tag and a CRC, which no rewrite touches. Tunnels: whatever is in them.
            _ => segment.extend([0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4]),
        }
        if !matches!(self.protocol, 6 | 17 | 132) {
            segment[..4].copy_from_slice(&[0x45, 0, 0, 60]);
        }
        segment.extend(&self.data);
        segment
    }

    /// The quoted packet, as far as it is quoted.
    pub(super) fn quoted(&self) -> Vec<u8> {
        let segment = self.segment();
        let mut packet = match self.v6() {
            true => {
                let mut chain = Vec::new();
                let mut next = self.protocol;
                for place in 0..self.options {
                    // Destination options of growing length, the last one written first.
                    let mut header = vec![0; 8 + 8 * (place % 3)];
                    (header[0], header[1]) = (next, (place % 3) as u8);
                    chain.splice(0..0, header);
                    next = 60;
                }
                let mut packet = header6(
                    self.ends.map(|end| end.ip()),
                    next,
                    55,
                    chain.len() + segment.len(),
                );
                packet.extend(chain);
                packet
            }
            false => header4(
                self.ends.map(|end| end.ip()),
                self.protocol,
                55,
                segment.len(),
                self.options,
            ),
        };
        packet.extend(&segment[..segment.len().min(self.cut)]);
        packet
    }

    /// The whole frame.
    pub(super) fn frame(&self) -> Vec<u8> {
        let mut message = [&[self.kind, self.code, 0, 0][..], &self.rest.to_be_bytes()].concat();
        message.extend(self.quoted());
        message.extend(&self.behind);
        let (ethertype, ip) = match self.v6() {
            true => ([0x86, 0xdd], header6(self.outer, 58, self.ttl, message.len())),
            false => ([8, 0], header4(self.outer, 1, self.ttl, message.len(), 0)),
        };
        let mut frame = [
            &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..],
            &ethertype,
            &ip,
            &message,
        ]
        .concat();
        let headers = headers_of(&frame);
        fill_icmp_checksum(&mut frame, &headers);
        frame
    }

    pub(super) fn headers(&self) -> Headers {
        headers_of(&self.frame())
    }
}

/// Computes the checksum of the ICMP message in a frame anew.
pub(super) fn fill_icmp_checksum(frame: &mut [u8], headers: &Headers) {
    let (l3, l4) = (usize::from(headers.l3), usize::from(headers.l4));
    frame[l4 + 2..l4 + 4].fill(0);
    let message = frame[l4..].to_vec();
    let pseudo = match frame[l3] >> 4 {
        6 => [
            &frame[l3 + 8..l3 + 40],
            &(message.len() as u32).to_be_bytes(),
            &[0, 0, 0, 58],
        ]
        .concat(),
        _ => Vec::new(),
    };
    let sum = !naive_sum(&[pseudo, message].concat());
    frame[l4 + 2..l4 + 4].copy_from_slice(&sum.to_be_bytes());
}

fn header4(
    [source, destination]: [IpAddr; 2],
    protocol: u8,
    ttl: u8,
    payload: usize,
    options: usize,
) -> Vec<u8> {
    let len = 20 + 4 * options;
    let mut header = vec![0x45 + options as u8, 0];
    header.extend(((len + payload) as u16).to_be_bytes());
    header.extend([0x12, 0x34, 0x40, 0, ttl, protocol, 0, 0]);
    header.extend(octets(source));
    header.extend(octets(destination));
    header.resize(len, 1);
    let sum = !naive_sum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

fn header6([source, destination]: [IpAddr; 2], next: u8, hop_limit: u8, payload: usize) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0];
    header.extend((payload as u16).to_be_bytes());
    header.extend([next, hop_limit]);
    header.extend(octets(source));
    header.extend(octets(destination));
    header
}

fn pseudo_header([source, destination]: [IpAddr; 2], protocol: u8, length: usize) -> Vec<u8> {
    let [.., high, low] = (length as u32).to_be_bytes();
    [octets(source), octets(destination), vec![0, protocol, high, low]].concat()
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// RFC 1071 as its first page states it.
fn naive_sum(bytes: &[u8]) -> u16 {
    let mut total = 0u64;
    for pair in bytes.chunks(2) {
        total += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}
