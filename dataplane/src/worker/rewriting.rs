//! What each forwarding mode does to a packet.

use super::forwarding::{TTL_EXCEEDED, Way};
use super::schedule::{Ends, Refusal, Scheduled, Target};
use super::snat::Ruling;
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::addresses::pair;
use crate::flow::{Direction, Flags, FlowIndex, Hit, Mode, Record};
use crate::forward::nat;
use crate::forward::{fullnat, tun};
use crate::neighbour::NeighbourId;
use crate::packet::{FlowKey, Headers, Packet, PortId, ethernet, ipv4, rewrite, sctp, tcp};
use crate::service::{Protocol, TunnelKind};
use std::net::IpAddr;

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Rewrites a packet of a connection for its way on.
    #[inline(always)]
    pub(super) fn rewrite(
        &mut self,
        packet: &mut I::Packet,
        headers: &Headers,
        hit: Hit,
    ) -> Result<(), Refusal> {
        let record = self.table.get_mut(hit.id);
        match record.mode() {
            Mode::Fullnat if nat::is_plain(headers) => {
                fullnat::rewrite(packet.bytes_mut(), headers, record, hit.direction);
                Ok(())
            }
            Mode::Nat if nat::is_plain(headers) => {
                nat::rewrite(packet.bytes_mut(), headers, &leaving(record, hit.direction));
                Ok(())
            }
            Mode::Dr => {
                nat::decrement_ttl(packet.bytes_mut(), headers);
                Ok(())
            }
            Mode::Tun => {
                let server = record.server;
                let hash = self.table.hasher().hash(&headers.key, headers.protocol);
                self.wrap(packet, headers, server, hash)
            }
            Mode::Nat | Mode::Fullnat => self.translate(packet, headers, hit),
        }
    }

    /// NAT and FULLNAT of what is not TCP or UDP over IPv4.
    #[inline(never)]
    fn translate(&mut self, packet: &mut I::Packet, headers: &Headers, hit: Hit) -> Result<(), Refusal> {
        check_sctp(packet, headers)?;
        let record = self.table.get(hit.id);
        let key = leaving(record, hit.direction);
        let addresses;
        let target = if record.inbound.is_v6() {
            addresses = self.table.addresses(record).leaving(hit.direction);
            nat::Target::V6(&addresses, key.words()[2].to_ne_bytes())
        } else {
            nat::Target::V4(&key)
        };
        if record.mode() == Mode::Fullnat {
            let record = self.table.get_mut(hit.id);
            fullnat::rewrite_any(packet.bytes_mut(), headers, record, hit.direction, target);
        } else {
            nat::rewrite_any(packet.bytes_mut(), headers, target);
        }
        Ok(())
    }

    /// Wraps a packet for a server behind a tunnel; `hash` is of its flow.
    #[inline(never)]
    pub(super) fn wrap(
        &mut self,
        packet: &mut I::Packet,
        headers: &Headers,
        server: u32,
        hash: u64,
    ) -> Result<(), Refusal> {
        let identification = self.next_identification() as u16;
        let settings = &self.snapshot.settings;
        let state = &self.servers[server as usize];
        let destination = state.end.ip();
        let spread = match destination {
            IpAddr::V4(_) => settings.tunnel_source,
            IpAddr::V6(_) => settings.tunnel_source6,
        };
        let source = match spread {
            Some(prefix) => tun::spread_source(prefix, hash),
            None => state.source.ok_or(DropReason::NoTunnelSource)?,
        };
        let outer = tun::Outer {
            source,
            destination,
            identification,
            source_port: match state.tunnel.kind {
                TunnelKind::Gue { .. } => tun::gue_source_port(hash),
                TunnelKind::Ipip | TunnelKind::Gre => 0,
            },
            keep_df: settings.pmtu_disc,
        };
        if tun::wrap(packet, headers, &state.tunnel, &outer) {
            Ok(())
        } else {
            Err(DropReason::NoHeadroom.into())
        }
    }

    /// A new identification for a packet of our own that may be fragmented.
    pub(super) fn next_identification(&mut self) -> u32 {
        self.identification = self.identification.wrapping_add(self.identification_step);
        self.identification
    }

    /// Lowers the MSS that a SYN announces, where its service wants that.
    pub(super) fn clamp_mss(&self, hit: Hit, frame: &mut [u8], headers: &Headers) {
        let service = self.snapshot.service(self.table.get(hit.id).service);
        let most = service.map_or(0, |service| service.mss_clamp);
        if most != 0
            && let Some((_, segment)) = rewrite::split(frame, headers)
        {
            let delta = tcp::clamp_mss(segment, most);
            tcp::apply(segment, delta);
        }
    }

    /// A datagram of a one-packet service: it goes to its server and leaves no connection behind. Counted as a
    /// connection that is over at once, as LVS does.
    pub(super) fn forward_once(
        &mut self,
        headers: &Headers,
        packet: &mut I::Packet,
        ends: &Ends,
        server: &Target,
        port: PortId,
    ) -> Result<Way, Refusal> {
        let stats = &self.stats.servers[server.slot as usize];
        stats.connections.add(1);
        stats.inbound_packets.add(1);
        stats.inbound_bytes.add(u64::from(headers.end - headers.l3));
        self.stats.opened.add(1);
        if headers.ttl <= 1 {
            return Err(TTL_EXCEEDED);
        }
        let neighbour = self.server_neighbour(server.slot, self.flow_of(&headers.key, headers.protocol))?;
        let tunnel = (server.mode == Mode::Tun).then_some(server.slot);
        let limit = self.limit_for(tunnel, neighbour, packet, headers, port)?;
        match server.mode {
            Mode::Dr => nat::decrement_ttl(packet.bytes_mut(), headers),
            Mode::Tun => {
                let hash = self.table.hasher().hash(&headers.key, headers.protocol);
                self.wrap(packet, headers, server.slot, hash)?;
            }
            // Without a connection nothing could translate a reply to a local port back.
            Mode::Fullnat => return Err(DropReason::OnePacketFullnat.into()),
            Mode::Nat if ends.source == server.end.address => {
                return Err(DropReason::HairpinUnsupported.into());
            }
            Mode::Nat => self.send_between(
                packet,
                headers,
                (ends.source, ends.source_port),
                (server.end.address, server.end.port),
            )?,
        }
        Ok(Way {
            neighbour,
            limit,
            shared: false,
        })
    }

    /// A packet that is not for the gateway and belongs to no connection: a reply of a one-packet service, one that SNAT
    /// is for, or somebody else's packet for which the gateway is a router.
    pub(super) fn pass_by(
        &mut self,
        headers: &Headers,
        packet: &mut I::Packet,
        ends: &Ends,
        port: PortId,
    ) -> Result<Scheduled, Refusal> {
        let (server, server_port) = (ends.source, ends.source_port);
        let protocol = Protocol::from_number(headers.protocol).ok_or(DropReason::UnknownProtocol)?;
        let reply_to = self.snapshot.reply_to(server, server_port, protocol);
        let is_told = reply_to.is_none()
            && !super::schedule::ends_something(headers)
            && self.snapshot.is_nat_server(server, server_port, protocol);
        let stranger = reply_to.is_none() && !is_told;
        match self.ruling(ends, headers.protocol).filter(|_| stranger) {
            Some(Ruling::Translate(rule)) => {
                let opened = self.open_snat(headers, packet.bytes(), ends, rule);
                return opened.map(Scheduled::Connection);
            }
            None if stranger && !self.snapshot.settings.transit => return Err(DropReason::NotForUs.into()),
            Some(Ruling::Exempt) | None => {}
        }
        if headers.ttl <= 1 {
            return Err(TTL_EXCEEDED);
        }
        if is_told {
            return Err(super::answer::UNKNOWN_TO_NAT);
        }
        let neighbour =
            self.neighbour_towards(ends.destination, self.flow_of(&headers.key, headers.protocol))?;
        let limit = self.limit_for(None, neighbour, packet, headers, port)?;
        match reply_to {
            Some(vip) => {
                self.send_between(packet, headers, vip, (ends.destination, ends.destination_port))?;
            }
            None => nat::decrement_ttl(packet.bytes_mut(), headers),
        }
        Ok(Scheduled::Once(Way {
            neighbour,
            limit,
            shared: false,
        }))
    }

    /// Translates a packet to these ends.
    fn send_between(
        &self,
        packet: &mut I::Packet,
        headers: &Headers,
        source: (IpAddr, u16),
        destination: (IpAddr, u16),
    ) -> Result<(), Refusal> {
        check_sctp(packet, headers)?;
        let frame = packet.bytes_mut();
        match (source.0, destination.0) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let key = FlowKey::new(from, source.1, to, destination.1);
                nat::rewrite_any(frame, headers, nat::Target::V4(&key));
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let [s0, s1] = source.1.to_be_bytes();
                let [d0, d1] = destination.1.to_be_bytes();
                nat::rewrite_any(frame, headers, nat::Target::V6(&pair(from, to), [s0, s1, d0, d1]));
            }
            _ => return Err(DropReason::NoRoute.into()),
        }
        Ok(())
    }

    /// What is the longest IP packet that may go to `neighbour` by this connection: 0 when this one fits.
    #[inline(always)]
    pub(super) fn limit(
        &self,
        hit: Hit,
        neighbour: NeighbourId,
        packet: &mut I::Packet,
        headers: &Headers,
        port: PortId,
    ) -> Result<u16, Refusal> {
        let record = self.table.get(hit.id);
        // The frame, not the packet: padding counts on the wire.
        let longest = ethernet::HEADER_LEN + usize::from(self.least_mtu);
        let same = !record.flags.changes_length();
        if same && packet.bytes().len() <= longest && headers.largest_fragment == 0 {
            return Ok(0);
        }
        self.limit_for_long(hit, neighbour, packet, headers, port)
    }

    #[inline(never)]
    fn limit_for_long(
        &self,
        hit: Hit,
        neighbour: NeighbourId,
        packet: &mut I::Packet,
        headers: &Headers,
        port: PortId,
    ) -> Result<u16, Refusal> {
        let record = self.table.get(hit.id);
        let extra = self.grows_by(hit);
        if record.flags.has(Flags::MIXED) {
            return self.limit_across(extra, neighbour, packet, headers, port);
        }
        if extra != 0 {
            return self.limit_with(extra, neighbour, packet, headers, port);
        }
        let tunnel = (record.mode() == Mode::Tun).then_some(record.server);
        self.limit_for(tunnel, neighbour, packet, headers, port)
    }
}

/// The key of a packet of the connection once it is translated.
#[inline]
fn leaving(record: &Record, direction: Direction) -> FlowKey {
    match direction {
        Direction::Inbound => record.outbound.reversed(),
        Direction::Outbound => record.inbound.reversed(),
    }
}

/// Refuses an SCTP packet whose checksum is wrong: it is about to get a new one, which would hide that.
pub(super) fn check_sctp<P: Packet>(packet: &P, headers: &Headers) -> Result<(), Refusal> {
    if headers.protocol != ipv4::SCTP {
        return Ok(());
    }
    let segment = packet
        .bytes()
        .get(usize::from(headers.l4)..usize::from(headers.end));
    if segment.is_some_and(sctp::is_right) {
        Ok(())
    } else {
        Err(DropReason::BadL4Checksum.into())
    }
}
