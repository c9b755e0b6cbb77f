//! The stages after the rewrite: resolve and transmit.

use super::schedule::{Refusal, Reply};
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::FlowIndex;
use crate::neighbour::{Hold, NeighbourId};
use crate::packet::{Headers, MacAddr, Packet, PortId, ethernet};
use std::net::IpAddr;

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Sends a forwarded packet to its neighbour, or lets it wait for the neighbour's MAC.
    #[inline]
    pub(super) fn resolve(&mut self, neighbour: NeighbourId, packet: I::Packet) {
        match self.neighbours.resolved(neighbour) {
            Some((port, mac)) => self.send(port, mac, packet),
            None => self.hold(neighbour, packet),
        }
    }

    /// Whether a packet that is longer than some port's MTU is too long for the port it would leave by.
    #[cold]
    #[inline(never)]
    pub(super) fn fits(
        &self,
        neighbour: NeighbourId,
        headers: &Headers,
        dont_fragment: bool,
    ) -> Result<(), Refusal> {
        let port = self.neighbours.port_of(neighbour);
        let mtu = self.snapshot.ports[usize::from(port.0)].mtu;
        if headers.end - headers.l3 <= mtu {
            return Ok(());
        }
        // Without DF it would have to be fragmented, which the gateway does not do yet; no reply tells of that.
        let reply = if dont_fragment {
            Reply::FragmentationNeeded(mtu)
        } else {
            Reply::Silence
        };
        Err(Refusal {
            reason: DropReason::ExceedsMtu,
            reply,
        })
    }

    /// Sends a packet that is complete but for its MAC addresses.
    #[inline]
    pub(super) fn send(&mut self, port: PortId, destination: MacAddr, mut packet: I::Packet) {
        let source = self.rules[usize::from(port.0)].mac;
        ethernet::set_addresses(packet.bytes_mut(), destination, source);
        if self.outgoing[usize::from(port.0)].is_full() {
            self.flush_port(port);
        }
        self.outgoing[usize::from(port.0)].push(packet);
    }

    /// Sends to an address by way of the routes a packet that the gateway has made.
    pub(super) fn send_to(&mut self, address: IpAddr, packet: I::Packet) {
        match self.neighbour_towards(address) {
            Ok(neighbour) => self.resolve(neighbour, packet),
            Err(reason) => self.discard(packet, reason),
        }
    }

    /// The neighbour through which an address is reached.
    pub(super) fn neighbour_towards(&mut self, address: IpAddr) -> Result<NeighbourId, DropReason> {
        let hop = self
            .snapshot
            .routes
            .next_hop(address)
            .ok_or(DropReason::NoRoute)?;
        self.neighbours
            .find_or_create(hop.port, hop.address, self.now)
            .map_err(|_| DropReason::NeighbourTableFull)
    }

    #[cold]
    #[inline(never)]
    fn hold(&mut self, neighbour: NeighbourId, packet: I::Packet) {
        match self.neighbours.hold(neighbour, packet, self.now) {
            Hold::Waits { request, gave_way } => {
                if let Some(packet) = gave_way {
                    self.discard(packet, DropReason::NeighbourQueueFull);
                }
                if let Some(request) = request {
                    self.ask(&request);
                }
            }
            Hold::Failed(packet) => self.discard(packet, DropReason::NeighbourFailed),
            Hold::Resolved(packet, port, mac) => self.send(port, mac, packet),
        }
    }

    /// Sends what waits in every transmit buffer.
    pub(super) fn flush(&mut self) {
        for port in 0..self.outgoing.len() {
            self.flush_port(PortId(port as u8));
        }
    }

    /// Sends what waits in one transmit buffer. What a full queue does not take even at the second attempt is
    /// lost, as on a wire: waiting would only make the worker late for everything else.
    fn flush_port(&mut self, port: PortId) {
        let burst = &mut self.outgoing[usize::from(port.0)];
        let waiting = burst.len();
        if waiting == 0 {
            return;
        }
        self.io.transmit(port, burst);
        if !burst.is_empty() {
            self.io.transmit(port, burst);
        }
        let left = burst.len();
        let sent = (waiting - left) as u64;
        self.stats.sent.add(sent);
        self.stats.port_sent[usize::from(port.0)].add(sent);
        self.stats.drops[DropReason::TransmitFull as usize].add(left as u64);
        self.outgoing[usize::from(port.0)].clear();
    }
}
