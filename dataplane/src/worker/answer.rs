//! What the gateway says itself: ARP, echo replies, ICMP errors and resets.

use super::burst::{Burst, Place};
use super::schedule::{Refusal, Reply};
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::FlowIndex;
use crate::neighbour::{AddressClass, Announcement, Ask, Heard, Request};
use crate::packet::arp::{self, Arp, Operation};
use crate::packet::{Headers, MacAddr, Packet, PortId, craft, icmp, ipv4};
use arrayvec::ArrayVec;
use std::net::{IpAddr, Ipv4Addr};

/// Packets that one resolved neighbour may release: as many as may wait for it.
const RELEASED: usize = 16;

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// An ARP packet: learns from it, and answers a question for one of our addresses.
    pub(super) fn arp(&mut self, burst: &mut Burst<I::Packet>, place: Place) {
        let port = burst.ports[usize::from(place)];
        let Some(mut packet) = burst.take(place) else {
            return;
        };
        let heard = match arp::parse(packet.bytes()) {
            Ok(heard) => heard,
            Err(reason) => return self.discard(packet, reason),
        };
        if self.snapshot.addresses.class(heard.sender) != AddressClass::None {
            // Our own announcement come back, or somebody with an address of ours: nothing to learn.
            return self.discard(packet, DropReason::BadSource);
        }
        let ours = self.snapshot.addresses.owner(heard.target.into()) == Some(port);
        if self.snapshot.routes.on_link(heard.sender.into()) == Some(port) {
            self.learn(port, &heard, ours);
        }
        let mac = self.snapshot.ports[usize::from(port.0)].mac;
        if ours && heard.operation == Operation::Request && arp::reply(&mut packet, &heard, mac) {
            return self.send(port, heard.sender_mac, packet);
        }
        self.stats.consumed.add(1);
    }

    fn learn(&mut self, port: PortId, arp: &Arp, ours: bool) {
        let mut released = ArrayVec::<_, RELEASED>::new();
        let stats = &self.stats;
        self.neighbours
            .learn(&Heard::new(port, arp, ours), self.now, |packet, port, mac| {
                if released.try_push((packet, port, mac)).is_err() {
                    stats.count_drop(DropReason::NeighbourQueueFull);
                }
            });
        for (packet, port, mac) in released {
            self.send(port, mac, packet);
        }
    }

    /// An ICMP message: an echo request to one of our addresses is answered.
    pub(super) fn icmp(&mut self, burst: &mut Burst<I::Packet>, place: Place) {
        let headers = burst.headers[usize::from(place)];
        let Some(mut packet) = burst.take(place) else {
            return;
        };
        if self.snapshot.addresses.class(headers.key.destination()) == AddressClass::None {
            return self.discard(packet, DropReason::NotForUs);
        }
        if self.snapshot.addresses.class(headers.key.source()) != AddressClass::None {
            return self.discard(packet, DropReason::BadSource);
        }
        match craft::echo_reply_in_place(&mut packet, &headers) {
            Ok(()) => self.send_to(headers.key.source().into(), packet),
            Err(reason) => self.discard(packet, reason),
        }
    }

    /// Ends a packet that is not forwarded, and tells its sender where that is due and the rate allows it.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&mut self, packet: I::Packet, headers: &Headers, refusal: Refusal) {
        let rate = self.snapshot.settings.icmp_rate;
        if refusal.reply != Reply::Silence && self.replies.allows(self.now, rate) {
            self.reply(&packet, headers, refusal.reply);
        }
        self.discard(packet, refusal.reason);
    }

    /// Makes and sends one of our answers to a packet, from the address that it was sent to.
    fn reply(&mut self, packet: &I::Packet, headers: &Headers, reply: Reply) {
        let (code, rest) = match reply {
            Reply::Silence => return,
            Reply::TimeExceeded => ((icmp::TIME_EXCEEDED, icmp::TTL_EXCEEDED), 0),
            Reply::FragmentationNeeded(mtu) => {
                ((icmp::UNREACHABLE, icmp::FRAGMENTATION_NEEDED), u32::from(mtu))
            }
            Reply::Reset | Reply::PortUnreachable => ((icmp::UNREACHABLE, icmp::PORT_UNREACHABLE), 0),
        };
        let resets = reply == Reply::Reset && headers.protocol == ipv4::TCP;
        let source = headers.key.destination();
        let offending = &packet.bytes()[usize::from(headers.l3)..usize::from(headers.end)];
        self.make(headers.key.source().into(), |out| {
            if resets {
                craft::tcp_reset(out, packet.bytes(), headers)
            } else {
                craft::icmp_error(out, offending, code.0, code.1, rest, source)
            }
        });
    }

    /// Sends to `address` a packet that `fill` writes; `fill` may decide against it.
    fn make(&mut self, address: IpAddr, fill: impl FnOnce(&mut I::Packet) -> bool) {
        if let Some(packet) = self.fresh(fill) {
            self.send_to(address, packet);
        }
    }

    /// A packet of our own, counted as made.
    fn fresh(&mut self, fill: impl FnOnce(&mut I::Packet) -> bool) -> Option<I::Packet> {
        let Some(mut packet) = self.io.allocate() else {
            self.stats.made.add(1);
            self.stats.count_drop(DropReason::NoBuffer);
            return None;
        };
        let filled = fill(&mut packet);
        self.stats.made.add(u64::from(filled));
        filled.then_some(packet)
    }

    /// Sends an ARP request that the neighbour table wants.
    pub(super) fn ask(&mut self, request: &Request) {
        let port = &self.snapshot.ports[usize::from(request.port.0)];
        let IpAddr::V4(target) = request.address else {
            return;
        };
        // A port without an address asks as a probe does (RFC 5227); its neighbours are configured anyway.
        let own = match port.source_for(request.address) {
            Some(IpAddr::V4(own)) => own,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        let mac = port.mac;
        let to = match request.ask {
            Ask::Broadcast => MacAddr::BROADCAST,
            Ask::Unicast(mac) => mac,
        };
        let packet = self.fresh(|out| arp::request(out, mac, own, target, to));
        if let Some(packet) = packet {
            self.send(request.port, to, packet);
        }
    }

    /// Sends one gratuitous ARP packet.
    pub(super) fn send_announcement(&mut self, announcement: &Announcement) {
        let IpAddr::V4(address) = announcement.address else {
            return;
        };
        let mac = self.snapshot.ports[usize::from(announcement.port.0)].mac;
        let fill = |out: &mut I::Packet| arp::announce(out, announcement.form, mac, address);
        if let Some(packet) = self.fresh(fill) {
            self.send(announcement.port, MacAddr::BROADCAST, packet);
        }
    }
}
