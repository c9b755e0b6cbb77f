//! The straight way: a packet in the middle of a connection over IPv4, in one piece. Nearly every packet is such a one.
//!
//! Whatever could make it anything else is looked at before anything is changed; then a packet goes the long way through
//! [`forwarding`](super::forwarding), which does the same one step after the other. That the two agree is a test
//! (`worker::tests::straight`).

use super::{Io, Worker};
use crate::flow::{Direction, Flags, FlowIndex, Mode, Query, TcpState};
use crate::forward::{fullnat, nat, tun};
use crate::neighbour::NeighbourId;
use crate::packet::checksum::Delta;
use crate::packet::{Headers, Kind, Packet, ethernet, ipv4, tcp, udp};
use crate::service::Presence;

/// Where the segment begins in a frame without IP options.
const L4: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Takes a packet of a known connection, most likely that of `candidate`, through the state machine, the counters and the
    /// rewrite, and says where it goes next. None when it is not one for the straight way; then nothing has been done.
    #[inline(always)]
    pub(super) fn go_straight(
        &mut self,
        packet: &mut I::Packet,
        headers: &Headers,
        query: &Query,
        candidate: u32,
    ) -> Option<NeighbourId> {
        #[cfg(test)]
        if self.only_long {
            return None;
        }
        if !is_plain(headers) {
            return None;
        }
        let (record, direction) = self.table.candidate_mut(query, candidate)?;
        let longest = ethernet::HEADER_LEN + usize::from(self.least_mtu);
        let frame = packet.bytes_mut();
        if !record.flags.go_straight()
            || frame.len() > longest
            || self.neighbours.any_down()
            || self.snapshot.presence(record.server) != Presence::Here
        {
            return None;
        }
        let (neighbour, to) = match direction {
            Direction::Inbound => (record.neighbour_in, record.outbound.reversed()),
            Direction::Outbound => (record.neighbour_out, record.inbound.reversed()),
        };
        if neighbour == 0 {
            return None;
        }
        let mode = record.mode();
        if headers.protocol == ipv4::TCP {
            let (ip, segment) = split::<{ tcp::HEADER_LEN }>(frame, headers)?;
            if record.state != TcpState::Established as u8 {
                return None;
            }
            match mode {
                Mode::Dr => ipv4::decrement_ttl(ip),
                Mode::Fullnat => {
                    let shift = fullnat::adjust_sequence(segment, record, direction);
                    nat::translate(ip, segment, headers, &to, shift);
                }
                _ => nat::translate(ip, segment, headers, &to, Delta::NONE),
            }
        } else {
            let (ip, datagram) = split::<{ udp::HEADER_LEN }>(frame, headers)?;
            match mode {
                Mode::Dr => ipv4::decrement_ttl(ip),
                _ => nat::translate(ip, datagram, headers, &to, Delta::NONE),
            }
        }
        record.stamp(self.now);
        let server = record.server;
        self.stats.servers[server as usize].count(direction, headers);
        Some(NeighbourId(neighbour))
    }

    /// The same for a packet into a tunnel of which nothing is known but its first link. None when it may not fit, or is
    /// none for the straight way.
    #[inline(never)]
    pub(super) fn tunnel_straight(
        &mut self,
        packet: &mut I::Packet,
        headers: &Headers,
        query: &Query,
        candidate: u32,
    ) -> Option<NeighbourId> {
        #[cfg(test)]
        if self.only_long {
            return None;
        }
        let (record, _) = self.table.candidate_mut(query, candidate)?;
        let (server, neighbour) = (record.server, record.neighbour_in);
        let is_established = headers.protocol != ipv4::TCP || record.state == TcpState::Established as u8;
        let state = &self.servers[server as usize];
        let room =
            usize::from(self.least_mtu).saturating_sub(tun::overhead(&state.tunnel, state.end.is_ipv6()));
        if !is_plain(headers)
            || record.mode() != Mode::Tun
            || record.flags.has(Flags::EXTENDED)
            || !is_established
            || neighbour == 0
            || packet.bytes().len() > ethernet::HEADER_LEN + room
            || !state.path_mtu.is_unknown()
            || self.neighbours.any_down()
            || self.snapshot.presence(server) != Presence::Here
            || self.wrap(packet, headers, server, query.hash).is_err()
        {
            return None;
        }
        let (record, direction) = self.table.candidate_mut(query, candidate)?;
        record.stamp(self.now);
        self.stats.servers[server as usize].count(direction, headers);
        Some(NeighbourId(neighbour))
    }
}

/// Whether a packet needs nothing but its rewrite, as far as it can tell: TCP or UDP over an IPv4 header without options,
/// which came whole and may go on, and no segment that opens or ends a connection.
#[inline(always)]
fn is_plain(headers: &Headers) -> bool {
    const ENDS: u8 = tcp::SYN | tcp::FIN | tcp::RST;
    if headers.kind != Kind::Flow
        || usize::from(headers.l4) != L4
        || headers.ttl <= 1
        || headers.largest_fragment != 0
    {
        return false;
    }
    match headers.protocol {
        ipv4::UDP => true,
        ipv4::TCP => headers.l4_flags & (ENDS | tcp::ACK) == tcp::ACK,
        _ => false,
    }
}

/// The IP header and the segment of a plain packet; None when the segment is shorter than `LEAST` bytes, which cannot be
/// after parsing.
#[inline(always)]
fn split<'f, const LEAST: usize>(
    frame: &'f mut [u8],
    headers: &Headers,
) -> Option<(&'f mut [u8], &'f mut [u8])> {
    let packet = frame.get_mut(ethernet::HEADER_LEN..usize::from(headers.end))?;
    (packet.len() >= ipv4::HEADER_LEN + LEAST).then(|| packet.split_at_mut(ipv4::HEADER_LEN))
}
