//! The header of the PROXY protocol in front of TCP streams to FULLNAT servers, through the pipeline.

use super::carried::*;
use super::frames::{ACK, FIN, PSH, RST, SYN};
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::flow::Mode;
use crate::packet::PortId;
use crate::service::{ClientAddress, Protocol};
use crate::time::seconds;
use std::net::{IpAddr, SocketAddr};

mod endings;
mod losses;
mod model;
mod numbers;
mod opening;

/// The client's first byte, and the server's.
const FIRST: u32 = 1000;
const ANSWER: u32 = 7001;

/// A gateway with one such service over one server, and the packets of one client.
struct Line {
    gateway: Gateway,
    client: SocketAddr,
    vip: SocketAddr,
    server: SocketAddr,
    local: SocketAddr,
    /// What the server is shown as the number of the header's first byte.
    first: u32,
    /// What the client puts into its segments.
    options: Vec<u8>,
}

impl Line {
    fn plan(family: Family) -> Plan {
        let mut plan = Plan::dual();
        let server = family.real(1, Mode::Fullnat, 8080);
        let slot = plan.add(family.vip(80), Protocol::Tcp, vec![server]);
        plan.edit(slot, |service| service.client_address = ClientAddress::ProxyV2);
        plan
    }

    /// Nothing has been said.
    fn new(plan: Plan, family: Family) -> Line {
        let client = family.client(1, 54321);
        Line {
            gateway: Gateway::new(plan),
            client,
            vip: family.vip(80),
            server: family.server(1, 8080),
            local: client,
            first: 0,
            options: Vec::new(),
        }
    }

    /// The client has asked, and the server has answered.
    fn answered(family: Family) -> Line {
        let mut line = Line::new(Line::plan(family), family);
        line.ask(b"");
        line.answer();
        line
    }

    /// The client has ended the handshake, and the header is on its way.
    fn opened(family: Family) -> Line {
        let mut line = Line::answered(family);
        line.open();
        line
    }

    /// As [`Line::opened`], and the server has acknowledged the header.
    fn settled(family: Family) -> Line {
        let mut line = Line::opened(family);
        let len = line.len();
        let seen = line.server(ACK, ANSWER, line.first + len, b"");
        assert_eq!(numbers(&only(seen)), (ACK, ANSWER, FIRST, 0));
        line
    }

    /// Bytes of the header.
    fn len(&self) -> u32 {
        if self.client.is_ipv4() { 28 } else { 52 }
    }

    /// The header as the protocol's description has it.
    fn header(&self) -> Vec<u8> {
        let mut bytes = b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a\x21".to_vec();
        match (self.client.ip(), self.vip.ip()) {
            (IpAddr::V4(client), IpAddr::V4(vip)) => {
                bytes.extend([0x11, 0, 12]);
                bytes.extend([client.octets(), vip.octets()].concat());
            }
            (IpAddr::V6(client), IpAddr::V6(vip)) => {
                bytes.extend([0x21, 0, 36]);
                bytes.extend([client.octets(), vip.octets()].concat());
            }
            other => panic!("{other:?}"),
        }
        bytes.extend(self.client.port().to_be_bytes());
        bytes.extend(self.vip.port().to_be_bytes());
        bytes
    }

    /// The client's SYN, with these data; the server gets it.
    fn ask(&mut self, data: &[u8]) -> Wire {
        let seen = only(self.client(SYN, FIRST - 1, 0, data));
        self.local = seen.from;
        self.first = numbers(&seen).1.wrapping_add(1);
        seen
    }

    /// The server's SYN-ACK; the client gets it.
    fn answer(&mut self) -> Wire {
        let seen = only(self.server(SYN | ACK, ANSWER - 1, self.first, b""));
        assert_eq!(numbers(&seen), (SYN | ACK, ANSWER - 1, FIRST, 0));
        seen
    }

    /// The client's ACK, and the header in front of it.
    fn open(&mut self) {
        let seen = self.client(ACK, FIRST, ANSWER, b"");
        let [header, ack] = &seen[..] else {
            panic!("{seen:?}")
        };
        self.is_header(header, ANSWER);
        assert_eq!(
            numbers(ack),
            (ACK, self.first.wrapping_add(self.len()), ANSWER, 0)
        );
    }

    /// The client says that; what the server gets.
    fn client(&mut self, flags: u8, sequence: u32, acknowledgement: u32, data: &[u8]) -> Vec<Wire> {
        let said = said(self.client, self.vip, flags, sequence, acknowledgement, data);
        let said = said.with_options(&self.options);
        self.at(WAN, &said, LAN)
    }

    /// The server says that; what the client gets. The server gets nothing.
    fn server(&mut self, flags: u8, sequence: u32, acknowledgement: u32, data: &[u8]) -> Vec<Wire> {
        let said = said(self.server, self.local, flags, sequence, acknowledgement, data);
        self.at(LAN, &said, WAN)
    }

    /// The server says that; what the server gets for it, and what the client gets.
    fn server_and(&mut self, said: &Wire) -> (Vec<Wire>, Vec<Wire>) {
        let out = self.gateway.exchange(LAN, said);
        let at = |port: PortId| out.iter().filter(move |out| out.port == port).map(Out::wire);
        (at(LAN).collect(), at(WAN).collect())
    }

    fn server_segment(&self, flags: u8, sequence: u32, acknowledgement: u32, data: &[u8]) -> Wire {
        said(self.server, self.local, flags, sequence, acknowledgement, data)
    }

    fn at(&mut self, port: PortId, said: &Wire, to: PortId) -> Vec<Wire> {
        let out = self.gateway.exchange(port, said);
        assert!(out.iter().all(|out| out.port == to), "{out:?}");
        out.iter().map(Out::wire).collect()
    }

    /// So much time passes; what the server gets meanwhile.
    fn pass(&mut self, ticks: u32) -> Vec<Wire> {
        let end = self.gateway.now.after(ticks);
        let mut seen = Vec::new();
        while self.gateway.now != end {
            self.gateway.now = self.gateway.now.after(1);
            seen.extend(self.gateway.out());
        }
        assert!(seen.iter().all(|out| out.port == LAN), "{seen:?}");
        seen.iter().map(Out::wire).collect()
    }

    /// That is the header's segment, which acknowledges so much.
    #[track_caller]
    fn is_header(&self, seen: &Wire, acknowledged: u32) {
        assert_eq!((seen.from, seen.to), (self.local, self.server));
        let expected = (PSH | ACK, self.first, acknowledged, self.header().len());
        assert_eq!(numbers(seen), expected);
        assert_eq!(seen.data(), self.header());
    }

    /// Headers sent, sent again, and given up.
    fn counts(&self) -> [u64; 3] {
        let stats = &self.gateway.stats;
        [
            &stats.proxy_headers_sent,
            &stats.proxy_headers_resent,
            &stats.proxy_headers_unacknowledged,
        ]
        .map(|count| count.get())
    }
}

fn said(from: SocketAddr, to: SocketAddr, flags: u8, number: u32, acknowledged: u32, data: &[u8]) -> Wire {
    let mut wire = Wire::tcp(from, to, flags, data);
    if let Load::Tcp {
        sequence,
        acknowledgement,
        ..
    } = &mut wire.load
    {
        (*sequence, *acknowledgement) = (number, acknowledged);
    }
    wire
}

/// Flags, sequence and acknowledgement number, and bytes of data.
fn numbers(wire: &Wire) -> (u8, u32, u32, usize) {
    match &wire.load {
        Load::Tcp {
            flags,
            sequence,
            acknowledgement,
            data,
            ..
        } => (*flags, *sequence, *acknowledgement, data.len()),
        other => panic!("{other:?}"),
    }
}

fn options(wire: &Wire) -> &[u8] {
    match &wire.load {
        Load::Tcp { options, .. } => options,
        other => panic!("{other:?}"),
    }
}

/// A SACK option of these blocks, padded in front.
fn sack(blocks: &[(u32, u32)]) -> Vec<u8> {
    let mut bytes = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
    for (left, right) in blocks {
        bytes.extend([left.to_be_bytes(), right.to_be_bytes()].concat());
    }
    bytes
}

#[track_caller]
fn only<T: std::fmt::Debug>(mut all: Vec<T>) -> T {
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}
