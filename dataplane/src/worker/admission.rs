//! Whether a service takes one more connection: its limits, those of its clients, and the room that is left to
//! half-open connections. What is counted for that changes where connections are opened and ended, and nowhere else.

use super::clients::Group;
use super::rate::RateLimit;
use super::schedule::{Ends, Refusal, no_server};
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::{ConnectionTable, Flags, FlowIndex, Record, RecordId};
use crate::packet::{Headers, ipv4};
use crate::service::Extras;
use std::net::IpAddr;

/// With `secure_tcp` 1 or 2, the secure rules hold while less than one in so many places of the table is free.
const SHORT_OF_ROOM: usize = 8;

/// What is counted of connections for the limits.
pub(super) struct Admission {
    /// By service slot.
    services: Vec<ServiceCount>,
    /// Half-open TCP connections now.
    embryonic: u32,
    /// Whether TCP goes by the secure rules now.
    pub(super) secure: bool,
}

#[derive(Clone, Copy, Default)]
struct ServiceCount {
    connections: u32,
    rate: RateLimit,
}

impl Admission {
    /// Counts at zero, for so many services.
    pub(super) fn new(services: u32) -> Admission {
        Admission {
            services: vec![ServiceCount::default(); services as usize],
            embryonic: 0,
            secure: false,
        }
    }

    /// A TCP connection has become half open, or is it no longer.
    pub(super) fn embryonic_changed(&mut self, before: bool, now: bool) {
        self.embryonic = self.embryonic + u32::from(now) - u32::from(before);
    }

    /// Half-open TCP connections now, and those of each service.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (u32, Vec<u32>) {
        let services = self.services.iter().map(|count| count.connections);
        (self.embryonic, services.collect())
    }
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Whether the service in this slot takes a connection of this client now. Each worker has its share of what the
    /// service takes.
    pub(super) fn admit(&mut self, slot: u32, headers: &Headers, ends: &Ends) -> Result<(), Refusal> {
        if headers.protocol == ipv4::TCP && self.is_full_of_embryos() {
            return Err(DropReason::EmbryonicLimit.into());
        }
        if !self.snapshot.extras(slot).has_any(Extras::LIMITS) {
            return Ok(());
        }
        self.within(slot, ends.source).map_err(|reason| match reason {
            // As a server over its threshold is none to new connections.
            DropReason::ServiceLimit | DropReason::ClientLimit => Refusal {
                reason,
                ..no_server(&self.snapshot, ends.destination)
            },
            // What comes too fast is not answered, or the answers would be as fast.
            _ => reason.into(),
        })
    }

    #[cold]
    fn within(&mut self, slot: u32, client: IpAddr) -> Result<(), DropReason> {
        let Some(service) = self.snapshot.service(slot) else {
            return Ok(());
        };
        let limits = service.policy.limits;
        let workers = u32::from(self.snapshot.shards.workers());
        let share = |limit: u32| limit.div_ceil(workers);
        let Some(count) = self.admission.services.get_mut(slot as usize) else {
            return Ok(());
        };
        if limits.connections != 0 && count.connections >= share(limits.connections) {
            return Err(DropReason::ServiceLimit);
        }
        // Connections of one client come to all workers, by their ports.
        let group = Group::Service(slot);
        if limits.client_connections != 0
            && self.clients.count(group, client) >= share(limits.client_connections)
        {
            return Err(DropReason::ClientLimit);
        }
        // What comes back from its client's home has been counted when it went there.
        if self.errands.is_back() {
            return Ok(());
        }
        // A client without a connection has opened none in this second, or none that is not over already.
        if limits.client_rate != 0
            && let Some(rate) = self.clients.rate(group, client)
            && !rate.allows(self.now, share(limits.client_rate))
        {
            return Err(DropReason::ClientRate);
        }
        if limits.rate != 0 && !count.rate.allows(self.now, share(limits.rate)) {
            return Err(DropReason::ServiceRate);
        }
        Ok(())
    }

    /// Whether half-open connections have all the room that they may have.
    fn is_full_of_embryos(&self) -> bool {
        let limit = self.snapshot.settings.embryonic_limit;
        limit < 100
            && u64::from(self.admission.embryonic) * 100 >= self.table.capacity() as u64 * u64::from(limit)
    }

    /// Counts a connection that has been opened: this record.
    #[inline]
    pub(super) fn count_in(&mut self, id: RecordId, record: &Record) {
        if record.protocol == ipv4::TCP {
            self.admission
                .embryonic_changed(false, record.tcp_state().is_embryonic());
        }
        if record.flags.has(Flags::SNAT) {
            self.count_client(Group::Rule(record.server), id);
        } else if let Some(count) = self.admission.services.get_mut(record.service as usize) {
            count.connections += 1;
        }
    }

    /// Counts a connection that has been opened, of a service with limits, where it counts clients one by one.
    pub(super) fn count_in_limits(&mut self, id: RecordId, slot: u32) {
        let service = self.snapshot.service(slot);
        if service.is_some_and(|service| service.policy.limits.by_client()) {
            self.count_client(Group::Service(slot), id);
        }
    }

    fn count_client(&mut self, group: Group, id: RecordId) {
        let client = client_of(&self.table, self.table.get(id));
        let counted = self.clients.add(group, client, self.now);
        debug_assert!(counted, "a client has a place as long as a connection has");
    }

    /// Counts a connection that ends, and is still in the table.
    pub(super) fn count_out(&mut self, record: &Record) {
        if record.protocol == ipv4::TCP {
            let was = record.tcp_state().is_embryonic();
            self.admission.embryonic_changed(was, false);
        }
        let group = if record.flags.has(Flags::SNAT) {
            Group::Rule(record.server)
        } else if record.flags.has(Flags::TEMPLATE) {
            return;
        } else {
            if let Some(count) = self.admission.services.get_mut(record.service as usize) {
                count.connections = count.connections.saturating_sub(1);
            }
            Group::Service(record.service)
        };
        if !self.clients.is_empty() {
            // One of a service that was opened before the service counted clients may be taken for one that was counted:
            // then the client may open one more than it should.
            let known = self.clients.remove(group, client_of(&self.table, record));
            debug_assert!(
                known || !record.flags.has(Flags::SNAT),
                "a host has lost a connection that it never had"
            );
        }
    }

    /// Decides by which rules TCP goes from here on.
    pub(super) fn judge_security(&mut self) {
        self.admission.secure = match self.snapshot.settings.secure_tcp {
            0 => false,
            1 | 2 => {
                let capacity = self.table.capacity();
                (capacity - self.table.len()) * SHORT_OF_ROOM < capacity
            }
            _ => true,
        };
    }
}

fn client_of<X: FlowIndex>(table: &ConnectionTable<X>, record: &Record) -> IpAddr {
    if record.inbound.is_v6() {
        table.addresses(record).client().into()
    } else {
        record.inbound.source().into()
    }
}
