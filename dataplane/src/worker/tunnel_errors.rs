//! ICMP errors about the gateway's own tunnel packets: the client whose packet was wrapped is told by an error of
//! the gateway's own, and a smaller MTU is remembered for the next packets.

use super::answer::Message;
use super::icmp::Elsewhere;
use super::schedule::Ends;
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::{FlowIndex, Mode};
use crate::forward::icmp::Quote;
use crate::forward::tun;
use crate::packet::{icmp, icmp6, ipv4, ipv6};
use std::net::IpAddr;

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// An error to one of our own addresses, about a packet that we have sent through a tunnel.
    pub(super) fn tunnel_error(&mut self, frame: &[u8], quote: &Quote) -> Result<(), Elsewhere> {
        let outer = frame.get(quote.ip..quote.end).unwrap_or(&[]);
        let inner = tun::unwrap_quote(outer, |_| true).ok_or(DropReason::NoConnection)?;
        let inner = &outer[inner];
        let (ends, protocol) = read_inner(inner).ok_or(DropReason::NoConnection)?;
        let owner = self.owner_of(&ends)?;
        if owner != self.number {
            return Err(Elsewhere::Worker(owner));
        }
        let hit = self.find(&ends, protocol).ok_or(DropReason::NoConnection)?;
        let record = self.table.get(hit.id);
        let (_, server) = quote.ends(frame).ok_or(DropReason::UnsupportedIcmp)?;
        let slot = record.server;
        let state = &self.servers[slot as usize];
        if record.mode() != Mode::Tun || state.end.ip() != server.ip() {
            return Err(DropReason::NoConnection.into());
        }
        let mut message = message_for(quote, ends.source.is_ipv6());
        if let Some(told) = quote.mtu() {
            let flow = self.flow_of(&record.inbound, record.protocol);
            let neighbour = self
                .server_neighbour(slot, flow)
                .map_err(|refusal| refusal.reason)?;
            let link = self.link_mtu(neighbour);
            let state = &mut self.servers[slot as usize];
            let mtu = state.path_mtu.learn(told, link, quote.v6, self.now);
            let extra = tun::overhead(&state.tunnel, state.end.is_ipv6());
            let least = if ends.source.is_ipv6() { ipv6::LEAST_MTU } else { 0 };
            message.rest = (usize::from(mtu).saturating_sub(extra)).max(least) as u32;
        }
        if !self.replies.allows(self.now, self.snapshot.settings.icmp_rate) {
            return Err(DropReason::IcmpRate.into());
        }
        self.send_error(ends.source, ends.destination, message, inner);
        Ok(())
    }
}

/// The ends of a quoted packet of TCP, UDP or SCTP, and its protocol.
fn read_inner(packet: &[u8]) -> Option<(Ends, u8)> {
    let (source, destination, protocol, l4): (IpAddr, IpAddr, u8, usize) = match packet.first()? >> 4 {
        4 => {
            let l4 = ipv4::header_len(packet);
            (
                ipv4::source(packet).into(),
                ipv4::destination(packet).into(),
                ipv4::protocol(packet),
                l4,
            )
        }
        6 => {
            let chain = ipv6::walk(packet).ok()?;
            (
                ipv6::source(packet).into(),
                ipv6::destination(packet).into(),
                chain.protocol,
                chain.at,
            )
        }
        _ => return None,
    };
    let &[s0, s1, d0, d1] = packet.get(l4..)?.first_chunk()?;
    let ends = Ends {
        source,
        source_port: u16::from_be_bytes([s0, s1]),
        destination,
        destination_port: u16::from_be_bytes([d0, d1]),
    };
    Some((ends, protocol))
}

/// What the client is told: the same, in the words of its own family.
fn message_for(quote: &Quote, v6: bool) -> Message {
    let (kind, code) = match (quote.v6, v6) {
        (false, false) | (true, true) => (quote.message_type, quote.code),
        (false, true) => match (quote.message_type, quote.code) {
            (icmp::UNREACHABLE, icmp::FRAGMENTATION_NEEDED) => (icmp6::PACKET_TOO_BIG, 0),
            (icmp::TIME_EXCEEDED, _) => (icmp6::TIME_EXCEEDED, icmp6::HOP_LIMIT_EXCEEDED),
            _ => (icmp6::UNREACHABLE, icmp6::ADDRESS_UNREACHABLE),
        },
        (true, false) => match quote.message_type {
            icmp6::PACKET_TOO_BIG => (icmp::UNREACHABLE, icmp::FRAGMENTATION_NEEDED),
            icmp6::TIME_EXCEEDED => (icmp::TIME_EXCEEDED, icmp::TTL_EXCEEDED),
            _ => (icmp::UNREACHABLE, icmp::HOST_UNREACHABLE),
        },
    };
    Message { kind, code, rest: 0 }
}
