//! Frames for tests, written and read by code that shares nothing with the packet path: naive sums over bytes, and
//! panics where anything is not as it should be.

use dataplane::packet::MacAddr;
use std::net::{Ipv4Addr, SocketAddrV4};

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const PSH: u8 = 8;
pub(crate) const ACK: u8 = 16;

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// The endpoint `a.b.c.d:port`.
pub(crate) fn end(address: [u8; 4], port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(address.into(), port)
}

/// A packet as a host would send it: TCP, UDP or, with the ICMP message from its type on as data, ICMP.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) from: SocketAddrV4,
    pub(crate) to: SocketAddrV4,
    pub(crate) protocol: u8,
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    /// TCP options, whole words.
    pub(crate) options: Vec<u8>,
    pub(crate) data: Vec<u8>,
    pub(crate) ttl: u8,
    pub(crate) dont_fragment: bool,
    /// IP options, whole words.
    pub(crate) ip_options: Vec<u8>,
    /// A UDP checksum of 0: none computed.
    pub(crate) unsummed: bool,
}

impl Sent {
    pub(crate) fn tcp(from: SocketAddrV4, to: SocketAddrV4, flags: u8) -> Sent {
        Sent {
            from,
            to,
            protocol: TCP,
            flags,
            sequence: 1000,
            acknowledgement: if flags & ACK == 0 { 0 } else { 5000 },
            options: Vec::new(),
            data: Vec::new(),
            ttl: 64,
            dont_fragment: true,
            ip_options: Vec::new(),
            unsummed: false,
        }
    }

    pub(crate) fn udp(from: SocketAddrV4, to: SocketAddrV4, data: &[u8]) -> Sent {
        Sent {
            protocol: UDP,
            data: data.to_vec(),
            ..Sent::tcp(from, to, 0)
        }
    }

    pub(crate) fn echo(from: Ipv4Addr, to: Ipv4Addr, data: &[u8]) -> Sent {
        let mut message = [&[8, 0, 0, 0, 0, 7, 0, 1], data].concat();
        let sum = !ones_sum(&[&message]);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        Sent {
            protocol: ICMP,
            data: message,
            ..Sent::tcp(SocketAddrV4::new(from, 0), SocketAddrV4::new(to, 0), 0)
        }
    }

    /// With these sequence and acknowledgement numbers.
    pub(crate) fn at(mut self, sequence: u32, acknowledgement: u32) -> Sent {
        (self.sequence, self.acknowledgement) = (sequence, acknowledgement);
        self
    }

    pub(crate) fn data(mut self, data: &[u8]) -> Sent {
        self.data = data.to_vec();
        self
    }

    pub(crate) fn options(mut self, options: &[u8]) -> Sent {
        self.options = options.to_vec();
        self
    }

    pub(crate) fn ip_options(mut self, options: &[u8]) -> Sent {
        self.ip_options = options.to_vec();
        self
    }

    pub(crate) fn ttl(mut self, ttl: u8) -> Sent {
        self.ttl = ttl;
        self
    }

    /// The IP packet.
    pub(crate) fn packet(&self) -> Vec<u8> {
        let segment = self.segment();
        let header_len = 20 + self.ip_options.len();
        let mut packet = vec![0x40 | (header_len / 4) as u8, 0];
        packet.extend(((header_len + segment.len()) as u16).to_be_bytes());
        packet.extend([0x12, 0x34, if self.dont_fragment { 0x40 } else { 0 }, 0]);
        packet.extend([self.ttl, self.protocol, 0, 0]);
        packet.extend(self.from.ip().octets());
        packet.extend(self.to.ip().octets());
        packet.extend(&self.ip_options);
        let sum = !ones_sum(&[&packet]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend(segment);
        packet
    }

    fn segment(&self) -> Vec<u8> {
        if self.protocol == ICMP {
            return self.data.clone();
        }
        let mut segment = [self.from.port().to_be_bytes(), self.to.port().to_be_bytes()].concat();
        let checksum = if self.protocol == TCP {
            segment.extend(self.sequence.to_be_bytes());
            segment.extend(self.acknowledgement.to_be_bytes());
            let words = 5 + self.options.len() / 4;
            segment.extend([(words << 4) as u8, self.flags, 0x20, 0, 0, 0, 0, 0]);
            segment.extend(&self.options);
            16
        } else {
            segment.extend(((8 + self.data.len()) as u16).to_be_bytes());
            segment.extend([0, 0]);
            6
        };
        segment.extend(&self.data);
        if !self.unsummed {
            let sum = match !l4_sum(*self.from.ip(), *self.to.ip(), self.protocol, &segment) {
                0 if self.protocol == UDP => 0xffff,
                sum => sum,
            };
            segment[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
        }
        segment
    }

    /// The frame to a station, padded as Ethernet asks.
    pub(crate) fn frame(&self, to: MacAddr) -> Vec<u8> {
        framed(to, 0x0800, &self.packet())
    }
}

/// A frame from a station that is nobody's neighbour.
pub(crate) fn framed(to: MacAddr, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [
        &to.0[..],
        &[2, 0xff, 0, 0, 0, 1],
        &ethertype.to_be_bytes(),
        payload,
    ]
    .concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// An ARP frame: operation 1 asks who has `target`, 2 answers `target`.
pub(crate) fn arp(
    operation: u8,
    sender_mac: MacAddr,
    sender: Ipv4Addr,
    target_mac: MacAddr,
    target: Ipv4Addr,
) -> Vec<u8> {
    let to = if operation == 1 {
        MacAddr::BROADCAST
    } else {
        target_mac
    };
    let body = [
        &[0, 1, 8, 0, 6, 4, 0, operation],
        &sender_mac.0[..],
        &sender.octets(),
        &target_mac.0,
        &target.octets(),
    ];
    framed(to, 0x0806, &body.concat())
}

/// One's complement sum of some byte strings in a row, each of even length but the last.
pub(crate) fn ones_sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
    }
    sum as u16
}

fn l4_sum(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, segment: &[u8]) -> u16 {
    let length = (segment.len() as u16).to_be_bytes();
    ones_sum(&[&from.octets(), &to.octets(), &[0, protocol], &length, segment])
}

/// A frame that the gateway has sent, read in full. What a packet does not have is zero or empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) port: u8,
    pub(crate) to_mac: MacAddr,
    pub(crate) from_mac: MacAddr,
    pub(crate) from: SocketAddrV4,
    pub(crate) to: SocketAddrV4,
    /// 0 for ARP.
    pub(crate) protocol: u8,
    pub(crate) ttl: u8,
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    pub(crate) options: Vec<u8>,
    pub(crate) ip_options: Vec<u8>,
    /// Behind the TCP or UDP header; an ICMP message behind its first eight bytes.
    pub(crate) data: Vec<u8>,
    /// ICMP: type, code and second word. ARP: operation, 0 and 0.
    pub(crate) icmp: (u8, u8, u32),
    /// UDP without a checksum.
    pub(crate) unsummed: bool,
    /// The checksum of TCP or UDP is wrong.
    pub(crate) wrong: bool,
    /// The whole IP packet.
    pub(crate) packet: Vec<u8>,
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn double(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) << 16 | u32::from(word(bytes, at + 2))
}

fn address(bytes: &[u8], at: usize) -> Ipv4Addr {
    double(bytes, at).into()
}

impl Seen {
    /// Reads a frame. Panics when it is malformed, or a checksum in it is wrong.
    pub(crate) fn read(port: u8, frame: &[u8]) -> Seen {
        let seen = Seen::read_spoiled(port, frame);
        assert!(!seen.wrong, "checksum of {seen:?}");
        seen
    }

    /// As [`Seen::read`], but lets the checksum of TCP and UDP be wrong: it is end to end, and what came in wrong
    /// goes on wrong.
    pub(crate) fn read_spoiled(port: u8, frame: &[u8]) -> Seen {
        let mac = |at: usize| MacAddr(frame[at..at + 6].try_into().unwrap());
        let nowhere = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let mut seen = Seen {
            port,
            to_mac: mac(0),
            from_mac: mac(6),
            from: nowhere,
            to: nowhere,
            protocol: 0,
            ttl: 0,
            flags: 0,
            sequence: 0,
            acknowledgement: 0,
            options: Vec::new(),
            ip_options: Vec::new(),
            data: Vec::new(),
            icmp: (0, 0, 0),
            unsummed: false,
            wrong: false,
            packet: Vec::new(),
        };
        match word(frame, 12) {
            0x0806 => seen.read_arp(&frame[14..]),
            0x0800 => seen.read_ip(&frame[14..]),
            other => panic!("ethertype {other:04x}"),
        }
        seen
    }

    fn read_arp(&mut self, arp: &[u8]) {
        assert!(arp.len() >= 46, "unpadded");
        assert_eq!(arp[..7], [0, 1, 8, 0, 6, 4, 0]);
        assert_eq!(arp[8..14], self.from_mac.0);
        self.icmp.0 = arp[7];
        self.from.set_ip(address(arp, 14));
        self.to.set_ip(address(arp, 24));
        self.data = arp[18..24].to_vec();
    }

    fn read_ip(&mut self, ip: &[u8]) {
        let (header_len, total) = (usize::from(ip[0] & 15) * 4, usize::from(word(ip, 2)));
        assert!(ip[0] >> 4 == 4 && header_len >= 20 && header_len <= total && total <= ip.len());
        self.packet = ip[..total].to_vec();
        let (header, segment) = ip[..total].split_at(header_len);
        assert_eq!(ones_sum(&[header]), 0xffff, "IP checksum: {ip:02x?}");
        assert!(header[8] > 0, "sent with a TTL of 0");
        (self.ttl, self.protocol) = (header[8], header[9]);
        self.from.set_ip(address(header, 12));
        self.to.set_ip(address(header, 16));
        self.ip_options = header[20..].to_vec();
        match self.protocol {
            TCP => self.read_tcp(segment),
            UDP => self.read_udp(segment),
            ICMP => {
                assert_eq!(ones_sum(&[segment]), 0xffff, "ICMP checksum: {segment:02x?}");
                self.icmp = (segment[0], segment[1], double(segment, 4));
                self.data = segment[8..].to_vec();
            }
            other => panic!("protocol {other}"),
        }
    }

    fn read_tcp(&mut self, segment: &[u8]) {
        let offset = usize::from(segment[12] >> 4) * 4;
        self.set_ports(segment);
        self.check(segment);
        self.sequence = double(segment, 4);
        self.acknowledgement = double(segment, 8);
        self.flags = segment[13];
        self.options = segment[20..offset].to_vec();
        self.data = segment[offset..].to_vec();
    }

    fn read_udp(&mut self, datagram: &[u8]) {
        let length = usize::from(word(datagram, 4));
        assert!(length >= 8 && length <= datagram.len());
        self.set_ports(datagram);
        self.unsummed = word(datagram, 6) == 0;
        if !self.unsummed {
            self.check(&datagram[..length]);
        }
        self.data = datagram[8..length].to_vec();
    }

    fn check(&mut self, segment: &[u8]) {
        self.wrong = l4_sum(*self.from.ip(), *self.to.ip(), self.protocol, segment) != 0xffff;
    }

    fn set_ports(&mut self, segment: &[u8]) {
        self.from.set_port(word(segment, 0));
        self.to.set_port(word(segment, 2));
    }
}
