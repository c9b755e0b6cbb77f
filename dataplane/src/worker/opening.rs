//! The birth of a connection: its record, its keys, its local port.

use super::mailbox::Event;
use super::schedule::{Ends, Refusal, Target, no_local_port};
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::addresses::pair;
use crate::flow::{Addresses6, Direction, Flags, FlowIndex, InsertError, Mode, Record, RecordId, TcpState};
use crate::local::{self, LipPool, LocalPorts, TakeError, Taken};
use crate::packet::{FlowKey, Headers, ipv4, tcp};
use crate::service::{ClientAddress, Extras, Service};
use std::net::IpAddr;
use std::sync::Arc;

/// Ports that are tried for a client whose own port is taken towards the server.
const PORTS_TRIED: u16 = 64;
/// Blocks of 128 ports below which no port is given: those under 1024.
const FIRST_BLOCK: u16 = 8;
const BLOCKS: u16 = 512;

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Opens a connection of a service to one of its servers for the packet between these ends.
    #[inline]
    pub(super) fn open_connection(
        &mut self,
        headers: &Headers,
        frame: &[u8],
        ends: &Ends,
        service: u32,
        server: &Target,
    ) -> Result<RecordId, Refusal> {
        let mode = self.mode_for(service, server, ends.source)?;
        let mut record = Record::new(headers.protocol, mode, headers.key, FlowKey::default());
        record.server = server.slot;
        record.service = service;
        record.state = self.first_state(headers, mode);
        record.neighbour_in = self.neighbour_of_server(server.slot);
        let mut taken = None;
        let mut answered = None;
        match mode {
            Mode::Fullnat => {
                let given = self.give_local_port(server, ends, service)?;
                record.outbound =
                    self.key_between(server.end.address, server.end.port, given.local, given.port);
                if headers.protocol == ipv4::TCP {
                    record.sequence = tcp::sequence(&frame[usize::from(headers.l4)..]);
                }
                (taken, answered) = (Some(given), Some(given.local));
            }
            Mode::Nat => {
                record.outbound = self.reply_key(server, ends, headers.protocol)?;
                answered = Some(ends.source);
            }
            Mode::Dr | Mode::Tun => {}
        }
        let shown = self.shows_client(server, mode, service);
        let is_tcp = headers.protocol == ipv4::TCP;
        match shown {
            ClientAddress::Toa => record.flags.set(Flags::TOA, is_tcp),
            ClientAddress::ProxyV2 => record.flags.set(Flags::PROXY, headers.protocol == ipv4::UDP),
            ClientAddress::None => {}
        }
        let addresses = addresses_between(&record, ends, server.end.address, answered);
        let opened = self
            .open(&mut record, addresses.as_ref())
            .map_err(|InsertError::TableFull| self.take_back(&server.end, taken))?;
        if let Some(taken) = taken {
            self.succeed_former(opened, &server.end, &taken);
        }
        if is_tcp && shown == ClientAddress::ProxyV2 {
            self.begin_header(opened)?;
        }
        Ok(opened)
    }

    /// The state of a connection that this packet opens. What opens none as a rule leaves it to the state machine.
    pub(super) fn first_state(&self, headers: &Headers, mode: Mode) -> u8 {
        if headers.protocol != ipv4::TCP || headers.l4_flags & tcp::SYN == 0 {
            return 0;
        }
        let first = if self.admission.secure {
            TcpState::None.next_secure(mode, Direction::Inbound, headers.l4_flags)
        } else {
            TcpState::None.next(mode, Direction::Inbound, headers.l4_flags)
        };
        first as u8
    }

    /// The neighbour through which a server is reached, as far as it is known; one that is the gateway has none.
    fn neighbour_of_server(&self, slot: u32) -> u16 {
        let state = &self.servers[slot as usize];
        if state.is_ours { 0 } else { state.neighbour.0 }
    }

    /// There is no room for a connection: its local port goes back.
    #[cold]
    pub(super) fn take_back(&mut self, end: &local::Server, taken: Option<Taken>) -> Refusal {
        if let Some(Taken { local, port, .. }) = taken {
            self.locals.release(&end.pair(local), port, RecordId::NONE);
        }
        self.report(Event::TableFull);
        DropReason::TableFull.into()
    }

    /// The server's mode; FULLNAT in place of NAT for a client beside the server, whose replies would not come back
    /// through the gateway otherwise.
    fn mode_for(&self, service: u32, server: &Target, client: IpAddr) -> Result<Mode, Refusal> {
        if server.mode != Mode::Nat {
            return Ok(server.mode);
        }
        let address = server.end.address;
        if address.is_ipv6() != client.is_ipv6() {
            // It keeps the family of a packet.
            return Err(DropReason::NoRoute.into());
        }
        let itself = client == address;
        let snapshot = &self.snapshot;
        let of_family = |pool: &Arc<LipPool>| !pool.towards(client.is_ipv6()).is_empty();
        let translated =
            |service: &Service| service.hairpin_snat && service.local_pools.iter().any(of_family);
        if snapshot
            .service(service)
            .is_some_and(|service| translated(service))
        {
            let link = snapshot.routes.on_link(client);
            if itself || link.is_some() && link == snapshot.routes.on_link(address) {
                return Ok(Mode::Fullnat);
            }
        }
        if itself {
            return Err(DropReason::HairpinUnsupported.into());
        }
        Ok(Mode::Nat)
    }

    /// How a FULLNAT server of a service learns the client's address.
    #[inline]
    fn shows_client(&self, server: &Target, mode: Mode, service: u32) -> ClientAddress {
        if mode != Mode::Fullnat || !self.snapshot.extras(service).has_any(Extras::CLIENT_ADDRESS) {
            return ClientAddress::None;
        }
        let shown = self.snapshot.service(service);
        match shown.map_or(ClientAddress::None, |service| service.client_address) {
            // A NAT server beside its client expects no header, since it gets none from others.
            ClientAddress::ProxyV2 if server.mode != Mode::Fullnat => ClientAddress::None,
            shown => shown,
        }
    }

    /// NAT: the key of the server's replies. It is the client's own endpoint that they go to, unless another
    /// connection of the same endpoint, to another VIP, has this server already: then another port of the client's
    /// stands for it, one of the same shard, so that replies find this worker.
    fn reply_key(&self, server: &Target, ends: &Ends, protocol: u8) -> Result<FlowKey, Refusal> {
        let key = |port: u16| self.key_between(server.end.address, server.end.port, ends.source, port);
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

    /// Takes a local port towards a server for a service. [`Worker::succeed_former`] has to follow. In one piece with what
    /// it calls: each call less is one copy of the answer less.
    #[inline(always)]
    fn give_local_port(&mut self, server: &Target, ends: &Ends, service: u32) -> Result<Taken, Refusal> {
        let taken = self.take_local_port(server, ends, service);
        let given = self.or_recycled(taken, &server.end, |worker| {
            worker.take_local_port(server, ends, service)
        });
        match given {
            Ok(given) => {
                self.watch_local_ports(server, service);
                Ok(given)
            }
            Err(reason) => Err(self.no_port_given(reason, server, ends, service)),
        }
    }

    #[cold]
    fn no_port_given(&mut self, reason: DropReason, server: &Target, ends: &Ends, service: u32) -> Refusal {
        if reason != DropReason::LocalPortsExhausted {
            return reason.into();
        }
        let end = &server.end;
        let locals = |service: &Arc<Service>| {
            let pools = service.local_pools.iter();
            let addresses = pools.flat_map(|pool| pool.towards(end.address.is_ipv6()));
            (addresses.clone().next().copied(), addresses.count() as u32)
        };
        let (local, locals) = self.snapshot.service(service).map_or((None, 0), locals);
        self.report(Event::LocalPortsExhausted {
            virtual_address: ends.destination,
            virtual_port: ends.destination_port,
            server: end.address,
            server_port: end.port,
            local,
            locals,
        });
        no_local_port(&self.snapshot)
    }

    /// The local port towards `end` that has been taken. When none was free, the connection that has been closing longest
    /// between these addresses gives up its own, and `take` is to try once more. [`Worker::succeed_former`] has to follow.
    #[inline(always)]
    pub(super) fn or_recycled(
        &mut self,
        taken: Result<Taken, TakeError>,
        end: &local::Server,
        take: impl Fn(&mut Worker<I, X>) -> Result<Taken, TakeError>,
    ) -> Result<Taken, DropReason> {
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => self.recycle(error, end, take)?,
        };
        if end.protocol == ipv4::TCP {
            self.locals.announce_shown(taken.place);
        }
        Ok(taken)
    }

    /// As [`Worker::or_recycled`], when none was free.
    #[cold]
    #[inline(never)]
    fn recycle(
        &mut self,
        error: TakeError,
        end: &local::Server,
        take: impl Fn(&mut Worker<I, X>) -> Result<Taken, TakeError>,
    ) -> Result<Taken, DropReason> {
        match error {
            TakeError::Memory => Err(DropReason::LocalPortMemory),
            TakeError::Exhausted { recyclable } => {
                self.close(recyclable.ok_or(DropReason::LocalPortsExhausted)?);
                let taken = take(self).map_err(|_| DropReason::LocalPortsExhausted)?;
                self.locals.count_recycled(&end.pair(taken.local));
                Ok(taken)
            }
        }
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
    #[inline(always)]
    fn take_local_port(&mut self, server: &Target, ends: &Ends, slot: u32) -> Result<Taken, TakeError> {
        let wanted = self.shard_key.shard_of(ends.source, ends.source_port);
        let Some((first, others)) = self
            .snapshot
            .service(slot)
            .and_then(|service| service.local_pools.split_first())
        else {
            return Err(TakeError::Exhausted { recyclable: None });
        };
        // The rotation is the server's own: one for all servers would keep step with the scheduler, and lead each
        // server to the same few addresses.
        let rotation = &mut self.servers[server.slot as usize].local_rotation;
        let taken = self
            .locals
            .take_from_pool(first, rotation, &server.end, wanted, self.owned);
        match taken {
            Err(failure) if !others.is_empty() => {
                take_from_others(&mut self.locals, others, failure, |locals, pool| {
                    locals.take_from_pool(pool, rotation, &server.end, wanted, self.owned)
                })
            }
            taken => taken,
        }
    }
}

/// The addresses of a connection that has an IPv6 key, which stand beside its record. `answered` is whom the server
/// answers, if the answers pass the gateway.
#[inline]
pub(super) fn addresses_between(
    record: &Record,
    ends: &Ends,
    server: IpAddr,
    answered: Option<IpAddr>,
) -> Option<Addresses6> {
    if !record.inbound.is_v6() && !record.outbound.is_v6() {
        return None;
    }
    let outbound = answered.map(|answered| (server, answered));
    Addresses6::of((ends.source, ends.destination), outbound)
}

/// A local port of another group of addresses than the first, which has said why it has none.
#[cold]
#[inline(never)]
fn take_from_others(
    locals: &mut LocalPorts,
    others: &[Arc<LipPool>],
    mut failure: TakeError,
    mut take: impl FnMut(&mut LocalPorts, &LipPool) -> Result<Taken, TakeError>,
) -> Result<Taken, TakeError> {
    for pool in others {
        match take(locals, pool) {
            Ok(taken) => return Ok(taken),
            Err(other) => failure = worth_more(failure, other),
        }
    }
    Err(failure)
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
