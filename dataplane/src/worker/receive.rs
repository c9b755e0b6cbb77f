//! The stages before the connection is known: receive, parse, track; and steering, for who has none here.

use super::burst::{Burst, Place};
use super::snat::Outbound;
use super::{Arrival, BURST, Errand, Io, Stage, Worker};
use crate::arch;
use crate::drops::DropReason;
use crate::flow::FlowIndex;
use crate::fragment::DatagramKey;
use crate::neighbour::AddressClass;
use crate::packet::{Headers, Kind, Packet, PortId, complete_partial, parse_into, vlan};
use crate::worker::shard::Shard;
use arrayvec::ArrayVec;
use std::net::IpAddr;

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
        self.stages.end(Stage::Receive);
        self.parse(burst, port);
        self.stages.end(Stage::Parse);
        self.process(burst);
        count
    }

    /// Takes what other workers handed over through all stages; returns how many packets that were.
    pub(super) fn take_over(&mut self, burst: &mut Burst<I::Packet>) -> usize {
        if self.owned.is_all() {
            return 0;
        }
        let mut arrived = ArrayVec::<(Arrival, I::Packet), BURST>::new();
        self.io.take_over(&mut arrived);
        let count = arrived.len();
        if count == 0 {
            return 0;
        }
        self.stats.taken_over.add(count as u64);
        burst.clear();
        // Another core has written to them: all are asked for before the first is looked at.
        for (arrival, packet) in &arrived {
            arch::prefetch(packet.bytes(), 0);
            burst.ports.push(arrival.port);
        }
        for (at, (arrival, packet)) in arrived.into_iter().enumerate() {
            burst.packets.push(Some(packet));
            if arrival.errand == Errand::Steered {
                self.parse_once_more(burst, at as Place, &arrival);
            } else {
                self.run_errand(burst, at as Place, &arrival);
            }
        }
        self.stages.end(Stage::Receive);
        self.process(burst);
        count
    }

    /// What another worker has parsed before: what it knew of the packet holds on.
    pub(super) fn parse_once_more(&mut self, burst: &mut Burst<I::Packet>, place: Place, arrival: &Arrival) {
        let at = usize::from(place);
        let Some(packet) = &burst.packets[at] else {
            return;
        };
        let rules = &self.rules[usize::from(arrival.port.0)];
        match parse_into(packet, rules, &mut burst.headers[at]) {
            Ok(()) => {
                burst.headers[at].largest_fragment = arrival.largest_fragment;
                burst.identifications[at] = arrival.identification;
                self.sort(burst, place);
            }
            Err(reason) => {
                if let Some(packet) = burst.take(place) {
                    self.discard(packet, reason);
                }
            }
        }
    }

    fn process(&mut self, burst: &mut Burst<I::Packet>) {
        self.track(burst);
        self.stages.end(Stage::Track);
        self.forward(burst);
        self.stages.end(Stage::Forward);
    }

    /// Validates every packet of a burst from `port`.
    fn parse(&mut self, burst: &mut Burst<I::Packet>, port: PortId) {
        let rules = self.rules[usize::from(port.0)];
        for at in 0..burst.packets.len() {
            let Some(packet) = &burst.packets[at] else {
                continue;
            };
            match parse_into(packet, &rules, &mut burst.headers[at]) {
                Ok(()) => self.sort(burst, at as Place),
                Err(reason) => self.look_again(burst, at as Place, reason),
            }
        }
    }

    /// Puts a validated packet where it belongs.
    #[inline(always)]
    fn sort(&mut self, burst: &mut Burst<I::Packet>, place: Place) {
        match burst.headers[usize::from(place)].kind {
            Kind::Flow | Kind::Flow6 => burst.flows.push(place),
            _ => self.deal_with(burst, place),
        }
    }

    /// A packet that is no flow. There are few, and they are dealt with at once.
    #[cold]
    #[inline(never)]
    pub(super) fn deal_with(&mut self, burst: &mut Burst<I::Packet>, place: Place) {
        match burst.headers[usize::from(place)].kind {
            Kind::Flow | Kind::Flow6 => {}
            Kind::Arp => self.arp(burst, place),
            Kind::Icmp | Kind::Icmp6 => self.icmp(burst, place),
            Kind::Fragment | Kind::Fragment6 => self.gather(burst, place),
        }
    }

    /// A packet that the parser does not take as it is: the tag of a VLAN comes off, and a checksum that the sender
    /// left to an offload is computed. Anything else ends here.
    #[inline(never)]
    fn look_again(&mut self, burst: &mut Burst<I::Packet>, place: Place, mut reason: DropReason) {
        let at = usize::from(place);
        // One tag and one checksum at the most.
        for _ in 0..2 {
            let Some(packet) = &mut burst.packets[at] else {
                return;
            };
            let changed = match reason {
                DropReason::VlanTag => match untag(packet, &self.snapshot.ports, burst.ports[at]) {
                    Some(port) => {
                        burst.ports[at] = port;
                        true
                    }
                    None => false,
                },
                DropReason::PartialChecksum => {
                    let completed = complete_partial(packet);
                    self.stats.completed_checksums.add(u64::from(completed));
                    completed
                }
                _ => false,
            };
            if !changed {
                break;
            }
            let rules = &self.rules[usize::from(burst.ports[at].0)];
            match parse_into(packet, rules, &mut burst.headers[at]) {
                Ok(()) => return self.sort(burst, place),
                Err(other) => reason = other,
            }
        }
        let port = burst.ports[at];
        if let Some(packet) = burst.take(place) {
            self.decline(packet, port, reason);
        }
    }

    /// A fragment: kept until all of its packet are there, which then goes on in the last one's place.
    #[cold]
    #[inline(never)]
    fn gather(&mut self, burst: &mut Burst<I::Packet>, place: Place) {
        let at = usize::from(place);
        let Some(packet) = burst.take(place) else {
            return;
        };
        let (_, destination) = super::ends::addresses(&burst.headers[at], packet.bytes());
        if !self.is_wanted(destination)
            || self.leaves_pieces_to_kernel(&burst.headers[at], destination, burst.ports[at])
        {
            return self.decline(packet, burst.ports[at], self.stranger(destination));
        }
        let owner = self.gatherer(&packet, &burst.headers[at], burst.ports[at]);
        if owner != self.number {
            return self.hand_over(owner, Arrival::at(burst.ports[at]), packet);
        }
        let Some(whole) = self.put_together(packet, &burst.headers[at], burst.ports[at]) else {
            return;
        };
        burst.identifications[at] = whole.identification;
        let rules = &self.rules[usize::from(burst.ports[at].0)];
        let parsed = parse_into(&whole.packet, rules, &mut burst.headers[at]);
        burst.packets[at] = Some(whole.packet);
        match parsed {
            Ok(()) => {
                burst.headers[at].largest_fragment = whole.largest;
                self.sort(burst, place);
            }
            Err(reason) => {
                if let Some(packet) = burst.take(place) {
                    self.discard(packet, reason);
                }
            }
        }
    }

    /// The worker that puts the datagram of a fragment together: a device may spread fragments otherwise than packets
    /// with ports, and the first one otherwise than the rest.
    fn gatherer(&self, packet: &I::Packet, headers: &Headers, port: PortId) -> u8 {
        if self.owned.is_all() {
            return self.number;
        }
        match DatagramKey::of(packet.bytes(), headers, port) {
            // The top bits: the low ones are a place in the table of fragments.
            Some(key) => {
                let shard = Shard::from_low_bits((key.hash(&self.digest) >> 57) as u32);
                self.snapshot.shards.owner(shard)
            }
            None => self.number,
        }
    }

    /// Whether a packet to this address is anything to the gateway.
    pub(super) fn is_wanted(&self, destination: IpAddr) -> bool {
        match self.snapshot.addresses.class_of(destination) {
            AddressClass::Vip | AddressClass::Local | AddressClass::Port(_) => true,
            AddressClass::None => self.passes_by,
            AddressClass::Standby => false,
        }
    }

    /// The worker of a packet that took the long way: for a packet to a VIP it is the owner of its source, for one to a local
    /// address, or to a client of a NAT server, that of its destination; with SNAT see [`Outbound`].
    ///
    /// # Errors
    /// It is not for us.
    pub(super) fn owner_of_packet(&self, headers: &Headers, packet: &I::Packet) -> Result<u8, DropReason> {
        if headers.kind != Kind::Flow {
            return self.owner_of(&super::ends::of(headers, packet.bytes()));
        }
        let key = headers.key;
        self.home(self.snapshot.addresses.class(key.destination()), |is_source| {
            if is_source {
                self.shard_key.shard(key.source(), key.source_port())
            } else {
                self.shard_key.shard(key.destination(), key.destination_port())
            }
        })
    }

    /// The owner of a packet to an address of this class; `shard` is of its source or of its destination.
    #[inline(always)]
    fn home(&self, class: AddressClass, shard: impl FnOnce(bool) -> Shard) -> Result<u8, DropReason> {
        let by_source = match class {
            AddressClass::Vip => true,
            AddressClass::Local => false,
            AddressClass::None if self.passes_by => self.outbound == Outbound::Source,
            AddressClass::Port(_) | AddressClass::None => return Err(DropReason::NotForUs),
            AddressClass::Standby => return Err(DropReason::Standby),
        };
        if self.owned.is_all() {
            return Ok(self.number);
        }
        Ok(self.snapshot.shards.owner(shard(by_source)))
    }

    /// The owner of the connection that a packet between these ends belongs to.
    pub(super) fn owner_of(&self, ends: &super::schedule::Ends) -> Result<u8, DropReason> {
        self.home(self.snapshot.addresses.class_of(ends.destination), |by_source| {
            if by_source {
                self.shard_key.shard_of(ends.source, ends.source_port)
            } else {
                self.shard_key.shard_of(ends.destination, ends.destination_port)
            }
        })
    }

    /// Gives a packet to the worker that owns its connection.
    pub(super) fn hand_over(&mut self, owner: u8, arrival: Arrival, packet: I::Packet) {
        self.try_hand_over(owner, arrival, packet);
    }

    /// Gives a packet to another worker, or drops it where that has no room. Whether it went.
    #[inline]
    pub(super) fn try_hand_over(&mut self, owner: u8, arrival: Arrival, packet: I::Packet) -> bool {
        match self.io.hand_over(owner, arrival, packet) {
            Ok(()) => {
                self.stats.handed_over.add(1);
                self.stats.count_steered(owner, true);
                true
            }
            Err(packet) => {
                self.stats.count_steered(owner, false);
                self.discard(packet, DropReason::SteerFull);
                false
            }
        }
    }

    /// Looks up every flow in one batch, both directions, so that the memory of all of them is fetched at once.
    fn track(&mut self, burst: &mut Burst<I::Packet>) {
        for &place in &burst.flows {
            let headers = &burst.headers[usize::from(place)];
            // Fetched while the next ones are hashed, so that the first is there when the last is done.
            let query = self.table.announce(headers.key, headers.protocol);
            burst.queries.push(query);
        }
        self.table.find_candidates(&burst.queries, &mut burst.candidates);
    }
}

/// Takes the tag off a frame of one of the VLANs of `port`; the port that the VLAN is. Priority tags (IEEE 802.1Q
/// 6.9.1: VLAN 0) are no VLAN. None when the port has no such VLAN.
fn untag<P: Packet>(packet: &mut P, ports: &[crate::service::PortSettings], port: PortId) -> Option<PortId> {
    let id = vlan::untag(packet)?;
    if id == 0 {
        return Some(port);
    }
    let is_it = |settings: &crate::service::PortSettings| {
        settings
            .vlan
            .is_some_and(|vlan| vlan.parent == port && vlan.id == id)
    };
    ports.iter().position(is_it).map(|at| PortId(at as u8))
}
