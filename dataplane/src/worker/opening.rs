//! The birth of a connection: its record, its keys, its local port.

use super::mailbox::Event;
use super::schedule::{Ends, Refusal, no_local_port};
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::addresses::pair;
use crate::flow::{Addresses6, Flags, FlowIndex, InsertError, Mode, Record, RecordId};
use crate::local::{self, LipPool, TakeError, Taken};
use crate::packet::{FlowKey, Headers, ipv4, tcp};
use crate::service::{ClientAddress, Server, Service};
use std::net::IpAddr;
use std::sync::Arc;

/// Ports that are tried for a client whose own port is taken towards the server.
const PORTS_TRIED: u16 = 64;
/// Blocks of 128 ports below which no port is given: those under 1024.
const FIRST_BLOCK: u16 = 8;
const BLOCKS: u16 = 512;

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Opens a connection of a service to one of its servers for the packet between these ends.
    pub(super) fn open_connection(
        &mut self,
        headers: &Headers,
        frame: &[u8],
        ends: &Ends,
        service: u32,
        server: &Server,
    ) -> Result<RecordId, Refusal> {
        let mode = self.mode_for(service, server, ends.source)?;
        let mut record = Record::new(headers.protocol, mode, headers.key, FlowKey::default());
        record.server = server.slot;
        record.service = service;
        let end = local::Server {
            address: server.address,
            port: server.port,
            protocol: headers.protocol,
        };
        let mut taken = None;
        match mode {
            Mode::Fullnat => {
                let given = self.give_local_port(server, &end, ends, service)?;
                record.outbound = self.key_between(end.address, end.port, given.local, given.port);
                if headers.protocol == ipv4::TCP {
                    record.sequence = tcp::sequence(&frame[usize::from(headers.l4)..]);
                    record
                        .flags
                        .set(Flags::TOA, self.shows_clients(service) == ClientAddress::Toa);
                }
                if headers.protocol == ipv4::UDP && server.mode == Mode::Fullnat {
                    let headed = self.shows_clients(service) == ClientAddress::ProxyV2;
                    record.flags.set(Flags::PROXY, headed);
                }
                taken = Some(given);
            }
            Mode::Nat => record.outbound = self.reply_key(server, ends, headers.protocol)?,
            Mode::Dr | Mode::Tun => {}
        }
        let answered = match mode {
            Mode::Nat => Some(ends.source),
            Mode::Fullnat => taken.map(|taken| taken.local),
            Mode::Dr | Mode::Tun => None,
        };
        let addresses = addresses_between(ends, server.address, answered);
        let opened = self.open(record, addresses).map_err(|InsertError::TableFull| {
            if let Some(Taken { local, port, .. }) = taken {
                self.locals.release(&end.pair(local), port, RecordId::NONE);
            }
            self.report(Event::TableFull);
            Refusal::from(DropReason::TableFull)
        })?;
        if let Some(taken) = taken {
            self.succeed_former(opened, &end, &taken);
        }
        // Not of a NAT server beside its client: that one expects no header, since it gets none from others.
        let is_stream = server.mode == Mode::Fullnat && headers.protocol == ipv4::TCP;
        if is_stream && self.shows_clients(service) == ClientAddress::ProxyV2 {
            self.begin_header(opened)?;
        }
        Ok(opened)
    }

    /// The server's mode; FULLNAT in place of NAT for a client beside the server, whose replies would not come back
    /// through the gateway otherwise.
    fn mode_for(&self, service: u32, server: &Server, client: IpAddr) -> Result<Mode, Refusal> {
        if server.mode == Mode::Nat && server.address.is_ipv6() != client.is_ipv6() {
            // It keeps the family of a packet.
            return Err(DropReason::NoRoute.into());
        }
        if server.mode != Mode::Nat {
            return Ok(server.mode);
        }
        let itself = client == server.address;
        let snapshot = &self.snapshot;
        let of_family = |pool: &Arc<LipPool>| !pool.towards(client.is_ipv6()).is_empty();
        let translated =
            |service: &Service| service.hairpin_snat && service.local_pools.iter().any(of_family);
        if snapshot
            .service(service)
            .is_some_and(|service| translated(service))
        {
            let link = snapshot.routes.on_link(client);
            if itself || link.is_some() && link == snapshot.routes.on_link(server.address) {
                return Ok(Mode::Fullnat);
            }
        }
        if itself {
            return Err(DropReason::HairpinUnsupported.into());
        }
        Ok(Mode::Nat)
    }

    /// How a service's FULLNAT servers learn the client's address.
    fn shows_clients(&self, service: u32) -> ClientAddress {
        let service = self.snapshot.service(service);
        service.map_or(ClientAddress::None, |service| service.client_address)
    }

    /// NAT: the key of the server's replies. It is the client's own endpoint that they go to, unless another
    /// connection of the same endpoint, to another VIP, has this server already: then another port of the client's
    /// stands for it, one of the same shard, so that replies find this worker.
    fn reply_key(&self, server: &Server, ends: &Ends, protocol: u8) -> Result<FlowKey, Refusal> {
        let key = |port: u16| self.key_between(server.address, server.port, ends.source, port);
        let is_free = |key: &FlowKey| self.table.lookup(&self.table.query(*key, protocol)).is_none();
        let own = key(ends.source_port);
        if is_free(&own) {
            return Ok(own);
        }
        let shard = self.shard_key.shard_of(ends.source, ends.source_port);
        let start = ends.source_port >> 7;
        (1..=PORTS_TRIED)
            .map(|step| FIRST_BLOCK + (start.wrapping_add(step * 7)) % (BLOCKS - FIRST_BLOCK))
            .map(|block| key(self.shard_key.port_for(ends.source, shard, block)))
            .find(is_free)
            .ok_or_else(|| DropReason::ClientPortTaken.into())
    }

    /// The key of a packet between two endpoints of one family.
    pub(super) fn key_between(
        &self,
        source: IpAddr,
        source_port: u16,
        destination: IpAddr,
        destination_port: u16,
    ) -> FlowKey {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                FlowKey::new(source, source_port, destination, destination_port)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let [s0, s1] = source_port.to_be_bytes();
                let [d0, d1] = destination_port.to_be_bytes();
                FlowKey::of_v6(self.digest.of(&pair(source, destination)), [s0, s1, d0, d1])
            }
            _ => FlowKey::NONE,
        }
    }

    /// Takes a local port towards the server, whose pairs know it as `end`, for a service: see [`Worker::take_or_recycle`].
    fn give_local_port(
        &mut self,
        server: &Server,
        end: &local::Server,
        ends: &Ends,
        service: u32,
    ) -> Result<Taken, Refusal> {
        let given = self.take_or_recycle(end, |worker| worker.take_local_port(server, end, ends, service));
        match given {
            Ok(given) => {
                self.watch_local_ports(server, end, service);
                Ok(given)
            }
            Err(DropReason::LocalPortsExhausted) => {
                self.report_exhausted(server, end, ends, service);
                Err(no_local_port(&self.snapshot))
            }
            Err(reason) => Err(reason.into()),
        }
    }

    fn report_exhausted(&mut self, server: &Server, end: &local::Server, ends: &Ends, service: u32) {
        let locals = |service: &Arc<Service>| {
            let pools = service.local_pools.iter();
            let addresses = pools.flat_map(|pool| pool.towards(end.address.is_ipv6()));
            (addresses.clone().next().copied(), addresses.count() as u32)
        };
        let (local, locals) = self.snapshot.service(service).map_or((None, 0), locals);
        self.report(Event::LocalPortsExhausted {
            virtual_address: ends.destination,
            virtual_port: ends.destination_port,
            server: server.address,
            server_port: server.port,
            local,
            locals,
        });
    }

    /// Takes a local port towards `end` by `take`. When none is free, the connection that has been closing longest
    /// between these addresses gives up its own. [`Worker::succeed_former`] has to follow.
    pub(super) fn take_or_recycle(
        &mut self,
        end: &local::Server,
        take: impl Fn(&mut Worker<I, X>) -> Result<Taken, TakeError>,
    ) -> Result<Taken, DropReason> {
        let taken = match take(self) {
            Ok(taken) => taken,
            Err(TakeError::Memory) => return Err(DropReason::LocalPortMemory),
            Err(TakeError::Exhausted { recyclable }) => {
                self.close(recyclable.ok_or(DropReason::LocalPortsExhausted)?);
                let taken = take(self).map_err(|_| DropReason::LocalPortsExhausted)?;
                self.locals.count_recycled(&end.pair(taken.local));
                taken
            }
        };
        if end.protocol == ipv4::TCP {
            self.locals.announce_shown(taken.place);
        }
        Ok(taken)
    }

    /// Makes a new connection acceptable to a server that may remember the former one on its local port.
    pub(super) fn succeed_former(&mut self, id: RecordId, end: &local::Server, taken: &Taken) {
        if end.protocol != ipv4::TCP {
            return;
        }
        if let Some(last) = self.locals.last_shown(taken.place, self.now) {
            succeed(self.table.get_mut(id), last);
        }
    }

    /// Tries the service's groups of local addresses in their order.
    fn take_local_port(
        &mut self,
        server: &Server,
        end: &local::Server,
        ends: &Ends,
        slot: u32,
    ) -> Result<Taken, TakeError> {
        let mut failure = TakeError::Exhausted { recyclable: None };
        let wanted = self.shard_key.shard_of(ends.source, ends.source_port);
        let Some(service) = self.snapshot.service(slot) else {
            return Err(failure);
        };
        // The rotation is the server's own: one for all servers would keep step with the scheduler, and lead each
        // server to the same few addresses.
        let rotation = &mut self.servers[server.slot as usize].local_rotation;
        for pool in &service.local_pools {
            match self
                .locals
                .take_from_pool(pool, rotation, end, wanted, self.owned)
            {
                Ok(taken) => return Ok(taken),
                Err(other) => failure = worth_more(failure, other),
            }
        }
        Err(failure)
    }
}

/// The addresses of a connection that has an IPv6 key, which stand beside its record. `answered` is whom the server
/// answers, if the answers pass the gateway.
pub(super) fn addresses_between(ends: &Ends, server: IpAddr, answered: Option<IpAddr>) -> Option<Addresses6> {
    let outbound = answered.map(|answered| (server, answered));
    Addresses6::of((ends.source, ends.destination), outbound)
}

/// Of what two groups of local addresses said, what helps more: a connection to recycle, then the lack of memory.
pub(super) fn worth_more(first: TakeError, second: TakeError) -> TakeError {
    match (first, second) {
        (TakeError::Exhausted { recyclable: Some(_) }, _)
        | (TakeError::Memory, TakeError::Exhausted { recyclable: None }) => first,
        _ => second,
    }
}

/// Makes a connection on a local port acceptable to a server that still remembers the port's last one in
/// TIME_WAIT (RFC 9293 3.6.1, RFC 6191): the initial sequence number that it is shown lies above the last of the
/// old connection, and no timestamp is shown, since the clocks of two clients cannot be compared.
fn succeed(record: &mut Record, last: u32) {
    /// How far above: more than a window that may still be under way, and no more than needed.
    const MARGIN: u32 = 1 << 16;
    let above = record.sequence.wrapping_sub(last);
    if above == 0 || above > u32::MAX / 2 {
        let shown = last.wrapping_add(MARGIN);
        record.sequence_shift = shown.wrapping_sub(record.sequence);
        record.sequence = shown;
    }
    record.flags.set(Flags::STRIP_TIMESTAMPS, true);
}
