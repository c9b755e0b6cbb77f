//! Links that go down and come up, as control tells of them: what would leave by a dead one ends here, routes with
//! several next hops leave it at once, and when it is back our addresses are announced again.

use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::FlowIndex;
use crate::neighbour::NextHop;
use crate::packet::PortId;
use std::sync::Arc;

/// The devices whose link is down: a bit for each of the first 64 ports. DPDK has room for 32 devices, and they are the
/// first ports.
#[derive(Clone, Copy, Default)]
pub(super) struct Dead(u64);

impl Dead {
    /// Whether the link of this device is down.
    #[inline]
    pub(super) fn has(self, device: PortId) -> bool {
        self.0 >> (device.0 & 63) & 1 != 0
    }

    /// Notes the state of a link; whether that is news.
    fn note(&mut self, device: PortId, up: bool) -> bool {
        let bit = 1 << (device.0 & 63);
        let before = self.0;
        self.0 = if up { before & !bit } else { before | bit };
        self.0 != before
    }
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Takes in that the link of a device, and with it that of its VLANs, has changed.
    pub(super) fn link_changed(&mut self, device: PortId, up: bool) {
        for port in (0..self.links.len()).map(|port| PortId(port as u8)) {
            // The switch behind it may have forgotten us, or be another one.
            if up && self.device_of(port) == device {
                self.announcer.restart(Some(port), self.now);
            }
        }
        if !self.dead.note(device, up) {
            return;
        }
        // Who is behind a dead link need not be asked to be known as dead, and is worth a question when it is back.
        let snapshot = Arc::clone(&self.snapshot);
        for hop in snapshot.routes.shared_hops() {
            if self.device_of(hop.port) != device {
                continue;
            }
            if up {
                self.neighbours.ask_again(hop.port, hop.address, self.now);
            } else {
                self.neighbours.give_up(hop.port, hop.address);
            }
        }
        // A next hop that never fails, as its MAC is configured, is left and taken again as well.
        self.forget_all_neighbours();
    }

    /// Whether flows may take one of several next hops: neither it nor its link is known to be dead.
    pub(super) fn may_take(&self, hop: NextHop) -> bool {
        !self.dead.has(self.device_of(hop.port)) && self.neighbours.may_take(hop.port, hop.address)
    }

    /// The port with the device: itself, or the parent of a VLAN.
    fn device_of(&self, port: PortId) -> PortId {
        self.links[usize::from(port.0)].queue
    }

    /// Ends what waits in the transmit buffer of a device whose link is down.
    #[cold]
    #[inline(never)]
    pub(super) fn drop_burst(&mut self, device: PortId) {
        let burst = &mut self.outgoing[usize::from(device.0)];
        self.stats.drops[DropReason::LinkDown as usize].add(burst.len() as u64);
        burst.clear();
    }
}
