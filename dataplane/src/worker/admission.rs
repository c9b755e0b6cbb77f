//! Whether a service takes one more connection: its limits, those of its clients, and the room that is left to
//! half-open connections. What is counted for that changes where connections are opened and ended, and nowhere else.

use super::clients::{Allowed, Clients, Denied};
use super::rate::RateLimit;
use super::schedule::{Ends, Refusal, no_server};
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::{ConnectionTable, Flags, FlowIndex, Record};
use crate::packet::{Headers, ipv4};
use crate::service::Limits;
use std::io;
use std::net::IpAddr;

/// With `secure_tcp` 1 or 2, the secure rules hold while less than one in so many places of the table is free.
const SHORT_OF_ROOM: usize = 8;

/// What is counted of connections for the limits.
pub(super) struct Admission {
    /// By service slot.
    services: Vec<ServiceCount>,
    clients: Clients,
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
    /// Counts at zero, for so many services and connections.
    pub(super) fn new(services: u32, connections: u32, seed: u64) -> io::Result<Admission> {
        Ok(Admission {
            services: vec![ServiceCount::default(); services as usize],
            clients: Clients::new(connections, seed)?,
            embryonic: 0,
            secure: false,
        })
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
        let Some(service) = self.snapshot.service(slot) else {
            return Ok(());
        };
        let limits = service.policy.limits;
        if limits.is_none() {
            return Ok(());
        }
        self.within(slot, &limits, ends.source).map_err(|reason| match reason {
            // As a server over its threshold is none to new connections.
            DropReason::ServiceLimit | DropReason::ClientLimit => Refusal {
                reason,
                ..no_server(&self.snapshot, ends.destination)
            },
            // What comes too fast is not answered, or the answers would be as fast.
            _ => reason.into(),
        })
    }

    fn within(&mut self, slot: u32, limits: &Limits, client: IpAddr) -> Result<(), DropReason> {
        let workers = u32::from(self.snapshot.shards.workers());
        let share = |limit: u32| limit.div_ceil(workers);
        let Admission { services, clients, .. } = &mut self.admission;
        let Some(count) = services.get_mut(slot as usize) else {
            return Ok(());
        };
        if limits.connections != 0 && count.connections >= share(limits.connections) {
            return Err(DropReason::ServiceLimit);
        }
        if limits.by_client() {
            // Connections of one client come to all workers, by their ports.
            let allowed = Allowed {
                connections: share(limits.client_connections),
                rate: share(limits.client_rate),
            };
            clients
                .allows(client, slot, allowed, self.now)
                .map_err(|denied| match denied {
                    Denied::Connections => DropReason::ClientLimit,
                    Denied::Rate => DropReason::ClientRate,
                    Denied::Memory => DropReason::ClientMemory,
                })?;
        }
        if limits.rate != 0 && !count.rate.allows(self.now, share(limits.rate)) {
            return Err(DropReason::ServiceRate);
        }
        Ok(())
    }

    /// Whether half-open connections have all the room that they may have.
    fn is_full_of_embryos(&self) -> bool {
        let limit = self.snapshot.settings.embryonic_limit;
        limit < 100 && u64::from(self.admission.embryonic) * 100 >= self.table.capacity() as u64 * u64::from(limit)
    }

    /// Counts a connection that has been opened.
    pub(super) fn count_in(&mut self, record: &Record) {
        if !is_counted(record) {
            return;
        }
        let Some(count) = self.admission.services.get_mut(record.service as usize) else {
            return;
        };
        count.connections += 1;
        let by_client = |limits: &Limits| limits.by_client();
        let service = self.snapshot.service(record.service);
        if service.is_some_and(|service| by_client(&service.policy.limits)) {
            let client = client_of(&self.table, record);
            self.admission.clients.opened(client, record.service, self.now);
        }
    }

    /// Counts a connection that ends, and is still in the table.
    pub(super) fn count_out(&mut self, record: &Record) {
        if record.protocol == ipv4::TCP {
            let was = record.tcp_state().is_embryonic();
            self.admission.embryonic_changed(was, false);
        }
        if !is_counted(record) {
            return;
        }
        if let Some(count) = self.admission.services.get_mut(record.service as usize) {
            count.connections = count.connections.saturating_sub(1);
        }
        if !self.admission.clients.is_empty() {
            let client = client_of(&self.table, record);
            self.admission.clients.closed(client, record.service);
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

/// Whether a record is a connection of a service.
fn is_counted(record: &Record) -> bool {
    !record.flags.has(Flags::SNAT) && !record.flags.has(Flags::TEMPLATE)
}

fn client_of<X: FlowIndex>(table: &ConnectionTable<X>, record: &Record) -> IpAddr {
    if record.inbound.is_v6() {
        table.addresses(record).client().into()
    } else {
        record.inbound.source().into()
    }
}
