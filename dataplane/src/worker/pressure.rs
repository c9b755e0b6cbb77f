//! The warning before local ports run out: once for each rise, when a connection opens.

use super::mailbox::Event;
use super::{Io, Worker};
use crate::flow::{FlowIndex, Record};
use crate::local::{self, Pressure};
use crate::service::Server;
use std::net::IpAddr;

/// With no more local addresses than this, each connection that opens under pressure is worth a look at all of them;
/// with more, one of as many connections as there are addresses is. So the work for a connection stays the same.
const FEW: u64 = 16;

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Looks how many local ports are left to a server that `record`, a new connection, has just been given one of.
    pub(super) fn watch_local_ports(&mut self, server: &Server, protocol: u8, record: &Record) {
        let before = self.servers[server.slot as usize].local_pressure;
        if self.locals.may_run_low() || before.is_some() {
            self.judge_local_ports(before, server, protocol, record);
        }
    }

    #[cold]
    fn judge_local_ports(
        &mut self,
        before: Option<Pressure>,
        server: &Server,
        protocol: u8,
        record: &Record,
    ) {
        let (Some(service), IpAddr::V4(address)) = (self.snapshot.service(record.service), server.address)
        else {
            return;
        };
        let pools = &service.local_pools;
        let addresses: u64 = pools.iter().map(|pool| pool.addresses.len() as u64).sum();
        let opened = self.stats.servers[server.slot as usize].connections.get();
        if addresses > FEW && !opened.is_multiple_of(addresses) {
            return;
        }
        let end = local::Server {
            address,
            port: server.port,
            protocol,
        };
        let usage = self.locals.usage_towards(pools, &end);
        let now = Pressure::now(before, usage);
        let risen = now.filter(|_| now > before).map(|pressure| Event::LocalPortsLow {
            server: server.address,
            server_port: server.port,
            protocol,
            pressure,
            used: usage.used,
            capacity: usage.capacity,
        });
        // A rise that finds no room to be told stays a rise: the next connection tells it.
        if risen.is_none_or(|event| self.mailbox.events.push(event).is_ok()) {
            self.servers[server.slot as usize].local_pressure = now;
        }
    }
}
