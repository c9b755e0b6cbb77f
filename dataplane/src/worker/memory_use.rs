//! What connections take of this machine's memory. For measurements: it reads a file of the kernel's.

use crate::flow::{ConnectionTable, FlowIndex};
use crate::local::{LocalPorts, ResidentMemory};
use std::io;

/// Memory that belongs to connections, as the system has given it: in whole pages, used or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionMemory {
    /// Records.
    pub records: usize,
    /// The index over both keys of each. Of another index than our own, all that it takes.
    pub index: usize,
    /// IPv6 addresses, and what services ask for.
    pub beside: usize,
    /// Local ports.
    pub locals: ResidentMemory,
}

impl ConnectionMemory {
    pub(super) fn of<X: FlowIndex>(
        table: &ConnectionTable<X>,
        locals: &LocalPorts,
    ) -> io::Result<ConnectionMemory> {
        let (records, beside) = table.resident()?;
        Ok(ConnectionMemory {
            records,
            index: table.index().memory().0,
            beside,
            locals: locals.resident()?,
        })
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> usize {
        let ResidentMemory {
            closing,
            shown,
            pairs,
            indices,
        } = self.locals;
        self.records + self.index + self.beside + closing + shown + pairs + indices
    }
}
