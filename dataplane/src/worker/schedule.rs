//! The schedule stage: what to do with a packet that belongs to no connection yet.

use super::connection::{ServerLoads, pair_of};
use super::mailbox::Event;
use super::{Io, ServerState, ServiceState, Worker};
use crate::drops::DropReason;
use crate::flow::{Flags, FlowIndex, InsertError, Mode, Record, RecordId};
use crate::local::{self, TakeError};
use crate::neighbour::{AddressClass, NeighbourId};
use crate::packet::{FlowKey, Headers, ipv4, tcp};
use crate::scheduler::Scheduler;
use crate::service::{NoService, Protocol, Server, Service, ServiceKey, Snapshot};
use std::net::IpAddr;

/// What the gateway tells a sender whose packet it does not forward.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reply {
    /// Nothing.
    Silence,
    /// TCP reset; for UDP, ICMP port unreachable.
    Reset,
    /// ICMP port unreachable.
    PortUnreachable,
    /// ICMP time exceeded.
    TimeExceeded,
    /// ICMP fragmentation needed, with the MTU.
    FragmentationNeeded(u16),
}

/// A packet that is not forwarded: why, and what its sender is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) reason: DropReason,
    pub(super) reply: Reply,
}

impl From<DropReason> for Refusal {
    fn from(reason: DropReason) -> Refusal {
        Refusal {
            reason,
            reply: Reply::Silence,
        }
    }
}

/// Where a first packet goes.
pub(super) enum Scheduled {
    /// By a new connection.
    Connection(RecordId),
    /// On its own, to the server in this slot.
    Once(u32),
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Finds a server for a packet that belongs to no connection, and opens one.
    #[cold]
    #[inline(never)]
    pub(super) fn schedule(&mut self, headers: &Headers, frame: &[u8]) -> Result<Scheduled, Refusal> {
        let service = service_for(&self.snapshot, headers)?;
        let (slot, one_packet) = (service.slot, service.one_packet);
        let server = pick(service, &mut self.services, &self.servers)?;
        // Without a connection nothing could translate: a local port needs one.
        if one_packet && server.mode != Mode::Fullnat {
            self.count_once(&server, headers);
            return Ok(Scheduled::Once(server.slot));
        }
        let mut record = Record::new(headers.protocol, server.mode, headers.key, FlowKey::default());
        record.server = server.slot;
        record.service = slot;
        record.neighbour_in = self.server_neighbour(server.slot)?.0;
        if server.mode == Mode::Fullnat {
            let last_sequence = self.give_local_port(&server, headers, &mut record)?;
            if headers.protocol == ipv4::TCP {
                record.sequence = tcp::sequence(&frame[usize::from(headers.l4)..]);
                if let Some(last) = last_sequence {
                    succeed(&mut record, last);
                }
            }
        }
        self.open(record)
            .map(Scheduled::Connection)
            .map_err(|InsertError::TableFull| {
                if server.mode == Mode::Fullnat {
                    let port = record.outbound.destination_port();
                    self.locals.release(&pair_of(&record), port, RecordId::NONE);
                }
                self.report(Event::TableFull);
                DropReason::TableFull.into()
            })
    }

    /// The neighbour through which a server is reached.
    pub(super) fn server_neighbour(&mut self, slot: u32) -> Result<NeighbourId, DropReason> {
        let state = self.servers[slot as usize];
        if state.neighbour != NeighbourId::NONE {
            return Ok(state.neighbour);
        }
        let neighbour = self.neighbour_towards(state.end.ip())?;
        self.servers[slot as usize].neighbour = neighbour;
        Ok(neighbour)
    }

    /// A datagram of a one-packet service: counted as a connection that is over at once, as LVS does.
    fn count_once(&mut self, server: &Server, headers: &Headers) {
        let stats = &self.stats.servers[server.slot as usize];
        stats.connections.add(1);
        stats.inbound_packets.add(1);
        stats.inbound_bytes.add(u64::from(headers.end - headers.l3));
        self.stats.opened.add(1);
    }

    /// Takes a local port towards the server and completes the record with it. When none is free, the
    /// connection that has been closing longest between these addresses gives up its own; then the last
    /// sequence number that the server was shown there is returned.
    fn give_local_port(
        &mut self,
        server: &Server,
        headers: &Headers,
        record: &mut Record,
    ) -> Result<Option<u32>, Refusal> {
        let recyclable = match self.take_local_port(server, headers, record) {
            Ok(()) => return Ok(None),
            Err(TakeError::Memory) => return Err(DropReason::LocalPortMemory.into()),
            Err(TakeError::Exhausted { recyclable }) => recyclable,
        };
        if let Some(old) = recyclable {
            let last_sequence = self.table.get(old).sequence;
            self.close(old);
            if self.take_local_port(server, headers, record).is_ok() {
                self.locals.count_recycled(record.outbound.destination());
                return Ok(Some(last_sequence));
            }
        }
        let virtual_end = (headers.key.destination(), headers.key.destination_port());
        self.report(Event::LocalPortsExhausted {
            virtual_address: virtual_end.0.into(),
            virtual_port: virtual_end.1,
            server: server.address,
            server_port: server.port,
        });
        Err(DropReason::LocalPortsExhausted.into())
    }

    /// Tries the service's groups of local addresses in their order.
    fn take_local_port(
        &mut self,
        server: &Server,
        headers: &Headers,
        record: &mut Record,
    ) -> Result<(), TakeError> {
        let IpAddr::V4(address) = server.address else {
            return Err(TakeError::Exhausted { recyclable: None });
        };
        let end = local::Server {
            address,
            port: server.port,
            protocol: headers.protocol,
        };
        let wanted = self
            .shard_key
            .shard(headers.key.source(), headers.key.source_port());
        let mut failure = TakeError::Exhausted { recyclable: None };
        let slot = record.service;
        let (Some(service), Some(state)) = (self.snapshot.service(slot), &mut self.services[slot as usize])
        else {
            return Err(failure);
        };
        for pool in &service.local_pools {
            match self
                .locals
                .take_from_pool(pool, &mut state.local_cursor, &end, wanted, self.owned)
            {
                Ok(taken) => {
                    record.outbound = FlowKey::new(end.address, end.port, taken.local, taken.port);
                    return Ok(());
                }
                Err(other) => failure = worth_more(failure, other),
            }
        }
        Err(failure)
    }
}

/// The service that the packet asks for, if it may open a connection at all.
fn service_for<'a>(snapshot: &'a Snapshot, headers: &Headers) -> Result<&'a Service, Refusal> {
    let settings = &snapshot.settings;
    if snapshot.addresses.class(headers.key.source()) != AddressClass::None {
        return Err(DropReason::BadSource.into());
    }
    // A reset is never answered (RFC 9293 3.10.7.1), so it must not use up what may be said in a second.
    let silent = settings.no_service == NoService::Drop || headers.l4_flags & tcp::RST != 0;
    let reply = if silent { Reply::Silence } else { Reply::Reset };
    if snapshot.addresses.class(headers.key.destination()) != AddressClass::Vip {
        return Err(Refusal {
            reason: DropReason::NoConnection,
            reply,
        });
    }
    if headers.protocol == ipv4::TCP && !opens(headers.l4_flags, settings.sloppy_tcp) {
        return Err(Refusal {
            reason: DropReason::NotSyn,
            reply,
        });
    }
    let protocol = Protocol::from_number(headers.protocol).ok_or(DropReason::UnknownProtocol)?;
    let (address, port) = (headers.key.destination(), headers.key.destination_port());
    let service = snapshot.find(&ServiceKey {
        address: address.into(),
        port,
        protocol,
    });
    service.map(AsRef::as_ref).ok_or(Refusal {
        reason: DropReason::NoService,
        reply,
    })
}

/// Of what two groups of local addresses said, what helps more: a connection to recycle, then the lack of memory.
fn worth_more(first: TakeError, second: TakeError) -> TakeError {
    match (first, second) {
        (TakeError::Exhausted { recyclable: Some(_) }, _)
        | (TakeError::Memory, TakeError::Exhausted { recyclable: None }) => first,
        _ => second,
    }
}

/// The server whose turn it is.
fn pick(
    service: &Service,
    states: &mut [Option<ServiceState>],
    servers: &[ServerState],
) -> Result<Server, Refusal> {
    let state = states[service.slot as usize].as_mut();
    let picked = state.and_then(|state| state.scheduler.pick(service, &ServerLoads(servers)));
    // LVS answers with ICMP, for TCP too: a reset would say that the service does not exist.
    let refusal = Refusal {
        reason: DropReason::NoServer,
        reply: Reply::PortUnreachable,
    };
    picked.map(|at| service.servers[at].clone()).ok_or(refusal)
}

/// Makes a connection on a recycled local port acceptable to a server that still remembers the old one in
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

/// Whether a TCP segment may open a connection: LVS takes SYN with or without ACK.
fn opens(flags: u8, sloppy: bool) -> bool {
    flags & tcp::RST == 0 && (flags & tcp::SYN != 0 || sloppy)
}
