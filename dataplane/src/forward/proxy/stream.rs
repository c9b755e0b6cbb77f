//! The header in a TCP stream: a segment of its own, made by the gateway, in front of all that the client says, so that
//! servers that speak first have it while their client is silent, and no segment of the client grows. It stands where
//! the client's first byte would: from then on the client's sequence numbers are shown to the server moved up by its
//! length, which [`Record::sequence_shift`] does, and acknowledgements of the header itself are not shown to the client.
//!
//! Nothing is buffered. [`ProxyStream`] is enough to write the segment again until the server has acknowledged it: by a
//! timer, and at once when either side shows that it is missing.
//!
//! Pure functions over records and segments, called by the worker for connections that have such an extension: before
//! a segment is rewritten, so that numbers are the sender's.

use super::{Header, Transport};
use crate::flow::extension::ProxyStream;
use crate::flow::{Ends, Flags, Record, TcpState};
use crate::packet::{craft, tcp};
use crate::time::{Tick, seconds};

/// The server has put timestamps into its SYN-ACK, so that every segment has to have them (RFC 7323 3.2).
const TIMESTAMPS: u8 = 1 << 0;
/// The server has answered with several initial sequence numbers, as SYN cookies may.
const SEVERAL: u8 = 1 << 1;
/// The header has been sent more than once.
const RESENT: u8 = 1 << 2;
/// It has been sent again for other reasons than the timer, since the timer last did.
const PROMPTED: u8 = 1 << 3;
/// The timer is done with it.
const GIVEN_UP: u8 = 1 << 4;

/// The first wait for an acknowledgement (RFC 6298 2.1); each later one is twice as long (5.5).
const FIRST_WAIT: u32 = seconds(1);
/// How often the timer sends the header again: the last wait ends after about two minutes.
const TRIES: u8 = 6;
/// Ticks between two headers that segments of others have prompted: one loss shows itself by many of them.
const SPACING: u32 = 5;
/// DSCP without ECN: a segment of the gateway's own says nothing of congestion.
const DSCP: u8 = 0xfc;

/// How far the header of a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
#[repr(u8)]
pub enum Stage {
    /// The connection has no header.
    None = 0,
    /// The client has asked for the connection.
    Asked = 1,
    /// The server has answered.
    Answered = 2,
    /// The header is under way.
    Sent = 3,
    /// The server has it.
    Acknowledged = 4,
}

/// What a segment calls for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Nothing.
    Pass,
    /// The header, in front of the segment.
    Send,
    /// The header once more.
    Resend,
}

/// What a timer calls for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// The header once more.
    Resend,
    /// Nothing any more: the server has not acknowledged it in all the time.
    GiveUp,
}

/// A new connection is to have a header.
pub fn begin(stream: &mut ProxyStream) {
    stream.stage = Stage::Asked as u8;
}

/// The stage of a connection.
#[must_use]
pub fn stage(stream: &ProxyStream) -> Stage {
    match stream.stage {
        1 => Stage::Asked,
        2 => Stage::Answered,
        3 => Stage::Sent,
        4 => Stage::Acknowledged,
        _ => Stage::None,
    }
}

/// The client's SYN, first or again. It loses its request for fast open (RFC 7413), and the caller takes its data off:
/// the server must not get data before the header. The client sends that again when it is not acknowledged. It stands
/// before the header, so it is not moved by it.
pub fn ask(record: &Record, stream: &mut ProxyStream, segment: &mut [u8]) {
    let moved = if stage(stream) >= Stage::Sent {
        header_len(record)
    } else {
        0
    };
    let sequence = tcp::sequence(segment).wrapping_sub(moved);
    let delta = tcp::set_sequence(segment, sequence).and(tcp::strip_fast_open(segment));
    tcp::apply(segment, delta);
    stream.asked = sequence.wrapping_add(record.sequence_shift).wrapping_add(1);
}

/// The server's SYN-ACK. One that takes another SYN than the header stands behind begins anew: the client has started
/// again, in what is one connection for the gateway.
pub fn hear_answer(record: &mut Record, stream: &mut ProxyStream, segment: &mut [u8], now: Tick) -> Step {
    let acknowledged = tcp::acknowledgement(segment);
    let is_answer = tcp::flags(segment) & (tcp::SYN | tcp::ACK | tcp::RST) == tcp::SYN | tcp::ACK;
    // What answers none of the client's SYNs is of an older connection.
    if !is_answer || acknowledged != stream.asked {
        return Step::Pass;
    }
    let stage = stage(stream);
    if stage >= Stage::Sent {
        let len = header_len(record);
        if acknowledged == stream.first {
            let delta = tcp::set_acknowledgement(segment, acknowledged.wrapping_add(len));
            tcp::apply(segment, delta);
            return if stage == Stage::Sent {
                miss(record, stream, now)
            } else {
                Step::Pass
            };
        }
        record.sequence_shift = record.sequence_shift.wrapping_sub(len);
    }
    let expected = tcp::sequence(segment).wrapping_add(1);
    let is_other = stream.acknowledgement != expected;
    let several = stage == Stage::Answered && (is_other || stream.flags & SEVERAL != 0);
    stream.flags = if several { SEVERAL } else { 0 };
    if tcp::timestamps(segment).is_some() {
        stream.flags |= TIMESTAMPS;
    }
    stream.stage = Stage::Answered as u8;
    stream.acknowledgement = expected;
    stream.first = acknowledged;
    record.flags.set(Flags::PROXY, true);
    Step::Pass
}

/// Any other segment of the server. What it acknowledges of the header becomes an acknowledgement of the client's SYN
/// and of nothing else.
pub fn hear(record: &mut Record, stream: &mut ProxyStream, segment: &mut [u8], now: Tick) -> Step {
    let stage = stage(stream);
    let flags = tcp::flags(segment);
    if stage < Stage::Sent || flags & tcp::ACK == 0 || flags & tcp::SYN != 0 {
        return Step::Pass;
    }
    let (first, len) = (stream.first, header_len(record));
    let into = tcp::acknowledgement(segment).wrapping_sub(first);
    if stage == Stage::Acknowledged || (len..=u32::MAX / 2).contains(&into) {
        // A header that came twice is reported by a block (RFC 2883), of bytes that the client has never sent.
        let delta = tcp::drop_sack(segment, |left| left.wrapping_sub(first) < len);
        tcp::apply(segment, delta);
        stream.stage = Stage::Acknowledged as u8;
        // Reports of that are still to come only if there is a second header.
        record.flags.set(Flags::PROXY, stream.flags & RESENT != 0);
        return Step::Pass;
    }
    if into >= len {
        return Step::Pass;
    }
    let quiet = tcp::sequence_len(segment) == 0 || tcp::has_sack(segment);
    // A block that begins with the client's first byte would say that it is there and not acknowledged, which to the
    // client is a server that has thrown it away (RFC 2018 8).
    let delta = tcp::drop_sack(segment, |left| left.wrapping_sub(first) <= len)
        .and(tcp::set_acknowledgement(segment, first.wrapping_add(len)));
    tcp::apply(segment, delta);
    if quiet && flags & tcp::RST == 0 {
        miss(record, stream, now)
    } else {
        Step::Pass
    }
}

/// A client's segment without SYN. The first that ends the handshake has the header in front of it; `traffic_class` is
/// that of its packet.
pub fn say(
    record: &mut Record,
    stream: &mut ProxyStream,
    segment: &[u8],
    traffic_class: u8,
    now: Tick,
) -> Step {
    let flags = tcp::flags(segment);
    if flags & tcp::SYN != 0 {
        return Step::Pass;
    }
    match stage(stream) {
        // What acknowledges something else, the server refuses (RFC 9293 3.10.7.4), data and all.
        Stage::Answered if flags & (tcp::ACK | tcp::RST) == tcp::ACK && ends_handshake(stream, segment) => {
            put_in(record, stream, segment);
            stream.traffic_class = traffic_class & DSCP;
            stream.sent_at = now.0;
            Step::Send
        }
        // It fits only a server that has the header.
        Stage::Sent if flags & tcp::RST != 0 => prompt(stream, now),
        Stage::Sent => {
            note(stream, segment);
            let len = tcp::sequence_len(segment);
            let end = tcp::sequence(segment)
                .wrapping_add(len)
                .wrapping_add(record.sequence_shift);
            if len > 0 && record.sequence.wrapping_sub(end) <= u32::MAX / 2 {
                // A retransmission.
                miss(record, stream, now)
            } else {
                Step::Pass
            }
        }
        _ => Step::Pass,
    }
}

/// The wheel asks about the connection, perhaps early.
pub fn look(record: &mut Record, stream: &mut ProxyStream, now: Tick) -> Due {
    if next_look(record, stream).is_none_or(|due| !now.reached(due)) {
        return Due::Nothing;
    }
    if stage(stream) == Stage::Acknowledged {
        record.flags.set(Flags::PROXY, false);
        return Due::Nothing;
    }
    if stream.tries == TRIES {
        stream.flags |= GIVEN_UP;
        return Due::GiveUp;
    }
    stream.tries += 1;
    stream.flags = stream.flags & !PROMPTED | RESENT;
    stream.sent_at = now.0;
    Due::Resend
}

/// When the wheel has to ask at the latest; none when the header needs no timer. A connection that has been reset needs
/// none: nobody is there to hear.
#[must_use]
pub fn next_look(record: &Record, stream: &ProxyStream) -> Option<Tick> {
    let waits = match stage(stream) {
        Stage::Sent => stream.flags & GIVEN_UP == 0 && record.tcp_state() != TcpState::Close,
        Stage::Acknowledged => true,
        _ => false,
    };
    waits.then(|| Tick(stream.sent_at).after(FIRST_WAIT << stream.tries))
}

/// The header's segment, as it is to be now, and the header.
#[must_use]
pub fn segment(ends: &Ends, stream: &ProxyStream) -> (craft::Segment, Header) {
    let segment = craft::Segment {
        source: ends.local,
        destination: ends.server,
        sequence: stream.first,
        acknowledgement: stream.acknowledgement,
        flags: tcp::PSH | tcp::ACK,
        window: stream.window,
        timestamps: (stream.flags & TIMESTAMPS != 0 && stream.timestamps != [0; 2])
            .then_some(stream.timestamps),
        traffic_class: stream.traffic_class,
    };
    let header = Header {
        client: ends.client,
        virtual_address: ends.virtual_address,
        protocol: Transport::Stream,
    };
    (segment, header)
}

/// Bytes of a connection's header: it is of the client's family.
fn header_len(record: &Record) -> u32 {
    Header::len(record.inbound.is_v6()) as u32
}

/// Puts the header in front of that segment of the client, the first to come behind it.
fn put_in(record: &mut Record, stream: &mut ProxyStream, segment: &[u8]) {
    let len = header_len(record);
    record.sequence_shift = record.sequence_shift.wrapping_add(len);
    let end = stream.first.wrapping_add(len);
    if end.wrapping_sub(record.sequence) <= u32::MAX / 2 {
        record.sequence = end;
    }
    stream.stage = Stage::Sent as u8;
    stream.tries = 0;
    stream.acknowledgement = tcp::acknowledgement(segment);
    stream.timestamps = tcp::timestamps(segment).unwrap_or_default();
    stream.window = tcp::window(segment);
}

fn ends_handshake(stream: &ProxyStream, segment: &[u8]) -> bool {
    tcp::acknowledgement(segment) == stream.acknowledgement || stream.flags & SEVERAL != 0
}

/// What the header has to say beside itself when it is sent again: the latest of the client. Its clock never goes back,
/// so the server does not take the header for an old one (RFC 7323 5.3).
fn note(stream: &mut ProxyStream, segment: &[u8]) {
    let is_later = |new: u32, old: u32| new.wrapping_sub(old) <= u32::MAX / 2;
    if tcp::flags(segment) & tcp::ACK != 0 && is_later(tcp::acknowledgement(segment), stream.acknowledgement)
    {
        stream.acknowledgement = tcp::acknowledgement(segment);
        stream.window = tcp::window(segment);
    }
    if let Some(timestamps) = tcp::timestamps(segment)
        && is_later(timestamps[0], stream.timestamps[0])
    {
        stream.timestamps = timestamps;
    }
}

/// The header seems to be missing.
fn miss(record: &Record, stream: &mut ProxyStream, now: Tick) -> Step {
    if record.tcp_state() == TcpState::Close {
        return Step::Pass;
    }
    prompt(stream, now)
}

/// Sends the header again, unless that has just been done.
fn prompt(stream: &mut ProxyStream, now: Tick) -> Step {
    if stream.flags & PROMPTED != 0 && now.since(Tick(stream.sent_at)) < SPACING {
        return Step::Pass;
    }
    stream.flags |= PROMPTED | RESENT;
    stream.sent_at = now.0;
    Step::Resend
}
