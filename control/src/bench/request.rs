//! What clients send: the headers of a request, by IP version and length. It knows nothing of who forwards them.

use super::flows::Flow;
use super::setup::{CLIENTS6, GATEWAY_WAN, ROUTER, SERVICE_PORT, VIP, VIP6};
use dataplane::packet::{checksum, ipv4};

/// Bytes of the shortest frame: the least that Ethernet takes, without its check sequence.
pub(super) const FRAME: usize = 60;
/// By how much an IPv6 header is longer than an IPv4 one.
const LONGER: usize = 20;
/// Bytes of a request that are written for each packet: headers, and the payload of the shortest frame.
pub(super) const HEAD6: usize = FRAME + LONGER;
/// Where an IP header begins.
const IP: usize = 14;

/// The IP versions of clients and servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, clap::ValueEnum)]
pub enum Family {
    /// IPv4.
    #[default]
    #[value(name = "4")]
    #[serde(rename = "4")]
    V4,
    /// IPv6.
    #[value(name = "6")]
    #[serde(rename = "6")]
    V6,
    /// IPv6 clients of IPv4 servers; FULLNAT only.
    #[value(name = "64")]
    #[serde(rename = "64")]
    V64,
}

impl Family {
    /// As it is written.
    pub(super) fn text(self) -> &'static str {
        match self {
            Family::V4 => "4",
            Family::V6 => "6",
            Family::V64 => "64",
        }
    }

    /// Whether clients have IPv6.
    pub(super) fn clients_have_v6(self) -> bool {
        self != Family::V4
    }

    /// Whether servers have IPv6.
    pub(super) fn servers_have_v6(self) -> bool {
        self == Family::V6
    }
}

/// What requests look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// Of the client matters here.
    pub(super) family: Family,
    /// Bytes of a frame with IPv4. With IPv6 it is 20 longer, and carries as much.
    pub(super) size: u16,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            family: Family::V4,
            size: FRAME as u16,
        }
    }
}

impl Shape {
    /// Bytes of a frame as clients send it.
    pub(super) fn len(self) -> usize {
        let size = usize::from(self.size).max(FRAME);
        if self.family.clients_have_v6() {
            size + LONGER
        } else {
            size
        }
    }
}

/// The head of a request from nobody, checksums missing.
pub(super) enum Request {
    /// Of IPv4.
    V4([u8; FRAME]),
    /// Of IPv6.
    V6([u8; HEAD6]),
}

/// Where the ports are, behind an IPv4 and an IPv6 header.
pub(super) const L4: [usize; 2] = [IP + 20, IP + 40];

impl Request {
    /// A UDP datagram to the service, of that shape.
    pub(super) fn new(shape: Shape) -> Request {
        let mut macs = [0; 12];
        macs[..6].copy_from_slice(&GATEWAY_WAN.0);
        macs[6..].copy_from_slice(&ROUTER.0);
        if shape.family.clients_have_v6() {
            let mut frame = [0; HEAD6];
            let payload = (shape.len() - L4[1]) as u16;
            frame[..12].copy_from_slice(&macs);
            frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
            frame[18..20].copy_from_slice(&payload.to_be_bytes());
            (frame[20], frame[21]) = (ipv4::UDP, 64);
            frame[22..38].copy_from_slice(&CLIENTS6.octets());
            frame[38..54].copy_from_slice(&VIP6.octets());
            put_udp(&mut frame[L4[1]..], payload);
            Request::V6(frame)
        } else {
            let mut frame = [0; FRAME];
            let total = (shape.len() - IP) as u16;
            frame[..12].copy_from_slice(&macs);
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            frame[16..18].copy_from_slice(&total.to_be_bytes());
            // Don't fragment.
            (frame[20], frame[22], frame[23]) = (0x40, 64, ipv4::UDP);
            frame[30..34].copy_from_slice(&VIP.octets());
            put_udp(&mut frame[L4[0]..], total - 20);
            Request::V4(frame)
        }
    }

    /// Where the ports are.
    #[inline]
    pub(super) fn l4(&self) -> usize {
        match self {
            Request::V4(_) => L4[0],
            Request::V6(_) => L4[1],
        }
    }

    /// The sum over the IPv4 header, but for the client's address; 0 for IPv6, which has none.
    pub(super) fn header_sum(&self) -> u16 {
        match self {
            Request::V4(frame) => checksum::sum(&frame[IP..L4[0]]),
            Request::V6(_) => 0,
        }
    }

    /// The sum over the datagram and its pseudo header, but for the client's address and port. A payload of zeros has no
    /// part in it.
    pub(super) fn datagram_sum(&self) -> u16 {
        let (datagram, pseudo) = match self {
            Request::V4(frame) => {
                let length = u16::from_be_bytes([frame[38], frame[39]]);
                let nobody = [0; 4].into();
                (
                    &frame[L4[0]..],
                    checksum::pseudo_header(nobody, VIP, ipv4::UDP, length),
                )
            }
            Request::V6(frame) => {
                let length = u16::from_be_bytes([frame[58], frame[59]]);
                let pseudo = checksum::pseudo_header6(CLIENTS6, VIP6, ipv4::UDP, length.into());
                (&frame[L4[1]..], pseudo)
            }
        };
        checksum::add(checksum::sum(datagram), pseudo)
    }

    /// Writes the flow's datagram. What is behind the head stays as it is: zeros.
    #[inline]
    pub(super) fn write(&self, flow: &Flow, frame: &mut [u8]) {
        match self {
            Request::V4(head) => {
                if let Some(frame) = frame.first_chunk_mut::<FRAME>() {
                    *frame = *head;
                    frame[24..26].copy_from_slice(&flow.header_sum);
                    frame[26..30].copy_from_slice(&flow.address);
                    frame[34..36].copy_from_slice(&flow.port);
                    frame[40..42].copy_from_slice(&flow.datagram_sum);
                }
            }
            Request::V6(head) => {
                if let Some(frame) = frame.first_chunk_mut::<HEAD6>() {
                    *frame = *head;
                    frame[34..38].copy_from_slice(&flow.address);
                    frame[54..56].copy_from_slice(&flow.port);
                    frame[60..62].copy_from_slice(&flow.datagram_sum);
                }
            }
        }
    }

    /// As [`Request::write`], to another port of the VIP, and without a checksum, which UDP over IPv4 may do (RFC 768).
    pub(super) fn write_to(&self, flow: &Flow, port: u16, frame: &mut [u8]) {
        self.write(flow, frame);
        if let Some(datagram) = frame.get_mut(self.l4()..self.l4() + 8) {
            datagram[2..4].copy_from_slice(&port.to_be_bytes());
            datagram[6..8].fill(0);
        }
    }
}

/// A UDP header from nobody to the service, without a checksum.
fn put_udp(datagram: &mut [u8], length: u16) {
    datagram[2..4].copy_from_slice(&SERVICE_PORT.to_be_bytes());
    datagram[4..6].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_valid() {
        for (family, size) in [
            (Family::V4, 60),
            (Family::V4, 1500),
            (Family::V6, 60),
            (Family::V64, 333),
        ] {
            let shape = Shape { family, size };
            let request = Request::new(shape);
            for number in 0..1000 {
                let mut frame = vec![0; shape.len()];
                request.write(&Flow::of(number, &request), &mut frame);
                let sum = if family == Family::V4 {
                    let source: [u8; 4] = frame[26..30].try_into().unwrap();
                    assert_eq!(frame.len(), usize::from(size));
                    assert_eq!(checksum::sum(&frame[14..34]), 0xffff);
                    assert_eq!(frame[16..18], (size - 14).to_be_bytes());
                    checksum::l4_sum(source.into(), VIP, 17, &frame[34..])
                } else {
                    let source: [u8; 16] = frame[22..38].try_into().unwrap();
                    assert_eq!(frame.len(), usize::from(size) + 20);
                    assert_eq!(frame[18..20], (size - 34).to_be_bytes());
                    checksum::l4_sum6(source.into(), VIP6, 17, &frame[54..])
                };
                assert_eq!(sum, 0xffff, "{family:?} {size}");
            }
        }
    }
}
