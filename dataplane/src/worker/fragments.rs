//! Fragments on their way in: gathered until a packet is whole, counted as held until then.

use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::FlowIndex;
use crate::fragment::Added;
use crate::packet::{Headers, PortId};

/// Packets whose fragments are given up in one round.
const BUDGET: usize = 8;

/// A packet that was put together.
pub(super) struct Whole<P> {
    pub(super) packet: P,
    /// The longest fragment's IP packet, in bytes.
    pub(super) largest: u16,
    /// What the fragments shared.
    pub(super) identification: u32,
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Adds a fragment to what is there of its packet; the packet, when that is whole now. Its fragments have ended
    /// here then, and the packet is one that the gateway has made.
    pub(super) fn put_together(
        &mut self,
        fragment: I::Packet,
        headers: &Headers,
        port: PortId,
    ) -> Option<Whole<I::Packet>> {
        let timeout = self.snapshot.settings.fragment_timeout;
        let io = &mut self.io;
        let added = self
            .fragments
            .add(&fragment, headers, port, self.now, timeout, || {
                io.allocate_large()
            });
        drop(fragment);
        match added {
            Added::Held { gave_way } => {
                self.lose(gave_way, DropReason::FragmentTableFull);
                None
            }
            Added::Lost { fragments, reason } => {
                self.lose(fragments, reason);
                None
            }
            Added::Whole {
                packet,
                largest,
                fragments,
                identification,
                ..
            } => {
                self.stats.consumed.add(u64::from(fragments));
                self.stats.made.add(1);
                Some(Whole {
                    packet,
                    largest,
                    identification,
                })
            }
        }
    }

    /// Gives up what has waited too long.
    pub(super) fn expire_fragments(&mut self) {
        let stats = &self.stats;
        self.fragments.expire(self.now, BUDGET, |fragments| {
            stats.drops[DropReason::FragmentTimeout as usize].add(u64::from(fragments));
        });
    }

    fn lose(&self, fragments: u32, reason: DropReason) {
        self.stats.drops[reason as usize].add(u64::from(fragments));
    }
}
