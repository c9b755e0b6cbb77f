//! Who is where on the link: ARP (RFC 826) and neighbour discovery (RFC 4861), heard, answered and asked.

use super::burst::{Burst, Place};
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::FlowIndex;
use crate::neighbour::{Announcement, Ask, Heard, Request};
use crate::packet::arp::{self, Operation};
use crate::packet::{Headers, MacAddr, Packet, PortId, nd};
use arrayvec::ArrayVec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
        if self.snapshot.addresses.class(heard.sender).is_ours() {
            // Our own announcement come back, or somebody with an address of ours: nothing to learn.
            return self.discard(packet, DropReason::BadSource);
        }
        let ours = self.snapshot.addresses.owner(heard.target.into()) == Some(port);
        if self.snapshot.routes.on_link(heard.sender.into()) == Some(port) {
            self.learn_and_tell(&Heard::new(port, &heard, ours));
        }
        let mac = self.snapshot.ports[usize::from(port.0)].mac;
        if ours && heard.operation == Operation::Request && arp::reply(&mut packet, &heard, mac) {
            return self.send(port, heard.sender_mac, packet);
        }
        // The kernel has neighbours of its own, and asks by itself; what is asked of us it need not know.
        let tells = heard.operation == Operation::Reply || heard.is_gratuitous();
        self.consume(packet, port, tells);
    }

    /// A message of neighbour discovery: learns from it, and answers a question for one of our addresses.
    pub(super) fn discovery(&mut self, mut packet: I::Packet, headers: &Headers, port: PortId) {
        match nd::parse(packet.bytes(), headers) {
            Ok(nd::Message::Solicitation(question)) => {
                if !self.snapshot.answers_for(port, question.target.into()) {
                    self.stats.consumed.add(1);
                } else if self.is_ours(question.source) {
                    self.discard(packet, DropReason::BadSource);
                } else {
                    self.answer_solicitation(&mut packet, &question, port);
                    let to = question.source_mac.unwrap_or(question.station);
                    let to = if question.is_probe() {
                        nd::multicast_mac(nd::ALL_NODES)
                    } else {
                        to
                    };
                    self.send(port, to, packet);
                }
            }
            Ok(nd::Message::Advertisement(told)) => {
                if self.is_ours(told.target) {
                    return self.discard(packet, DropReason::BadSource);
                }
                if self.snapshot.routes.is_on_link(port, told.target.into()) {
                    let nd::Advertisement {
                        target,
                        target_mac,
                        solicited,
                        overrides,
                    } = told;
                    self.learn_and_tell(&Heard::advertisement(
                        port, target, target_mac, solicited, overrides,
                    ));
                }
                self.consume(packet, port, true);
            }
            Err(reason) => self.decline(packet, port, reason),
        }
    }

    /// Turns a question for an address of ours into its answer, and learns who asked.
    fn answer_solicitation(&mut self, packet: &mut I::Packet, question: &nd::Solicitation, port: PortId) {
        if let Some(mac) = question.source_mac
            && self.snapshot.routes.is_on_link(port, question.source.into())
        {
            self.learn_and_tell(&Heard::solicitation(port, question.source, mac));
        }
        let mac = self.snapshot.ports[usize::from(port.0)].mac;
        let answered = nd::advertise(packet, question, mac);
        debug_assert!(answered, "a solicitation is a buffer with room for its answer");
    }

    fn is_ours(&self, address: Ipv6Addr) -> bool {
        self.snapshot.addresses.class6(address).is_ours()
    }

    /// Learns from what has come in here, and lets the other workers learn as well.
    fn learn_and_tell(&mut self, heard: &Heard) {
        self.others.tell(heard);
        self.learn(heard);
    }

    pub(super) fn learn(&mut self, heard: &Heard) {
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

    /// Sends the ARP request or the solicitation that the neighbour table wants.
    pub(super) fn ask(&mut self, request: &Request) {
        let port = &self.snapshot.ports[usize::from(request.port.0)];
        let (mac, own) = (port.mac, port.source_for(request.address));
        let station = match request.ask {
            Ask::Broadcast => None,
            Ask::Unicast(mac) => Some(mac),
        };
        let (to, packet) = match request.address {
            IpAddr::V4(target) => {
                // A port without an address asks as a probe does (RFC 5227); its neighbours are configured anyway.
                let own = match own {
                    Some(IpAddr::V4(own)) => own,
                    _ => Ipv4Addr::UNSPECIFIED,
                };
                let to = station.unwrap_or(MacAddr::BROADCAST);
                (to, self.fresh(|out| arp::request(out, mac, own, target, to)))
            }
            IpAddr::V6(target) => {
                let own = match own {
                    Some(IpAddr::V6(own)) => own,
                    _ => port.link_local(),
                };
                let group = nd::multicast_mac(nd::solicited_node(target));
                let packet = self.fresh(|out| nd::solicit(out, mac, own, target, station));
                (station.unwrap_or(group), packet)
            }
        };
        if let Some(packet) = packet {
            self.send(request.port, to, packet);
        }
    }

    /// Sends one gratuitous ARP packet, or one unsolicited advertisement.
    pub(super) fn send_announcement(&mut self, announcement: &Announcement) {
        let mac = self.snapshot.ports[usize::from(announcement.port.0)].mac;
        let (to, packet) = match announcement.address {
            IpAddr::V4(address) => {
                let form = announcement.form;
                let packet = self.fresh(|out| arp::announce(out, form, mac, address));
                (MacAddr::BROADCAST, packet)
            }
            IpAddr::V6(address) => {
                let packet = self.fresh(|out| nd::announce(out, mac, address));
                (nd::multicast_mac(nd::ALL_NODES), packet)
            }
        };
        if let Some(packet) = packet {
            self.send(announcement.port, to, packet);
        }
    }
}
