//! Packets and ICMP errors made from a description, in the family that their ends say, with every checksum computed
//! naively over whole packets: what translations are compared with.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;

/// A description of a TCP, UDP or SCTP packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sample {
    pub(super) ends: [SocketAddr; 2],
    pub(super) protocol: u8,
    pub(super) tos: u8,
    pub(super) ttl: u8,
    pub(super) sequence: u32,
    pub(super) data: Vec<u8>,
    /// What follows the UDP datagram in the IP packet.
    pub(super) behind: Vec<u8>,
    /// The UDP datagram has no checksum.
    pub(super) unsummed: bool,
    /// IPv4.
    pub(super) identification: u16,
    pub(super) dont_fragment: bool,
    /// IPv6.
    pub(super) flow_label: u32,
    /// Words of IPv4 options, or how many IPv6 extension headers.
    pub(super) options: usize,
    /// The identification of a first fragment, and whether others follow: in quotes.
    pub(super) fragment: Option<(u32, bool)>,
}

impl Sample {
    pub(super) fn tcp(source: &str, destination: &str) -> Sample {
        Sample {
            ends: [source, destination].map(|end| end.parse().unwrap()),
            protocol: 6,
            tos: 0,
            ttl: 64,
            sequence: 1001,
            data: b"request".to_vec(),
            behind: Vec::new(),
            unsummed: false,
            identification: 0x1234,
            dont_fragment: false,
            flow_label: 0,
            options: 0,
            fragment: None,
        }
    }

    /// The same on the other side, as RFC 7915 has it: with these ends, and, over IPv4, this identification.
    pub(super) fn translated(&self, ends: [SocketAddr; 2], identification: u16) -> Sample {
        let length = 20 + self.segment().len();
        Sample {
            ends,
            identification: self.fragment.map_or(identification, |(id, _)| id as u16),
            dont_fragment: self.fragment.is_none() && length > 1260,
            flow_label: 0,
            options: 0,
            unsummed: false,
            fragment: self.fragment.map(|(id, more)| (id & 0xffff, more)),
            ..self.clone()
        }
    }

    pub(super) fn lives(mut self, ttl: u8) -> Sample {
        self.ttl = ttl;
        self
    }

    pub(super) fn segment(&self) -> Vec<u8> {
        let [source, destination] = self.ends;
        let mut l4 = [source.port().to_be_bytes(), destination.port().to_be_bytes()].concat();
        match self.protocol {
            6 => {
                l4.extend(self.sequence.to_be_bytes());
                l4.extend([0, 0, 7, 0xd1, 0x50, 0x18, 0xfa, 0xf0, 0, 0, 0, 0]);
            }
            17 => {
                l4.extend((8 + self.data.len() as u16).to_be_bytes());
                l4.extend([0, 0]);
            }
            // SCTP with one chunk of data.
            _ => {
                l4.extend([0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0, 0, 3]);
                l4.extend((4 + self.data.len() as u16).to_be_bytes());
            }
        }
        l4.extend(&self.data);
        let addresses = self.ends.map(|end| end.ip());
        match self.protocol {
            6 => put_sum(&mut l4, 16, addresses, 6),
            17 if !self.unsummed => put_sum(&mut l4, 6, addresses, 17),
            17 => {}
            _ => {
                let crc = naive_crc(&l4);
                l4[8..12].copy_from_slice(&crc.to_le_bytes());
            }
        }
        if self.protocol == 17 {
            l4.extend(&self.behind);
        }
        l4
    }

    /// The length of the headers of [`Sample::ip`].
    pub(super) fn header_len(&self) -> usize {
        self.ip().len() - self.segment().len()
    }

    /// The packet, from its IP header on.
    pub(super) fn ip(&self) -> Vec<u8> {
        let segment = self.segment();
        let addresses = self.ends.map(|end| end.ip());
        if addresses[0].is_ipv4() {
            let field = match self.fragment {
                Some((_, more)) => u16::from(more) << 13,
                None => u16::from(self.dont_fragment) << 14,
            };
            let words = [self.identification, field];
            let header = header4(
                addresses,
                self.protocol,
                [self.tos, self.ttl],
                words,
                self.options,
                segment.len(),
            );
            return [header, segment].concat();
        }
        let (mut chain, mut next) = (Vec::new(), self.protocol);
        // The last header is written first: destination options of growing length, one of hop-by-hop options in front.
        for place in 0..self.options {
            let mut header = vec![0; 8 + 8 * (place % 3)];
            (header[0], header[1]) = (next, (place % 3) as u8);
            chain.splice(0..0, header);
            next = if place + 1 == self.options { 0 } else { 60 };
        }
        if let Some((identification, more)) = self.fragment {
            let [a, b, c, d] = identification.to_be_bytes();
            // Behind hop-by-hop options, in front of all others.
            let at = if self.options == 0 {
                0
            } else {
                8 + 8 * ((self.options - 1) % 3)
            };
            let names = if at == 0 { next } else { chain[0] };
            chain.splice(at..at, [names, 0, 0, u8::from(more), a, b, c, d]);
            if at == 0 {
                next = 44;
            } else {
                chain[0] = 44;
            }
        }
        let len = chain.len() + segment.len();
        let header = header6(addresses, next, [self.tos, self.ttl], self.flow_label, len);
        [header, chain, segment].concat()
    }
}

/// A description of an ICMP error.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) ends: [IpAddr; 2],
    pub(super) tos: u8,
    pub(super) ttl: u8,
    pub(super) identification: u16,
    pub(super) kind: u8,
    pub(super) code: u8,
    /// The second word, without the length of the quote.
    pub(super) rest: u32,
    pub(super) about: Sample,
    /// How many bytes of L4 are quoted at most.
    pub(super) cut: usize,
    /// RFC 4884; empty = none.
    pub(super) extensions: Vec<u8>,
}

impl Report {
    pub(super) fn about(about: Sample, kind: u8, code: u8) -> Report {
        let [source, destination] = about.ends.map(|end| end.ip());
        Report {
            ends: [destination, source],
            tos: 0xc0,
            ttl: 64,
            identification: 0,
            kind,
            code,
            rest: 0,
            about,
            cut: 1000,
            extensions: Vec::new(),
        }
    }

    pub(super) fn ip(&self) -> Vec<u8> {
        let v6 = self.ends[0].is_ipv6();
        let header_len = self.about.header_len();
        let mut quoted = self.about.ip();
        quoted.truncate(header_len + self.cut);
        let mut rest = self.rest;
        if !self.extensions.is_empty() {
            let unit = if v6 { 8 } else { 4 };
            let padded = quoted.len().max(128).next_multiple_of(unit);
            quoted.resize(padded, 0);
            rest |= ((padded / unit) as u32) << if v6 { 24 } else { 16 };
        }
        let mut message = [&[self.kind, self.code, 0, 0][..], &rest.to_be_bytes()].concat();
        message.extend(quoted);
        message.extend(&self.extensions);
        let byte = [self.tos, self.ttl];
        if v6 {
            put_sum(&mut message, 2, self.ends, 58);
            [header6(self.ends, 58, byte, 0, message.len()), message].concat()
        } else {
            let sum = !naive_sum(&message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            let words = [self.identification, 0];
            [header4(self.ends, 1, byte, words, 0, message.len()), message].concat()
        }
    }
}

/// Two ends of one family.
pub(super) fn pair(v6: bool) -> impl Strategy<Value = [SocketAddr; 2]> {
    any::<([u8; 15], u16, [u8; 15], u16)>().prop_map(move |(source, sport, destination, dport)| {
        // Of the addresses that can send, some of them with many zeroes.
        let address = |bytes: [u8; 15]| match v6 {
            true => {
                let mut octets = [0x20; 16];
                octets[1..].copy_from_slice(&bytes);
                IpAddr::from(octets)
            }
            false => IpAddr::from([1 + bytes[0] % 126, bytes[1], bytes[2], bytes[3]]),
        };
        [
            SocketAddr::new(address(source), sport),
            SocketAddr::new(address(destination), dport),
        ]
    })
}

prop_compose! {
    pub(super) fn sample(v6: bool)(
        ends in pair(v6),
        protocol in prop_oneof![Just(6u8), Just(17u8), Just(132u8)],
        (tos, ttl, sequence, flow_label) in (any::<u8>(), 2u8.., any::<u32>(), 0u32..1 << 20),
        (unsummed, dont_fragment, identification) in (any::<bool>(), any::<bool>(), any::<u16>()),
        data in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            prop::collection::vec(any::<u8>(), 1200..1260),
        ],
        behind in prop_oneof![Just(Vec::new()), prop::collection::vec(any::<u8>(), 0..9)],
        options in prop_oneof![Just(0usize), 0usize..=7],
    ) -> Sample {
        Sample {
            ends, protocol, tos, ttl, sequence, data, behind, options, fragment: None,
            identification: if v6 { 0 } else { identification },
            dont_fragment: dont_fragment && !v6,
            flow_label: if v6 { flow_label } else { 0 },
            unsummed: unsummed && !v6 && protocol == 17,
        }
    }
}

fn header4(
    addresses: [IpAddr; 2],
    protocol: u8,
    [tos, ttl]: [u8; 2],
    [identification, field]: [u16; 2],
    options: usize,
    payload: usize,
) -> Vec<u8> {
    let len = 20 + 4 * options;
    let mut header = vec![0x45 + options as u8, tos];
    header.extend(((len + payload) as u16).to_be_bytes());
    header.extend(identification.to_be_bytes());
    header.extend(field.to_be_bytes());
    header.extend([ttl, protocol, 0, 0]);
    header.extend(addresses.map(octets).concat());
    header.resize(len, 1);
    let sum = !naive_sum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

fn header6(addresses: [IpAddr; 2], next: u8, [tos, hops]: [u8; 2], label: u32, payload: usize) -> Vec<u8> {
    let mut header = (6 << 28 | u32::from(tos) << 20 | label).to_be_bytes().to_vec();
    header.extend((payload as u16).to_be_bytes());
    header.extend([next, hops]);
    header.extend(addresses.map(octets).concat());
    header
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Computes the checksum at `at` over the segment and its pseudo header.
fn put_sum(l4: &mut [u8], at: usize, addresses: [IpAddr; 2], protocol: u8) {
    let mut covered = addresses.map(octets).concat();
    covered.extend((l4.len() as u32).to_be_bytes());
    covered.extend([0, 0, 0, protocol]);
    covered.extend(&*l4);
    let sum = match !naive_sum(&covered) {
        0 if protocol == 17 => 0xffff,
        sum => sum,
    };
    l4[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// RFC 1071 as its first page states it.
pub(super) fn naive_sum(bytes: &[u8]) -> u16 {
    let mut total = 0u64;
    for pair in bytes.chunks(2) {
        total += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// RFC 9260 appendix A, bit by bit.
fn naive_crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}
