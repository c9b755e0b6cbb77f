//! The schedule stage: what to do with a packet that belongs to no connection yet.

use super::connection::ServerLoads;
use super::forwarding::Way;
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::{FlowIndex, Mode, RecordId};
use crate::local;
use crate::neighbour::AddressClass;
use crate::packet::{Headers, Packet, PortId, ipv4, sctp, tcp};
use crate::scheduler::{Arrival, Scheduler};
use crate::service::{
    Extras, MarkQuery, NoServer, NoService, Protocol, Server, Service, ServiceKey, Settings, Snapshot,
};
use std::net::IpAddr;

/// What the gateway tells a sender whose packet it does not forward.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reply {
    /// Nothing.
    Silence,
    /// TCP reset, SCTP abort; for UDP, ICMP port unreachable.
    Reset,
    /// ICMP port unreachable.
    PortUnreachable,
    /// ICMP port unreachable, to a server about a packet of no connection.
    UnknownConnection,
    /// ICMP host unreachable, ICMPv6 address unreachable.
    HostUnreachable,
    /// ICMP time exceeded.
    TimeExceeded,
    /// ICMP fragmentation needed, ICMPv6 packet too big, with the MTU.
    TooBig(u16),
    /// Nothing yet: that worker has to say where the packet goes.
    Elsewhere(u8),
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
    /// On its own, rewritten already.
    Once(Way),
}

/// Both ends of a packet: addresses, and ports in host order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ends {
    pub(super) source: IpAddr,
    pub(super) source_port: u16,
    pub(super) destination: IpAddr,
    pub(super) destination_port: u16,
}

/// The server that a connection is opened to.
#[derive(Clone, Copy)]
pub(super) struct Target {
    /// Its slot.
    pub(super) slot: u32,
    /// Its forwarding mode.
    pub(super) mode: Mode,
    /// What its local ports know it as: with the port that this connection goes to.
    pub(super) end: local::Server,
}

impl Target {
    /// One of a service's servers, for a packet of that protocol to this port.
    pub(super) fn of(service: &Service, server: &Server, port: u16, protocol: u8) -> Target {
        Target {
            slot: server.slot,
            mode: server.mode,
            end: local::Server {
                address: server.address,
                port: service.port_of(server, port),
                protocol,
            },
        }
    }
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Finds a server for a packet that belongs to no connection, and opens one.
    #[cold]
    #[inline(never)]
    pub(super) fn schedule(
        &mut self,
        headers: &Headers,
        packet: &mut I::Packet,
        port: PortId,
    ) -> Result<Scheduled, Refusal> {
        let frame = packet.bytes();
        let ends = super::ends::of(headers, frame);
        if self.snapshot.addresses.class_of(ends.source).is_ours() {
            return Err(DropReason::BadSource.into());
        }
        let marked = if self.snapshot.marks.is_empty() {
            None
        } else {
            service_of_mark(&self.snapshot, headers, &ends, Some(port))
        };
        // Where nothing passes by, steering has let through only what is to a VIP or to a local address.
        if self.passes_by
            && (marked.is_none() || !may_open(headers, &self.snapshot.settings))
            && self.snapshot.addresses.class_of(ends.destination) == AddressClass::None
        {
            return self.pass_by(headers, packet, &ends, port);
        }
        let service = service_for(&self.snapshot, headers, &ends, marked)?;
        // A mark may be that of TCP packets too.
        let one_packet = service.one_packet && headers.protocol == ipv4::UDP;
        let slot = service.slot;
        self.admit(slot, headers, &ends)?;
        let mut memory = None;
        let server = if self.snapshot.extras(slot).has_any(Extras::PERSISTENCE) {
            self.choose(slot, headers, frame, &ends, &mut memory)?
        } else {
            self.pick_in(slot, &ends, headers.protocol)
                .ok_or_else(|| no_server(&self.snapshot, ends.destination))?
        };
        if one_packet {
            if let Some(memory) = &memory {
                self.remember(memory, &server, slot, None)?;
            }
            return self
                .forward_once(headers, packet, &ends, &server, port)
                .map(Scheduled::Once);
        }
        let id = self.open_connection(headers, frame, &ends, slot, &server)?;
        if let Some(memory) = &memory {
            self.remember(memory, &server, slot, Some(id))?;
        }
        Ok(Scheduled::Connection(id))
    }

    /// The service of a connection that is opened by an ICMP error.
    pub(super) fn service_of(&self, headers: &Headers, ends: &Ends) -> Option<u32> {
        let protocol = Protocol::from_number(headers.protocol)?;
        // Nothing tells the port that the connection's own packets will come in by.
        let marked = service_of_mark(&self.snapshot, headers, ends, None);
        let found = marked.or_else(|| {
            let (address, port) = (ends.destination, ends.destination_port);
            let service = self.snapshot.find_for(address, port, protocol);
            service.map(AsRef::as_ref)
        });
        found.map(|service| service.slot)
    }

    /// The server of a service that a new connection between these ends goes to.
    #[inline]
    pub(super) fn pick_in(&mut self, slot: u32, ends: &Ends, protocol: u8) -> Option<Target> {
        self.catch_up(slot);
        let service = self.snapshot.service(slot)?;
        let state = self.services[slot as usize].as_mut()?;
        let loads = ServerLoads::new(&self.servers, &self.stats);
        let arrival = Arrival {
            source: ends.source,
            source_port: ends.source_port,
            destination: ends.destination,
            now: self.now,
            random: if state.scheduler.draws() {
                next_random(&mut self.draws)
            } else {
                0
            },
        };
        let at = state.scheduler.pick(service, &loads, &arrival)?;
        let server = service.servers.get(at)?;
        Some(Target::of(service, server, ends.destination_port, protocol))
    }
}

/// The service of the firewall mark that the packet gets, if there is one. It comes before those of the packet's
/// endpoint, as in LVS.
#[cold]
fn service_of_mark<'a>(
    snapshot: &'a Snapshot,
    headers: &Headers,
    ends: &Ends,
    input: Option<PortId>,
) -> Option<&'a Service> {
    let mark = snapshot.marks.find(&MarkQuery {
        source: ends.source,
        destination: ends.destination,
        protocol: Protocol::from_number(headers.protocol)?,
        port: ends.destination_port,
        input,
    })?;
    let ipv6 = ends.destination.is_ipv6();
    snapshot.find(&ServiceKey::Mark { mark, ipv6 }).map(AsRef::as_ref)
}

/// Whether the packet is one that may open a connection.
fn may_open(headers: &Headers, settings: &Settings) -> bool {
    match headers.protocol {
        ipv4::TCP => opens_tcp(headers.l4_flags, settings.sloppy_tcp),
        ipv4::SCTP => opens_sctp(headers.l4_flags, settings.sloppy_sctp),
        _ => true,
    }
}

/// The service that the packet asks for, if it may open a connection at all; `marked` is that of its firewall mark.
#[inline]
fn service_for<'a>(
    snapshot: &'a Snapshot,
    headers: &Headers,
    ends: &Ends,
    marked: Option<&'a Service>,
) -> Result<&'a Service, Refusal> {
    let found = match marked {
        _ if !may_open(headers, &snapshot.settings) => None,
        Some(_) => marked.filter(|_| is_open_to_marks(snapshot, ends)),
        None => {
            let protocol = Protocol::from_number(headers.protocol);
            let find = |protocol| snapshot.find_for(ends.destination, ends.destination_port, protocol);
            protocol.and_then(find).map(AsRef::as_ref)
        }
    };
    found.ok_or_else(|| no_service(snapshot, headers, ends, marked.is_some()))
}

/// Whether a packet between these ends goes by its mark: what is to the gateway itself does not.
#[cold]
fn is_open_to_marks(snapshot: &Snapshot, ends: &Ends) -> bool {
    let class = snapshot.addresses.class_of(ends.destination);
    matches!(class, AddressClass::Vip | AddressClass::None)
}

/// What becomes of a packet that no service takes.
#[cold]
fn no_service(snapshot: &Snapshot, headers: &Headers, ends: &Ends, marked: bool) -> Refusal {
    let (policy, _) = snapshot.vip_policy(ends.destination);
    let silent = policy == NoService::Drop || ends_something(headers);
    let class = snapshot.addresses.class_of(ends.destination);
    let reason = match headers.protocol {
        _ if class != AddressClass::Vip && !(marked && class == AddressClass::None) => {
            DropReason::NoConnection
        }
        ipv4::SCTP if !may_open(headers, &snapshot.settings) => DropReason::NotInit,
        _ if !may_open(headers, &snapshot.settings) => DropReason::NotSyn,
        number if Protocol::from_number(number).is_none() => return DropReason::UnknownProtocol.into(),
        _ => DropReason::NoService,
    };
    let reply = if silent { Reply::Silence } else { Reply::Reset };
    Refusal { reason, reply }
}

/// Whether this is a reset or an abort. It is never answered (RFC 9293 3.10.7.1, RFC 9260 8.4), so it must not use up
/// what may be said in a second.
pub(super) fn ends_something(headers: &Headers) -> bool {
    match headers.protocol {
        ipv4::TCP => headers.l4_flags & tcp::RST != 0,
        ipv4::SCTP => headers.l4_flags == sctp::Event::Abort as u8,
        _ => false,
    }
}

/// What becomes of a packet whose service has no usable server. LVS answers with ICMP, for TCP too: a reset would
/// say that the service does not exist. In the name of an address that is not the gateway's, nothing is said.
pub(super) fn no_server(snapshot: &Snapshot, vip: IpAddr) -> Refusal {
    Refusal {
        reason: DropReason::NoServer,
        reply: match snapshot.addresses.class_of(vip) {
            AddressClass::Vip => reply_by(snapshot.vip_policy(vip).1),
            _ => Reply::Silence,
        },
    }
}

/// What becomes of a packet whose server has no local port left. Silence is usual: clients try again, and a port may
/// be free by then.
pub(super) fn no_local_port(snapshot: &Snapshot) -> Refusal {
    Refusal {
        reason: DropReason::LocalPortsExhausted,
        reply: reply_by(snapshot.settings.no_local_port),
    }
}

const fn reply_by(policy: NoServer) -> Reply {
    match policy {
        NoServer::Icmp => Reply::PortUnreachable,
        NoServer::Reset => Reply::Reset,
        NoServer::Drop => Reply::Silence,
    }
}

/// The next of a stream of random numbers (SplitMix64).
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Whether a TCP segment may open a connection: LVS takes SYN with or without ACK.
pub(super) fn opens_tcp(flags: u8, sloppy: bool) -> bool {
    flags & tcp::RST == 0 && (flags & tcp::SYN != 0 || sloppy)
}

/// Whether an SCTP packet may open an association: one with an INIT chunk; with `sloppy`, any but an ABORT.
pub(super) fn opens_sctp(event: u8, sloppy: bool) -> bool {
    event == sctp::Event::Init as u8
        || (sloppy && event != sctp::Event::Abort as u8 && event != sctp::Event::None as u8)
}
