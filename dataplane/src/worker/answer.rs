//! What the gateway says itself when it does not forward a packet: ICMP errors, resets and aborts.

use super::schedule::{Refusal, Reply};
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::FlowIndex;
use crate::forward::nat;
use crate::neighbour::AddressClass;
use crate::packet::{Headers, Packet, PortId, craft, icmp, icmp6, ipv4};
use std::net::IpAddr;

/// An ICMP or ICMPv6 error: type, code, and the second word of its header (the MTU, or 0).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Message {
    pub(super) kind: u8,
    pub(super) code: u8,
    pub(super) rest: u32,
}

/// A packet of a NAT server that belongs to no connection, where `nat_icmp_send` says that the server is told.
pub(super) const UNKNOWN_TO_NAT: Refusal = Refusal {
    reason: DropReason::NoConnection,
    reply: Reply::UnknownConnection,
};

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Ends a packet that is not forwarded, and tells its sender where that is due and the rate allows it.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(
        &mut self,
        mut packet: I::Packet,
        headers: &Headers,
        port: PortId,
        refusal: Refusal,
    ) {
        let rate = self.snapshot.settings.icmp_rate;
        if refusal.reply != Reply::Silence && self.replies.allows(self.now, rate) {
            if matches!(refusal.reply, Reply::TooBig(_) | Reply::UnknownConnection) {
                // Linux finds out after it has counted the hop, and quotes the packet so.
                nat::decrement_ttl(packet.bytes_mut(), headers);
            }
            self.reply(&packet, headers, port, refusal.reply);
        }
        match refusal.reply {
            Reply::Silence => self.decline(packet, port, refusal.reason),
            _ => self.discard(packet, refusal.reason),
        }
    }

    /// Makes and sends one of our answers to a packet: from the address that it was sent to where that is ours, else
    /// from our own on the port that it came by.
    fn reply(&mut self, packet: &I::Packet, headers: &Headers, port: PortId, reply: Reply) {
        let (to, destination) = super::ends::addresses(headers, packet.bytes());
        let from = if self.snapshot.addresses.class_of(destination) == AddressClass::None {
            match self.snapshot.ports[usize::from(port.0)].source_for(to) {
                Some(own) => own,
                None => return,
            }
        } else {
            destination
        };
        let frame = packet.bytes();
        if reply == Reply::Reset && headers.protocol == ipv4::TCP {
            return self.make(to, |out| craft::tcp_reset(out, frame, headers));
        }
        if reply == Reply::Reset && headers.protocol == ipv4::SCTP {
            return self.make(to, |out| craft::sctp_abort(out, frame, headers));
        }
        let offending = &frame[usize::from(headers.l3)..usize::from(headers.end)];
        if let Some(message) = message_of(reply, to.is_ipv6()) {
            self.send_error(to, from, message, offending);
        }
    }

    /// Sends an ICMP error about `offending`, a packet from its IP header on.
    pub(super) fn send_error(&mut self, to: IpAddr, from: IpAddr, message: Message, offending: &[u8]) {
        let Message { kind, code, rest } = message;
        self.make(to, |out| match from {
            IpAddr::V4(from) => craft::icmp_error(out, offending, kind, code, rest, from),
            IpAddr::V6(from) => craft::icmp6_error(out, offending, kind, code, rest, from),
        });
    }

    /// Sends to `address` a packet that `fill` writes; `fill` may decide against it.
    fn make(&mut self, address: IpAddr, fill: impl FnOnce(&mut I::Packet) -> bool) {
        if let Some(packet) = self.fresh(fill) {
            self.send_to(address, packet);
        }
    }

    /// A packet of our own, counted as made.
    pub(super) fn fresh(&mut self, fill: impl FnOnce(&mut I::Packet) -> bool) -> Option<I::Packet> {
        let Some(mut packet) = self.io.allocate() else {
            self.stats.made.add(1);
            self.stats.count_drop(DropReason::NoBuffer);
            return None;
        };
        let filled = fill(&mut packet);
        self.stats.made.add(u64::from(filled));
        filled.then_some(packet)
    }
}

/// A reply in the words of ICMP or ICMPv6.
fn message_of(reply: Reply, v6: bool) -> Option<Message> {
    let (kind, code, rest) = match (reply, v6) {
        (Reply::Silence | Reply::Elsewhere(_), _) => return None,
        (Reply::Reset | Reply::PortUnreachable | Reply::UnknownConnection, false) => {
            (icmp::UNREACHABLE, icmp::PORT_UNREACHABLE, 0)
        }
        (Reply::Reset | Reply::PortUnreachable | Reply::UnknownConnection, true) => {
            (icmp6::UNREACHABLE, icmp6::PORT_UNREACHABLE, 0)
        }
        (Reply::HostUnreachable, false) => (icmp::UNREACHABLE, icmp::HOST_UNREACHABLE, 0),
        (Reply::HostUnreachable, true) => (icmp6::UNREACHABLE, icmp6::ADDRESS_UNREACHABLE, 0),
        (Reply::TimeExceeded, false) => (icmp::TIME_EXCEEDED, icmp::TTL_EXCEEDED, 0),
        (Reply::TimeExceeded, true) => (icmp6::TIME_EXCEEDED, icmp6::HOP_LIMIT_EXCEEDED, 0),
        (Reply::TooBig(mtu), false) => (icmp::UNREACHABLE, icmp::FRAGMENTATION_NEEDED, u32::from(mtu)),
        (Reply::TooBig(mtu), true) => (icmp6::PACKET_TOO_BIG, 0, u32::from(mtu)),
    };
    Some(Message { kind, code, rest })
}
