//! The stages before the connection is known: receive, parse, steer, track.

use super::burst::{Burst, Place};
use super::{BURST, Io, Worker};
use crate::arch;
use crate::drops::DropReason;
use crate::flow::FlowIndex;
use crate::neighbour::AddressClass;
use crate::packet::{Kind, Packet, PortId, parse_into};
use arrayvec::ArrayVec;

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Takes a burst from `port` through all stages; returns its length.
    pub(super) fn receive(&mut self, port: PortId, burst: &mut Burst<I::Packet>) -> usize {
        let mut arrived = ArrayVec::<I::Packet, BURST>::new();
        self.io.receive(port, &mut arrived);
        let count = arrived.len();
        if count == 0 {
            return 0;
        }
        self.stats.receive(port, count as u64);
        burst.clear();
        burst.ports.extend(std::iter::repeat_n(port, count));
        burst.packets.extend(arrived.into_iter().map(|packet| {
            arch::prefetch(packet.bytes(), 0);
            Some(packet)
        }));
        self.process(burst);
        count
    }

    /// Takes what other workers handed over through all stages; returns how many packets that were.
    pub(super) fn take_over(&mut self, burst: &mut Burst<I::Packet>) -> usize {
        if self.owned.is_all() {
            return 0;
        }
        let mut arrived = ArrayVec::<(PortId, I::Packet), BURST>::new();
        self.io.take_over(&mut arrived);
        let count = arrived.len();
        if count == 0 {
            return 0;
        }
        self.stats.taken_over.add(count as u64);
        burst.clear();
        for (port, packet) in arrived {
            burst.packets.push(Some(packet));
            burst.ports.push(port);
        }
        self.process(burst);
        count
    }

    fn process(&mut self, burst: &mut Burst<I::Packet>) {
        self.parse(burst);
        self.steer(burst);
        self.track(burst);
        self.forward(burst);
    }

    /// Validates every packet. What is not TCP or UDP is answered at once: there is little of it.
    fn parse(&mut self, burst: &mut Burst<I::Packet>) {
        for at in 0..burst.packets.len() {
            let port = burst.ports[at];
            let Some(packet) = &burst.packets[at] else {
                continue;
            };
            let place = at as Place;
            let rules = &self.rules[usize::from(port.0)];
            if let Err(reason) = parse_into(packet, rules, &mut burst.headers[at]) {
                if let Some(packet) = burst.take(place) {
                    self.discard(packet, reason);
                }
                continue;
            }
            match burst.headers[at].kind {
                Kind::Flow => burst.flows.push(place),
                Kind::Flow6 | Kind::Icmp6 | Kind::Fragment | Kind::Fragment6 => {
                    if let Some(packet) = burst.take(place) {
                        self.discard(packet, DropReason::Fragment);
                    }
                }
                Kind::Arp => self.arp(burst, place),
                Kind::Icmp => self.icmp(burst, place),
            }
        }
    }

    /// Names the owner of every flow: of a packet to a VIP by its source, of one to a local address by its
    /// destination. Hands over what another worker owns, and ends what is not for us.
    fn steer(&mut self, burst: &mut Burst<I::Packet>) {
        let mut kept = ArrayVec::<Place, BURST>::new();
        for index in 0..burst.flows.len() {
            let place = burst.flows[index];
            let key = burst.headers[usize::from(place)].key;
            let (address, port) = match self.snapshot.addresses.class(key.destination()) {
                AddressClass::Vip => (key.source(), key.source_port()),
                AddressClass::Local => (key.destination(), key.destination_port()),
                AddressClass::Port(_) | AddressClass::None => {
                    if let Some(packet) = burst.take(place) {
                        self.discard(packet, DropReason::NotForUs);
                    }
                    continue;
                }
            };
            if self.owned.is_all() {
                kept.push(place);
                continue;
            }
            let owner = self.snapshot.shards.owner(self.shard_key.shard(address, port));
            if owner == self.number {
                kept.push(place);
            } else if let Some(packet) = burst.take(place) {
                match self.io.hand_over(owner, burst.ports[usize::from(place)], packet) {
                    Ok(()) => self.stats.handed_over.add(1),
                    Err(packet) => self.discard(packet, DropReason::SteerFull),
                }
            }
        }
        burst.flows = kept;
    }

    /// Looks up every flow in one batch, both directions, so that the memory of all of them is fetched at once.
    fn track(&mut self, burst: &mut Burst<I::Packet>) {
        for &place in &burst.flows {
            let headers = &burst.headers[usize::from(place)];
            // Fetched while the next ones are hashed, so that the first is there when the last is done.
            let query = self.table.announce(headers.key, headers.protocol);
            burst.queries.push(query);
        }
        let count = burst.queries.len();
        self.table.lookup_burst(&burst.queries, &mut burst.hits[..count]);
    }
}
