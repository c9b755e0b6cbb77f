//! The stages after the rewrite: resolve and transmit.

use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::FlowIndex;
use crate::neighbour::{Hold, Hops, NeighbourId};
use crate::packet::{FlowKey, MacAddr, Packet, PortId, ethernet, vlan};
use std::net::IpAddr;

/// How a port sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// The source MAC.
    pub(super) mac: MacAddr,
    /// The port with the queue: itself, or the parent of a VLAN.
    pub(super) queue: PortId,
    /// The VLAN's number; 0 = frames go without a tag.
    pub(super) vlan: u16,
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Sends a forwarded packet to its neighbour, or lets it wait for the neighbour's MAC.
    #[inline(always)]
    pub(super) fn resolve(&mut self, neighbour: NeighbourId, packet: I::Packet) {
        match self.neighbours.resolved(neighbour) {
            Some((port, mac)) => self.put_out(port, mac, packet),
            None => self.hold(neighbour, packet),
        }
    }

    /// Sends a packet that is complete but for its MAC addresses.
    #[inline(never)]
    pub(super) fn send(&mut self, port: PortId, destination: MacAddr, packet: I::Packet) {
        self.put_out(port, destination, packet);
    }

    #[inline(always)]
    fn put_out(&mut self, port: PortId, destination: MacAddr, mut packet: I::Packet) {
        let link = self.links[usize::from(port.0)];
        ethernet::set_addresses(packet.bytes_mut(), destination, link.mac);
        if link.vlan != 0 && !vlan::tag(&mut packet, link.vlan) {
            return self.discard(packet, DropReason::NoHeadroom);
        }
        if let Err(full) = self.outgoing[usize::from(link.queue.0)].try_push(packet) {
            self.flush_port(link.queue);
            self.outgoing[usize::from(link.queue.0)].push(full.element());
        }
    }

    /// Sends to an address by way of the routes a packet that the gateway has made.
    pub(super) fn send_to(&mut self, address: IpAddr, packet: I::Packet) {
        match self.neighbour_towards(address, self.flow_to(address)) {
            Ok(neighbour) => self.resolve(neighbour, packet),
            Err(reason) => self.discard(packet, reason),
        }
    }

    /// The neighbour through which an address is reached; of several next hops the one for the flow of this hash.
    pub(super) fn neighbour_towards(
        &mut self,
        address: IpAddr,
        flow: u64,
    ) -> Result<NeighbourId, DropReason> {
        let hop = match self.snapshot.routes.hops(address) {
            Some(Hops::One(hop)) => Some(hop),
            Some(Hops::Several(hops)) => {
                hops.choose(flow, |hop| self.neighbours.may_take(hop.port, hop.address))
            }
            None => None,
        };
        let hop = hop.ok_or(DropReason::NoRoute)?;
        self.neighbours
            .find_or_create(hop.port, hop.address, self.now)
            .map_err(|_| DropReason::NeighbourTableFull)
    }

    /// What chooses among several next hops for all packets of a connection.
    pub(super) fn flow_of(&self, inbound: &FlowKey, protocol: u8) -> u64 {
        self.table.hasher().hash(inbound, protocol)
    }

    /// The same for packets to an address that belong to no connection.
    pub(super) fn flow_to(&self, address: IpAddr) -> u64 {
        let bits = match address {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits(),
        };
        self.table.hasher().hash_words(bits as u64, (bits >> 65) as u64)
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
