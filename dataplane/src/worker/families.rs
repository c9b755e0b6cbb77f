//! FULLNAT connections whose client is of one family and whose server is of the other ([`Flags::MIXED`]): the work of
//! [`nat64`] on their packets and on ICMP errors about them. Off the straight way: packets of one family do not ask
//! for it.

use super::client_address::longer_by;
use super::forwarding::Way;
use super::length::too_big;
use super::rewriting::check_sctp;
use super::schedule::Refusal;
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::{Direction, FlowIndex, Hit, Record, RecordId};
use crate::forward::icmp::{Inner, Quote};
use crate::forward::nat64::{self, Fit, Mtus, Target};
use crate::forward::{fullnat, toa};
use crate::neighbour::NeighbourId;
use crate::packet::checksum::Delta;
use crate::packet::{Headers, Kind, Packet, PortId, ipv4, ipv6, rewrite, tcp};
use std::net::SocketAddr;

/// The headers of a TCP segment over IPv6 without options, in bytes.
const HEADERS6: u16 = (ipv6::HEADER_LEN + tcp::HEADER_LEN) as u16;

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// As [`Worker::limit`], for a packet that gets `extra` bytes more behind its IP header: what becomes of one that is
    /// too long on the other side, its sender is told in the sender's own family.
    #[inline(never)]
    pub(super) fn limit_across(
        &self,
        extra: u16,
        neighbour: NeighbourId,
        packet: &mut I::Packet,
        headers: &Headers,
        port: PortId,
    ) -> Result<u16, Refusal> {
        self.check_arrived(packet, headers, port)?;
        let longer = Headers {
            end: headers.end.checked_add(extra).ok_or(DropReason::ProxyNoRoom)?,
            ..*headers
        };
        match nat64::fit(packet.bytes(), &longer, self.link_mtu(neighbour)) {
            Fit::Whole => Ok(0),
            Fit::Fragments(limit) => Ok(limit),
            Fit::TooBig(mtu) => Err(too_big(mtu.saturating_sub(extra))),
        }
    }

    /// Makes a packet of the connection one of the other family; the way that it goes.
    #[inline(never)]
    pub(super) fn cross(
        &mut self,
        packet: &mut I::Packet,
        headers: &Headers,
        hit: Hit,
        neighbour: NeighbourId,
        limit: u16,
    ) -> Result<Way, Refusal> {
        check_sctp(packet, headers)?;
        let (source, destination) = self.leaving_ends(hit);
        let to = self.target(source, destination)?;
        let record = self.table.get_mut(hit.id);
        let more = match rewrite::split(packet.bytes_mut(), headers) {
            Some((_, segment)) if headers.protocol == ipv4::TCP && segment.len() >= tcp::HEADER_LEN => {
                fullnat::adjust_sequence(segment, record, hit.direction)
            }
            _ => Delta::NONE,
        };
        nat64::translate(packet, headers, &to, more)?;
        Ok(Way {
            neighbour,
            limit,
            shared: limit != 0,
        })
    }

    /// Makes an ICMP error about the connection one of the other family, from whom its receiver knows: no router's own
    /// address can be said there. It always fits.
    pub(super) fn cross_error(
        &mut self,
        packet: &mut I::Packet,
        headers: &Headers,
        quote: &Quote,
        hit: Hit,
        port: PortId,
    ) -> Result<Way, Refusal> {
        let neighbour = self.neighbour_of(hit)?;
        let (source, destination) = self.leaving_ends(hit);
        let outer = self.target(source, destination)?;
        let record = self.table.get(hit.id);
        let shift = match hit.direction {
            Direction::Inbound => 0,
            Direction::Outbound => record.sequence_shift.wrapping_neg(),
        };
        // What is quoted is a packet of the other direction.
        let inner = Inner::fullnat(destination, source, shift);
        let quote = Quote {
            rest: told(record, hit.direction, quote),
            ..*quote
        };
        let came_by = match self.known_neighbour(hit.id, opposite(hit.direction)) {
            NeighbourId::NONE => self.snapshot.ports[usize::from(port.0)].mtu,
            known => self.link_mtu(known),
        };
        let goes_by = self.link_mtu(neighbour);
        let mtus = match outer {
            Target::V4 { .. } => Mtus {
                v4: goes_by,
                v6: came_by,
            },
            Target::V6 { .. } => Mtus {
                v4: came_by,
                v6: goes_by,
            },
        };
        nat64::translate_error(packet, headers, &quote, &outer, &inner, mtus)?;
        Ok(Way {
            neighbour,
            limit: 0,
            shared: true,
        })
    }

    /// A SYN from the IPv6 side, before it is translated: an IPv4 segment of full size gets 20 bytes longer on its way
    /// there, so that the MSS may be no more than what the IPv6 link takes. A segment from the IPv6 side gets shorter,
    /// and always fits.
    pub(super) fn clamp_mss_across(&mut self, hit: Hit, frame: &mut [u8], headers: &Headers) {
        if headers.kind != Kind::Flow6 {
            return;
        }
        let answers = Hit {
            direction: opposite(hit.direction),
            ..hit
        };
        let Ok(neighbour) = self.neighbour_of(answers) else {
            return;
        };
        let most = self.link_mtu(neighbour).saturating_sub(HEADERS6);
        if let Some((_, segment)) = rewrite::split(frame, headers) {
            let delta = tcp::clamp_mss(segment, most);
            tcp::apply(segment, delta);
        }
    }

    /// Source and destination of a packet in this direction once it is translated.
    fn leaving_ends(&self, hit: Hit) -> (SocketAddr, SocketAddr) {
        let ends = self.table.ends(self.table.get(hit.id));
        match hit.direction {
            Direction::Inbound => (ends.local, ends.server),
            Direction::Outbound => (ends.virtual_address, ends.client),
        }
    }

    fn target(&mut self, source: SocketAddr, destination: SocketAddr) -> Result<Target, DropReason> {
        let identification = self.next_identification() as u16;
        Target::between(source, destination, identification).ok_or(DropReason::NoRoute)
    }

    fn known_neighbour(&self, id: RecordId, direction: Direction) -> NeighbourId {
        let record = self.table.get(id);
        NeighbourId(match direction {
            Direction::Inbound => record.neighbour_in,
            Direction::Outbound => record.neighbour_out,
        })
    }
}

/// How long the IP packet of a client's segment may be that gets longer before it is translated: it is to go in one
/// piece by a link whose MTU is `mtu` bytes.
pub(super) fn room(frame: &[u8], headers: &Headers, mtu: u16) -> u16 {
    let len = toa::option_len(headers.kind == Kind::Flow6);
    let longer = Headers {
        end: headers.end.saturating_add(len),
        ..*headers
    };
    match nat64::fit(frame, &longer, mtu) {
        Fit::Whole => u16::MAX,
        Fit::Fragments(_) | Fit::TooBig(_) => 0,
    }
}

/// The second word of an error. From the server's side it may say how long packets may be: the client's get longer by
/// what tells the server of it, so the client is told of less.
fn told(record: &Record, direction: Direction, quote: &Quote) -> u32 {
    match (quote.mtu(), longer_by(record)) {
        (Some(mtu @ 1..), Some(len)) if direction == Direction::Outbound => {
            mtu.saturating_sub(u32::from(len)).max(1)
        }
        _ => quote.rest,
    }
}

const fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Inbound => Direction::Outbound,
        Direction::Outbound => Direction::Inbound,
    }
}
