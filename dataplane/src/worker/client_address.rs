//! Client addresses for servers of FULLNAT: the work of [`toa`] on the packets of connections that have it; that of the
//! PROXY protocol is in [`super::proxy`]. Off the straight way: it is asked for during handshakes only.

use super::{Io, Worker};
use crate::flow::{Direction, Flags, FlowIndex, Hit};
use crate::forward::icmp::{self as errors, Quote};
use crate::forward::toa;
use crate::neighbour::NeighbourId;
use crate::packet::{Headers, Packet, rewrite};

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
    ) -> Option<Headers> {
        let record = self.table.get_mut(hit.id);
        if record.is_proxying() {
            self.follow_header(hit, packet.bytes_mut(), headers);
            return None;
        }
        let (_, segment) = rewrite::split(packet.bytes_mut(), headers)?;
        match hit.direction {
            Direction::Outbound => {
                toa::hear(record, segment);
                return None;
            }
            Direction::Inbound if !toa::is_due(record, segment) => return None,
            Direction::Inbound => {}
        }
        let link = self.snapshot.ports[usize::from(self.neighbours.port_of(neighbour).0)].mtu;
        let most = match (limit, headers.largest_fragment) {
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
        longer
    }

    /// An error from the server's side that says how long packets may be: the client's get longer by the option, so
    /// the client is told of less.
    pub(super) fn lower_told_mtu(&self, hit: Hit, frame: &mut [u8], headers: &Headers, quote: &Quote) {
        let record = self.table.get(hit.id);
        if hit.direction == Direction::Outbound
            && record.flags.has(Flags::TOA)
            && let Some(mtu) = quote.mtu()
        {
            let len = u32::from(toa::option_len(record.inbound.is_v6()));
            // Nothing to lower in a message of another type, or of a router that says 0.
            let _ = errors::set_mtu(frame, headers, quote, mtu.saturating_sub(len));
        }
    }
}
