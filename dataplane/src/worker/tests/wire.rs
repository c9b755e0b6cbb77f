//! Packets of either family for tests, written and read by naive code that shares nothing with the packet path. What
//! has been written reads as what it was, so that a test says what is to come out by changing what went in. Reading
//! panics where anything is malformed or a checksum is wrong.

use super::frames::ones_sum;
use super::header::{Outer, double, name_headers, word};
use std::net::{IpAddr, SocketAddr};

pub(crate) const SCTP: u8 = 132;
pub(crate) const ICMP6: u8 = 58;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// An IP packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wire {
    /// The ports are 0 for ICMP.
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// TTL or hop limit.
    pub(crate) hops: u8,
    /// Type of service or traffic class.
    pub(crate) tos: u8,
    /// The identification of IPv4, the flow label of IPv6.
    pub(crate) label: u16,
    /// DF of IPv4.
    pub(crate) whole: bool,
    /// Options of IPv4, in words. Extension headers of IPv6, each of which has its own type in its first byte.
    pub(crate) between: Vec<u8>,
    pub(crate) load: Load,
}

/// What a packet carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Load {
    Tcp {
        flags: u8,
        sequence: u32,
        acknowledgement: u32,
        options: Vec<u8>,
        data: Vec<u8>,
    },
    Udp {
        data: Vec<u8>,
        /// It has a checksum.
        summed: bool,
    },
    Sctp {
        tag: u32,
        chunks: Vec<u8>,
    },
    Icmp {
        kind: u8,
        code: u8,
        /// The second word of the header.
        rest: u32,
        data: Vec<u8>,
    },
}

impl Wire {
    fn new(from: SocketAddr, to: SocketAddr, load: Load) -> Wire {
        Wire {
            from,
            to,
            hops: 64,
            tos: 0,
            label: 0x1234,
            whole: from.is_ipv4(),
            between: Vec::new(),
            load,
        }
    }

    pub(crate) fn tcp(from: SocketAddr, to: SocketAddr, flags: u8, data: &[u8]) -> Wire {
        let load = Load::Tcp {
            flags,
            sequence: 1000,
            acknowledgement: if flags & 16 == 0 { 0 } else { 5000 },
            options: Vec::new(),
            data: data.to_vec(),
        };
        Wire::new(from, to, load)
    }

    pub(crate) fn udp(from: SocketAddr, to: SocketAddr, data: &[u8]) -> Wire {
        let data = data.to_vec();
        Wire::new(from, to, Load::Udp { data, summed: true })
    }

    pub(crate) fn sctp(from: SocketAddr, to: SocketAddr, tag: u32, chunks: &[u8]) -> Wire {
        let chunks = chunks.to_vec();
        Wire::new(from, to, Load::Sctp { tag, chunks })
    }

    pub(crate) fn icmp(from: IpAddr, to: IpAddr, kind: u8, code: u8, rest: u32, data: &[u8]) -> Wire {
        let data = data.to_vec();
        let load = Load::Icmp {
            kind,
            code,
            rest,
            data,
        };
        Wire::new(SocketAddr::new(from, 0), SocketAddr::new(to, 0), load)
    }

    /// An echo request.
    pub(crate) fn ping(from: IpAddr, to: IpAddr, data: &[u8]) -> Wire {
        let kind = if from.is_ipv4() { 8 } else { 128 };
        Wire::icmp(from, to, kind, 0, 0x0007_0001, data)
    }

    /// The same packet between other ends.
    pub(crate) fn between(&self, from: SocketAddr, to: SocketAddr) -> Wire {
        let same = self.clone();
        Wire { from, to, ..same }
    }

    /// The same packet one hop later.
    pub(crate) fn later(&self) -> Wire {
        self.clone().hops(self.hops - 1)
    }

    pub(crate) fn hops(mut self, hops: u8) -> Wire {
        self.hops = hops;
        self
    }

    /// Without DF.
    pub(crate) fn may_be_cut(mut self) -> Wire {
        self.whole = false;
        self
    }

    pub(crate) fn with_between(mut self, between: &[u8]) -> Wire {
        self.between = between.to_vec();
        self
    }

    /// TCP options, in words.
    pub(crate) fn with_options(mut self, bytes: &[u8]) -> Wire {
        match &mut self.load {
            Load::Tcp { options, .. } => *options = bytes.to_vec(),
            _ => panic!("no TCP"),
        }
        self
    }

    /// TCP flags; 0 of anything else.
    pub(crate) fn flags(&self) -> u8 {
        match self.load {
            Load::Tcp { flags, .. } => flags,
            _ => 0,
        }
    }

    /// Type and code of an ICMP message, and its second word.
    pub(crate) fn message(&self) -> (u8, u8, u32) {
        match self.load {
            Load::Icmp { kind, code, rest, .. } => (kind, code, rest),
            _ => panic!("no ICMP: {self:?}"),
        }
    }

    /// What TCP, UDP or ICMP carries; chunks of SCTP.
    pub(crate) fn data(&self) -> &[u8] {
        match &self.load {
            Load::Tcp { data, .. } | Load::Udp { data, .. } | Load::Icmp { data, .. } => data,
            Load::Sctp { chunks, .. } => chunks,
        }
    }

    fn protocol(&self) -> u8 {
        match self.load {
            Load::Tcp { .. } => TCP,
            Load::Udp { .. } => UDP,
            Load::Sctp { .. } => SCTP,
            Load::Icmp { .. } if self.from.is_ipv4() => ICMP,
            Load::Icmp { .. } => ICMP6,
        }
    }

    /// The packet from its IP header on.
    pub(crate) fn packet(&self) -> Vec<u8> {
        let segment = self.segment();
        let length = self.between.len() + segment.len();
        let mut packet = Vec::new();
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                packet.extend([0x45 + (self.between.len() / 4) as u8, self.tos]);
                packet.extend((20 + length as u16).to_be_bytes());
                packet.extend(self.label.to_be_bytes());
                packet.extend([
                    if self.whole { 0x40 } else { 0 },
                    0,
                    self.hops,
                    self.protocol(),
                    0,
                    0,
                ]);
                packet.extend([from.octets(), to.octets()].concat());
                packet.extend(&self.between);
                let sum = !ones_sum(&[&packet]);
                packet[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                packet.extend([0x60 | self.tos >> 4, self.tos << 4]);
                packet.extend(self.label.to_be_bytes());
                packet.extend((length as u16).to_be_bytes());
                packet.extend([0, self.hops]);
                packet.extend([from.octets(), to.octets()].concat());
                packet.extend(&self.between);
                name_headers(&mut packet, self.protocol());
            }
            _ => panic!("two families: {self:?}"),
        }
        packet.extend(segment);
        packet
    }

    fn segment(&self) -> Vec<u8> {
        let mut segment = [self.from.port().to_be_bytes(), self.to.port().to_be_bytes()].concat();
        let at = match &self.load {
            Load::Tcp {
                flags,
                sequence,
                acknowledgement,
                options,
                data,
            } => {
                segment.extend(sequence.to_be_bytes());
                segment.extend(acknowledgement.to_be_bytes());
                segment.extend([((5 + options.len() / 4) << 4) as u8, *flags, 0x20, 0, 0, 0, 0, 0]);
                segment.extend(options.iter().chain(data));
                16
            }
            Load::Udp { data, .. } => {
                segment.extend(((8 + data.len()) as u16).to_be_bytes());
                segment.extend([0, 0]);
                segment.extend(data);
                6
            }
            Load::Sctp { tag, chunks } => {
                segment.extend(tag.to_be_bytes());
                segment.extend([0; 4]);
                segment.extend(chunks);
                let crc = crc32c(&segment);
                segment[8..12].copy_from_slice(&crc.to_le_bytes());
                return segment;
            }
            Load::Icmp {
                kind,
                code,
                rest,
                data,
            } => {
                segment = vec![*kind, *code, 0, 0];
                segment.extend(rest.to_be_bytes());
                segment.extend(data);
                2
            }
        };
        if !matches!(self.load, Load::Udp { summed: false, .. }) {
            let sum = match !self.sum(&segment) {
                0 if self.protocol() == UDP => 0xffff,
                sum => sum,
            };
            segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        segment
    }

    /// The sum that the checksum makes 0xffff: with the pseudo header, but for ICMP of IPv4.
    fn sum(&self, segment: &[u8]) -> u16 {
        let length = (segment.len() as u16).to_be_bytes();
        let protocol = [0, self.protocol()];
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(_), _) if protocol[1] == ICMP => ones_sum(&[segment]),
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                ones_sum(&[&from.octets(), &to.octets(), &protocol, &length, segment])
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                ones_sum(&[&from.octets(), &to.octets(), &length, &protocol, segment])
            }
            _ => panic!("two families"),
        }
    }

    /// Reads a packet from its IP header on; what follows its end is of no interest.
    pub(crate) fn read(bytes: &[u8]) -> Wire {
        let outer = Outer::read(bytes);
        let Outer {
            from,
            to,
            hops,
            tos,
            label,
            whole,
            between,
            protocol,
            payload,
        } = outer;
        let (ports, load) = load_of(protocol, &payload);
        let wire = Wire {
            from: SocketAddr::new(from, ports.0),
            to: SocketAddr::new(to, ports.1),
            hops,
            tos,
            label,
            whole,
            between,
            load,
        };
        assert_eq!(wire.protocol(), protocol, "ICMP of the other family");
        match &wire.load {
            Load::Sctp { .. } => {
                let mut blank = payload.clone();
                blank[8..12].fill(0);
                assert_eq!(payload[8..12], crc32c(&blank).to_le_bytes(), "CRC of {wire:?}");
            }
            Load::Udp { summed: false, .. } => assert!(from.is_ipv4(), "IPv6 without a checksum"),
            _ => assert_eq!(wire.sum(&payload), 0xffff, "checksum of {wire:?}"),
        }
        wire
    }
}

/// The ports and the load of an IP payload.
fn load_of(protocol: u8, payload: &[u8]) -> ((u16, u16), Load) {
    let ports = (word(payload, 0), word(payload, 2));
    match protocol {
        TCP => {
            let offset = usize::from(payload[12] >> 4) * 4;
            let load = Load::Tcp {
                flags: payload[13],
                sequence: double(payload, 4),
                acknowledgement: double(payload, 8),
                options: payload[20..offset].to_vec(),
                data: payload[offset..].to_vec(),
            };
            (ports, load)
        }
        UDP => {
            assert_eq!(usize::from(word(payload, 4)), payload.len());
            let (data, summed) = (payload[8..].to_vec(), word(payload, 6) != 0);
            (ports, Load::Udp { data, summed })
        }
        SCTP => {
            let (tag, chunks) = (double(payload, 4), payload[12..].to_vec());
            (ports, Load::Sctp { tag, chunks })
        }
        ICMP | ICMP6 => {
            let load = Load::Icmp {
                kind: payload[0],
                code: payload[1],
                rest: double(payload, 4),
                data: payload[8..].to_vec(),
            };
            ((0, 0), load)
        }
        other => panic!("protocol {other}"),
    }
}

/// CRC32c bit by bit (RFC 9260 appendix A).
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    !bytes
        .iter()
        .fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}
