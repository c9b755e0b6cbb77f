//! Echo through SNAT: requests of hosts inside go out, and the replies come back. Nothing else of ICMP opens anything
//! (RFC 5508 3.1).

use super::forwarding::{TTL_EXCEEDED, Way};
use super::icmp::Elsewhere;
use super::schedule::Ends;
use super::snat::Ruling;
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::{Direction, FlowIndex, Hit};
use crate::forward::echo::{self, Echo};
use crate::neighbour::AddressClass;
use crate::packet::{Headers, Packet, PortId, rewrite};

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// The ends of an echo message that may be SNAT's, of a key as connections have it: a request to a stranger, or a
    /// reply to a local address.
    pub(super) fn echo_ends(
        &self,
        packet: &mut I::Packet,
        headers: &Headers,
        class: AddressClass,
    ) -> Option<(Echo, Ends)> {
        if class == AddressClass::None && self.snapshot.snat.is_empty() {
            return None;
        }
        let (_, message) = rewrite::split(packet.bytes_mut(), headers)?;
        let echo = Echo::read(headers.protocol, message)?;
        let expected = if echo.reply {
            AddressClass::Local
        } else {
            AddressClass::None
        };
        let (source, destination) = super::ends::addresses(headers, packet.bytes());
        let (source_port, destination_port) = echo.ports();
        (class == expected).then_some((
            echo,
            Ends {
                source,
                source_port,
                destination,
                destination_port,
            },
        ))
    }

    /// Sends such a message on by its connection; a request opens one when there is none.
    pub(super) fn pass_echo(
        &mut self,
        packet: &mut I::Packet,
        headers: &Headers,
        port: PortId,
        echo: Echo,
        ends: &Ends,
    ) -> Result<Option<Way>, Elsewhere> {
        let owner = if echo.reply {
            self.owner_of(ends)?
        } else {
            self.source_owner(ends)
        };
        if owner != self.number {
            return Err(Elsewhere::Worker(owner));
        }
        let hit = match self.find(ends, headers.protocol) {
            Some(hit) if self.goes_on(hit, headers)? => hit,
            _ if echo.reply => return Err(DropReason::NoConnection.into()),
            other => {
                if let Some(old) = other {
                    self.close(old.id);
                }
                let Some(Ruling::Translate(rule)) = self.ruling(ends, headers.protocol) else {
                    return self.route_on(packet, headers, port, ends.destination);
                };
                Hit {
                    id: self.open_snat(headers, packet.bytes(), ends, rule)?,
                    direction: Direction::Inbound,
                }
            }
        };
        self.forward_echo(packet, headers, port, hit).map(Some)
    }

    fn forward_echo(
        &mut self,
        packet: &mut I::Packet,
        headers: &Headers,
        port: PortId,
        hit: Hit,
    ) -> Result<Way, Elsewhere> {
        self.see(hit.id, hit.direction, headers);
        if headers.ttl <= 1 {
            return Err(TTL_EXCEEDED.into());
        }
        let neighbour = self.neighbour_of(hit)?;
        let limit = self.limit(hit, neighbour, packet, headers, port)?;
        let ends = self.table.ends(self.table.get(hit.id));
        let (source, destination, identifier) = match hit.direction {
            Direction::Inbound => (ends.local, ends.server, ends.local.port()),
            Direction::Outbound => (ends.virtual_address, ends.client, ends.client.port()),
        };
        let (source, destination) = (source.ip(), destination.ip());
        if !echo::rewrite(packet.bytes_mut(), headers, source, destination, identifier) {
            return Err(DropReason::UnsupportedIcmp.into());
        }
        Ok(Way {
            neighbour,
            limit,
            shared: limit != 0,
        })
    }
}
