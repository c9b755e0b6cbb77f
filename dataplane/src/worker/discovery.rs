//! Who is where on the link: ARP (RFC 826) and neighbour discovery (RFC 4861), heard, answered and asked.

use super::burst::{Burst, Place};
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::FlowIndex;
use crate::neighbour::{AddressClass, Announcement, Ask, Heard, Request};
use crate::packet::arp::{self, Operation};
use crate::packet::{MacAddr, Packet, PortId};
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
            self.learn(&Heard::new(port, &heard, ours));
        }
        let mac = self.snapshot.ports[usize::from(port.0)].mac;
        if ours && heard.operation == Operation::Request && arp::reply(&mut packet, &heard, mac) {
            return self.send(port, heard.sender_mac, packet);
        }
        self.stats.consumed.add(1);
    }

    /// STUB
    pub(super) fn discovery(&mut self, packet: I::Packet, _headers: &crate::packet::Headers, _port: PortId) {
        self.discard(packet, DropReason::UnsupportedIcmp)
    }

    fn learn(&mut self, heard: &Heard) {
        let mut released = ArrayVec::<_, RELEASED>::new();
        let stats = &self.stats;
        self.neighbours.learn(heard, self.now, |packet, port, mac| {
            if released.try_push((packet, port, mac)).is_err() {
                stats.count_drop(DropReason::NeighbourQueueFull);
            }
        });
        for (packet, port, mac) in released {
            self.send(port, mac, packet);
        }
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
