//! Refusals by L4 itself: what answers a packet of no connection, over both families.

use super::super::buffer::Packet;
use super::super::headers::{Headers, Kind};
use super::super::{checksum, ipv4, ipv6, sctp, tcp, wire};
use super::TTL;

/// The ECN bits of a traffic class: nothing that starts here says them for another.
const ECN: u8 = 0x03;
/// Flag of ABORT and SHUTDOWN COMPLETE: the verification tag is the receiver's own (RFC 9260 8.5.1).
const TAG_REFLECTED: u8 = 0x01;
/// An SCTP packet of one chunk without a value, in bytes.
const SCTP_LEN: usize = sctp::HEADER_LEN + sctp::CHUNK_HEADER_LEN;

/// Makes `out` the reset that answers a TCP segment of no connection (RFC 9293 3.10.7.1). `frame` is the
/// received frame, `headers` what the parser found in it.
///
/// False when none may be sent: about a reset, to what was sent to many, or when it is no TCP; or when `out`
/// has no room.
#[must_use]
pub fn tcp_reset<P: Packet>(out: &mut P, frame: &[u8], headers: &Headers) -> bool {
    let segment = segment(frame, headers);
    if headers.protocol != ipv4::TCP || segment.len() < tcp::HEADER_LEN || headers.l4_flags & tcp::RST != 0 {
        return false;
    }
    let (sequence, acknowledgement, flags) = if headers.l4_flags & tcp::ACK != 0 {
        (tcp::acknowledgement(segment), 0, tcp::RST)
    } else {
        let next = tcp::sequence(segment).wrapping_add(tcp::sequence_len(segment));
        (0, next, tcp::RST | tcp::ACK)
    };
    let Some((reset, pseudo)) = answer(out, frame, headers, tcp::HEADER_LEN) else {
        return false;
    };
    tcp::write_bare(reset, sequence, acknowledgement, flags);
    exchange_ports(reset, segment);
    let checksum = !checksum::add(pseudo, checksum::sum(reset));
    wire::put_u16(reset, tcp::CHECKSUM, checksum);
    true
}

/// Makes `out` the answer to an SCTP packet of no association, "out of the blue" (RFC 9260 8.4): an ABORT, or to
/// SHUTDOWN ACK a SHUTDOWN COMPLETE, so that the peer's association ends as well. `frame` is the received frame,
/// `headers` what the parser found in it.
///
/// False when none may be sent: about an ABORT, a SHUTDOWN COMPLETE, a COOKIE ACK or an ERROR (which tells of a
/// stale cookie), to what was sent to many, with a wrong checksum, or when it is no SCTP; or when `out` has no
/// room.
#[must_use]
pub fn sctp_abort<P: Packet>(out: &mut P, frame: &[u8], headers: &Headers) -> bool {
    let segment = segment(frame, headers);
    if headers.protocol != ipv4::SCTP || segment.len() < SCTP_LEN || !sctp::is_right(segment) {
        return false;
    }
    let has = |kind| sctp::has_chunk(segment, kind);
    if [
        sctp::ABORT,
        sctp::SHUTDOWN_COMPLETE,
        sctp::COOKIE_ACK,
        sctp::ERROR,
    ]
    .into_iter()
    .any(has)
    {
        return false;
    }
    let own_tag = sctp::verification_tag(segment);
    let opens = headers.l4_flags == sctp::Event::Init as u8 && own_tag == 0;
    let (kind, flags, tag) = match sctp::initiate_tag(segment) {
        Some(0) | None if opens => return false,
        // The one packet whose sender has told which tag it wants to see.
        Some(tag) if opens => (sctp::ABORT, 0, tag),
        _ if has(sctp::SHUTDOWN_ACK) => (sctp::SHUTDOWN_COMPLETE, TAG_REFLECTED, own_tag),
        _ => (sctp::ABORT, TAG_REFLECTED, own_tag),
    };
    let Some((abort, _)) = answer(out, frame, headers, SCTP_LEN) else {
        return false;
    };
    abort.fill(0);
    exchange_ports(abort, segment);
    wire::put_u32(abort, 4, tag);
    abort[sctp::HEADER_LEN] = kind;
    abort[sctp::HEADER_LEN + 1] = flags;
    wire::put_u16(abort, sctp::HEADER_LEN + 2, sctp::CHUNK_HEADER_LEN as u16);
    sctp::set_checksum(abort);
    true
}

/// The received L4 header and what it carries.
fn segment<'f>(frame: &'f [u8], headers: &Headers) -> &'f [u8] {
    frame
        .get(usize::from(headers.l4)..usize::from(headers.end))
        .unwrap_or(&[])
}

/// Makes `out` a packet back to where a received one came from, of the same protocol, with room for `len` bytes
/// of L4; returns that room, and the sum of its pseudo header. `None` when the received one was sent to many, or
/// `out` has no room.
fn answer<'o, P: Packet>(
    out: &'o mut P,
    frame: &[u8],
    headers: &Headers,
    len: usize,
) -> Option<(&'o mut [u8], u16)> {
    let received = frame.get(usize::from(headers.l3)..)?;
    match headers.kind {
        Kind::Flow if received.len() >= ipv4::HEADER_LEN => {
            let fields = ipv4::Fields {
                tos: ipv4::tos(received) & !ECN,
                total_len: (ipv4::HEADER_LEN + len) as u16,
                identification: 0,
                dont_fragment: true,
                ttl: TTL,
                protocol: headers.protocol,
                source: headers.key.destination(),
                destination: headers.key.source(),
            };
            let (source, destination) = (fields.source, fields.destination);
            let pseudo = checksum::pseudo_header(source, destination, headers.protocol, len as u16);
            let room = ipv4::can_send(source).then(|| super::start(out, &fields))??;
            Some((room, pseudo))
        }
        Kind::Flow6 if received.len() >= ipv6::HEADER_LEN => {
            let fields = ipv6::Fields {
                traffic_class: ipv6::traffic_class(received) & !ECN,
                flow_label: 0,
                payload_len: len as u16,
                next_header: headers.protocol,
                hop_limit: TTL,
                source: ipv6::destination(received),
                destination: ipv6::source(received),
            };
            let (source, destination) = (fields.source, fields.destination);
            let pseudo = checksum::pseudo_header6(source, destination, headers.protocol, len as u32);
            let room = ipv6::can_send(source).then(|| super::start6(out, &fields))??;
            Some((room, pseudo))
        }
        _ => None,
    }
}

/// Writes the ports of `received` into `answer`, source and destination exchanged.
fn exchange_ports(answer: &mut [u8], received: &[u8]) {
    wire::put_u16(answer, 0, wire::get_u16(received, 2));
    wire::put_u16(answer, 2, wire::get_u16(received, 0));
}
