//! Client addresses for servers of FULLNAT: the work of [`toa`] on segments and of [`crate::forward::proxy`] on datagrams
//! of connections that have it; that of the latter on segments is in [`super::proxy`]. Off the straight way: it is asked
//! for during handshakes, and for the datagrams of services that have headers in them.

use super::schedule::Refusal;
use super::{Io, Worker, families};
use crate::drops::DropReason;
use crate::flow::{Direction, Flags, FlowIndex, Hit, Record};
use crate::forward::icmp::{self as errors, Quote};
use crate::forward::proxy::{Header, Transport, datagram};
use crate::forward::toa;
use crate::neighbour::NeighbourId;
use crate::packet::{Headers, Packet, ipv4, rewrite};

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// A segment with SYN, before it is rewritten: the MSS that its service wants, and what TOA or the PROXY protocol
    /// has to know of it. Its new headers when it has lost its data.
    #[cold]
    #[inline(never)]
    pub(super) fn adjust_syn(
        &mut self,
        hit: Hit,
        packet: &mut I::Packet,
        headers: &Headers,
    ) -> Option<Headers> {
        self.clamp_mss(hit, packet.bytes_mut(), headers);
        if self.table.get(hit.id).flags.has(Flags::MIXED) {
            self.clamp_mss_across(hit, packet.bytes_mut(), headers);
        }
        let record = self.table.get_mut(hit.id);
        if record.flags.has(Flags::EXTENDED) && !record.flags.has(Flags::TOA) {
            return self.adjust_syn_for_header(hit, packet, headers);
        }
        if hit.direction == Direction::Outbound
            && record.flags.has(Flags::TOA)
            && let Some((_, segment)) = rewrite::split(packet.bytes_mut(), headers)
        {
            let ipv6 = record.inbound.is_v6();
            toa::hear_answer(record, segment, ipv6);
        }
        None
    }

    /// A segment of a connection with [`Flags::SERVER_ISN`], before it is rewritten and after it was found to fit:
    /// `limit` is what [`super::forwarding::Way`] has. Its new headers when it now carries the client's address.
    #[cold]
    #[inline(never)]
    pub(super) fn show_client(
        &mut self,
        hit: Hit,
        neighbour: NeighbourId,
        limit: u16,
        packet: &mut I::Packet,
        headers: &Headers,
    ) -> Result<Option<Headers>, Refusal> {
        let record = self.table.get_mut(hit.id);
        if record.protocol == ipv4::UDP {
            return self.head_datagram(hit, packet, headers);
        }
        if record.is_proxying() {
            self.follow_header(hit, packet.bytes_mut(), headers);
            return Ok(None);
        }
        let Some((_, segment)) = rewrite::split(packet.bytes_mut(), headers) else {
            return Ok(None);
        };
        match hit.direction {
            Direction::Outbound => {
                toa::hear(record, segment);
                return Ok(None);
            }
            Direction::Inbound if !toa::is_due(record, segment) => return Ok(None),
            Direction::Inbound => {}
        }
        let link = self.snapshot.ports[usize::from(self.neighbours.port_of(neighbour).0)].mtu;
        let most = match (limit, headers.largest_fragment) {
            (0, _) if record.flags.has(Flags::MIXED) => families::room(packet.bytes(), headers, link),
            (0, 0) => link,
            // Fragments that fit as a whole into one of their own.
            (0, largest) => link.min(largest),
            // It goes in fragments anyway.
            _ => u16::MAX,
        };
        let longer = toa::show(packet, headers, most);
        let count = match longer {
            Some(_) => &self.stats.toa_added,
            None => &self.stats.toa_no_room,
        };
        count.add(1);
        Ok(longer)
    }

    /// PROXY: a client's datagram gets its header, which [`Worker::limit`] has found to fit. A server that expects one
    /// would misread a datagram without.
    fn head_datagram(
        &mut self,
        hit: Hit,
        packet: &mut I::Packet,
        headers: &Headers,
    ) -> Result<Option<Headers>, Refusal> {
        if hit.direction == Direction::Outbound {
            return Ok(None);
        }
        let header = self.header_of(hit);
        let longer = datagram::put_header(packet, headers, &header).ok_or(DropReason::ProxyNoRoom)?;
        Ok(Some(longer))
    }

    /// What the server of a connection is told of it by the PROXY protocol, in front of datagrams.
    fn header_of(&self, hit: Hit) -> Header {
        let ends = self.table.ends(self.table.get(hit.id));
        Header {
            client: ends.client,
            virtual_address: ends.virtual_address,
            protocol: Transport::Datagram,
        }
    }

    /// By how many bytes a packet of the connection grows: the header of the PROXY protocol, in a client's datagram.
    pub(super) fn grows_by(&self, hit: Hit) -> u16 {
        let record = self.table.get(hit.id);
        let grows =
            record.protocol == ipv4::UDP && record.is_proxying() && hit.direction == Direction::Inbound;
        if grows {
            Header::len(record.inbound.is_v6()) as u16
        } else {
            0
        }
    }

    /// An error from the server's side about a datagram with a header quotes it as the client has sent it: without. The
    /// message's new headers and quote, if they are others.
    pub(super) fn take_header_from_quote(
        &self,
        hit: Hit,
        packet: &mut I::Packet,
        headers: &Headers,
        quote: &Quote,
    ) -> Option<(Headers, Quote)> {
        let told = Hit {
            direction: Direction::Inbound,
            ..hit
        };
        if hit.direction == Direction::Inbound || self.grows_by(told) == 0 {
            return None;
        }
        let changed = datagram::take_from_quote(packet.bytes_mut(), headers, quote, &self.header_of(hit))?;
        super::length::cut_padding(packet, &changed.0);
        Some(changed)
    }

    /// An error from the server's side that says how long packets may be: the client's get longer by the option, or by
    /// the header in a datagram, so the client is told of less.
    pub(super) fn lower_told_mtu(&self, hit: Hit, frame: &mut [u8], headers: &Headers, quote: &Quote) {
        let record = self.table.get(hit.id);
        if hit.direction == Direction::Outbound
            && let Some(len) = longer_by(record)
            && let Some(mtu) = quote.mtu()
        {
            // Nothing to lower in a message of another type, or of a router that says 0.
            let _ = errors::set_mtu(frame, headers, quote, mtu.saturating_sub(u32::from(len)));
        }
    }
}

/// By how many bytes the client's longest packets grow on their way to the server.
pub(super) fn longer_by(record: &Record) -> Option<u16> {
    let ipv6 = record.inbound.is_v6();
    if record.protocol == ipv4::UDP {
        record.is_proxying().then(|| Header::len(ipv6) as u16)
    } else {
        record.flags.has(Flags::TOA).then(|| toa::option_len(ipv6))
    }
}
