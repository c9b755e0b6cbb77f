//! ICMP and ICMPv6: echo requests to us are answered, neighbour discovery is heard, and errors about connections
//! travel on to whom they are meant for. None of it creates a connection, unless `schedule_icmp` says so, or an echo
//! request goes out by SNAT.

use super::burst::{Burst, Place};
use super::forwarding::Way;
use super::schedule::{self, Refusal, Reply};
use super::snat::{Outbound, Ruling};
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::{Direction, Ends, Flags, FlowIndex, Hit, Mode};
use crate::forward::icmp::{self as errors, Inner, Outer, Quote};
use crate::forward::nat;
use crate::neighbour::AddressClass;
use crate::packet::{Headers, Kind, Packet, PortId, craft, icmp, icmp6};
use std::net::IpAddr;

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// An ICMP message.
    pub(super) fn icmp(&mut self, burst: &mut Burst<I::Packet>, place: Place) {
        let at = usize::from(place);
        let (headers, port) = (burst.headers[at], burst.ports[at]);
        let Some(mut packet) = burst.take(place) else {
            return;
        };
        let kind = packet.bytes().get(usize::from(headers.l4)).copied().unwrap_or(0);
        if headers.kind == Kind::Icmp6 && (icmp6::ROUTER_SOLICITATION..=icmp6::REDIRECT).contains(&kind) {
            return self.discovery(packet, &headers, port);
        }
        let (source, destination) = super::ends::addresses(&headers, packet.bytes());
        let class = self.snapshot.addresses.class_of(destination);
        let is_error = match headers.kind {
            Kind::Icmp6 => icmp6::is_error(kind),
            _ => !icmp::is_query(kind),
        };
        let outcome = if self.snapshot.addresses.class_of(source).is_ours() {
            Err(DropReason::BadSource.into())
        } else if class == AddressClass::Standby {
            Err(DropReason::Standby.into())
        } else if destination.is_multicast() && self.has_exception(port) {
            Err(DropReason::NotForUs.into())
        } else if is_error {
            self.error(&mut packet, &headers, port, class, burst.is_settled(place))
        } else if let Some((echo, ends)) = self.echo_ends(&mut packet, &headers, class) {
            self.pass_echo(&mut packet, &headers, port, echo, &ends)
        } else if class != AddressClass::None {
            return self.answer_echo(packet, &headers, source, burst.identifications[at], port);
        } else {
            self.route_on(&mut packet, &headers, port, destination)
        };
        match outcome {
            Ok(Some(Way {
                neighbour, limit: 0, ..
            })) => self.resolve(neighbour, packet),
            Ok(Some(way)) => self.leave_in_fragments(way, packet, &headers, burst.identifications[at]),
            Ok(None) => self.stats.consumed.add(1),
            Err(Elsewhere::Worker(owner)) => self.hand_over(owner, burst.arrival(place), packet),
            Err(Elsewhere::Settled(owner)) => self.hand_over(owner, burst.arrival(place).settled(), packet),
            Err(Elsewhere::Home(home)) => {
                self.ask_home(home, burst.is_settled(place), burst.arrival(place), packet)
            }
            Err(Elsewhere::Nowhere(refusal)) => self.refuse(packet, &headers, port, refusal),
        }
    }

    /// An echo request to one of our addresses is answered, in fragments when it came so and is too long for the link.
    fn answer_echo(
        &mut self,
        mut packet: I::Packet,
        headers: &Headers,
        source: IpAddr,
        identification: u32,
        port: PortId,
    ) {
        let answered = match headers.kind {
            Kind::Icmp6 => craft::echo6_reply_in_place(&mut packet, headers),
            _ => craft::echo_reply_in_place(&mut packet, headers),
        };
        match answered.and_then(|()| self.neighbour_towards(source, self.flow_to(source))) {
            Ok(neighbour) => {
                let limit = self.link_mtu(neighbour);
                if headers.end - headers.l3 <= limit {
                    self.resolve(neighbour, packet);
                } else {
                    let way = Way {
                        neighbour,
                        limit,
                        shared: false,
                    };
                    self.leave_in_fragments(way, packet, headers, identification);
                }
            }
            Err(reason) => self.decline(packet, port, reason),
        }
    }

    /// A message between strangers. What a rule of SNAT is for does not leave as it is: an echo request has its own way,
    /// and nothing else can be translated without a connection.
    pub(super) fn route_on(
        &mut self,
        packet: &mut I::Packet,
        headers: &Headers,
        port: PortId,
        destination: IpAddr,
    ) -> Result<Option<Way>, Elsewhere> {
        let ends = super::ends::of(headers, packet.bytes());
        match self.ruling(&ends, headers.protocol) {
            Some(Ruling::Translate(_)) => return Err(DropReason::UnsupportedIcmp.into()),
            None if !self.snapshot.settings.transit => return Err(DropReason::NotForUs.into()),
            Some(Ruling::Exempt) | None => {}
        }
        if headers.ttl <= 1 {
            return Err(super::forwarding::TTL_EXCEEDED.into());
        }
        let neighbour = self.neighbour_towards(destination, self.flow_to(destination))?;
        let limit = self.limit_for(None, neighbour, packet, headers, port)?;
        nat::decrement_ttl(packet.bytes_mut(), headers);
        Ok(Some(Way {
            neighbour,
            limit,
            shared: false,
        }))
    }

    /// An error about a packet that the gateway has sent or forwarded.
    fn error(
        &mut self,
        packet: &mut I::Packet,
        headers: &Headers,
        port: PortId,
        class: AddressClass,
        settled: bool,
    ) -> Result<Option<Way>, Elsewhere> {
        let (_, destination) = super::ends::addresses(headers, packet.bytes());
        if matches!(class, AddressClass::Port(_)) || self.is_tunnel_source(destination) {
            let quote = errors::read(packet.bytes(), headers, &self.digest)?;
            return self.tunnel_error(packet.bytes(), &quote).map(|()| None);
        }
        let (quote, hit) = match self.quoted_connection(packet, headers, class, settled) {
            Ok(found) => found,
            // Errors about no connection, about protocols that are not balanced, redirects: a router's work.
            Err(Elsewhere::Nowhere(_)) if class == AddressClass::None => {
                return self.route_on(packet, headers, port, destination);
            }
            Err(elsewhere) => return Err(elsewhere),
        };
        if !self
            .passed_errors
            .allows(self.now, self.snapshot.settings.icmp_rate)
        {
            return Err(DropReason::IcmpRate.into());
        }
        self.pass_error(packet, headers, &quote, hit, port).map(Some)
    }

    /// The connection that the quoted packet belongs to; `settled`, if it is any, it is this worker's.
    fn quoted_connection(
        &mut self,
        packet: &I::Packet,
        headers: &Headers,
        class: AddressClass,
        settled: bool,
    ) -> Result<(Quote, Hit), Elsewhere> {
        let quote = errors::read(packet.bytes(), headers, &self.digest)?;
        // The connection's packets in the other direction: those that would answer what is quoted.
        let ends = reversed(&quote, packet.bytes()).ok_or(DropReason::UnsupportedIcmp)?;
        let owner = self.owner_of(&ends).map_err(|_| DropReason::NoConnection)?;
        if owner != self.number && !settled {
            return Err(Elsewhere::Worker(owner));
        }
        if let Some(hit) = self.find(&ends, quote.protocol) {
            return Ok((quote, hit));
        }
        if self.outbound == Outbound::Both
            && !settled
            && let Some(owner) = self.second_owner(&ends, quote.protocol)
        {
            return Err(Elsewhere::Settled(owner));
        }
        if !matches!(class, AddressClass::Vip | AddressClass::None) || !self.snapshot.settings.schedule_icmp {
            return Err(DropReason::NoConnection.into());
        }
        let hit = self.open_by_error(headers, packet, &quote, &ends)?;
        Ok((quote, hit))
    }

    /// Whether an address is one that tunnels take as their source besides the ports' own.
    fn is_tunnel_source(&self, address: IpAddr) -> bool {
        let settings = &self.snapshot.settings;
        let prefixes = [settings.tunnel_source, settings.tunnel_source6];
        prefixes.iter().flatten().any(|prefix| prefix.contains(address))
    }

    /// The connection of a packet between these ends, addresses compared.
    pub(super) fn find(&self, ends: &schedule::Ends, protocol: u8) -> Option<Hit> {
        let key = self.key_between(
            ends.source,
            ends.source_port,
            ends.destination,
            ends.destination_port,
        );
        let hit = self.table.lookup(&self.table.query(key, protocol))?;
        if let (IpAddr::V6(source), IpAddr::V6(destination)) = (ends.source, ends.destination) {
            let known = self.table.addresses(self.table.get(hit.id));
            let pair = crate::flow::addresses::pair(source, destination);
            return (known.arriving(hit.direction) == &pair).then_some(hit);
        }
        Some(hit)
    }

    /// `schedule_icmp`: an error about no connection opens one for the packets that would answer what it quotes.
    fn open_by_error(
        &mut self,
        headers: &Headers,
        packet: &I::Packet,
        quote: &Quote,
        ends: &schedule::Ends,
    ) -> Result<Hit, Refusal> {
        let opening = self.opening_of(headers, quote, ends);
        let service = self.service_of(&opening, ends).ok_or(DropReason::NoConnection)?;
        self.admit(service, &opening, ends)
            .map_err(|refusal| refusal.reason)?;
        let mut memory = None;
        let server = self.choose(service, &opening, packet.bytes(), ends, &mut memory);
        let server = server.map_err(|refusal| match refusal.reply {
            Reply::Elsewhere(_) => refusal,
            _ => refusal.reason.into(),
        })?;
        if server.mode == Mode::Fullnat {
            // It would take a local port for a connection that the client knows nothing of.
            return Err(DropReason::NoConnection.into());
        }
        let id = self.open_connection(&opening, packet.bytes(), ends, service, &server)?;
        if let Some(memory) = &memory {
            self.remember(memory, &server, service, Some(id))?;
        }
        Ok(Hit {
            id,
            direction: Direction::Inbound,
        })
    }

    /// The headers of a packet that would answer what an error quotes.
    pub(super) fn opening_of(&self, headers: &Headers, quote: &Quote, ends: &schedule::Ends) -> Headers {
        let mut opening = *headers;
        opening.protocol = quote.protocol;
        // It is not said by the error what the packet was.
        opening.l4_flags = 0;
        opening.l4 = quote.l4 as u16;
        opening.key = self.key_between(
            ends.source,
            ends.source_port,
            ends.destination,
            ends.destination_port,
        );
        opening
    }

    /// Sends an error on to the end that it is meant for: translated where the connection is, else as it is.
    fn pass_error(
        &mut self,
        packet: &mut I::Packet,
        headers: &Headers,
        quote: &Quote,
        hit: Hit,
        port: PortId,
    ) -> Result<Way, Elsewhere> {
        if headers.ttl <= 1 {
            return Err(super::forwarding::TTL_EXCEEDED.into());
        }
        let record = *self.table.get(hit.id);
        if !self.snapshot.server_present(record.server) {
            return Err(DropReason::ServerGone.into());
        }
        if record.flags.has(Flags::MIXED) {
            let changed = self.take_header_from_quote(hit, packet, headers, quote);
            let (headers, quote) = changed.as_ref().map_or((headers, quote), |(h, q)| (h, q));
            return Ok(self.cross_error(packet, headers, quote, hit, port)?);
        }
        let neighbour = self.neighbour_of(hit)?;
        let tunnel = (record.mode() == Mode::Tun).then_some(record.server);
        let limit = self.limit_for(tunnel, neighbour, packet, headers, port)?;
        match record.mode() {
            Mode::Dr => nat::decrement_ttl(packet.bytes_mut(), headers),
            Mode::Tun => {
                let hash = self.table.hasher().hash(&headers.key, headers.protocol);
                self.wrap(packet, headers, record.server, hash)?;
            }
            Mode::Nat | Mode::Fullnat => {
                let changed = self.take_header_from_quote(hit, packet, headers, quote);
                let (headers, quote) = changed.as_ref().map_or((headers, quote), |(h, q)| (h, q));
                self.lower_told_mtu(hit, packet.bytes_mut(), headers, quote);
                if !self.translate_error(packet, headers, quote, hit) {
                    return Err(DropReason::UnsupportedIcmp.into());
                }
            }
        }
        Ok(Way {
            neighbour,
            limit,
            shared: record.mode() == Mode::Fullnat,
        })
    }

    /// NAT and FULLNAT: the quoted packet becomes the one that the receiver has sent, and the error comes from, and
    /// goes to, whom the receiver knows.
    fn translate_error(&self, packet: &mut I::Packet, headers: &Headers, quote: &Quote, hit: Hit) -> bool {
        let record = self.table.get(hit.id);
        let Ends {
            client,
            virtual_address: vip,
            server,
            local,
        } = self.table.ends(record);
        let fullnat = record.mode() == Mode::Fullnat;
        let (outer, source, destination) = match hit.direction {
            // From the client's side, about what the VIP has sent: the server has sent it to the local address.
            Direction::Inbound => {
                let from = fullnat.then_some(local.ip());
                ((from, server.ip()), server, local)
            }
            // From the server's side, about what the client has sent to the VIP. Behind SNAT, hosts see which router
            // on the way it was, as traceroute wants to know.
            Direction::Outbound => {
                let from = (!record.flags.has(Flags::SNAT)).then_some(vip.ip());
                ((from, client.ip()), client, vip)
            }
        };
        let inner = match (fullnat, hit.direction) {
            (false, _) => Inner::nat(source, destination),
            (true, Direction::Inbound) => Inner::fullnat(source, destination, 0),
            (true, Direction::Outbound) => {
                Inner::fullnat(source, destination, record.sequence_shift.wrapping_neg())
            }
        };
        let outer = Outer {
            source: outer.0,
            destination: Some(outer.1),
        };
        errors::translate(packet.bytes_mut(), headers, quote, outer, &inner)
    }
}

/// What becomes of a message that is not sent on from here.
pub(super) enum Elsewhere {
    /// Its connection is another worker's.
    Worker(u8),
    /// As before, and that worker gives it to no other.
    Settled(u8),
    /// That worker has to say which server it opens a connection to.
    Home(u8),
    /// It ends here.
    Nowhere(Refusal),
}

impl From<Refusal> for Elsewhere {
    fn from(refusal: Refusal) -> Elsewhere {
        match refusal.reply {
            Reply::Elsewhere(home) => Elsewhere::Home(home),
            _ => Elsewhere::Nowhere(refusal),
        }
    }
}

impl From<DropReason> for Elsewhere {
    fn from(reason: DropReason) -> Elsewhere {
        Elsewhere::Nowhere(reason.into())
    }
}

/// The ends of a packet in answer to the quoted one.
pub(super) fn reversed(quote: &Quote, frame: &[u8]) -> Option<schedule::Ends> {
    let (source, destination) = quote.ends(frame)?;
    Some(schedule::Ends {
        source: destination.ip(),
        source_port: destination.port(),
        destination: source.ip(),
        destination_port: source.port(),
    })
}
