//! SNAT: a packet from inside to a server outside gets a local address of its rule as its source. Called where nothing
//! else wants a packet; what is opened here is a FULLNAT connection whose virtual address is the server itself, so that
//! rewriting, replies and the end of connections are FULLNAT's.
//!
//! A connection is owned by the worker of its source endpoint; of echo, by that of source and identifier. Local ports
//! are given per server outside, so that each has all of them. Mapping and filtering depend on the endpoint outside
//! (RFC 4787 4.1, RFC 5382 4.1): nobody else gets in.

use super::clients::Group;
use super::mailbox::Event;
use super::schedule::{Ends, Refusal, Reply, opens_sctp, opens_tcp};
use super::{Io, Worker, opening};
use crate::drops::DropReason;
use crate::flow::{Flags, FlowIndex, InsertError, Mode, Record, RecordId};
use crate::local::{self, LipPool, Pressure, TakeError, Taken};
use crate::neighbour::NeighbourId;
use crate::packet::{Headers, ipv4, ipv6, tcp};
use crate::service::{Snapshot, SnatQuery, SnatRule};
use std::net::IpAddr;
use std::sync::Arc;

/// Which worker a packet to a stranger belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outbound {
    /// The owner of its destination: it is a NAT server's reply to that client.
    Destination,
    /// As [`Outbound::Destination`], and with no connection there the owner of its source: SNAT beside NAT.
    Both,
    /// The owner of its source: there is SNAT and no NAT.
    Source,
}

impl Outbound {
    pub(super) fn of(snapshot: &Snapshot) -> Outbound {
        match (snapshot.snat.is_empty(), snapshot.has_nat()) {
            (true, _) => Outbound::Destination,
            (false, true) => Outbound::Both,
            (false, false) => Outbound::Source,
        }
    }
}

/// What a rule says of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ruling {
    /// It is routed on as it is.
    Exempt,
    /// It belongs to the rule in this slot.
    Translate(u32),
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// What the rules say of a packet to a stranger; none when it falls under none of them.
    pub(super) fn ruling(&self, ends: &Ends, protocol: u8) -> Option<Ruling> {
        let echo = matches!(protocol, ipv4::ICMP | ipv6::ICMP);
        let rule = self.snapshot.snat.find(&SnatQuery {
            source: ends.source,
            destination: ends.destination,
            protocol,
            port: (!echo).then_some(ends.destination_port),
        })?;
        Some(if rule.exempt {
            Ruling::Exempt
        } else {
            Ruling::Translate(rule.slot)
        })
    }

    /// The worker that has to look at a packet to a stranger once more, after this one has found no connection: the
    /// owner of its source, when it may be a NAT server's or SNAT's.
    #[cold]
    #[inline(never)]
    pub(super) fn second_owner(&self, ends: &Ends, protocol: u8) -> Option<u8> {
        let owner = self.source_owner(ends);
        let elsewhere = owner != self.number && self.is_for_strangers(ends);
        (elsewhere && matches!(self.ruling(ends, protocol), Some(Ruling::Translate(_)))).then_some(owner)
    }

    fn is_for_strangers(&self, ends: &Ends) -> bool {
        let class = self.snapshot.addresses.class_of(ends.destination);
        class == crate::neighbour::AddressClass::None
    }

    /// The owner of a packet's source endpoint.
    pub(super) fn source_owner(&self, ends: &Ends) -> u8 {
        if self.owned.is_all() {
            return self.number;
        }
        let shard = self.shard_key.shard_of(ends.source, ends.source_port);
        self.snapshot.shards.owner(shard)
    }

    /// Opens a connection of the rule in that slot for a packet between these ends; the ports are those of echo's key for
    /// echo. A packet at its last hop opens none.
    pub(super) fn open_snat(
        &mut self,
        headers: &Headers,
        frame: &[u8],
        ends: &Ends,
        slot: u32,
    ) -> Result<RecordId, Refusal> {
        may_open(headers, &self.snapshot)?;
        if headers.ttl <= 1 {
            return Err(super::forwarding::TTL_EXCEEDED);
        }
        // Only after a NAT connection of the same ends has ended with this packet: the next one finds its way.
        if self.source_owner(ends) != self.number {
            return Err(DropReason::NoConnection.into());
        }
        if !self.has_room(slot, ends.source) {
            self.stats.servers[slot as usize].refused.add(1);
            return Err(DropReason::SnatLimit.into());
        }
        let inbound = self.key_between(
            ends.source,
            ends.source_port,
            ends.destination,
            ends.destination_port,
        );
        let flow = self.flow_of(&inbound, headers.protocol);
        let neighbour = self.outside_neighbour(ends.destination, flow)?;
        let end = local::Server {
            address: ends.destination,
            port: ends.destination_port,
            protocol: headers.protocol,
        };
        let given = self.give_snat_port(slot, &end, ends)?;
        let outbound = self.key_between(end.address, end.port, given.local, given.port);
        let mut record = Record::new(headers.protocol, Mode::Fullnat, inbound, outbound);
        record.flags.set(Flags::SNAT, true);
        record.server = slot;
        record.service = u32::MAX;
        record.neighbour_in = neighbour.0;
        record.state = self.first_state(headers, Mode::Fullnat);
        if headers.protocol == ipv4::TCP {
            record.sequence = tcp::sequence(&frame[usize::from(headers.l4)..]);
        }
        let addresses = opening::addresses_between(&record, ends, end.address, Some(given.local));
        let opened = self
            .open(&mut record, addresses.as_ref())
            .map_err(|InsertError::TableFull| self.take_back(&end, Some(given)))?;
        self.succeed_former(opened, &end, &given);
        Ok(opened)
    }

    /// Whether a host may have one more connection. Its connections are spread over the workers by their ports, so each
    /// worker lets it have its share of the limit, rounded up.
    fn has_room(&self, slot: u32, host: IpAddr) -> bool {
        let rule = self.snapshot.snat.by_slot(slot);
        let limit = rule.map_or(0, |rule| rule.client_limit);
        let share = limit.div_ceil(u32::from(self.snapshot.shards.workers()).max(1));
        limit == 0 || self.clients.count(Group::Rule(slot), host) < share
    }

    /// The neighbour towards a server outside. Its host is told when there is no way.
    pub(super) fn outside_neighbour(&mut self, address: IpAddr, flow: u64) -> Result<NeighbourId, Refusal> {
        self.neighbour_towards(address, flow).map_err(|reason| Refusal {
            reason,
            reply: match reason {
                DropReason::NoRoute => Reply::HostUnreachable,
                _ => Reply::Silence,
            },
        })
    }

    fn give_snat_port(&mut self, slot: u32, end: &local::Server, ends: &Ends) -> Result<Taken, Refusal> {
        let taken = self.take_snat_port(slot, end, ends);
        let given = self.or_recycled(taken, end, |worker| worker.take_snat_port(slot, end, ends));
        match given {
            Ok(taken) => self.watch_snat_ports(slot, end, ends.source, taken.local),
            Err(DropReason::LocalPortsExhausted) => self.report(Event::SnatPortsExhausted {
                rule: slot,
                destination: end.address,
                destination_port: end.port,
                protocol: end.protocol,
            }),
            Err(_) => {}
        }
        given.map_err(Refusal::from)
    }

    /// Tries the rule's groups of local addresses in their order.
    fn take_snat_port(&mut self, slot: u32, end: &local::Server, ends: &Ends) -> Result<Taken, TakeError> {
        let mut failure = TakeError::Exhausted { recyclable: None };
        let wanted = self.shard_key.shard_of(ends.source, ends.source_port);
        for pool in pools_of(&self.snapshot, slot) {
            match self
                .locals
                .take_sticky(pool, ends.source, end, wanted, self.owned)
            {
                Ok(taken) => return Ok(taken),
                Err(other) => failure = opening::worth_more(failure, other),
            }
        }
        Err(failure)
    }

    /// Looks whether the host got its own address, and how many local ports are left towards the server.
    fn watch_snat_ports(&mut self, slot: u32, end: &local::Server, host: IpAddr, local: IpAddr) {
        // Most addresses have more ports than any server has connections.
        if !self.locals.may_run_low() {
            return;
        }
        let pools = pools_of(&self.snapshot, slot);
        let own = pools.iter().find_map(|pool| self.locals.address_of(pool, host));
        self.stats.snat_moved.add(u64::from(own != Some(local)));
        let usage = self.locals.usage_towards(pools, end);
        if let Some(pressure) = Pressure::now(None, usage) {
            self.report(Event::SnatPortsLow {
                rule: slot,
                destination: end.address,
                destination_port: end.port,
                protocol: end.protocol,
                pressure,
                used: usage.used,
                capacity: usage.capacity,
            });
        }
    }
}

/// The groups of local addresses of the rule in that slot.
fn pools_of(snapshot: &Snapshot, slot: u32) -> &[Arc<LipPool>] {
    let rule: Option<&SnatRule> = snapshot.snat.by_slot(slot);
    rule.map_or(&[], |rule| &rule.local_pools)
}

/// Whether a packet may open a connection, by its protocol. Nobody is told: what goes through a gateway that has just
/// started again has to time out at its host, as with a router that has lost its state.
fn may_open(headers: &Headers, snapshot: &Snapshot) -> Result<(), DropReason> {
    let settings = &snapshot.settings;
    match headers.protocol {
        ipv4::TCP if !opens_tcp(headers.l4_flags, settings.sloppy_tcp) => Err(DropReason::NotSyn),
        ipv4::SCTP if !opens_sctp(headers.l4_flags, settings.sloppy_sctp) => Err(DropReason::NotInit),
        _ => Ok(()),
    }
}
