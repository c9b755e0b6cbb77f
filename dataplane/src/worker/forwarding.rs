//! The forward stage: each packet through its connection's state machine and rewrite, in order of arrival; then
//! resolve.

use super::burst::Burst;
use super::ends::addresses6;
use super::schedule::{Refusal, Reply, Scheduled};
use super::snat::Outbound;
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::{Direction, Flags, FlowIndex, Hit, Mode, TcpState};
use crate::neighbour::{Hops, NeighbourId};
use crate::packet::{Headers, Kind, Packet, PortId, ipv4, sctp, tcp};
use crate::service::Presence;

/// How a packet that has been rewritten leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Its next hop.
    pub(super) neighbour: NeighbourId,
    /// The longest IP packet in bytes that may go: what is longer goes in fragments. 0 = it goes as it is.
    pub(super) limit: u16,
    /// Several senders share the source that it has now: its fragments need an identification of the gateway's, since
    /// those that two senders chose may be equal.
    pub(super) shared: bool,
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Forwards every flow of the burst.
    pub(super) fn forward(&mut self, burst: &mut Burst<I::Packet>) {
        self.table.forget_recent();
        // A connection that is known needs no steering: whose neighbour is cached has been found to be ours. When addresses
        // change all connections forget their neighbours; until all have, everyone is asked.
        let all_asked = self.sweep.is_of_all();
        for index in 0..burst.flows.len() {
            let place = burst.flows[index];
            let Some(mut packet) = burst.take(place) else {
                continue;
            };
            let at = usize::from(place);
            let headers = &burst.headers[at];
            let (query, candidate) = (&burst.queries[index], burst.candidates[index]);
            if !all_asked {
                let mut next = self.go_straight(&mut packet, headers, query, candidate);
                if next.is_none() && headers.kind == Kind::Flow {
                    next = self.tunnel_straight(&mut packet, headers, query, candidate);
                }
                if let Some(neighbour) = next {
                    self.resolve(neighbour, packet);
                    continue;
                }
            }
            // A packet earlier in the burst may have opened this one's connection, or ended it.
            let hit = self.table.confirm(query, candidate);
            let is_known =
                !all_asked && hit.is_some_and(|hit| self.cached_neighbour(hit) != NeighbourId::NONE);
            if !is_known && !burst.is_settled(place) {
                match self.owner_of_packet(headers, &packet) {
                    Ok(owner) if owner == self.number => {}
                    Ok(owner) => {
                        self.hand_over(owner, burst.arrival(place), packet);
                        continue;
                    }
                    Err(reason) => {
                        self.decline(packet, burst.ports[at], reason);
                        continue;
                    }
                }
            }
            if hit.is_none()
                && self.outbound == Outbound::Both
                && !burst.is_settled(place)
                && let Some(owner) =
                    self.second_owner(&super::ends::of(headers, packet.bytes()), headers.protocol)
            {
                let arrival = burst.arrival(place).settled();
                self.hand_over(owner, arrival, packet);
                continue;
            }
            match self.forward_flow(&mut packet, headers, burst.ports[at], hit) {
                Ok(Way {
                    neighbour, limit: 0, ..
                }) => self.resolve(neighbour, packet),
                Ok(way) => self.leave_in_fragments(way, packet, headers, burst.identifications[at]),
                Err(Refusal {
                    reply: Reply::Elsewhere(home),
                    ..
                }) => self.ask_home(home, burst.is_settled(place), burst.arrival(place), packet),
                Err(refusal) => self.refuse(packet, headers, burst.ports[at], refusal),
            }
        }
    }

    /// Decides on one packet and rewrites it; the way that it goes.
    #[inline]
    pub(super) fn forward_flow(
        &mut self,
        packet: &mut I::Packet,
        headers: &Headers,
        port: PortId,
        hit: Option<Hit>,
    ) -> Result<Way, Refusal> {
        if headers.kind == Kind::Flow6
            && let Some(hit) = hit
        {
            self.check_addresses(hit, headers, packet)?;
        }
        let hit = match hit {
            Some(hit) if self.goes_on(hit, headers)? => hit,
            other => {
                if let Some(old) = other
                    && !self.snapshot.is_empty()
                {
                    self.close(old.id);
                }
                match self.schedule(headers, packet, port)? {
                    Scheduled::Connection(id) => Hit {
                        id,
                        direction: Direction::Inbound,
                    },
                    Scheduled::Once(way) => return Ok(way),
                }
            }
        };
        if !self.is_of_former(hit, headers, packet)? {
            self.see(hit.id, hit.direction, headers);
            self.note_sequences(hit, packet, headers);
        }
        if headers.ttl <= 1 {
            return Err(TTL_EXCEEDED);
        }
        let neighbour = self.neighbour_of(hit)?;
        let limit = self.limit(hit, neighbour, packet, headers, port)?;
        let (shorter, longer);
        let mut headers = headers;
        if headers.l4_flags & tcp::SYN != 0 && headers.protocol == ipv4::TCP {
            shorter = self.adjust_syn(hit, packet, headers);
            headers = shorter.as_ref().unwrap_or(headers);
        }
        let flags = self.table.get(hit.id).flags;
        if flags.has_any(OFF_THE_STRAIGHT_WAY) {
            if flags.has(Flags::SERVER_ISN) {
                longer = self.show_client(hit, neighbour, limit, packet, headers)?;
                headers = longer.as_ref().unwrap_or(headers);
            }
            if flags.has(Flags::MIXED) {
                return self.cross(packet, headers, hit, neighbour, limit);
            }
        }
        self.rewrite(packet, headers, hit)?;
        Ok(Way {
            neighbour,
            limit,
            shared: limit != 0 && self.table.get(hit.id).mode() == Mode::Fullnat,
        })
    }

    /// Whether an IPv6 packet is of the connection that has its key: keys hold a digest of the addresses. Two pairs
    /// of addresses with one digest are about as likely as two equal keys of 56 random bits.
    #[inline]
    fn check_addresses(&self, hit: Hit, headers: &Headers, packet: &I::Packet) -> Result<(), Refusal> {
        let known = self.table.addresses(self.table.get(hit.id));
        if known.arriving(hit.direction) == addresses6(headers, packet.bytes()) {
            Ok(())
        } else {
            Err(DropReason::KeyCollision.into())
        }
    }

    /// Whether the packet belongs to the connection that was found. It does not when it opens a new one in its
    /// place, nor when the server is gone and that ends connections: then the client may try again at once, or is
    /// told.
    #[inline]
    pub(super) fn goes_on(&mut self, hit: Hit, headers: &Headers) -> Result<bool, Refusal> {
        if opens(headers) && self.starts_anew(hit) {
            return Ok(false);
        }
        match self.snapshot.presence(self.table.get(hit.id).server) {
            Presence::Here => Ok(true),
            Presence::Gone | Presence::Leaving => Ok(self.goes_on_without_server(hit)?),
        }
    }

    /// Whether an opening packet from the client opens a new connection in the place of an old one that is over.
    #[cold]
    fn starts_anew(&self, hit: Hit) -> bool {
        let record = self.table.get(hit.id);
        let mode = self.snapshot.settings.conn_reuse_mode;
        hit.direction == Direction::Inbound
            && match record.protocol {
                ipv4::TCP => record.tcp_state().reusable(record.mode(), mode),
                ipv4::SCTP => record.sctp_state().reusable(mode),
                _ => false,
            }
    }

    /// The neighbour that the packet goes to, looked up once per connection and direction.
    #[inline]
    pub(super) fn neighbour_of(&mut self, hit: Hit) -> Result<NeighbourId, Refusal> {
        let known = self.cached_neighbour(hit);
        if known != NeighbourId::NONE && !self.neighbours.any_down() {
            Ok(known)
        } else {
            self.find_neighbour(hit, known)
        }
    }

    /// The neighbour that packets of this direction were sent to, if it is remembered.
    #[inline]
    fn cached_neighbour(&self, hit: Hit) -> NeighbourId {
        let record = self.table.get(hit.id);
        NeighbourId(match hit.direction {
            Direction::Inbound => record.neighbour_in,
            Direction::Outbound => record.neighbour_out,
        })
    }

    #[cold]
    #[inline(never)]
    fn find_neighbour(&mut self, hit: Hit, known: NeighbourId) -> Result<NeighbourId, Refusal> {
        // One of several next hops that does not answer is left.
        if known != NeighbourId::NONE && !self.neighbours.is_down(known) {
            return Ok(known);
        }
        let server = self.table.get(hit.id).server;
        self.refresh_server(server);
        let record = self.table.get(hit.id);
        let flow = self.flow_of(&record.inbound, record.protocol);
        match hit.direction {
            Direction::Inbound => {
                let neighbour = if record.flags.has(Flags::SNAT) {
                    let outside = self.table.ends(record).server.ip();
                    self.outside_neighbour(outside, flow)?
                } else if self.servers[record.server as usize].is_ours {
                    return Err(self.nothing_listens(hit));
                } else {
                    self.server_neighbour(record.server, flow)?
                };
                self.table.get_mut(hit.id).neighbour_in = neighbour.0;
                Ok(neighbour)
            }
            Direction::Outbound => {
                let client = if record.inbound.is_v6() {
                    self.table.addresses(record).client().into()
                } else {
                    record.inbound.source().into()
                };
                let neighbour = self.neighbour_towards(client, flow)?;
                self.table.get_mut(hit.id).neighbour_out = neighbour.0;
                Ok(neighbour)
            }
        }
    }

    /// A server that is the gateway itself: it runs no services of its own, so the client hears what it would hear
    /// from a host where nothing listens, and the connection is over. A loopback address is none to translate to:
    /// such a packet would come from outside, and is dropped (RFC 1122 3.2.1.3).
    fn nothing_listens(&mut self, hit: Hit) -> Refusal {
        let record = self.table.get(hit.id);
        let server = self.servers[record.server as usize].end.ip();
        if matches!(record.mode(), Mode::Nat | Mode::Fullnat) && server.is_loopback() {
            return DropReason::ServerIsGateway.into();
        }
        if record.protocol == ipv4::TCP {
            let old = record.tcp_state();
            self.change_state(hit.id, old as u8, TcpState::Close as u8);
        }
        Refusal {
            reason: DropReason::ServerIsGateway,
            reply: Reply::Reset,
        }
    }

    /// Forgets what a server knows of addresses and routes that are no longer the same.
    fn refresh_server(&mut self, slot: u32) {
        let state = &mut self.servers[slot as usize];
        if state.era != self.server_era {
            state.era = self.server_era;
            state.neighbour = NeighbourId::NONE;
            let address = state.end.ip();
            let class = self.snapshot.addresses.class_of(address);
            state.is_ours = address.is_loopback() || class.is_ours();
        }
    }

    /// The neighbour through which a server is reached. It is the server's where there is one way to it, and the flow's
    /// where there are several.
    pub(super) fn server_neighbour(&mut self, slot: u32, flow: u64) -> Result<NeighbourId, Refusal> {
        self.refresh_server(slot);
        let state = &self.servers[slot as usize];
        if state.neighbour != NeighbourId::NONE {
            return Ok(state.neighbour);
        }
        let address = state.end.ip();
        let neighbour = self.neighbour_towards(address, flow).map_err(|reason| Refusal {
            reason,
            // As the kernel's routing tells: there is a service, and no way to its server.
            reply: match reason {
                DropReason::NoRoute => Reply::HostUnreachable,
                _ => Reply::Silence,
            },
        })?;
        let hops = self.snapshot.routes.hops(address);
        // A tunnel has one source, whichever way its packets go.
        let first = hops.and_then(Hops::first).map(|hop| hop.port);
        let port = first.unwrap_or_else(|| self.neighbours.port_of(neighbour));
        let state = &mut self.servers[slot as usize];
        if !matches!(hops, Some(Hops::Several(_))) {
            state.neighbour = neighbour;
        }
        state.source = self.snapshot.ports[usize::from(port.0)].source_for(address);
        if state.mode == Mode::Tun && state.source.is_none() {
            return Err(DropReason::NoTunnelSource.into());
        }
        Ok(neighbour)
    }
}

/// A packet whose TTL or hop limit ends here.
pub(super) const TTL_EXCEEDED: Refusal = Refusal {
    reason: DropReason::TtlExceeded,
    reply: Reply::TimeExceeded,
};

/// What few connections have: one test of all, since every packet is asked.
const OFF_THE_STRAIGHT_WAY: Flags = Flags::SERVER_ISN.with(Flags::MIXED);

/// Whether a packet is one that opens a connection: a SYN, or an INIT.
#[inline]
fn opens(headers: &Headers) -> bool {
    match headers.protocol {
        ipv4::TCP => headers.l4_flags & tcp::SYN != 0,
        ipv4::SCTP => headers.l4_flags == sctp::Event::Init as u8,
        _ => false,
    }
}
