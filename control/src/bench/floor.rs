//! What a gateway cannot do without, stripped of everything else: the plain forwarder that swaps MAC addresses, and
//! the bare loop that looks a packet's connection up and rewrites it. No validation, state, counters, scheduling,
//! neighbours or timers: how far the pipeline is from this is what all these cost.

use super::flows::client;
use super::io::Generator;
use super::reflect::swap_macs;
use super::request::FRAME;
use super::setup::{GATEWAY_LAN, ROUTER, SERVERS, SERVICE_PORT, VIP, local_address, server};
use crate::engine::Frame;
use anyhow::Result;
use arrayvec::ArrayVec;
use dataplane::arch::prefetch;
use dataplane::flow::{ConnectionTable, Direction, FlowHasher, Hit, Mode, Query, Record};
use dataplane::packet::{FlowKey, Packet, PortId, checksum::Delta, ipv4};
use dataplane::time::Tick;
use dataplane::worker::{BURST, Io, PacketBurst};

/// The two ports, each with the one that its packets leave by.
const WAYS: [(PortId, PortId); 2] = [(PortId(0), PortId(1)), (PortId(1), PortId(0))];

/// The plain forwarder.
pub(super) struct MacSwap {
    /// Its ports.
    pub(super) io: Generator,
}

impl MacSwap {
    /// A burst of each port to the other one; returns how many packets that were.
    pub(super) fn turn(&mut self) -> usize {
        let mut packets = 0;
        for (from, to) in WAYS {
            let mut burst = PacketBurst::<Frame>::new();
            self.io.receive(from, &mut burst);
            packets += burst.len();
            for frame in &mut burst {
                if let Some(frame) = frame.bytes_mut().first_chunk_mut::<FRAME>() {
                    swap_macs(frame);
                }
            }
            self.io.transmit(to, &mut burst);
        }
        packets
    }
}

/// The bare loop.
pub(super) struct Floor {
    /// Its ports.
    pub(super) io: Generator,
    table: ConnectionTable,
    now: Tick,
}

impl Floor {
    /// A loop that knows these many flows, in a table for `connections`.
    ///
    /// # Errors
    /// Too little memory.
    pub(super) fn new(io: Generator, flows: u32, connections: u32, hugepages: bool) -> Result<Floor> {
        let mut table = ConnectionTable::new(connections as usize, FlowHasher::new(1, 2), hugepages)?;
        table.touch();
        for number in 0..flows {
            let (address, port) = client(u64::from(number));
            let port = u16::from_be_bytes(port);
            let inbound = FlowKey::new(address.into(), port, VIP, SERVICE_PORT);
            let pair = number / SERVERS;
            let local = (local_address(pair / 60_000), 1024 + (pair % 60_000) as u16);
            let outbound = FlowKey::new(server(number % SERVERS).0, SERVICE_PORT, local.0, local.1);
            table.insert(&Record::new(ipv4::UDP, Mode::Fullnat, inbound, outbound))?;
        }
        Ok(Floor {
            io,
            table,
            now: Tick(0),
        })
    }

    /// A burst of each port to the other one; returns how many packets that were.
    pub(super) fn turn(&mut self) -> usize {
        let mut packets = 0;
        self.now = self.now.after(1);
        for (from, to) in WAYS {
            let mut burst = PacketBurst::<Frame>::new();
            self.io.receive(from, &mut burst);
            packets += burst.len();
            self.forward(&mut burst);
            self.io.transmit(to, &mut burst);
        }
        packets
    }

    fn forward(&mut self, burst: &mut PacketBurst<Frame>) {
        for frame in burst.iter() {
            prefetch(frame.bytes(), 0);
        }
        let mut queries = ArrayVec::<Query, BURST>::new();
        for frame in burst.iter() {
            let key = frame.bytes().first_chunk::<FRAME>().and_then(key_of);
            queries.push(self.table.announce(key.unwrap_or_default(), ipv4::UDP));
        }
        let mut hits = [None; BURST];
        self.table.lookup_burst(&queries, &mut hits[..queries.len()]);
        for ((frame, query), hit) in burst.iter_mut().zip(&queries).zip(&hits) {
            let (Some(frame), Some(hit)) = (frame.bytes_mut().first_chunk_mut::<FRAME>(), hit) else {
                continue;
            };
            self.rewrite(frame, &query.key, *hit);
        }
    }

    #[inline]
    fn rewrite(&mut self, frame: &mut [u8; FRAME], old: &FlowKey, hit: Hit) {
        let record = self.table.get_mut(hit.id);
        record.stamp(self.now);
        let new = match hit.direction {
            Direction::Inbound => record.outbound.reversed(),
            Direction::Outbound => record.inbound.reversed(),
        };
        // All words as the machine loads them, which the checksum does not mind as long as all are.
        let [old_source, old_destination, old_ports] = old.words();
        let [source, destination, ports] = new.words();
        let addresses = Delta::NONE
            .double_word(old_source, source)
            .double_word(old_destination, destination);
        frame[26..30].copy_from_slice(&source.to_ne_bytes());
        frame[30..34].copy_from_slice(&destination.to_ne_bytes());
        frame[34..38].copy_from_slice(&ports.to_ne_bytes());
        let old_ttl = word(frame, 22);
        let ttl = old_ttl.to_be().wrapping_sub(1 << 8).to_be();
        frame[22..24].copy_from_slice(&ttl.to_ne_bytes());
        let header = addresses.word(old_ttl, ttl).apply(word(frame, 24));
        frame[24..26].copy_from_slice(&header.to_ne_bytes());
        let datagram = addresses.double_word(old_ports, ports).apply_udp(word(frame, 40));
        frame[40..42].copy_from_slice(&datagram.to_ne_bytes());
        frame[..6].copy_from_slice(&ROUTER.0);
        frame[6..12].copy_from_slice(&GATEWAY_LAN.0);
    }
}

#[inline]
fn word(frame: &[u8; FRAME], at: usize) -> u16 {
    u16::from_ne_bytes([frame[at], frame[at + 1]])
}

/// The key of a UDP datagram behind a plain IP header.
#[inline]
fn key_of(frame: &[u8; FRAME]) -> Option<FlowKey> {
    let usual = frame[12..15] == [8, 0, 0x45] && frame[23] == ipv4::UDP && frame[22] > 1;
    let (addresses, rest) = frame[26..].split_first_chunk::<8>()?;
    let ports = rest.first_chunk::<4>()?;
    usual.then(|| FlowKey::from_wire(addresses, ports))
}
