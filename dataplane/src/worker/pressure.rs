//! The warning before local ports run out: once for each rise, when a connection opens.

use super::mailbox::Event;
use super::schedule::Target;
use super::{Io, Worker};
use crate::flow::FlowIndex;
use crate::local::{LipPool, Pressure};
use std::sync::Arc;

/// With no more local addresses than this, each connection that opens under pressure is worth a look at all of them;
/// with more, one of as many connections as there are addresses is. So the work for a connection stays the same.
const FEW: u64 = 16;

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Looks how many local ports are left to a server after a new connection of a service has been given one.
    pub(super) fn watch_local_ports(&mut self, server: &Target, service: u32) {
        let before = self.servers[server.slot as usize].local_pressure;
        if self.locals.may_run_low() || before.is_some() {
            self.judge_local_ports(before, server, service);
        }
    }

    #[cold]
    fn judge_local_ports(&mut self, before: Option<Pressure>, server: &Target, service: u32) {
        let end = &server.end;
        let Some(service) = self.snapshot.service(service) else {
            return;
        };
        let pools = &service.local_pools;
        let of_family = |pool: &Arc<LipPool>| pool.towards(end.address.is_ipv6()).len() as u64;
        let addresses: u64 = pools.iter().map(of_family).sum();
        let opened = self.stats.servers[server.slot as usize].connections.get();
        if addresses > FEW && !opened.is_multiple_of(addresses) {
            return;
        }
        let usage = self.locals.usage_towards(pools, end);
        let now = Pressure::now(before, usage);
        let risen = now.filter(|_| now > before).map(|pressure| Event::LocalPortsLow {
            server: end.address,
            server_port: end.port,
            protocol: end.protocol,
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
