//! The forward stage: each packet through its connection's state machine and rewrite, in order of arrival; then
//! resolve.

use super::burst::Burst;
use super::schedule::{Refusal, Reply, Scheduled};
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::{Direction, FlowIndex, Hit, Mode};
use crate::forward::fullnat;
use crate::neighbour::NeighbourId;
use crate::packet::{Headers, Packet, ipv4, tcp};

/// Whether connections have been opened or closed since the burst was looked up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Disturbed {
    pub(super) opened: bool,
    pub(super) closed: bool,
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Forwards every flow of the burst.
    pub(super) fn forward(&mut self, burst: &mut Burst<I::Packet>) {
        self.disturbed = Disturbed::default();
        for index in 0..burst.flows.len() {
            let place = burst.flows[index];
            let Some(mut packet) = burst.take(place) else {
                continue;
            };
            let headers = &burst.headers[usize::from(place)];
            let mut hit = burst.hits[index];
            // A packet earlier in the burst may have opened this one's connection, or ended it.
            if self.disturbed.closed || (self.disturbed.opened && hit.is_none()) {
                hit = self.table.lookup(&burst.queries[index]);
            }
            match self.forward_flow(&mut packet, headers, hit) {
                Ok(neighbour) => self.resolve(neighbour, packet),
                Err(refusal) => self.refuse(packet, headers, refusal),
            }
        }
    }

    /// Decides on one packet and rewrites it; the neighbour it goes to.
    #[inline]
    fn forward_flow(
        &mut self,
        packet: &mut I::Packet,
        headers: &Headers,
        hit: Option<Hit>,
    ) -> Result<NeighbourId, Refusal> {
        let hit = match hit {
            Some(hit) if self.goes_on(hit, headers)? => hit,
            other => {
                if let Some(old) = other {
                    self.close(old.id);
                }
                match self.schedule(headers, packet.bytes())? {
                    Scheduled::Connection(id) => Hit {
                        id,
                        direction: Direction::Inbound,
                    },
                    Scheduled::Once(server) => return self.forward_once(packet, headers, server),
                }
            }
        };
        self.see(hit.id, hit.direction, headers);
        if headers.ttl <= 1 {
            return Err(Refusal {
                reason: DropReason::TtlExceeded,
                reply: Reply::TimeExceeded,
            });
        }
        let neighbour = self.neighbour_of(hit)?;
        self.check_length(neighbour, packet, headers)?;
        self.rewrite(packet.bytes_mut(), headers, hit);
        Ok(neighbour)
    }

    /// Whether the packet fits the port that it leaves by; asked before the rewrite, so that an ICMP error quotes
    /// what its receiver has sent.
    #[inline]
    fn check_length(
        &self,
        neighbour: NeighbourId,
        packet: &I::Packet,
        headers: &Headers,
    ) -> Result<(), Refusal> {
        if headers.end - headers.l3 <= self.least_mtu {
            return Ok(());
        }
        self.fits(
            neighbour,
            headers,
            ipv4::dont_fragment(&packet.bytes()[usize::from(headers.l3)..]),
        )
    }

    /// Whether the packet belongs to the connection that was found. It does not when it opens a new one in its
    /// place, nor when the server is gone and that ends connections: then the client may try again at once, or is
    /// told.
    #[inline]
    fn goes_on(&self, hit: Hit, headers: &Headers) -> Result<bool, Refusal> {
        if headers.l4_flags & tcp::SYN != 0 && self.starts_anew(hit) {
            return Ok(false);
        }
        if self.snapshot.server_present(self.table.get(hit.id).server) {
            return Ok(true);
        }
        if self.snapshot.settings.expire_nodest_conn {
            Ok(false)
        } else {
            Err(DropReason::ServerGone.into())
        }
    }

    /// Whether a SYN from the client opens a new connection in the place of an old one that is over.
    #[cold]
    fn starts_anew(&self, hit: Hit) -> bool {
        let record = self.table.get(hit.id);
        hit.direction == Direction::Inbound
            && record.protocol == ipv4::TCP
            && record
                .tcp_state()
                .reusable(record.mode(), self.snapshot.settings.conn_reuse_mode)
    }

    /// A datagram that leaves no connection behind.
    fn forward_once(
        &mut self,
        packet: &mut I::Packet,
        headers: &Headers,
        server: u32,
    ) -> Result<NeighbourId, Refusal> {
        if headers.ttl <= 1 {
            return Err(Refusal {
                reason: DropReason::TtlExceeded,
                reply: Reply::TimeExceeded,
            });
        }
        let neighbour = self.server_neighbour(server)?;
        self.check_length(neighbour, packet, headers)?;
        ipv4::decrement_ttl(&mut packet.bytes_mut()[usize::from(headers.l3)..]);
        Ok(neighbour)
    }

    #[inline]
    fn rewrite(&mut self, frame: &mut [u8], headers: &Headers, hit: Hit) {
        let record = self.table.get_mut(hit.id);
        if record.mode() == Mode::Fullnat {
            fullnat::rewrite(frame, headers, record, hit.direction);
        } else if let Some(packet) = frame.get_mut(usize::from(headers.l3)..) {
            ipv4::decrement_ttl(packet);
        }
    }

    /// The neighbour that the packet goes to, looked up once per connection and direction.
    #[inline]
    fn neighbour_of(&mut self, hit: Hit) -> Result<NeighbourId, Refusal> {
        let record = self.table.get(hit.id);
        let known = match hit.direction {
            Direction::Inbound => record.neighbour_in,
            Direction::Outbound => record.neighbour_out,
        };
        if known != 0 {
            Ok(NeighbourId(known))
        } else {
            self.find_neighbour(hit)
        }
    }

    #[cold]
    #[inline(never)]
    fn find_neighbour(&mut self, hit: Hit) -> Result<NeighbourId, Refusal> {
        let record = *self.table.get(hit.id);
        match hit.direction {
            Direction::Inbound => {
                let neighbour = self.server_neighbour(record.server)?;
                self.table.get_mut(hit.id).neighbour_in = neighbour.0;
                Ok(neighbour)
            }
            Direction::Outbound => {
                let neighbour = self.neighbour_towards(record.inbound.source().into())?;
                self.table.get_mut(hit.id).neighbour_out = neighbour.0;
                Ok(neighbour)
            }
        }
    }
}
