//! The flows of a measurement: clients at random, in an order that is drawn before the clock runs. It knows what a
//! datagram of a flow looks like, and nothing of who forwards it.

use super::setup::{GATEWAY_WAN, ROUTER, SERVICE_PORT, VIP};
use dataplane::packet::{checksum, ipv4};
use dataplane::worker::BURST;
use std::sync::Arc;

/// Bytes of every frame: the least that Ethernet takes, without its check sequence.
pub(super) const FRAME: usize = 60;
/// Draws of a random order; more than any cache holds, and read front to back.
const DRAWS: usize = 1 << 21;
/// Bits of a flow's number that make its client's address and port.
const PORT_BITS: u32 = 14;
const BITS: u32 = 24 + PORT_BITS;

/// What differs between the datagrams of two flows, as on the wire.
#[derive(Clone, Copy)]
pub(super) struct Flow {
    /// The client's address.
    address: [u8; 4],
    /// The client's port.
    port: [u8; 2],
    /// The checksum of the IP header.
    header_sum: [u8; 2],
    /// The checksum of the datagram.
    datagram_sum: [u8; 2],
}

/// The client of a flow: address (11.0.0.0/8) and port. Different numbers below 2^38 have different clients, and
/// neighbouring numbers have nothing in common.
pub(super) fn client(number: u64) -> ([u8; 4], [u8; 2]) {
    let mask = (1u64 << BITS) - 1;
    // Odd factors and a shift of half the width are permutations of the 38 bits.
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
    let mixed = (mixed ^ (mixed >> (BITS / 2))).wrapping_mul(0xbf58_476d_1ce4_e5b9) & mask;
    let mixed = mixed ^ (mixed >> (BITS / 2));
    let address = 11 << 24 | (mixed >> PORT_BITS) as u32;
    let port = 1024 + (mixed as u16 & ((1 << PORT_BITS) - 1));
    (address.to_be_bytes(), port.to_be_bytes())
}

impl Flow {
    /// The flow of that number.
    pub(super) fn of(number: u64) -> Flow {
        let (address, port) = client(number);
        let mut frame = TEMPLATE;
        frame[26..30].copy_from_slice(&address);
        frame[34..36].copy_from_slice(&port);
        let header_sum = !checksum::sum(&frame[14..34]);
        let sum = checksum::l4_sum(address.into(), VIP, ipv4::UDP, &frame[34..FRAME]);
        Flow {
            address,
            port,
            header_sum: header_sum.to_be_bytes(),
            // RFC 768: a sum of 0 is sent as all ones.
            datagram_sum: if sum == 0xffff { 0xffff } else { !sum }.to_be_bytes(),
        }
    }

    /// Writes the flow's datagram.
    #[inline]
    pub(super) fn write(&self, frame: &mut [u8]) {
        let Some(frame) = frame.first_chunk_mut::<FRAME>() else {
            return;
        };
        *frame = TEMPLATE;
        frame[24..26].copy_from_slice(&self.header_sum);
        frame[26..30].copy_from_slice(&self.address);
        frame[34..36].copy_from_slice(&self.port);
        frame[40..42].copy_from_slice(&self.datagram_sum);
    }
}

impl Flow {
    /// As [`Flow::write`], to another port of the VIP, and without a checksum, which UDP over IPv4 may do (RFC 768).
    pub(super) fn write_to(&self, port: u16, frame: &mut [u8]) {
        self.write(frame);
        if let Some(frame) = frame.first_chunk_mut::<FRAME>() {
            frame[36..38].copy_from_slice(&port.to_be_bytes());
            frame[40..42].fill(0);
        }
    }
}

/// Every flow once; the first ones once more where that fills a burst.
pub(super) fn each(flows: u32) -> Arc<[Flow]> {
    let whole = flows.next_multiple_of(BURST as u32);
    (0..whole)
        .map(|number| Flow::of(u64::from(number % flows)))
        .collect()
}

/// Random numbers, the same in every run.
#[derive(Clone, Debug)]
pub(super) struct Draws(u64);

impl Draws {
    /// From the start.
    pub(super) fn new() -> Draws {
        Draws(0x7469_6465_6761_7465)
    }

    /// 32 random bits.
    #[inline]
    pub(super) fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    /// A number below `count`, which is below 2^32.
    #[inline]
    pub(super) fn below(&mut self, count: usize) -> usize {
        ((u64::from(self.next()) * count as u64) >> 32) as usize
    }
}

/// Flows drawn at random, each as likely as any other.
pub(super) fn random(flows: u32) -> Arc<[Flow]> {
    let all = each(flows);
    let mut draws = Draws::new();
    (0..DRAWS).map(|_| all[draws.below(flows as usize)]).collect()
}

/// A UDP datagram of 26 bytes from nobody to the service, checksums missing.
const TEMPLATE: [u8; FRAME] = {
    let mut frame = [0; FRAME];
    let (to, from) = (GATEWAY_WAN.0, ROUTER.0);
    let mut at = 0;
    while at < 6 {
        (frame[at], frame[6 + at]) = (to[at], from[at]);
        at += 1;
    }
    let header = [8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, ipv4::UDP];
    at = 0;
    while at < header.len() {
        frame[12 + at] = header[at];
        at += 1;
    }
    let vip = VIP.octets();
    at = 0;
    while at < 4 {
        frame[30 + at] = vip[at];
        at += 1;
    }
    let port = SERVICE_PORT.to_be_bytes();
    (frame[36], frame[37]) = (port[0], port[1]);
    frame[39] = 26;
    frame
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn clients_are_all_different() {
        let clients: HashSet<_> = (0..100_000).map(client).collect();
        assert_eq!(clients.len(), 100_000);
    }

    #[test]
    fn a_datagram_is_valid() {
        for number in 0..1000 {
            let mut frame = [0; FRAME];
            Flow::of(number).write(&mut frame);
            let source: [u8; 4] = [frame[26], frame[27], frame[28], frame[29]];
            assert_eq!(checksum::sum(&frame[14..34]), 0xffff);
            assert_eq!(checksum::l4_sum(source.into(), VIP, 17, &frame[34..60]), 0xffff);
        }
    }
}
